"""Claim of a load run, with the leases of the datasets that it writes; writes of its attempt: states, record, notices.

A worker whose run was marked as lost may still be running. Its writes match no row, because its attempt number is
outdated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db import IntegrityError, models, transaction
from django.db.models import Max
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.models import Execution
from architecture.services.leases import Held, Holder, take_leases
from elevata.audit.services import chain
from elevata.core.database import retried
from elevata.jobs import services as jobs
from elevata.jobs import states
from loader.contract import run_states
from loader.contract.refusals import Refusal
from loader.contract.run_states import BRINGING, HISTORY_BATCH, LOAD
from loader.domain.dependencies import LoadStep
from loader.models import DatasetRun, LoadRun, RunEvent
from loader.services.loads.notices import tell_run_ended
from loader.services.loads.plans import LoadPlan, plan_history_batch, plan_load, plan_named
from loader.services.maintenance.records import seal_end
from loader.services.quality_results import store_results
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset

# Holder kind of the leases of a load run; the holder id is the run id.
LOAD_RUN = "load run"
_ALLOCATION_TRIES = 20


@dataclass(frozen=True)
class Claimed:
    """Claimed run with its leases and the plan made at the claim.

    ``through`` is the last link of the audit chain that was sealed before the plan was made. ``problem`` is the
    refusal with which the run ends if there is no plan.
    """

    run: LoadRun
    leases: Held
    plan: LoadPlan | None
    problem: Refusal | None = None
    through: int = 0

    def planned(self) -> LoadPlan:
        if self.plan is None:
            raise self.problem or Refusal("UNEXPECTED", "the run was not planned")
        return self.plan


def claim_with_leases(*, run_pk: int, worker: str) -> Claimed | None:
    """Claim a queued run and its leases; return None if it could not be claimed.

    A run that needs a lease of another holder stays queued and its phase names the holder; the sweep tries it
    again.
    """
    run = retried(lambda: LoadRun.objects.filter(pk=run_pk, status=states.QUEUED).first())
    if run is None:
        return None
    plan, problem = None, None
    through = retried(chain.sealed_through)
    try:
        plan = retried(partial(plan_of, run))
    except Refusal as refusal:
        problem = refusal
    try:
        claimed = retried(lambda: _claim(run_pk, worker, plan, problem))
        return claimed and replace(claimed, through=through)
    except Refused as refused:
        phase = f"waiting: {refused.message}"
        retried(lambda: jobs.wait(job_pk=run_pk, phase=phase))
        return None


def plan_of(run: LoadRun) -> LoadPlan:
    """Return the plan of a run of any kind. Raise Refusal if its scope has become empty."""
    if run.kind == HISTORY_BATCH:
        return plan_history_batch(run.scope["name"], run.details["asked"].get("copied", ""))
    return plan_load(Scope.from_json(run.scope)) if run.kind in BRINGING else plan_named(run.scope["name"])


def claim(*, run_pk: int, worker: str) -> LoadRun | None:
    """Claim a queued run; return None if another worker has it, or it is not queued any more."""
    if jobs.claim(job_pk=run_pk, worker=worker) is None:
        return None
    LoadRun.objects.filter(pk=run_pk).update(execution=None)
    return LoadRun.objects.select_related("environment").get(pk=run_pk)


@transaction.atomic
def _claim(run_pk: int, worker: str, plan: LoadPlan | None, problem: Refusal | None) -> Claimed | None:
    run = claim(run_pk=run_pk, worker=worker)
    if run is None:
        return None
    keys = plan.written if plan is not None else frozenset()
    leases = take_leases(environment=run.environment, dataset_keys=keys, holder=holder_of(run))
    return Claimed(run, leases, plan, problem)


def holder_of(run: LoadRun) -> Holder:
    return Holder(LOAD_RUN, run.run_id, run.attempt)


@dataclass(frozen=True)
class LoadAttempt(jobs.Attempt):
    """Attempt of a load run, with its leases. Its writes are retried while the control database is unavailable."""

    leases: Held | None = None

    def _rows(self) -> models.QuerySet[DatasetRun]:
        return DatasetRun.objects.filter(run_id=self.job_pk, attempt=self.number)

    def heartbeat(self) -> str:
        """Record a heartbeat, renew the leases and return the run's status: it may be canceling. Raise Fenced."""

        def write() -> str:
            if self.leases is not None and not self.leases.renew():
                raise jobs.Fenced
            return super(LoadAttempt, self).heartbeat()

        return retried(write)

    def enter(self, phase: str) -> None:
        retried(lambda: super(LoadAttempt, self).enter(phase))

    def executes(self, execution: Execution) -> None:
        """Record the execution that changes tables for this attempt."""
        self.enter("changing tables")
        retried(lambda: LoadRun.objects.filter(pk=self.job_pk).update(execution=execution))

    def say(self, message: str, *, level: str = "info", dataset_key: str | None = None) -> None:
        """Add a line to the run's log."""

        @transaction.atomic
        def write() -> None:
            if not self.own_job().exists():
                raise jobs.Fenced
            name = ""
            if dataset_key is not None:
                names = self._rows().filter(dataset_key=dataset_key).values_list("qualified_name", flat=True)
                name = names.first() or ""
            RunEvent.objects.create(
                run_id=self.job_pk, attempt=self.number, level=level, dataset_name=name, message=message
            )

        retried(write)

    def dataset(self, key: str, target: str, **fields: Any) -> None:
        """Set the state of a dataset's row (see ``run_states.DATASET_STEPS``), with further fields."""
        self._write(key, target, states.may_become(target, run_states.DATASET_STEPS), fields)

    def checked(self, key: str, results: Sequence[Mapping[str, Any]]) -> None:
        """Store the results of a dataset's quality checks."""

        @transaction.atomic
        def write() -> None:
            rows = self._rows().filter(dataset_key=key)
            for row in rows.select_related("run__environment", "run__requested_by", "dataset"):
                store_results(
                    dataset_key=key,
                    dataset=row.dataset,
                    name=row.qualified_name,
                    environment=row.run.environment,
                    results=results,
                    run=row.run,
                )

        retried(write)

    def dataset_phase(self, key: str, phase: str) -> None:
        self._write(key, states.RUNNING, (states.RUNNING,), {"phase": phase[:100]})

    def _write(self, key: str, target: str, from_states: Iterable[str], fields: dict[str, Any]) -> None:
        # The target state is permitted, because an event may be repeated.
        rows = self._rows().filter(dataset_key=key, status__in=(*from_states, target))
        if not retried(lambda: rows.update(status=target, **fields)) and not self._rows().exists():
            raise jobs.Fenced

    def prepare(
        self, *, steps: Iterable[LoadStep], numbered: bool = True, comes_last: bool = False
    ) -> dict[str, DatasetRun]:
        """Return a row for every dataset of the run, each with its sequence in the dataset's history.

        A run that changes no history is not ``numbered``. With ``comes_last``, unfinished rows get a new sequence if
        other runs have a later one: commits of such runs are identified by the run id alone.

        The row of an earlier attempt keeps its sequence, and its success. A unique constraint gives concurrent runs
        different sequences.
        """
        steps = list(steps)
        for _ in range(_ALLOCATION_TRIES):
            try:
                return retried(lambda: self._prepare(steps, numbered, comes_last))
            except IntegrityError:
                continue
        raise RuntimeError(f"no sequence number was free in {_ALLOCATION_TRIES} tries")

    @transaction.atomic
    def _prepare(self, steps: list[LoadStep], numbered: bool, comes_last: bool) -> dict[str, DatasetRun]:
        self.must_hold()
        existing = {str(row.dataset_key): row for row in DatasetRun.objects.filter(run_id=self.job_pk)}
        fresh = [step for step in steps if step.dataset.key not in existing]
        counting = {step.dataset.key for step in fresh if numbered and step.dataset.layer != "raw"}
        newest = _newest_sequences(sorted(counting))
        ids = _metadata_ids([step.dataset for step in fresh])
        new_rows = [
            DatasetRun(
                run_id=self.job_pk,
                dataset_id=ids.get(step.dataset.key),
                dataset_key=step.dataset.key,
                qualified_name=step.dataset.qualified_name,
                kind=step.dataset.layer,
                ordinal=0,
                sequence=newest.get(step.dataset.key, 0) + 1 if step.dataset.key in counting else None,
            )
            for step in fresh
        ]
        # Always in the same order, so that two runs that number the same datasets cannot deadlock.
        DatasetRun.objects.bulk_create(sorted(new_rows, key=lambda row: row.dataset_key))
        self._reset(steps)
        if comes_last:
            self._renumber()
        return {str(row.dataset_key): row for row in self._rows()}

    def _renumber(self) -> None:
        for row in self._rows().exclude(status=DatasetRun.Status.SUCCEEDED).filter(sequence__isnull=False):
            newest = _newest_sequences([str(row.dataset_key)])[str(row.dataset_key)]
            if row.sequence is not None and newest > row.sequence:
                row.sequence = newest + 1
                row.save()

    def _reset(self, steps: list[LoadStep]) -> None:
        """Assign all rows to this attempt.

        Queue rows again that did not succeed, or whose delivery was replaced since. Skip rows outside the scope.
        """
        rows = {str(row.dataset_key): row for row in DatasetRun.objects.filter(run_id=self.job_pk)}
        overwritten = _rows_to_reload(rows.values())
        for ordinal, step in enumerate(steps, start=1):
            row = rows.pop(step.dataset.key)
            row.ordinal, row.depends_on, row.attempt = ordinal, list(step.depends_on), self.number
            if row.status != DatasetRun.Status.SUCCEEDED or row.pk in overwritten:
                _queue_again(row)
            row.save()
        for row in rows.values():
            row.attempt = self.number
            if row.status != DatasetRun.Status.SUCCEEDED:
                row.status, row.skipped_because = DatasetRun.Status.SKIPPED, "no longer in the run's scope"
            row.save()

    def finish(self, *, status: str, error: Mapping | None = None) -> str | None:
        """End the run and its unfinished datasets; return its final status. None if the attempt is not current."""

        @transaction.atomic
        def write() -> str | None:
            ended = self.end(wanted=status, error=error)
            if ended is not None:
                end_datasets(run_pk=self.job_pk, end=ended, error=error)
                seal_end(run_pk=self.job_pk, attempt=self.number)
                tell_run_ended(self.job_pk)
                if self.leases is not None:
                    self.leases.release()
            return ended

        return retried(write)


