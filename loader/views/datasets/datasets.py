"""Dataset list, and pages of a dataset's statements, runs and data.

Pages of data request a read of the warehouse and show its answer (``loader.views.datasets.history``).
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, BinaryIO, ClassVar
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_safe

from architecture.domain.dialect_statements import RENDERER
from architecture.domain.tables import TableSpec
from architecture.permissions import may_build
from architecture.views.dialects import requested_dialect, sql_file
from elevata.accounts.permissions import may, may_somewhere
from elevata.accounts.roles import Permission, needed_role
from elevata.accounts.view_permissions import permitted
from elevata.core.spreadsheets import csv_text
from elevata.lists.columns import Column, yes_no
from elevata.web.list_pages import ListPage
from elevata.web.views import DetailPage
from loader.column_lineage import lineage_events
from loader.contract.refusals import Refusal
from loader.contract.run_states import LOAD
from loader.domain.queries.answers import COMPARE, DESCENDANTS, EXPORT, ORIGIN
from loader.domain.queries.differences import difference_rows
from loader.domain.queries.exports import flat_rows
from loader.domain.queries.query_results import header_of
from loader.domain.queries.row_selection import LONGEST_TEXT
from loader.filtersets import DatasetListFilter
from loader.forms.reads import ChangesForm, DeliveredRowForm, SelectionForm
from loader.models import DatasetRun, ReadRequest
from loader.selectors.dataset_charts import dataset_charts
from loader.selectors.input_rows import input_rows
from loader.selectors.loads import ListedDataset, newest_succeeded, with_last_loads
from loader.selectors.reads import read_requests
from loader.selectors.runs import dataset_runs
from loader.selectors.statements import statements
from loader.services.plain_sql import dataset_in_dialect
from loader.services.reads.exports import has_export, open_export
from loader.services.reads.manifests import read_table
from loader.services.reads.read_permissions import may_read, must_still_read
from loader.services.reads.read_requests import PROFILE, QUARANTINED
from loader.views.datasets.row_links import MODELLED, NO_KEY
from metadata.domain.bulk_edits import ACTIONS
from metadata.domain.column_lineage import UPSTREAM, ColumnLineage
from metadata.forms.lineage import LineageForm
from metadata.models import QualityCheck, TargetDataset, TargetSchema
from metadata.permissions import here
from metadata.selectors.column_lineage import column_lineage
from metadata.selectors.columns import found_by
from metadata.selectors.datasets import schemas, target_datasets
from metadata.selectors.dependents import downstream
from metadata.selectors.requested_lineage import requested
from metadata.views.base import DatasetPage
from metadata.views.lineage import lineage_file

RUNS_OFFERED = 50
# Kinds of reads whose answers are rows of a table.
_FILES = ("sample", "as_of", "versions", "changes", COMPARE, ORIGIN, DESCENDANTS, EXPORT, QUARANTINED)


class DatasetList(ListPage):
    """List of target datasets with their last loads."""

    filterset, template_name = DatasetListFilter, "loader/datasets/dataset_list.html"
    listed = staticmethod(target_datasets)
    columns: ClassVar = (
        Column("Dataset", {"dataset": "dataset"}, sort="name"),
        Column("Layer", {"layer": "dataset.schema.layer"}, sort="layer"),
        Column(
            "Kind",
            {
                "kind": lambda row: "history" if row.dataset.history_of_id else row.dataset.materialization,
                "historized": lambda row: yes_no(row.dataset.historize),
            },
            sort="materialization",
        ),
        Column("Columns", {"columns": "dataset.column_count"}, sort="columns", descends=True, kind="num"),
        Column("Source", {"source": "dataset.generated_from"}, sort="source"),
        Column("Last load", {"last load": "loaded_at", "load state": "load_status"}, sort="last_load", descends=True),
        Column("Rows", {"rows": "rows"}, kind="num"),
        Column("Open versions", {"open versions": "open_versions"}, kind="num"),
        Column("Owner", {"owner": "dataset.owner"}, shown=False, sort="owner"),
        Column("Sensitivity", {"sensitivity": "dataset.sensitivity"}, shown=False, sort="sensitivity", descends=True),
        Column("Tags", {"tags": lambda row: ", ".join(row.dataset.tags)}, shown=False),
        Column("Active", {"active": lambda row: yes_no(row.dataset.active)}, shown=False, sort="active", descends=True),
        Column("Description", {"description": "dataset.description"}, shown=False, sort="description"),
    )

    def detailed(self, rows: Sequence[Any]) -> list[ListedDataset]:
        return with_last_loads(rows)

    def context(self) -> dict[str, Any]:
        all_schemas: list[Any] = list(schemas().order_by("ordinal", "name"))  # Any: they have their number of datasets
        return super().context() | {
            "found_by": found_by(self.rows_page, self.request.GET.get("q", "")),
            "rows": self.detailed_page,
            "actions": self.actions(),
            "schemas": [(row.name, f"{row} ({row.dataset_count})") for row in all_schemas],
        }

    def actions(self) -> dict[str, Any]:
        """Return the actions for selected datasets that the user may take; empty for none."""
        user = self.request.user
        edits = ACTIONS if may_somewhere(user, Permission.CHANGE_METADATA) else {}
        offered = {"edits": edits, "report": may_build(user), "load": may(user, Permission.START_LOAD, on=here)}
        return offered if any(offered.values()) else {}


class DatasetSql(DatasetPage, DetailPage):
    """Page of a dataset's statements: in Spark with those of its upstream layers, or its own in another dialect."""

    @property
    def template_name(self) -> str:  # type: ignore[override]  # the two have little in common
        return f"loader/queries/dataset_{'dialect' if self.dialect else 'sql'}.html"

    @cached_property
    def dialect(self) -> str:
        return requested_dialect(self.request)

    def context(self) -> dict[str, Any]:
        chosen = {"dialect": self.dialect, "dialects": RENDERER.get().titles}
        if self.dialect:
            return super().context() | chosen | {"rendered": dataset_in_dialect(self.row, self.dialect)}
        return super().context() | chosen | {"statements": statements(self.row)}


