"""Work of a load run: observe, plan, execute, load."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from django.db.models import QuerySet
from django.utils import timezone

from architecture.services.automatic_changes import (
    Pending,
    attempt_of_load,
    begin_execution,
    finish_execution,
    pending_changes,
    record_rules,
)
from architecture.services.drift import settle_if_in_sync
from architecture.services.observations import last_observations, store_and_report_drift
from architecture.services.report_basis import table_keys
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.services import Fenced
from loader.contract import run_states
from loader.contract.manifest.codec import from_json
from loader.contract.manifest.executions import ExecuteManifest, ObserveManifest
from loader.contract.manifest.loads import HistoryFiles
from loader.contract.refusals import Refusal
from loader.contract.run_states import BRINGING, HISTORY_BATCH, OF_FILES
from loader.domain.queries.masking import without_any_value
from loader.models import DatasetRun, LoadRun
from loader.runner.conversation import Stopped, answer_of
from loader.runner.work import Blocked, Work, perform_job
from loader.services.copies.requests import request_copies_after
from loader.services.executions import store_step
from loader.services.loads.applied_runs import leading_table, newest_applied
from loader.services.loads.attempts import Claimed, LoadAttempt, attempt_of, claim_with_leases
from loader.services.loads.change_warnings import warnings_of
from loader.services.loads.load_runs import must_still_start
from loader.services.loads.manifests import load_manifest
from loader.services.loads.plans import LoadPlan
from loader.services.loads.run_errors import (
    datasets_failed,
    decision_needed,
    refusals_of_datasets,
    tables_missing,
)
from loader.services.loads.view_changes import Compare, with_views
from loader.services.maintenance.compactions import request_compaction
from loader.services.maintenance.runs import perform_run
from loader.services.publication import publish_after, publish_execution, publish_manifest
from loader.services.reads.read_permissions import sensitive_in
from loader.services.sources.observations import observe_delivery
from metadata.domain.scope import SELECTION, Scope

log = logging.getLogger(__name__)


@dataclass
class LoadWork(Work[LoadRun]):
    """Work of one attempt of a load run.

    ``crowded`` are the datasets with too many small files, ``schemas`` those of the deliveries, by raw dataset.
    ``refused`` are the refusals of datasets whose tables are missing or cannot be read, by dataset. ``warnings`` are
    those of the changes that the run executes, by dataset.
    """

    attempt: LoadAttempt
    claimed: Claimed
    crowded: set[str] = field(default_factory=set)
    schemas: dict[str, list[dict]] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    warnings: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def jobs(cls) -> QuerySet[LoadRun]:
        return LoadRun.objects.select_related("environment")

    @classmethod
    def claim(cls, job_pk: int, worker: str) -> Self | None:
        """Claim a run and its leases, and plan it; return None also if it waits for a lease."""
        claimed = claim_with_leases(run_pk=job_pk, worker=worker)
        if claimed is None:
            return None
        return cls(claimed.run, replace(attempt_of(claimed.run), leases=claimed.leases), claimed)

    def log_context(self) -> dict[str, Any]:
        return {"run_id": self.run.run_id, "person_id": self.run.requested_by_id}

    @property
    def run(self) -> LoadRun:
        return self.job

    def perform(self) -> dict[str, Any] | None:
        retried(partial(must_still_start, self.run))
        status = self._bring() if self.run.kind in BRINGING else perform_run(self)
        return None if status == states.SUCCEEDED else datasets_failed(self.run)

    def end(self, wanted: str, error: dict[str, Any] | None) -> None:
        """End the run, as cancelled if a user asked for that meanwhile. Raise Fenced."""
        if self.attempt.finish(status=wanted, error=error) is None:
            raise Fenced

    def follow_up(self) -> None:
        self._have_compacted()
        self._have_copied()
        self._compare_sources()

    def _bring(self) -> str:
        """Change the tables if needed, load them, and publish names; return succeeded or failed."""
        plan, files = self.claimed.planned(), self._files()
        rows = self.attempt.prepare(steps=plan.steps)
        self.attempt.say(f"attempt {self.attempt.number}: {len(rows)} datasets, worker {self.run.claimed_by}")
        pending = self.pending(plan)
        if pending.operations:
            self._execute(pending)
        retried(partial(record_rules, pending))
        result = self._load(plan, rows, files) if plan.steps else states.SUCCEEDED
        if not pending.operations:  # else all names were published with the changes
            self._publish(frozenset(each.key for each in (*(step.dataset for step in plan.steps), *plan.views)))
        return result

    def _load(self, plan: LoadPlan, rows: Mapping[str, DatasetRun], files: HistoryFiles | None) -> str:
        self.attempt.enter("loading")
        manifest = retried(lambda: load_manifest(run=self.run, plan=plan, rows=rows, files=files))
        refused = {key: refusal.as_json() for key, refusal in self.refused.items()}
        manifest = replace(manifest, refused=refused)
        finished = self.talk.ask("load", manifest, self.store)
        self.keep_commits(finished)
        return self.must_answer(finished)

    def _publish(self, datasets: Collection[str]) -> None:
        """Publish the names of these datasets; warn in the run's log about names that could not be published.

        If a former publication may be incomplete, all names are published.
        """
        make = partial(publish_manifest, environment=self.run.environment)
        if publish_after(talk=self.talk, manifest=retried(partial(make, datasets=datasets))).incomplete:
            publish_after(talk=self.talk, manifest=retried(make))

    def _have_compacted(self) -> None:
        """Request the compaction of the tables that this run left with too many small files."""
        for key in sorted(self.crowded):
            try:
                requested = retried(partial(request_compaction, dataset_key=key, reason=f"after run {self.run.run_id}"))
            except Exception:  # the run itself is done; the next one over these tables requests it again
                log.exception("a compaction of %s could not be requested", key)
            else:
                if requested is not None:
                    log.info("run %s compacts after run %s", requested.run, self.run)

    def _have_copied(self) -> None:
        """Request the copies of the datasets that this run loaded."""
        if self.run.kind in OF_FILES:
            return
        try:
            requested = retried(partial(_request_copies, self.run))
        except Exception:  # the run itself is done; the next one over these tables requests them again
            log.exception("the copies after run %s could not be requested", self.run)
        else:
            for run in requested:
                log.info("run %s copies after run %s", run, self.run)

    def _compare_sources(self) -> None:
        """Compare the deliveries with the contracts of their sources; differences become proposals."""
        for key, schema in sorted(self.schemas.items()):
            try:
                retried(partial(observe_delivery, run=self.run, dataset_key=key, schema=schema))
            except Exception:  # the run itself is done; the next one compares again
                log.exception("the delivery of %s could not be compared with its contract", key)

    def _files(self) -> HistoryFiles | None:
        if self.run.kind != HISTORY_BATCH:
            return None
        details = self.run.details["asked"]
        files = {"format": details["format"], "compression": details["compression"], **details["files"]}
        return from_json(HistoryFiles, files | details.get("reading", {}))

    def pending(self, plan: LoadPlan) -> Pending:
        """Return the changes between metadata and warehouse. Raise Blocked unless all are safe and need no approval.

        Those of refused datasets, and of the datasets downstream, are left out: the run does not load these datasets.
        """
        self.attempt.enter("scanning the warehouse")
        keys = plan.described
        observed = keys.union(*map(plan.beneath, plan.views))
        tables = table_keys(state for state in plan.states.values() if state.key in observed)
        observe = ObserveManifest(tuple(sorted(tables)), dropped=True, skip_unreadable=True)
        finished = self.talk.ask("observe", observe)
        answer = answer_of(finished)
        unreadable = {key: Refusal.from_json(error) for key, error in (finished.get("unreadable") or {}).items()}
        tables = frozenset(tables) - unreadable.keys()
        environment = self.run.environment
        self.refused = refusals_of_datasets(plan, unreadable)
        self.refused |= retried(lambda: self._missing(plan, answer.keys() | unreadable.keys()))
        keys -= plan.downstream(self.refused)

        def keep() -> None:
            store_and_report_drift(environment=environment, keys=tables, tables=answer)
            settle_if_in_sync(environment)

        def compare(keys: frozenset[str]) -> Pending:
            observations = last_observations(environment=environment, keys=tables)
            described, through = plan.states.values(), self.claimed.through
            return pending_changes(
                environment=environment, states=described, keys=keys, observations=observations, through=through
            )

        try:
            retried(keep)
            pending = retried(partial(compare, keys))
        except MetadataError as problem:
            raise Blocked(decision_needed((problem.one_line(),), self.run)) from problem
        if pending.needing:
            raise Blocked(decision_needed(pending.needing, self.run))
        return self._with_views(plan, pending, compare) if plan.views else pending

    def _with_views(self, plan: LoadPlan, pending: Pending, compare: Compare) -> Pending:
        """Return the changes with those of the plan's views, and record what becomes of each view."""
        pending, outcome = with_views(plan, pending, lambda keys: retried(partial(compare, keys)))
        for name, text in outcome.items():
            self.attempt.say(f"view {name}: {text}")
        self.run.details = {**self.run.details, "views": outcome}
        retried(lambda: LoadRun.objects.filter(pk=self.run.pk).update(details=self.run.details))
        return pending

    def _missing(self, plan: LoadPlan, observed: Collection[str]) -> dict[str, Refusal]:
        """Return the refusals of datasets whose table with applied runs is missing: it must not be created anew.

        Raise Refusal TABLES_MISSING if all such tables are missing: the warehouse is not there, or is another one.
        """
        leading = {step.dataset.key: leading_table(step.dataset) for step in plan.steps}
        newest = newest_applied(environment=self.run.environment, leading=leading, but=self.run)
        applied = {key for key, run in newest.items() if run.sequence is not None}
        missing = {
            step.dataset.key: step.dataset.qualified_name
            for step in plan.steps
            if step.dataset.key in applied and leading[step.dataset.key] not in observed
        }
        if missing and missing.keys() == applied:
            raise tables_missing(sorted(missing.values()))
        return {key: tables_missing([name]) for key, name in missing.items()}

    def _execute(self, pending: Pending) -> None:
        """Execute safe changes, with an execution record of their own."""
        reason = f"load run {self.run.run_id}"
        loaded = Scope.from_json(self.run.scope)
        # A load's selection has words, a report's only names, so the record lists the datasets instead.
        scope = None if loaded.kind == SELECTION else loaded
        begin = partial(begin_execution, pending=pending, reason=reason, user=self.run.requested_by, scope=scope)
        execution = retried(begin)
        writer = attempt_of_load(execution)
        self.attempt.executes(execution)
        for operation in pending.operations:
            self.attempt.say(operation.describe())
        self.warnings = warnings_of(pending)
        finished: dict = {}
        try:
            if pending.steps:
                manifest = ExecuteManifest(
                    str(execution.pk),
                    pending.steps,
                    sensitive=sensitive_in(execution, pending.steps),
                )
                finished = self.talk.ask("execute", manifest, partial(store_step, writer))
            if not finished.get("error"):
                publish_execution(execution=execution, attempt=writer, talk=self.talk, needs_views=False)
        finally:
            ended = retried(partial(finish_execution, execution=execution))
        answer_of(finished)
        if ended.status != states.SUCCEEDED:
            failed = ended.operations.exclude(error="").first()
            raise Refusal("STEP_FAILED", failed.error if failed else f"{ended} did not succeed")

    def store(self, event: dict) -> None:
        """Store one event of a load in the dataset's row."""
        kind, key = event["event"], event["dataset"]
        if kind == "dataset_started":
            self.attempt.dataset(key, states.RUNNING, started_at=timezone.now(), phase="starting")
        elif kind == "dataset_phase":
            self.attempt.dataset_phase(key, event["phase"])
        elif kind == "dataset_checked":
            self.attempt.checked(key, event["results"])
        elif kind == "dataset_finished":
            self._store_end(key, event)

    def _store_end(self, key: str, event: dict) -> None:
        error = event.get("error")
        if event.get("crowded"):
            self.crowded.add(key)
        if event.get("schema"):
            self.schemas[key] = event["schema"]
        self.attempt.dataset(
            key,
            event["status"],
            phase="",
            counts=event.get("counts") or {},
            drift=event.get("drift") or [],
            warnings=[*self.warnings.get(key, ()), *(event.get("warnings") or ())],
            window=event.get("window") or {},
            error=error,
            faults=event.get("faults"),
            skipped_because=event.get("skipped_because") or "",
            unchanged_since=event.get("unchanged_since") or "",
            table_version_before=event.get("version_before"),
            table_version_after=event.get("version_after"),
            finished_at=timezone.now(),
            seconds=event.get("seconds"),
        )
        if error:
            # Readers of the log may lack permission to read data, so only the dataset's row has the examples.
            self.attempt.say(without_any_value(error), level="error", dataset_key=key)
        elif event["status"] == run_states.SKIPPED:
            because = event.get("skipped_because")
            self.attempt.say(f"skipped, because {because} did not succeed", level="warning", dataset_key=key)

    def keep_commits(self, finished: dict) -> None:
        """Record the commit path of the run and its reason in the run and in its log."""
        commits = finished.get("commits")
        if not commits:
            return
        self.attempt.say(f"commits: {commits['name']}, because {commits['reason']}")
        self.run.details = {**self.run.details, "commits": commits}
        retried(lambda: LoadRun.objects.filter(pk=self.run.pk).update(details=self.run.details))

    def must_answer(self, finished: dict) -> str:
        """Return succeeded or failed. Raise Stopped, or the Refusal of the whole request."""
        if self.talk.is_to_stop and finished["status"] != states.SUCCEEDED:
            raise Stopped
        answer_of(finished)
        return states.SUCCEEDED if finished["status"] == states.SUCCEEDED else states.FAILED


def _request_copies(run: LoadRun) -> list[LoadRun]:
    rows = DatasetRun.objects.filter(run=run, status=DatasetRun.Status.SUCCEEDED)
    keys = [str(key) for key in rows.values_list("dataset_key", flat=True)]
    return request_copies_after(datasets=keys, reason=f"after run {run.run_id}")


perform_load_run = partial(perform_job, LoadWork)
