"""History explorer: keys, the versions of one key, the table as of any date.

A page is only the frame; the warehouse's answer comes by htmx: a form inside the page requests a
read when it appears (``start_read``), and the part it leaves asks for the answer until it is
there (``read_part``). Without scripts the form has a button, and the answer a page of its own.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from architecture.domain.tables import TableSpec
from elevata.accounts.permissions import permitted
from elevata.accounts.roles import Permission
from elevata.jobs.registry import live_workers
from loader.domain.queries.query_results import grid_of, key_changes
from loader.domain.refusals import Refusal
from loader.domain.versions import found_rows, time_line, versions
from loader.forms.reads import AsOfForm, QuestionForm
from loader.models import ReadRequest
from loader.selectors import load_times, read_requests
from loader.services.reads.read_permissions import must_still_read
from loader.services.reads.read_requests import CHECK, must_be_askable, read_table, request_read
from loader.views.datasets import HistoryDataPage, readable
from metadata.domain import types
from metadata.models import TargetDataset
from metadata.selectors.columns import headed

GIVE_UP_AFTER = timedelta(seconds=90)


class DatasetHistory(HistoryDataPage):
    """The keys that a text finds; without a text, the first keys."""

    template_name, view = "loader/queries/history_keys.html", "keys"

    def context(self) -> dict[str, Any]:
        text = self.request.GET.get("q", "").strip()[:200]
        return super().context() | {"text": text, "question": {"kind": "key_search", "text": text}}


class DatasetVersions(HistoryDataPage):
    """The versions of one key."""

    template_name, view = "loader/queries/history_versions.html", "versions"

    def context(self) -> dict[str, Any]:
        entity_key = self.kwargs["entity_key"]
        question = {"kind": "versions", "entity_key": entity_key}
        return super().context() | {"entity_key": entity_key, "question": question}


class DatasetAsOf(HistoryDataPage):
    """The table as it was at an instant, as it was known at another."""

    template_name, view = "loader/queries/history_as_of.html", "as_of"

    def context(self) -> dict[str, Any]:
        by_number = _dated_by_number(self.row)
        form = AsOfForm(self.request.GET or None, by_number=by_number)
        given = form.cleaned_data if form.is_bound and form.is_valid() else None
        runs = [] if by_number else load_times(self.row)
        return super().context() | {
            "form": form,
            "asked": given,
            "question": _as_of_question(given) if given else None,
            "by_number": by_number,
            "now": timezone.now(),
            "moments": [(run, _whole_second(run.load_timestamp)) for run in runs],
        }


def _as_of_question(given: dict) -> dict[str, str]:
    """Return the read that the page's form requests; times are UTC."""
    known = {"known_at": f"{given['known_at']:%Y-%m-%dT%H:%M:%S}"} if given["known_at"] else {}
    at = given["at"] if isinstance(given["at"], int) else f"{given['at']:%Y-%m-%dT%H:%M:%S}"
    return {"kind": "as_of", "at": str(at), **known, "text": given["q"]}


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


@require_POST
@permitted(Permission.READ_DATA)
def start_read(request: HttpRequest, key: UUID) -> HttpResponse:
    """Request a read of the warehouse; return the part that waits for its answer, or redirect to its page."""
    dataset = readable(request, TargetDataset.objects.select_related("schema"), key)
    form = QuestionForm(request.POST, by_number="at" in request.POST and _dated_by_number(dataset))
    if not form.is_valid():
        error = {"message": "; ".join(message for messages in form.errors.values() for message in messages)}
        return _part(request, dataset, "loader/queries/read_refused.html", {"error": error})
    try:
        must_be_askable(request.user, dataset, form.cleaned_data["kind"], form.arguments())
        requested = request_read(
            kind=form.cleaned_data["kind"], dataset=dataset, arguments=form.arguments(), user=request.user
        )
    except Refusal as refusal:
        return _part(request, dataset, "loader/queries/read_refused.html", {"error": refusal.as_json()})
    if not request.htmx:
        return redirect("read_part", requested.read.pk)
    return _part(request, dataset, *_standing(requested.read, notice=requested.reason))


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
        return _part(request, read.dataset, "loader/queries/read_refused.html", {"error": refusal.as_json()})
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
    return render(request, "loader/queries/read_page.html", {**context, **page})


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
        return "loader/queries/read_waiting.html", context
    if read.status == ReadRequest.Status.FAILED:
        return "loader/queries/read_refused.html", context | {"error": read.error}
    try:
        table = read_table(read.dataset, read.kind)
    except Refusal as refusal:  # the metadata changed since the question was put
        return "loader/queries/read_refused.html", context | {"error": refusal.as_json()}
    return f"loader/queries/answer_{read.kind}.html", context | _answer(read, table)


def _answer(read: ReadRequest, table: TableSpec) -> dict:
    answer, personal = read.answer, _personal(read.dataset)
    masked = answer.get("masked", ())
    if read.kind == CHECK:
        return {"findings": answer["findings"], "checked": answer["versions"], "behind": answer["rawcore_behind"]}
    if read.kind == "versions":
        rows = versions(answer, table)
        return {
            "versions": rows[::-1],
            "line": time_line(rows, timezone.now().astimezone(UTC)),
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