class DatasetSqlFile(DatasetPage):
    """Statements of a dataset in a dialect as one file to download."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        rendered = dataset_in_dialect(self.row, requested_dialect(request, required=True))
        return sql_file(rendered.as_file(str(self.row)), f"{self.row}.{rendered.dialect.name}.sql")


class DatasetRuns(DatasetPage, ListPage):
    """List of a dataset's load runs, newest first."""

    template_name, per_page = "loader/runs/dataset_runs.html", 25

    def listed(self) -> QuerySet[DatasetRun]:
        return dataset_runs(dataset=self.row)


@require_safe
def column_lineage_events(request: HttpRequest) -> HttpResponse:
    """Return the lineage by column of the address as OpenLineage jobs, in a JSON array."""
    lineage = requested(**LineageForm.values_of(request.GET)) or ColumnLineage()
    events = lineage_events(lineage, environment=settings.ENVIRONMENT, at=timezone.now())
    return lineage_file(events, "column-lineage.openlineage.json")


class DatasetCharts(DatasetPage, DetailPage):
    """Charts of a dataset's loads, quality checks and disk use."""

    template_name = "loader/datasets/dataset_charts.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {"charts": dataset_charts(self.row, self.request.user)}


class DataPage(DatasetPage):
    """Base of pages of a dataset's data, for users who may read it; ``view`` is the tab."""

    permissions = (Permission.READ_DATA,)
    view: ClassVar[str]

    def find(self) -> TargetDataset:
        return readable(self.request, self.rows(), self.kwargs["key"])

    def context(self) -> dict[str, Any]:
        return super().context() | {"view": self.view}


class HistoryDataPage(DataPage, DetailPage):
    """Base of pages of historized datasets; 404 for others."""

    def find(self) -> TargetDataset:
        dataset = super().find()
        if not (dataset.historize or dataset.history_of_id):
            raise Http404(f"{dataset} is not historized")
        return dataset


