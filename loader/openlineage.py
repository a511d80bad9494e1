"""OpenLineage events of load runs: jobs, datasets, columns and results of quality checks.

A load run is a run, and each dataset that it loaded is a run of its own with the load run as parent. Views are jobs
without runs. Results of quality checks are in a further run that reads the dataset, because OpenLineage has them on
inputs. The events contain names and counts, no values of rows, and describe the metadata as it is when they are sent.
"""

import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from openlineage.client.event_v2 import (
    BaseEvent,
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    set_producer,
)
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    error_message_run,
    nominal_time_run,
    output_statistics_output_dataset,
    ownership_dataset,
    parent_run,
    schema_dataset,
)
from openlineage.client.serde import Serde

from elevata.jobs import states
from elevata.notifications.kinds import Kind
from elevata.notifications.models import Event
from loader.contract.check_outcomes import PROBLEMS
from loader.domain.queries.masking import without_any_value
from loader.models import CheckResult, DatasetRun, LoadRun
from loader.selectors.readable_results import readable_results
from metadata.models import ColumnInput, DatasetInput, SourceDataset, TargetColumn, TargetDataset

PRODUCT = "elevata"
# Characters of a scope in the name of a job.
_LONGEST_SCOPE = 2000
_STATES = {
    states.SUCCEEDED: RunState.COMPLETE,
    states.FAILED: RunState.FAIL,
    states.LOST: RunState.FAIL,
    states.BLOCKED: RunState.FAIL,
    states.CANCELED: RunState.ABORT,
}


def events_of(event: Event) -> Iterator[bytes]:
    """Yield the OpenLineage events of an event of this installation, as JSON, in the order in which to send them.

    A test event is an event of the state OTHER. There are none of a load run that was removed or started again
    meanwhile: its next end has an event of its own.
    """
    set_producer(settings.PUBLIC_URL or f"urn:{PRODUCT}")
    if event.kind == Kind.WEBHOOK_TEST:
        job, test = Job(PRODUCT, "test"), Run(str(event.event_id))
        yield event_json(RunEvent(eventTime=event.at.isoformat(), run=test, job=job, eventType=RunState.OTHER))
        return
    run = LoadRun.objects.select_related("environment").filter(run_id=event.subject_key).first()
    if run is not None and run.status in _STATES and run.attempt == event.facts.get("attempt"):
        yield from map(event_json, _Events(run).all())


def event_json(event: BaseEvent) -> bytes:
    return Serde.to_json(event).encode()


class _Described:
    """Datasets, with their histories and the views that they read, their inputs, columns and lineage.

    The number of queries depends on the layers of views only.
    """

    def __init__(self, pks: Iterable[int]) -> None:
        described = TargetDataset.objects.filter(pk__in=set(pks)).select_related("schema", "history__schema")
        self.datasets = {row.pk: row for row in described}
        self.inputs: dict[int, list[SourceDataset | TargetDataset]] = {}
        known = {*self.datasets}
        fresh = known
        while fresh:
            inputs = DatasetInput.objects.filter(dataset__in=fresh).order_by("dataset", "ordinal", "pk")
            views: set[int] = set()
            for read in inputs.select_related("source__system", "upstream__schema"):
                self.inputs.setdefault(read.dataset_id, []).append(read.read_dataset)
                if read.upstream is not None and _is_view(read.upstream):
                    views.add(read.upstream.pk)
            fresh = views - known
            known |= fresh
        known |= {history.pk for row in self.datasets.values() if (history := getattr(row, "history", None))}
        self.columns: dict[int, list[TargetColumn]] = {}
        for column in TargetColumn.objects.filter(dataset__in=known, active=True).order_by("dataset", "ordinal", "pk"):
            self.columns.setdefault(column.dataset_id, []).append(column)
        self.lineage: dict[int, list[ColumnInput]] = {}
        rows = ColumnInput.objects.filter(column__dataset__in=known).order_by("column", "ordinal", "pk")
        for row in rows.select_related("column", "source_column__dataset__system", "upstream_column__dataset__schema"):
            self.lineage.setdefault(row.column.dataset_id, []).append(row)


def _is_view(dataset: SourceDataset | TargetDataset) -> bool:
    return isinstance(dataset, TargetDataset) and dataset.materialization == TargetDataset.Materialization.VIEW


