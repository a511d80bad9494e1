"""Reads that a page of a dataset starts, and the part of the page that shows their answers.

Such a page has only a form, which requests a read by htmx when the page is loaded (``start_read``). The fragment that
replaces the form polls for the answer (``read_part``). Without scripts, the form has a button, and the answer is a
page.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from architecture.domain.tables import TableSpec
from elevata.accounts.roles import Permission
from elevata.accounts.view_permissions import permitted
from elevata.jobs.registry import live_workers
from elevata.web.requests import htmx_of, user_of
from loader.contract.refusals import Refusal
from loader.domain.queries.answers import COMPARE, DESCENDANTS, EXPORT, MOST_QUARANTINED, ORIGIN, rows_kind
from loader.domain.queries.comparison import Comparison
from loader.domain.queries.differences import part_shown
from loader.domain.queries.query_results import found_rows, grid_of
from loader.domain.queries.row_selection import RowSelection
from loader.domain.queries.run_changes import key_changes
from loader.domain.queries.time_line import time_line
from loader.domain.versions import change_map, versions
from loader.forms.reads import ROWS_SHOWN, QuestionForm
from loader.models import ReadRequest
from loader.selectors.delivered_rows import descendants, origins
from loader.selectors.quality_results import failing_rows_address, may_see_samples, profile_for, results_of_read
from loader.selectors.reads import read_requests
from loader.services.reads.manifests import checked_comparison, must_be_askable, read_table
from loader.services.reads.read_permissions import must_still_read
from loader.services.reads.read_requests import CHECK, LONG, PROFILE, QUALITY, QUARANTINED, request_read
from loader.views.datasets.datasets import history_of, readable
from loader.views.datasets.differences import differing_rows
from loader.views.datasets.row_links import linked_rows, page_links, sorted_headings
from metadata.domain import types
from metadata.models import TargetDataset
from metadata.selectors.columns import headed

GIVE_UP_AFTER = timedelta(seconds=90)
# Purposes of the columns of *As of*; None is a column that only the table has.
AS_OF_PURPOSES = (None, "business_key", "attribute", "started_at")


def dated_by_number(dataset: TargetDataset) -> bool:
    table = history_of(dataset)
    return table is not None and is_dated_by_number(table)


def is_dated_by_number(table: TableSpec) -> bool:
    """Return True if versions start and end at numbers (a feed's sequence) instead of times."""
    return types.parse(table.column("started_at").type).name in (types.INTEGER, types.BIGINT)


@require_POST
@permitted(Permission.READ_DATA)
def start_read(request: HttpRequest, key: UUID) -> HttpResponse:
    """Request a read of the warehouse; return the fragment that polls for its answer, or redirect to its page."""
    dataset = readable(request, TargetDataset.objects.select_related("schema"), key)
    form = QuestionForm(request.POST, by_number="at" in request.POST and dated_by_number(dataset))
    if not form.is_valid():
        error = {"message": "; ".join(str(message) for messages in form.errors.values() for message in messages)}
        return _part(request, dataset, "loader/queries/read_refused.html", {"error": error})
    try:
        kind, arguments = form.cleaned_data["kind"], form.arguments()
        if kind == COMPARE:
            arguments = checked_comparison(request.user, dataset, arguments, by_number=dated_by_number(dataset))
        must_be_askable(request.user, dataset, kind, arguments)
        requested = request_read(kind=kind, dataset=dataset, arguments=arguments, user=request.user)
    except Refusal as refusal:
        return _part(request, dataset, "loader/queries/read_refused.html", {"error": refusal.as_json()})
    if not htmx_of(request):
        return redirect("read_part", requested.read.pk)
    return _part(request, dataset, *_state_template(requested.read, notice=requested.reason))


@require_safe
@permitted(Permission.READ_DATA)
def read_part(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the answer of a read, or its state, to the user who requested it."""
    read = get_object_or_404(read_requests().filter(requested_by=user_of(request), dataset__isnull=False), pk=pk)
    if not read.is_finished and request.GET.get("seen") == _seen(read):
        return HttpResponse(status=204)
    try:
        must_still_read(request.user, read)
    except Refusal as refusal:
        return _part(request, read.own_dataset, "loader/queries/read_refused.html", {"error": refusal.as_json()})
    return _part(request, read.own_dataset, *_state_template(read))


def _seen(read: ReadRequest) -> str:
    """Return the state of a read that a waiting page shows; while it is the same, the response is 204."""
    given_up = read.kind not in LONG and timezone.now() - read.requested_at > GIVE_UP_AFTER
    return f"{read.status}-{'given-up' if given_up else 'alive' if live_workers() else 'alone'}"


def _part(request: HttpRequest, dataset: TargetDataset, template: str, context: dict) -> HttpResponse:
    """Render the fragment for htmx, or else a page with it and with the address of the form's page."""
    context = {"dataset": dataset, **context}
    if htmx_of(request):
        return render(request, template, context)
    read = context.get("read")
    view = {"key_search": "keys"}.get(read.kind, read.kind) if read is not None else "sample"
    page = {
        "dataset": headed().get(pk=dataset.pk),
        "view": view,
        "part": template,
        "again": _form_address(dataset, read),
    }
    return render(request, "loader/queries/read_page.html", {**context, **page})


def _form_address(dataset: TargetDataset, read: ReadRequest | None) -> str:
    """Return the address of the page that requests reads of this kind."""
    kind = read.kind if read is not None else "sample"
    if kind == EXPORT and read is not None:
        kind = rows_kind(kind, read.arguments)
    if kind == ORIGIN and read is not None:
        return reverse("dataset_origin", args=[dataset.key, read.arguments.get("entity_key") or "-"])
    if kind == QUARANTINED and read is not None and read.arguments.get("run_id"):
        return reverse("dataset_rejected", args=[dataset.key, read.arguments["run_id"]])
    if kind == DESCENDANTS and read is not None:
        place = {"run": read.arguments["run_id"], "file": read.arguments["file"], "row": read.arguments["row"]}
        return f"{reverse('dataset_descendants', args=[dataset.key])}?{urlencode(place)}"
    if kind == "versions" and read is not None:
        return reverse("dataset_versions", args=[dataset.key, read.arguments.get("entity_key") or "-"])
    frames = {
        "key_search": "dataset_history",
        "as_of": "dataset_as_of",
        "changes": "dataset_run_changes",
        COMPARE: "dataset_compare",
        CHECK: "dataset_check",
        PROFILE: "dataset_profile",
        QUALITY: "dataset_quality",
        QUARANTINED: "dataset_quarantine",
    }
    return reverse(frames.get(kind, "dataset_data"), args=[dataset.key])


def _state_template(read: ReadRequest, notice: str = "") -> tuple[str, dict]:
    """Return the template for the state of a read, with its context."""
    context: dict[str, Any] = {"read": read}
    if not read.is_finished:
        seen = _seen(read)
        context |= {
            "seen": seen,
            "notice": notice,
            "alone": seen.endswith("alone") or not live_workers(),
            "given_up": seen.endswith("given-up"),
        }
        return "loader/queries/read_waiting.html", context
    if read.status == ReadRequest.Status.FAILED:
        return "loader/queries/read_refused.html", context | {"error": read.error}
    try:
        table = read_table(read.own_dataset, rows_kind(read.kind, read.arguments))
    except Refusal as refusal:  # the metadata changed since the question was put
        return "loader/queries/read_refused.html", context | {"error": refusal.as_json()}
    return f"loader/queries/answer_{read.kind}.html", context | _answer(read, table)


def _answer(read: ReadRequest, table: TableSpec) -> dict:
    answer, personal = read.content, _personal(read.own_dataset)
    masked = answer.get("masked", ())
    if read.kind == CHECK:
        return {"findings": answer["findings"], "checked": answer["versions"], "behind": answer["rawcore_behind"]}
    if read.kind == QUALITY:
        return _results_answer(read)
    if read.kind == PROFILE:
        return {"profile": profile_for(read.requested_by, read.own_dataset)}
    if read.kind == QUARANTINED:
        named = [name for name in answer["columns"] if not name.startswith("__")]
        about = [name.removeprefix("__") for name in answer["columns"] if name not in named]
        rows = [(dict(zip(about, row, strict=False)), row[len(about) :]) for row in answer["rows"]]
        return {"named": named, "about": about, "found": rows[:ROWS_SHOWN], "count": len(rows)} | {
            "truncated": answer["truncated"],
            "has_more": answer["truncated"] and read.arguments.get("limit", 0) < MOST_QUARANTINED,
            "masked": masked,
            "of_run": read.arguments.get("run_id", ""),
        }
    if read.kind == "versions":
        shown_versions = versions(answer, table)
        return {
            "versions": shown_versions[::-1],
            "changes_by_column": change_map(shown_versions),
            "map_versions": shown_versions,
            "line": time_line(shown_versions, timezone.now().astimezone(UTC)),
            "personal": personal,
            "masked": masked,
            "keyless": _has_masked_key(table, masked),
        }
    if read.kind == "changes":
        shown: dict[str, Any] = {"changes": key_changes(answer, table), "truncated": answer["truncated"]}
        selection = replace(RowSelection.from_arguments(read.arguments), offset=0)
        of_run = {name: value for name, value in _scope(read.arguments).items() if name in ("run", "op")}
        shown |= {"export": of_run | selection.as_arguments(), "page": _form_address(read.own_dataset, read)}
        shown |= _pages_of(read)
        return shown | {"personal": personal, "masked": masked, "keyless": _has_masked_key(table, masked)}
    if read.kind == ORIGIN:
        return {"rows": origins(answer), "removed": answer["removed"], "truncated": answer["truncated"]}
    if read.kind == COMPARE:
        sides = Comparison.from_arguments(read.arguments).in_words(read.environment.name)
        difference = answer["difference"]
        shown = {"differing": differing_rows(difference), "part_shown": part_shown(difference)}
        return {"difference": difference, "sides": sides, **shown}
    if read.kind == EXPORT:
        return {"exported": answer["exported"], "truncated": answer["truncated"], "masked": masked, "table": table}
    if read.kind == DESCENDANTS:
        return {"rows": descendants(answer)}
    if read.kind in ("sample", "as_of"):
        return _rows_answer(read, table, personal)
    shown = {"found": found_rows(answer, table), "truncated": answer["truncated"], "limit": len(answer["rows"])}
    return shown | {"masked": masked, "keyless": _has_masked_key(table, masked)}


def _results_answer(read: ReadRequest) -> dict[str, Any]:
    """Return the context of the results of checks: those that failed, each with the page of its failing rows."""
    results = results_of_read(read, read.requested_by)
    failed = [result for result in results if result.is_problem]
    return {
        "count": len(results),
        "passed": len(results) - len(failed),
        "failed": [(result, failing_rows_address(read.own_dataset, result)) for result in failed],
        "samples_shown": may_see_samples(read.requested_by, read.own_dataset),
    }


def _rows_answer(read: ReadRequest, table: TableSpec, personal: Collection[str]) -> dict[str, Any]:
    """Return the context of rows of a table: cells with links, headings that sort, pages, and the export of all."""
    answer, arguments = read.content, read.arguments
    grid = grid_of(answer, table, personal, AS_OF_PURPOSES if read.kind == "as_of" else ())
    rows = linked_rows(read.own_dataset, answer, table, grid, at=arguments.get("at", ""))
    selection, times = RowSelection.from_arguments(arguments), _given(arguments, "at", "known_at")
    return {
        "table": table,
        "page": _form_address(read.own_dataset, read),
        "headings": sorted_headings(grid, _scope(arguments), selection),
        "rows": rows,
        "linked": any(row.links for row in rows),
        "explained": any(cell.why for row in rows for cell in row.cells),
        "truncated": answer["truncated"],
        "export": times | replace(selection, offset=0).as_arguments(),
    } | _pages_of(read)


def _pages_of(read: ReadRequest) -> dict[str, Any]:
    """Return the place of the rows of an answer in its table, and the pages before and after them."""
    selection, scope = RowSelection.from_arguments(read.arguments), _scope(read.arguments)
    return page_links(scope, selection, scope["rows"], more=read.content["truncated"])


def _scope(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the page that requested a read, without those of the selection."""
    run = {"run": arguments["run_id"]} if arguments.get("run_id") else {}
    return _given(arguments, "at", "known_at", "op") | run | {"rows": arguments.get("limit", 0)}


def _given(arguments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: arguments[name] for name in names if arguments.get(name)}


def _has_masked_key(table: TableSpec, masked: Collection[str]) -> bool:
    """Return True if the key is masked, so that rows can be distinguished by its hash only."""
    return any(column.name in masked for column in table.of_purpose("business_key"))


def _personal(dataset: TargetDataset) -> frozenset[str]:
    """Return the names of the columns marked as personal data, which pages highlight."""
    described = dataset.history_of or dataset
    return frozenset(described.columns.filter(pii=True).values_list("name", flat=True))