class DatasetSample(DataPage, DetailPage):
    """Page of a sample of the dataset's table; its form has the number of rows and their order."""

    template_name, view = "loader/queries/data_sample.html", "sample"

    def context(self) -> dict[str, Any]:
        columns = [column.name for column in read_table(self.row, "sample").columns]
        form = SelectionForm(self.request.GET or None, columns=columns)
        loads = newest_succeeded([(self.row.history_of or self.row).key]).select_related("run")
        return super().context() | {
            "form": form,
            "question": {"kind": "sample", **form.question},
            "profile": {"kind": PROFILE},
            "failed_check": self._failed_check(form.selection.failing),
            "last_load": loads.first(),
        }

    def _failed_check(self, key: str) -> QualityCheck | None:
        """Return the check of the dataset whose failing rows are shown; None without one."""
        return QualityCheck.objects.filter(dataset=self.row, key=key).first() if key else None


class DatasetOrigin(DataPage, DetailPage):
    """Page of the delivered rows of one key, in the raw tables behind the dataset."""

    template_name, view = "loader/queries/data_origin.html", "origin"

    def context(self) -> dict[str, Any]:
        entity_key = self.kwargs["entity_key"]
        return super().context() | {"question": {"kind": ORIGIN, "entity_key": entity_key}}


class DatasetWhy(DataPage, DetailPage):
    """Page about a row, or about its value in a column: path through the layers, versions and delivered rows.

    Rows of models are not delivered: their page has the expressions, and the rows of inputs with the same key.
    """

    template_name, view = "loader/queries/data_why.html", "why"

    def context(self) -> dict[str, Any]:
        described, entity_key = self.row.history_of or self.row, self.kwargs["entity_key"]
        name, at = (self.request.GET.get(field, "")[:200] for field in ("column", "at"))
        values = [value[:LONGEST_TEXT] for value in self.request.GET.getlist("key")]
        columns = list(described.columns.filter(active=True))
        column = next((own for own in columns if own.name == name), None)
        has_key, is_model = entity_key != NO_KEY, self.row.schema.layer in MODELLED
        delivered = {"kind": ORIGIN, "entity_key": entity_key} | ({"at": at} if at and described.historize else {})
        inputs = input_rows(described, values, self.request.user) if is_model else None
        kept = [("at", at)] if at else []
        kept += [("key", value) for value in values]
        return super().context() | {
            "name": name,
            "column": column,
            "columns": columns,
            "path": column_lineage(column, UPSTREAM).nodes if column is not None else (),
            "at": at,
            "kept": urlencode(kept),
            "entity_key": entity_key,
            "versions": {"kind": "versions", "entity_key": entity_key} if described.historize and has_key else None,
            "origin": delivered if has_key and not is_model else None,
            "inputs": inputs,
            "is_followed": any(own.is_key for own in inputs or ()),
        }


class DatasetDescendants(DataPage, DetailPage):
    """Page of what was made of one delivered row of a raw table: rows of other tables, and datasets built on them."""

    template_name, view = "loader/queries/data_descendants.html", "descendants"

    def context(self) -> dict[str, Any]:
        form = DeliveredRowForm(self.request.GET or None)
        built_on = [node.pk for node in downstream(self.row) if node.layer in MODELLED]
        return super().context() | {
            "form": form,
            "is_raw": self.row.schema.layer == TargetSchema.Layer.RAW,
            "question": {"kind": DESCENDANTS} | form.cleaned_data if form.is_valid() else None,
            "built_on": TargetDataset.objects.filter(pk__in=built_on).select_related("schema"),
        }


class DatasetRejected(DataPage, DetailPage):
    """Page of the rows of a run's delivery that did not fit the contract, with their file to download."""

    template_name, view = "loader/quality/dataset_rejected.html", "rejected"

    def context(self) -> dict[str, Any]:
        run_id = self.kwargs["run_id"]
        row = dataset_runs(dataset=self.row).filter(run__run_id=run_id).first()
        return super().context() | {"run_id": run_id, "loaded": row, "question": {"kind": QUARANTINED, "run": run_id}}


