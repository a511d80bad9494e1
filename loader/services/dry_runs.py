"""Dry runs performed on the runner: a preview's steps on shallow clones, and their result."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db.models import QuerySet

from architecture.domain.history_views import history_views
from architecture.domain.steps.step import Step
from architecture.domain.views import view_sql
from architecture.models import DryRun
from architecture.permissions import must_still_be_permitted, place_of_report
from architecture.selectors.dataset_states import applied_states
from architecture.services.dry_runs import end_dry_run
from architecture.services.previews import steps_in
from architecture.services.reports import basis_of
from elevata.accounts.roles import Permission
from elevata.core.database import retried
from elevata.jobs import states
from loader.contract.manifest.executions import DownstreamQuery, DryRunManifest
from loader.contract.refusals import Refusal
from loader.domain.dependencies import tables_read
from loader.runner.conversation import answer_of
from loader.runner.work import Work, perform_job
from loader.services.reads.read_permissions import sensitive_keys
from metadata.domain.state import DatasetState


@dataclass
class DryRunWork(Work[DryRun]):
    """Work of one attempt of a dry run; ``result`` is the runner's answer."""

    result: dict[str, Any] | None = None

    @classmethod
    def jobs(cls) -> QuerySet[DryRun]:
        return DryRun.objects.select_related("preview__report__environment", "requested_by")

    def perform(self) -> None:
        place = place_of_report(self.job.preview.report)
        retried(partial(must_still_be_permitted, self.job.requested_by, Permission.EXECUTE_REPORTS, on=place))
        manifest = retried(partial(dry_run_manifest, self.job))
        finished = self.talk.ask("dry_run", manifest)
        if finished["status"] == states.CANCELED:
            raise Refusal("CANCELED", "the dry run was cancelled", hint="repeat the dry run")
        self.result = answer_of(finished)

    def end(self, wanted: str, error: dict[str, Any] | None) -> None:
        end_dry_run(attempt=self.attempt, result=None if error else self.result, error=error)


perform_dry_run = partial(perform_job, DryRunWork)


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
