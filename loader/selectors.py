"""Queries about loading that pages, the API and commands share."""

from typing import Any

from django.db.models import Case, Count, IntegerField, OuterRef, Prefetch, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce

from architecture.models import Environment, Execution
from architecture.selectors import executions
from architecture.services import current_environment
from elevata.jobs import states
from loader.domain.historization.layers import history_sql, layer_sql
from loader.domain.runs.refusals import Refusal
from loader.models import DatasetRun, LoadRun, ReadRequest, RunEvent, Schedule
from loader.services.runs.manifests import source_datasets, source_of, source_spec
from metadata.models import TargetDataset
from metadata.selectors import dataset_states


def load_runs() -> QuerySet[LoadRun]:
    """Return load runs for lists, newest first, with the numbers of their datasets by state."""
    return newest_runs().annotate(
        dataset_count=_datasets(),
        finished_count=_datasets(status__in=DatasetRun.FINISHED),
        failed_count=_datasets(status=DatasetRun.Status.FAILED),
        skipped_count=_datasets(status=DatasetRun.Status.SKIPPED),
    )


def newest_runs() -> QuerySet[LoadRun]:
    """Return load runs, newest first, without numbers of datasets."""
    return LoadRun.objects.select_related("environment", "requested_by", "schedule").order_by("-requested_at", "-id")


def _datasets(**which: Any) -> Coalesce:
    """Return the number of a run's datasets with these field values, as a subquery of the listed runs only."""
    rows = DatasetRun.objects.filter(run=OuterRef("pk"), **which).order_by().values("run")
    return Coalesce(Subquery(rows.annotate(count=Count("pk")).values("count")), 0)


def load_run_detail() -> QuerySet[LoadRun]:
    """Return load runs with their datasets in load order."""
    rows = DatasetRun.objects.select_related("dataset__schema", "reverted_by").order_by("ordinal")
    return load_runs().select_related("execution").prefetch_related(Prefetch("datasets", rows))


def active_runs() -> QuerySet[LoadRun]:
    """Return runs that are queued or under way, those under way first."""
    place = Case(When(status=states.QUEUED, then=Value(1)), default=Value(0), output_field=IntegerField())
    return load_runs().filter(status__in=states.ACTIVE).order_by(place, "requested_at")


def active_executions(*, environment: Environment) -> QuerySet[Execution]:
    """Return executions that are queued or under way, oldest first."""
    return executions(environment=environment).filter(status__in=states.ACTIVE).order_by("pk")


def schedules(*, environment: Environment | None = None) -> QuerySet[Schedule]:
    """Return the schedules of an environment (by default this installation's), by name, each with its newest run."""
    chosen = environment or current_environment()
    return Schedule.objects.filter(environment=chosen).select_related("environment", "last_run").order_by("name", "pk")


def run_events(*, run: LoadRun, after: int = 0) -> QuerySet[RunEvent]:
    """Return a run's log, oldest first; ``after`` is the id of the last line already read."""
    return RunEvent.objects.filter(run=run, pk__gt=after).order_by("pk")


def dataset_runs(*, dataset: TargetDataset) -> QuerySet[DatasetRun]:
    """Return a dataset's rows in its runs (for a history dataset: its base's), newest first."""
    return (
        DatasetRun.objects.filter(dataset_id=dataset.history_of_id or dataset.pk)
        .select_related("run", "run__requested_by", "reverted_by")
        .order_by("-run__requested_at", "-pk")
    )


def read_requests() -> QuerySet[ReadRequest]:
    return ReadRequest.objects.select_related("dataset__schema", "environment")


def dataset_sql(dataset: TargetDataset) -> str:
    """Return the statement that a dataset's page shows, or a comment line with the reason if there is none."""
    by_key = {state.key: state for state in dataset_states()}
    base = dataset.history_of or dataset
    state = by_key[str(base.key)]
    try:
        if dataset.history_of_id is not None:
            return history_sql(state, by_key)
        source = None
        if state.layer == "raw":
            specs = {key: source_spec(one) for key, one in source_datasets([state]).items()}
            source = source_of(state, specs)
        return layer_sql(state, by_key, source)
    except Refusal as refusal:
        return f"-- {refusal.one_line()}"