class DatasetRunChanges(HistoryDataPage):
    """Page of the changes of a run to the keys of a history; by default of the newest run."""

    template_name, view = "loader/queries/data_changes.html", "changes"

    def context(self) -> dict[str, Any]:
        rows = _changing_runs(self.row)
        labels = [(row.run.run_id, _label(row)) for row in rows]
        described = (self.row.history_of or self.row).columns.filter(active=True)
        form = ChangesForm(self.request.GET or None, runs=labels, columns=described.values_list("name", flat=True))
        values = form.cleaned_data if form.is_bound and form.is_valid() else {"run": "", "op": ""}
        chosen = next((row for row in rows if row.run.run_id == values["run"]), rows[0] if rows else None)
        question = None
        if chosen is not None and not form.errors:
            op = {"op": values["op"]} if values["op"] else {}
            question = {"kind": "changes", "run": chosen.run.run_id} | op | form.question
        return super().context() | {"form": form, "op": values["op"], "chosen": chosen, "question": question}


def _changing_runs(dataset: TargetDataset) -> list[DatasetRun]:
    """Return the dataset's rows in its newest succeeded loads and history batches."""
    rows = dataset_runs(dataset=dataset).filter(status=DatasetRun.Status.SUCCEEDED)
    return list(rows.filter(run__kind__in=(LOAD, "history_batch"))[:RUNS_OFFERED])


def history_of(dataset: TargetDataset) -> TableSpec | None:
    """Return the history table of a dataset; None if it cannot be read, since the read is refused with a reason."""
    try:
        return read_table(dataset, "as_of")
    except Refusal:
        return None


def _label(row: DatasetRun) -> str:
    counts = [f"{row.counts[name]:,} {name}" for name in ("new", "changed", "deleted") if row.counts.get(name)]
    changes = ", ".join(counts) or "nothing changed"
    return f"{row.run.load_timestamp:%Y-%m-%d %H:%M} UTC · {changes} · {row.run.run_id}"


@require_safe
@permitted(Permission.READ_DATA)
def read_file(request: HttpRequest, pk: int) -> HttpResponse | FileResponse:
    """Return an answer's rows as CSV, to the user who requested the read."""
    read = get_object_or_404(answered_reads(request.user), pk=pk)
    try:
        must_still_read(request.user, read)
    except Refusal as refusal:
        raise PermissionDenied(refusal.one_line()) from None
    answer = read.content
    version = "" if answer["table_version"] is None else f"-v{answer['table_version']}"
    name = f"{read.dataset}-{read.kind.replace('_', '-')}{version}.csv"
    if not has_export(read):
        columns, rows = difference_rows(answer["difference"]) if read.kind == COMPARE else flat_rows(answer)
        text = csv_text([column.removeprefix("__") for column in columns], rows)
        return result_file(name, text, CSV, answer.get("masked", ()))
    try:
        return result_file(name, open_export(read), CSV, answer.get("masked", ()))
    except Refusal as refusal:
        raise Http404(refusal.one_line()) from None


CSV = "text/csv; charset=utf-8"


def result_file(
    name: str, content: str | bytes | BinaryIO, media_type: str, masked: Iterable[str]
) -> HttpResponse | FileResponse:
    """Return a result as a file to download, a file block by block; a header names the masked columns."""
    kind = HttpResponse if isinstance(content, str | bytes) else FileResponse
    response = kind(content, content_type=media_type)
    response["X-Masked-Columns"] = header_of(masked)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def readable(request: HttpRequest, rows: QuerySet[TargetDataset], key: UUID) -> TargetDataset:
    """Return the dataset. Raise PermissionDenied if the user may not read its data."""
    dataset = get_object_or_404(rows, key=key)
    if not may_read(request.user, dataset):
        raise PermissionDenied(f"Data of {dataset}: {needed_role(Permission.READ_DATA)}.")
    return dataset


def answered_reads(user: Any) -> QuerySet[ReadRequest]:
    """Return the user's answers that can be downloaded as a file."""
    return read_requests().filter(
        requested_by=user, dataset__isnull=False, kind__in=_FILES, status=ReadRequest.Status.SUCCEEDED
    )