class _Events:
    """Events of one attempt of a load run."""

    def __init__(self, run: LoadRun) -> None:
        self.run = run
        loaded = run.datasets.filter(started_at__isnull=False, dataset__isnull=False, status__in=_STATES)
        self.rows = list(loaded.order_by("ordinal"))
        self.described = _Described(row.dataset_id for row in self.rows if row.dataset_id is not None)
        self.results: dict[uuid.UUID, list[CheckResult]] = {}
        for result in readable_results(run.check_results.order_by("pk"), None):
            self.results.setdefault(result.dataset_key, []).append(result)
        self.namespace = f"{PRODUCT}.{run.environment.name}"
        self.job = Job(self.namespace, f"{run.kind}.{(run.scope.get('name') or 'all')[:_LONGEST_SCOPE]}")
        self.run_uuid = self._uuid("run")
        self.views: set[int] = set()

    def _uuid(self, *parts: str) -> str:
        """Return the id of a run, the same whenever the event is sent again."""
        named = (self.namespace, self.run.run_id, str(self.run.attempt), *parts)
        return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(named)))

    def all(self) -> Iterator[RunEvent | JobEvent]:
        """Yield the start of the load run, the events of its datasets, and its end."""
        ended = _STATES[self.run.status]
        facets = {"nominalTime": nominal_time_run.NominalTimeRunFacet(self.run.load_timestamp.isoformat())}
        started = self.run.started_at or self.run.finished_at
        yield self._event(RunState.START, started, Run(self.run_uuid, dict(facets)), self.job)
        for row in self.rows:
            yield from self._of_dataset(row)
        run = Run(self.run_uuid, {**facets, **_error(self.run.error)})
        yield self._event(ended, self.run.finished_at, run, self.job)

    def _of_dataset(self, row: DatasetRun) -> Iterator[RunEvent | JobEvent]:
        dataset = self.described.datasets[row.dataset_id or 0]
        read = self.described.inputs.get(dataset.pk, [])
        yield from self._of_views(read)
        job, inputs = Job(self.namespace, row.qualified_name), [InputDataset(*self._name_of(each)) for each in read]
        outputs = [self._output(dataset, row)]
        if (history := getattr(dataset, "history", None)) is not None:
            outputs.append(self._output(history))
        run = Run(self._uuid(str(row.dataset_key)), {"parent": self._parent()})
        yield self._event(RunState.START, row.started_at, run, job, inputs, outputs)
        yield from self._of_checks(row, dataset)
        run = Run(run.runId, {"parent": self._parent(), **_error(row.error)})
        yield self._event(_STATES[row.status], row.finished_at or self.run.finished_at, run, job, inputs, outputs)

    def _of_views(self, read: Iterable[SourceDataset | TargetDataset]) -> Iterator[JobEvent]:
        """Yield a job for each view among these datasets and those that it reads, once in a load run."""
        for view in read:
            if not isinstance(view, TargetDataset) or not _is_view(view) or view.pk in self.views:
                continue
            self.views.add(view.pk)
            inputs = self.described.inputs.get(view.pk, [])
            yield from self._of_views(inputs)
            yield JobEvent(
                eventTime=self._moment(self.run.started_at),
                job=Job(self.namespace, str(view)),
                inputs=[InputDataset(*self._name_of(each)) for each in inputs],
                outputs=[self._output(view)],
            )

    def _of_checks(self, row: DatasetRun, dataset: TargetDataset) -> Iterator[RunEvent]:
        """Yield the events of the quality checks of a loaded dataset, if it has any."""
        results = self.results.get(row.dataset_key)
        if not results:
            return
        assertions = [
            data_quality_assertions_dataset.Assertion(
                assertion=result.kind,
                success=result.outcome not in PROBLEMS,
                name=result.check_name,
                severity="warn" if result.severity == "warn" else "error",
                actual=None if result.failed is None else f"{result.failed} of {result.total} rows failed",
            )
            for result in results
        ]
        facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions)
        checked = InputDataset(*self._name_of(dataset), inputFacets={"dataQualityAssertions": facet})
        run = Run(self._uuid(str(row.dataset_key), "checks"), {"parent": self._parent()})
        job = Job(self.namespace, f"{row.qualified_name}.checks")
        for state in (RunState.START, RunState.COMPLETE):
            yield self._event(state, results[-1].at, run, job, [checked])

    def _parent(self) -> parent_run.ParentRunFacet:
        return parent_run.ParentRunFacet(
            parent_run.Run(self.run_uuid), parent_run.Job(self.job.namespace, self.job.name)
        )

    def _event(
        self,
        state: RunState,
        at: datetime | None,
        run: Run,
        job: Job,
        inputs: list[InputDataset] | None = None,
        outputs: list[OutputDataset] | None = None,
    ) -> RunEvent:
        return RunEvent(
            eventTime=self._moment(at), run=run, job=job, eventType=state, inputs=inputs or [], outputs=outputs or []
        )

    def _moment(self, at: datetime | None) -> str:
        return (at or self.run.requested_at).isoformat()

    def _name_of(self, dataset: SourceDataset | TargetDataset) -> tuple[str, str]:
        return (self.namespace, str(dataset)) if isinstance(dataset, TargetDataset) else name_of_source(dataset)

    def _output(self, dataset: TargetDataset, row: DatasetRun | None = None) -> OutputDataset:
        """Return a dataset with its facets, and with version and rows of the run that wrote it, if given."""
        columns = self.described.columns.get(dataset.pk, [])
        facets: dict[str, Any] = {
            "schema": schema_dataset.SchemaDatasetFacet(
                [
                    schema_dataset.SchemaDatasetFacetFields(column.name, str(column.type), column.description or None)
                    for column in columns
                ]
            ),
            "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(self._lineage(dataset)),
        }
        if dataset.owner:
            facets["ownership"] = ownership_dataset.OwnershipDatasetFacet([ownership_dataset.Owner(dataset.owner)])
        written: dict[str, Any] = {}
        if row is not None and row.table_version_after is not None:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(row.table_version_after))
        if row is not None and "rows" in row.counts:
            statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(row.counts["rows"])
            written["outputStatistics"] = statistics
        return OutputDataset(*self._name_of(dataset), facets=facets, outputFacets=written)

    def _lineage(self, dataset: TargetDataset) -> dict[str, column_lineage_dataset.Fields]:
        fields: dict[str, column_lineage_dataset.Fields] = {}
        for row in self.described.lineage.get(dataset.pk, []):
            if not row.column.active:
                continue
            column = row.read_column
            inputs = fields.setdefault(row.column.name, column_lineage_dataset.Fields([])).inputFields
            inputs.append(column_lineage_dataset.InputField(*self._name_of(column.dataset), column.name))
        return fields


def name_of_source(dataset: SourceDataset) -> tuple[str, str]:
    """Return namespace and name of a source; the namespace is the location of its system, if any."""
    system = dataset.system
    return system.location or f"{PRODUCT}.{system.short_name}", dataset.location


def _error(error: dict | None) -> dict[str, error_message_run.ErrorMessageRunFacet]:
    if not error:
        return {}
    return {"errorMessage": error_message_run.ErrorMessageRunFacet(without_any_value(error), "PYTHON")}
