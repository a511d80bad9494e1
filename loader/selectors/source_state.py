"""State of a source for its page: freshness, deliveries, refusals, and columns that its contract lacks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet
from django.urls import reverse

from architecture.domain.health import Concern, Severity
from architecture.selectors.dataset_states import described_states
from architecture.selectors.health import first_concerns
from architecture.services.environments import current_environment
from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import entries
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.contract.run_states import LOAD
from loader.domain.sources.contract_comparison import KnownColumn
from loader.domain.sources.marks import AHEAD
from loader.models import DatasetRun, Schedule, SourceProposal
from loader.schedules.selectors import schedules
from loader.services.loads.plans import plan_load
from loader.sources.results import Delivery
from loader.sources.systems import delivery
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState
from metadata.models import SourceColumn, SourceDataset, System, TargetDataset, TargetSchema

DELIVERIES = 10
_REFUSALS_READ = 50


@dataclass(frozen=True)
class Freshness:
    """Newest files, last load and expected load of a source.

    ``overdue`` is the due time of a schedule after which no load succeeded, and none is on its way. ``refused`` is
    the reason why the files cannot be listed.
    """

    delivered: Delivery | None
    refused: dict[str, Any] | None
    loaded: DatasetRun | None
    schedules: tuple[Schedule, ...]

    @property
    def is_waiting(self) -> bool:
        """Return True if files were written after the last load began."""
        if self.delivered is None or self.loaded is None:
            return self.delivered is not None
        # Not the run's load timestamp: a load may be dated back.
        return (self.loaded.started_at or self.loaded.run.requested_at) < self.delivered.modified

    @property
    def overdue(self) -> datetime | None:
        due = [schedule.last_due_at for schedule in self.schedules if not _is_on_its_way(schedule)]
        finished = self.loaded.finished_at if self.loaded is not None else None
        missed = [at for at in due if at is not None and (finished is None or finished < at)]
        return min(missed, default=None)


def _is_on_its_way(schedule: Schedule) -> bool:
    """Return True while a schedule waits for its data, or its run is not finished."""
    return bool(schedule.waiting) or (schedule.last_run is not None and not schedule.last_run.is_finished)


@dataclass(frozen=True)
class RefusalGroup:
    """Refusals with one code in the newest runs: their number and the newest of them."""

    code: str
    count: int
    newest: DatasetRun


@dataclass(frozen=True)
class DriftEntry:
    """Column that loads reported and that the contract lacks; ``column`` is the retired one of this name."""

    name: str
    type: str
    row: DatasetRun
    column: SourceColumn | None


def loaded_dataset(source: SourceDataset) -> TargetDataset | None:
    """Return the last table that a load of a source fills: rawcore, or raw if there is none."""
    generated = [row for row in source.generated.all() if row.active and row.history_of_id is None]
    by_layer = {dataset.schema.layer: dataset for dataset in generated}
    return by_layer.get(TargetSchema.Layer.RAWCORE) or by_layer.get(TargetSchema.Layer.RAW)


def deliveries(source: SourceDataset) -> QuerySet[DatasetRun]:
    """Return the rows of a source's raw dataset in load runs, newest first."""
    return _rows(source).filter(kind="raw").select_related("run__requested_by", "dataset__schema")


def _rows(source: SourceDataset) -> QuerySet[DatasetRun]:
    rows = DatasetRun.objects.filter(dataset__generated_from=source, run__kind=LOAD)
    return rows.filter(run__environment=current_environment()).order_by("-run__requested_at", "-pk")


def newest_success(rows: Iterable[DatasetRun]) -> DatasetRun | None:
    """Return the first of these rows that succeeded."""
    return next((row for row in rows if row.status == DatasetRun.Status.SUCCEEDED), None)


def rows_ahead(row: DatasetRun | None) -> str:
    """Return a sentence about the rows that are ahead of the marks of a load; empty if there are none."""
    ahead = (row.window.get(AHEAD) or {}) if row is not None else {}
    counts = ", ".join(f"{counted(count, 'row')} by {name}" for name, count in ahead.items())
    return f"The newest load read {counts}." if counts else ""