def end_datasets(*, run_pk: int, end: str, error: Mapping | None = None) -> None:
    """Set the final state of an ended run's datasets that have not reported one."""
    for before, after in run_states.unfinished_becomes(end).items():
        fields: dict[str, Any] = {"status": after, "finished_at": timezone.now(), "phase": ""}
        if after == states.FAILED:
            fields["error"] = error
        DatasetRun.objects.filter(run_id=run_pk, status=before).update(**fields)


def _metadata_ids(states: list[DatasetState]) -> dict[str, int]:
    """Return ids of the metadata rows of these datasets, by the stable keys of their tables.

    A dataset whose key is not in the metadata is looked up by name, because metadata may have another key.
    """
    rows = TargetDataset.objects.filter(key__among=[state.key for state in states]).values_list("key", "pk")
    ids = {str(key): pk for key, pk in rows}
    for state in (state for state in states if state.key not in ids):
        named = TargetDataset.objects.filter(schema__name=state.schema, name=state.name, history_of__isnull=True)
        pk = named.values_list("pk", flat=True).first()
        if pk is not None:
            ids[state.key] = pk
    return ids


def _newest_sequences(keys: list[str]) -> dict[str, int]:
    rows = DatasetRun.objects.filter(dataset_key__among=keys).order_by().values_list("dataset_key")
    return {str(key): newest or 0 for key, newest in rows.annotate(newest=Max("sequence"))}


def _queue_again(row: DatasetRun) -> None:
    row.status = DatasetRun.Status.QUEUED
    row.phase, row.skipped_because, row.unchanged_since = "", "", ""
    row.counts, row.drift, row.warnings, row.error, row.faults = {}, [], [], None, None
    row.table_version_before = row.table_version_after = None
    row.started_at = row.finished_at = row.seconds = None


def _rows_to_reload(rows: Iterable[DatasetRun]) -> set[int]:
    """Return ids of succeeded raw rows that must be loaded again, because another run replaced their delivery."""
    return {
        row.pk
        for row in rows
        if row.kind == "raw"
        and row.status == DatasetRun.Status.SUCCEEDED
        and row.finished_at is not None
        and DatasetRun.objects.filter(dataset_key=row.dataset_key, run__kind=LOAD, started_at__gt=row.finished_at)
        .exclude(run_id=row.run_id)
        .exists()
    }


def attempt_of(run: LoadRun) -> LoadAttempt:
    """Return the attempt of a claimed run."""
    return LoadAttempt(run.pk, run.attempt)
