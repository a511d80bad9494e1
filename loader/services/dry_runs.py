"""Dry runs performed on the runner: a preview's steps on shallow clones, and their result."""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from architecture.domain.history_views import history_views
from architecture.domain.refusals import Refused
from architecture.domain.steps.step import Step
from architecture.domain.views import view_sql
from architecture.models import DryRun
from architecture.permissions import must_still_be_permitted, on_behalf_of, place_of_report
from architecture.selectors.dataset_states import applied_states
from architecture.services.dry_runs import end_dry_run
from architecture.services.previews import steps_in
from architecture.services.reports import basis_of
from elevata.accounts.roles import Permission
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.services import Attempt, Fenced, claim
from loader.contract.manifest.executions import DownstreamQuery, DryRunManifest
from loader.contract.refusals import Refusal
from loader.domain.dependencies import tables_read
from loader.domain.spark_failures import worker_accident
from loader.runner.conversation import Conversation, Stopped, SupportsRequests
from loader.services.reads.read_permissions import sensitive_keys
from metadata.domain.state import DatasetState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DryRunAttempt(Attempt):
    """Attempt of a dry run; the runner's log lines go to the worker's log."""

    def say(self, message: str, **_: object) -> None:
        log.info("dry run %s: %s", self.job_pk, message)


def perform_dry_run(
    *, dry_run_pk: int, worker: str, runner: SupportsRequests, stopping: threading.Event | None = None
) -> DryRun | None:
    """Perform one dry run; return None if it could not be claimed. It always ends with a result or an error.

    It runs on behalf of the requesting user, in any thread.
    """
    claimed = retried(partial(claim, job_pk=dry_run_pk, worker=worker))
    if claimed is None:
        return None
    dry_runs = DryRun.objects.select_related("preview__report__environment", "requested_by")
    dry_run = retried(partial(dry_runs.get, pk=dry_run_pk))
    attempt = DryRunAttempt(claimed.job_pk, claimed.number)
    talk = Conversation(attempt, runner, stopping or threading.Event())
    try:
        with on_behalf_of(dry_run.requested_by):
            retried(partial(end_dry_run, attempt=attempt, **_end(dry_run, talk, worker)))
    except Fenced:
        log.warning("%s was given up while worker %s was at it", dry_run, worker)
    return retried(DryRun.objects.filter(pk=dry_run_pk).first)


def _end(dry_run: DryRun, talk: Conversation, worker: str) -> dict[str, Any]:
    """Return the end of the dry run: a ``result``, or an ``error``."""
    try:
        place = place_of_report(dry_run.preview.report)
        retried(partial(must_still_be_permitted, dry_run.requested_by, Permission.EXECUTE_REPORTS, on=place))
        manifest = retried(partial(dry_run_manifest, dry_run))
        finished = talk.ask("dry_run", manifest, lambda _: None)
    except Fenced:
        raise
    except Stopped:
        return {"error": Refusal("WORKER_STOPPED", f"worker {worker} was stopped", hint="repeat the dry run").as_json()}
    except (Refused, Refusal, MetadataError) as refusal:
        return {"error": refusal.as_json()}
    except Exception as failure:  # a page waits for this row: it must end
        log.exception("%s failed", dry_run)
        return {"error": worker_accident(failure).as_json()}
    if finished["status"] == states.CANCELED:
        return {"error": Refusal("CANCELED", "the dry run was cancelled", hint="repeat the dry run").as_json()}
    return {"error": finished["error"]} if finished.get("error") else {"result": finished.get("answer") or {}}


def dry_run_manifest(dry_run: DryRun) -> DryRunManifest:
    """Return the manifest: the steps, and the queries over the changed tables before and after them."""
    preview = dry_run.preview
    steps = steps_in(preview)
    changed = {step.table.dataset_key for step in steps}
    desired = {state.key: state for state in basis_of(preview.report).desired}
    applied = {state.key: state for state in applied_states(environment=preview.report.environment)}
    before, after = {**desired, **applied}, {**applied, **desired}
    keys = {key for state in _readers(changed, before) for key in _read_by(state, before)}
    return DryRunManifest(
        dry_run=str(dry_run.pk),
        steps=_without_views(steps),
        tables=tuple(sorted(keys - changed)),
        queries=tuple(_queries(changed, before)),
        after=tuple(_queries(changed, after)),
        sensitive=sensitive_keys(preview.report.environment, changed),
    )


def _without_views(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps that publish no view. A dry run queries views instead, since it publishes no names."""
    return tuple(step for step in steps if not step.view)


def _queries(changed: set[str], states_by_key: Mapping[str, DatasetState]) -> Iterable[DownstreamQuery]:
    for key in sorted(changed & states_by_key.keys()):
        state = states_by_key[key]
        if state.active and state.historize and state.history_key is not None:
            for place, statement in enumerate(history_views(state), start=1):
                yield DownstreamQuery(f"{state.qualified_name}: view {place} of its history", statement)
    for state in _readers(changed, states_by_key):
        yield DownstreamQuery(state.qualified_name, view_sql(state, states_by_key))


def _readers(changed: set[str], states_by_key: Mapping[str, DatasetState]) -> list[DatasetState]:
    """Return active views that read a changed dataset, directly or through other views, by name."""
    views = (state for state in states_by_key.values() if state.active and state.materialization == "view")
    readers = [state for state in views if changed & _read_by(state, states_by_key)]
    return sorted(readers, key=lambda state: state.qualified_name)


def _read_by(state: DatasetState, states_by_key: Mapping[str, DatasetState]) -> set[str]:
    return {table.key for table in tables_read(state, states_by_key)}