def held_marks() -> list[Concern]:
    """Return the first active sources of whose newest load rows are ahead of the marks."""
    return first_concerns(_held_marks())


def _held_marks() -> Iterator[Concern]:
    sources = SourceDataset.objects.filter(active=True, system__active=True, intake__has_key="watermark")
    for source in sources.select_related("system").order_by("pk").iterator():
        row = deliveries(source).filter(status=DatasetRun.Status.SUCCEEDED).first()
        if text := rows_ahead(row):
            link = reverse("source_page", args=[source.key])
            text = f"The mark stays below rows that are far ahead. {text}"
            yield Concern("held_mark", Severity.WARNING, f"Source {source}", text, link)


def freshness(source: SourceDataset) -> Freshness:
    """Return the freshness of a source; its files are listed as a load would read them."""
    delivered, refused = None, None
    if source.system.kind == System.Kind.FILES:
        try:
            delivered = delivery(source.system, source.location)
        except Refusal as refusal:
            refused = refusal.as_json()
    loaded = deliveries(source).filter(status=DatasetRun.Status.SUCCEEDED).first()
    return Freshness(delivered, refused, loaded, _schedules_of(source))


def _schedules_of(source: SourceDataset) -> tuple[Schedule, ...]:
    """Return the active schedules whose loads read the source, the next one first."""
    active = list(schedules().filter(active=True, kind=Schedule.Kind.LOAD).order_by("next_at"))
    if not active:
        return ()
    states = described_states(environment=current_environment())
    raw = {state.key for state in states if str(source.key) in state.inputs}
    return tuple(schedule for schedule in active if raw & _loaded(states, Scope.from_json(schedule.scope)))


def _loaded(states: Sequence[DatasetState], scope: Scope) -> set[str]:
    try:
        return {step.dataset.key for step in plan_load(scope, states).steps}
    except Refusal:  # the scope has become empty, which the schedule's own page shows
        return set()


def refusals(source: SourceDataset) -> list[RefusalGroup]:
    """Return the refusals among the newest failed datasets of a source, by code, the newest first."""
    failed = _rows(source).filter(status=DatasetRun.Status.FAILED, error__isnull=False)
    groups: dict[str, list[DatasetRun]] = {}
    for row in failed.select_related("run", "dataset__schema")[:_REFUSALS_READ]:
        groups.setdefault((row.error or {}).get("code", ""), []).append(row)
    return [RefusalGroup(code, len(rows), rows[0]) for code, rows in groups.items()]


def known_columns(source: SourceDataset) -> list[KnownColumn]:
    """Return the contract's columns as a comparison needs them."""
    return [
        KnownColumn(row.name, row.type, row.nullable, row.active, row.version, row.key_ordinal)
        for row in source.columns.all()
    ]


def drift(source: SourceDataset, rows: Iterable[DatasetRun]) -> list[DriftEntry]:
    """Return the columns that these loads reported and the contract still lacks; the newest report of each counts."""
    columns = {column.name.lower(): column for column in source.columns.all()}
    drift_entries: dict[str, DriftEntry] = {}
    for row in rows:
        for item in row.drift:
            name = item["name"] if isinstance(item, dict) else str(item)
            column = columns.get(name.lower())
            if name not in drift_entries and (column is None or not column.active):
                type_ = item.get("type", "") if isinstance(item, dict) else ""
                drift_entries[name] = DriftEntry(name, type_ or "string", row, column)
    return list(drift_entries.values())


def proposals(source: SourceDataset) -> QuerySet[SourceProposal]:
    """Return the proposals to change a source's contract: the open one first, then the last decided ones."""
    rows = SourceProposal.objects.filter(source=source).select_related("decided_by")
    return rows.order_by(F("decided_at").desc(nulls_first=True), "-pk")


def uploads(source: SourceDataset) -> QuerySet[ChangeLogEntry]:
    """Return the change-log entries of the uploads of a source's deliveries, newest first."""
    return entries().filter(dataset_key=source.key, action="uploaded")


def schema_changes(source: SourceDataset) -> QuerySet[ChangeLogEntry]:
    """Return the change-log entries of a source's columns, newest first."""
    return entries().filter(dataset_key=source.key, subject_kind=SourceColumn.LOG_KIND)
