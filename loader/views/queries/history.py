"""History explorer: keys, the versions of one key, the table as of any date.

A page is only the frame; the warehouse's answer comes by htmx: a form inside the page requests a
read when it appears (``start_read``), and the part it leaves asks for the answer until it is
there (``read_part``). Without scripts the form has a button, and the answer a page of its own.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from architecture.domain.states.tables import TableSpec
from elevata.jobs.selectors import live_workers
from loader.domain.queries.result_rows import grid_of, key_changes
from loader.domain.runs.refusals import Refusal
from loader.models import ReadRequest
from loader.selectors import read_requests
from loader.services.queries.read_work import must_still_read
from loader.services.queries.reads import CHECK, must_be_askable, read_table, request_read
from loader.statistics import load_times
from loader.views.queries.data import readable
from loader.views.queries.versions import found_rows, time_line, versions
from loader.views.runs.forms import AsOfForm, QuestionForm
from metadata.computed_fields import headed
from metadata.domain import types
from metadata.domain.roles import Permission
from metadata.models import TargetDataset
from metadata.permissions import permitted

GIVE_UP_AFTER = timedelta(seconds=90)


def _historized(request: HttpRequest, key: UUID) -> TargetDataset:
    dataset = readable(request, headed(), key)
    if not (dataset.historize or dataset.history_of_id):
        raise Http404(f"{dataset} is not historized")
    return dataset


@require_safe
@permitted(Permission.READ_DATA)
def dataset_history(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the keys that a text finds; without a text, the first keys."""
    text = request.GET.get("q", "").strip()[:200]
    question = {"kind": "key_search", "text": text}
    context = {"dataset": _historized(request, key), "view": "keys", "text": text, "question": question}
    return render(request, "loader/history_keys.html", context)


@require_safe
@permitted(Permission.READ_DATA)
def dataset_versions(request: HttpRequest, key: UUID, entity_key: str) -> HttpResponse:
    """Show the versions of one key."""
    question = {"kind": "versions", "entity_key": entity_key}
    context = {"dataset": _historized(request, key), "view": "versions", "entity_key": entity_key, "question": question}
    return render(request, "loader/history_versions.html", context)


