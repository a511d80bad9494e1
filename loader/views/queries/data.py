"""Pages of a dataset's data: a sample of its table, each run's changes in its history, and answers as files.

Like the history explorer's, these pages are frames; the warehouse's answer comes by a read
(``loader.views.queries.history``).
"""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loader.domain.queries.result_rows import csv_text, header_of
from loader.domain.runs.maintenance import LOAD
from loader.domain.runs.refusals import Refusal
from loader.models import DatasetRun, ReadRequest
from loader.selectors import dataset_runs, read_requests
from loader.services.queries.read_work import may_read, must_still_read
from loader.statistics import newest_succeeded
from loader.views.runs.forms import ChangesForm, SampleForm
from metadata.computed_fields import headed
from metadata.domain.roles import Permission
from metadata.models import TargetDataset
from metadata.permissions import permitted

RUNS_OFFERED = 50
# Answers that are rows of one table.
_FILES = ("sample", "as_of", "versions")


@require_safe
@permitted(Permission.READ_DATA)
def dataset_data(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show a sample of the dataset's table: the form chooses the number of rows, and which come first."""
    dataset = readable(request, headed(), key)
    form = SampleForm(request.GET or None)
    chosen = form.cleaned_data if form.is_bound and form.is_valid() else {"rows": form["rows"].initial, "order": ""}
    question = {"kind": "sample", "rows": chosen["rows"]} | ({"newest": "on"} if chosen["order"] else {})
    loads = newest_succeeded([(dataset.history_of or dataset).key]).select_related("run")
    context = {
        "dataset": dataset,
        "view": "sample",
        "form": form,
        "question": question,
        "is_view": dataset.materialization == TargetDataset.Materialization.VIEW,
        "last_load": loads.first(),
    }
    return render(request, "loader/data_sample.html", context)


@require_safe
@permitted(Permission.READ_DATA)
def dataset_run_changes(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the changes of a run to each key of a history: the newest run's, unless another is chosen."""
    dataset = readable(request, headed(), key)
    if not (dataset.historize or dataset.history_of_id):
        raise Http404(f"{dataset} is not historized")
    rows = _changing_runs(dataset)
    offered = [(row.run.run_id, _named(row)) for row in rows]
    form = ChangesForm(request.GET or None, runs=offered)
    asked = form.cleaned_data if form.is_bound and form.is_valid() else {"run": "", "op": ""}
    chosen = next((row for row in rows if row.run.run_id == asked["run"]), rows[0] if rows else None)
    question = None
    if chosen is not None and not form.errors:
        question = {"kind": "changes", "run": chosen.run.run_id} | ({"op": asked["op"]} if asked["op"] else {})
    context = {
        "dataset": dataset,
        "view": "changes",
        "form": form,
        "op": asked["op"],
        "chosen": chosen,
        "question": question,
    }
    return render(request, "loader/data_changes.html", context)


def _changing_runs(dataset: TargetDataset) -> list[DatasetRun]:
    """Return the dataset's rows in its newest succeeded loads and history batches."""
    rows = dataset_runs(dataset=dataset).filter(status=DatasetRun.Status.SUCCEEDED)
    return list(rows.filter(run__kind__in=(LOAD, "history_batch"))[:RUNS_OFFERED])


def _named(row: DatasetRun) -> str:
    counts = [f"{row.counts[name]:,} {name}" for name in ("new", "changed", "deleted") if row.counts.get(name)]
    said = ", ".join(counts) or "nothing changed"
    return f"{row.run.load_timestamp:%Y-%m-%d %H:%M} UTC · {said} · {row.run.run_id}"


@never_cache
@require_safe
@permitted(Permission.READ_DATA)
def read_file(request: HttpRequest, pk: int) -> HttpResponse:
    """Return an answer's rows as CSV. Only the user who asked has it, as on the page."""
    read = get_object_or_404(answered_reads(request.user), pk=pk)
    try:
        must_still_read(request.user, read)
    except Refusal as refusal:
        raise PermissionDenied(refusal.one_line()) from None
    answer: dict[str, Any] = read.answer
    name = f"{read.dataset}-{read.kind.replace('_', '-')}-v{answer['table_version']}.csv"
    made = HttpResponse(csv_text(answer["columns"], answer["rows"]), content_type="text/csv; charset=utf-8")
    made["X-Masked-Columns"] = header_of(answer.get("masked", ()))
    made["Content-Disposition"] = f'attachment; filename="{name}"'
    return made


def readable(request: HttpRequest, rows: QuerySet[TargetDataset], key: UUID) -> TargetDataset:
    """Return the dataset. Raise PermissionDenied for one whose data the user may not read."""
    dataset = get_object_or_404(rows, key=key)
    if not may_read(request.user, dataset):
        raise PermissionDenied(f"Reading the data of {dataset} needs the permission {Permission.READ_DATA}.")
    return dataset


def answered_reads(person: Any) -> Any:
    """Return the user's answers that can be downloaded as a file."""
    return read_requests().filter(
        requested_by=person, dataset__isnull=False, kind__in=_FILES, status=ReadRequest.Status.SUCCEEDED
    )
