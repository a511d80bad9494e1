"""Dry runs: the runner performs a preview's steps on shallow clones and reports the result."""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from architecture.domain.history_views import history_views
from architecture.domain.steps.step import Step
from architecture.models import Rehearsal
from architecture.selectors import applied_states
from architecture.services.actors import on_behalf_of
from architecture.services.reports.dry_runs import end_rehearsal
from architecture.services.reports.previews import steps_in
from architecture.services.reports.reports import basis_of
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.jobs.attempts import Attempt, Fenced
from elevata.jobs.services import claim
from loader.domain.historization.layers import view_sql
from loader.domain.runs.dependencies import tables_read
from loader.domain.runs.failure_causes import worker_accident
from loader.domain.runs.manifest import DownstreamQuery, RehearseManifest
from loader.domain.runs.refusals import Refusal
from loader.services.queries.read_work import sensitive_keys
from loader.services.runner.conversation import Conversation, Stopped, SupportsRequests
from metadata.domain.state import DatasetState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RehearsalAttempt(Attempt):
    """A worker's hold on a dry run; what the runner says goes to the worker's log."""

    def say(self, message: str, **_: object) -> None:
        log.info("dry run %s: %s", self.job_pk, message)


def perform_rehearsal(
    *, rehearsal_pk: int, worker: str, runner: SupportsRequests, stopping: threading.Event | None = None
) -> Rehearsal | None:
    """Perform one dry run; return None if it could not be claimed. It always ends with a result or an error.

    It is performed on behalf of the user who requested it, in any thread.
    """
    claimed = retried(partial(claim, job_pk=rehearsal_pk, worker=worker))
    if claimed is None:
        return None
    found = Rehearsal.objects.select_related("preview__report__environment", "requested_by")
    rehearsal = retried(partial(found.get, pk=rehearsal_pk))
    attempt = RehearsalAttempt(claimed.job_pk, claimed.number)
    talk = Conversation(attempt, runner, stopping or threading.Event())
    try:
        with on_behalf_of(rehearsal.requested_by):
            retried(partial(end_rehearsal, attempt=attempt, **_end(rehearsal, talk, worker)))
    except Fenced:
        log.warning("%s was given up while worker %s was at it", rehearsal, worker)
    return retried(Rehearsal.objects.filter(pk=rehearsal_pk).first)


def _end(rehearsal: Rehearsal, talk: Conversation, worker: str) -> dict[str, Any]:
    """Return the end of the dry run: a ``result``, or an ``error``."""
    try:
        manifest = retried(partial(rehearse_manifest, rehearsal))
        finished = talk.ask("rehearse", manifest, lambda _: None)
    except Fenced:
        raise
    except Stopped:
        return {"error": Refusal("WORKER_STOPPED", f"worker {worker} was stopped", hint="repeat the dry run").as_json()}
    except (Refusal, MetadataError) as refusal:
        return {"error": refusal.as_json()}
    except Exception as failure:  # a page waits for this row: it must end
        log.exception("%s failed", rehearsal)
        return {"error": worker_accident(failure).as_json()}
    return {"error": finished["error"]} if finished.get("error") else {"result": finished.get("answer") or {}}


def rehearse_manifest(rehearsal: Rehearsal) -> RehearseManifest:
    """Return the manifest: the steps, and the queries over the touched tables before and after them."""
    preview = rehearsal.preview
    steps = steps_in(preview)
    touched = {step.table.dataset_key for step in steps}
    desired = {state.key: state for state in basis_of(preview.report).desired}
    applied = {state.key: state for state in applied_states(environment=preview.report.environment)}
    before, after = {**desired, **applied}, {**applied, **desired}
    read = {key for state in _readers(touched, before) for key in _read_by(state, before)}
    return RehearseManifest(
        rehearsal=str(rehearsal.pk),
        steps=_without_views(steps),
        tables=tuple(sorted(read - touched)),
        queries=tuple(_queries(touched, before)),
        after=tuple(_queries(touched, after)),
        sensitive=sensitive_keys(preview.report.environment, touched),
    )


def _without_views(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps that publish no view: views are queried, since publishing needs the warehouse's names."""
    return tuple(step for step in steps if not step.view)


def _queries(touched: set[str], states_by_key: Mapping[str, DatasetState]) -> Iterable[DownstreamQuery]:
    for key in sorted(touched & states_by_key.keys()):
        state = states_by_key[key]
        if state.active and state.historize and state.history_key is not None:
            for place, statement in enumerate(history_views(state), start=1):
                yield DownstreamQuery(f"{state.qualified_name}: view {place} of its history", statement)
    for state in _readers(touched, states_by_key):
        yield DownstreamQuery(state.qualified_name, view_sql(state, states_by_key))


def _readers(touched: set[str], states_by_key: Mapping[str, DatasetState]) -> list[DatasetState]:
    """Return active views that read a touched dataset, directly or through other views, by name."""
    views = (state for state in states_by_key.values() if state.active and state.materialization == "view")
    found = [state for state in views if touched & _read_by(state, states_by_key)]
    return sorted(found, key=lambda state: state.qualified_name)


def _read_by(state: DatasetState, states_by_key: Mapping[str, DatasetState]) -> set[str]:
    return {table.key for table in tables_read(state, states_by_key)}