@require_safe
@permitted(Permission.READ_DATA)
def dataset_as_of(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the table as it was at an instant, as it was known at another."""
    dataset = _historized(request, key)
    by_number = _dated_by_number(dataset)
    form = AsOfForm(request.GET or None, by_number=by_number)
    asked = form.cleaned_data if form.is_bound and form.is_valid() else None
    context = {
        "dataset": dataset,
        "view": "as_of",
        "form": form,
        "asked": asked,
        "question": _as_of_question(asked) if asked else None,
        "by_number": by_number,
        "now": timezone.now(),
        "moments": [] if by_number else [(run, _whole_second(run.load_timestamp)) for run in load_times(dataset)],
    }
    return render(request, "loader/history_as_of.html", context)


def _as_of_question(asked: dict) -> dict[str, str]:
    """Return the read that the page's form requests; times are UTC."""
    known = {"known_at": f"{asked['known_at']:%Y-%m-%dT%H:%M:%S}"} if asked["known_at"] else {}
    at = asked["at"] if isinstance(asked["at"], int) else f"{asked['at']:%Y-%m-%dT%H:%M:%S}"
    return {"kind": "as_of", "at": str(at), **known, "text": asked["q"]}


def _dated_by_number(dataset: TargetDataset) -> bool:
    """Return whether versions start and end at numbers (a feed's sequence) instead of times."""
    try:
        started = read_table(dataset, "as_of").column("started_at")
    except Refusal:  # the read itself is refused with the reason
        return False
    return types.parse(started.type).name in (types.INTEGER, types.BIGINT)


def _whole_second(instant: datetime) -> datetime:
    """Return the first whole second that is not before the instant: the page's field holds no fractions."""
    return instant if instant.microsecond == 0 else instant.replace(microsecond=0) + timedelta(seconds=1)


# --- reads and answers -------------------------------------------------------------------------


@never_cache
@require_POST
@permitted(Permission.READ_DATA)
def start_read(request: HttpRequest, key: UUID) -> HttpResponse:
    """Request a read of the warehouse; return the part that waits for its answer, or redirect to its page."""
    dataset = readable(request, TargetDataset.objects.select_related("schema"), key)
    form = QuestionForm(request.POST, by_number="at" in request.POST and _dated_by_number(dataset))
    if not form.is_valid():
        error = {"message": "; ".join(message for messages in form.errors.values() for message in messages)}
        return _part(request, dataset, "loader/read_refused.html", {"error": error})
    try:
        must_be_askable(request.user, dataset, form.cleaned_data["kind"], form.arguments())
        asked = request_read(
            kind=form.cleaned_data["kind"], dataset=dataset, arguments=form.arguments(), user=request.user
        )
    except Refusal as refusal:
        return _part(request, dataset, "loader/read_refused.html", {"error": refusal.as_json()})
    if not request.htmx:
        return redirect("read_part", asked.read.pk)
    return _part(request, dataset, *_standing(asked.read, notice=asked.reason))


@never_cache
@require_safe
@permitted(Permission.READ_DATA)
def read_part(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the answer of a read, or its state. Only the user who asked sees it."""
    read = get_object_or_404(read_requests().filter(requested_by=request.user, dataset__isnull=False), pk=pk)
    if not read.is_finished and request.GET.get("seen") == _seen(read):
        return HttpResponse(status=204)
    try:
        must_still_read(request.user, read)
    except Refusal as refusal:
        return _part(request, read.dataset, "loader/read_refused.html", {"error": refusal.as_json()})
    return _part(request, read.dataset, *_standing(read))


def _seen(read: ReadRequest) -> str:
    """Return the state that a waiting page shows of a read; as long as it is the same, nothing is sent."""
    given_up = read.kind != CHECK and timezone.now() - read.requested_at > GIVE_UP_AFTER
    return f"{read.status}-{'given-up' if given_up else 'alive' if live_workers().exists() else 'alone'}"


def _part(request: HttpRequest, dataset: TargetDataset, template: str, context: dict) -> HttpResponse:
    """Render the part, for htmx; else a page of its own around it, with the address of its frame."""
    context = {"dataset": dataset, **context}
    if request.htmx:
        return render(request, template, context)
    read = context.get("read")
    view = {"key_search": "keys"}.get(read.kind, read.kind) if read is not None else "sample"
    page = {"dataset": headed().get(pk=dataset.pk), "view": view, "part": template, "again": _frame(dataset, read)}
    return render(request, "loader/read_page.html", {**context, **page})


def _frame(dataset: TargetDataset, read: ReadRequest | None) -> str:
    """Return the address of the page on which a read like this one is requested."""
    kind = read.kind if read is not None else "sample"
    if kind == "versions" and read is not None:
        return reverse("dataset_versions", args=[dataset.key, read.arguments.get("entity_key") or "-"])
    frames = {
        "key_search": "dataset_history",
        "as_of": "dataset_as_of",
        "changes": "dataset_run_changes",
        CHECK: "dataset_check",
    }
    return reverse(frames.get(kind, "dataset_data"), args=[dataset.key])


def _standing(read: ReadRequest, notice: str = "") -> tuple[str, dict]:
    """Return the template that shows the state of a read, and its context."""
    context = {"read": read}
    if not read.is_finished:
        seen = _seen(read)
        context |= {
            "seen": seen,
            "notice": notice,
            "alone": seen.endswith("alone") or not live_workers().exists(),
            "given_up": seen.endswith("given-up"),
        }
        return "loader/read_waiting.html", context
    if read.status == ReadRequest.Status.FAILED:
        return "loader/read_refused.html", context | {"error": read.error}
    try:
        table = read_table(read.dataset, read.kind)
    except Refusal as refusal:  # the metadata changed since the question was put
        return "loader/read_refused.html", context | {"error": refusal.as_json()}
    return f"loader/answer_{read.kind}.html", context | _answer(read, table)


def _answer(read: ReadRequest, table: TableSpec) -> dict:
    answer, personal = read.answer, _personal(read.dataset)
    masked = answer.get("masked", ())
    if read.kind == CHECK:
        return {"findings": answer["findings"], "checked": answer["versions"], "behind": answer["rawcore_behind"]}
    if read.kind == "versions":
        found = versions(answer, table)
        return {
            "versions": found[::-1],
            "line": time_line(found, timezone.now().astimezone(UTC)),
            "personal": personal,
            "masked": masked,
            "keyless": _has_masked_key(table, masked),
        }
    if read.kind == "changes":
        shown = {"changes": key_changes(answer, table), "truncated": answer["truncated"]}
        return shown | {"personal": personal, "masked": masked, "keyless": _has_masked_key(table, masked)}
    if read.kind == "sample":
        return {"grid": grid_of(answer, table, personal), "truncated": answer["truncated"], "table": table}
    shown = {"found": found_rows(answer, table), "truncated": answer["truncated"], "limit": len(answer["rows"])}
    return shown | {"personal": personal, "masked": masked, "keyless": _has_masked_key(table, masked)}


def _has_masked_key(table: TableSpec, masked: Collection[str]) -> bool:
    """Return whether rows must be distinguished by the hash of their key, because the key is masked."""
    return any(column.name in masked for column in table.of_purpose("business_key"))


def _personal(dataset: TargetDataset) -> frozenset[str]:
    """Return the names of the columns marked as personal data, which pages point out."""
    described = dataset.history_of or dataset
    return frozenset(described.columns.filter(pii=True).values_list("name", flat=True))
