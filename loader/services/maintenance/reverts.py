"""Reverts: the request, the facts about it from the control database, and the manifest."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from architecture.permissions import refuse_elsewhere
from architecture.services.environments import current_environment
from elevata.core.database import retried
from elevata.jobs import states
from loader.contract.manifest.maintenance import RevertManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import BRINGING, PRUNE, REVERT
from loader.models import DatasetRun, LoadRun
from loader.services.loads.applied_runs import applied_rows
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.manifests import maintenance_load
from loader.services.loads.plans import plan_revertible
from loader.services.maintenance.work import RunWork, check_reason, prepare, scope_of
from metadata.domain.history.history_policy import APPEND, CDC, EFFECTIVE, HistoryPolicy
from metadata.domain.state import DatasetState


@dataclass(frozen=True)
class Reversion:
    """Facts about the revert of one run from the control database.

    ``refusal`` is why the revert is impossible, unless it was already done, which only the table shows.
    """

    row: DatasetRun
    newest_applied_at: str | None
    later_runs: tuple[str, ...]
    refusal: Refusal | None = None


def request_revert(
    *,
    of_run: str,
    dataset: str,
    reason: str,
    run_id: str | None = None,
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request the revert of one run in one dataset. A revert that did not succeed is queued again."""
    check_reason(reason)
    name = plan_revertible(dataset).steps[0].dataset.qualified_name
    details = {"run_id": of_run}
    wanted = Asked(
        kind=REVERT,
        scope=scope_of(name),
        asked=details,
        check=lambda: _check_revertible(of_run, dataset),
        reason=reason.strip(),
    )
    if run_id is None:
        own = LoadRun.objects.filter(kind=REVERT, environment=current_environment())
        unfinished = own.exclude(status=states.SUCCEEDED).order_by("-pk")
        same = (run for run in unfinished if run.scope["name"] == name and run.details.get("asked") == details)
        run_id = next((run.run_id for run in same), None)
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def _check_revertible(of_run: str, dataset: str) -> None:
    revert = reversion(of_run, dataset)
    if revert.refusal is not None:
        raise revert.refusal


def reversion(of_run: str, dataset: str, by: LoadRun | None = None) -> Reversion:
    """Return the facts about the revert of a run.

    Raise Refusal UNKNOWN_RUN, NOT_REVERTIBLE, ALREADY_REVERTED (unless by the run ``by``), NOT_APPLIED or RUN_ACTIVE,
    and Refused OTHER_ENVIRONMENT for a run of another environment.
    """
    state = plan_revertible(dataset).steps[0].dataset
    name = state.qualified_name
    run = LoadRun.objects.filter(run_id=of_run).first()
    if run is None:
        raise Refusal("UNKNOWN_RUN", f"there is no run {of_run}")
    refuse_elsewhere(run.environment, f"run {of_run}")
    if run.kind not in BRINGING:
        raise Refusal("NOT_REVERTIBLE", f"run {of_run} is a {run.get_kind_display().lower()}, which brought no rows")
    row = DatasetRun.objects.filter(run=run, dataset_key=state.key).select_related("reverted_by", "run").first()
    if row is not None and row.reverted_by is not None and row.reverted_by != by:
        raise Refusal("ALREADY_REVERTED", f"run {of_run} was reverted on {name} by run {row.reverted_by}")
    if row is None or row.status != states.SUCCEEDED or row.sequence is None:
        raise Refusal(
            "NOT_APPLIED", f"run {of_run} is not applied to {name}", hint="only what a run finished can be reverted"
        )
    if not run.is_finished:
        raise Refusal("RUN_ACTIVE", f"run {of_run} is still under way", hint="wait for its end, or cancel it")
    others = applied_rows().filter(dataset_key=state.key, run__environment=run.environment).exclude(pk=row.pk)
    later = others.filter(sequence__gt=row.sequence)
    refusal = _pruned_refusal(row, name) or _later_runs_refusal(state, row, later)
    newest = others.order_by("-run__load_timestamp").values_list("run__load_timestamp", flat=True).first()
    runs = tuple(later.values_list("run__run_id", flat=True))
    return Reversion(row, newest.isoformat() if newest else None, runs, refusal)


def _pruned_refusal(row: DatasetRun, name: str) -> Refusal | None:
    pruned = DatasetRun.objects.filter(
        dataset_key=row.dataset_key, run__kind=PRUNE, status=states.SUCCEEDED, sequence__gt=row.sequence
    ).select_related("run")
    prune = pruned.first()
    if prune is None:
        return None
    return Refusal(
        "PRUNED_SINCE",
        f"{name} was pruned by run {prune.run} since: what the run closed may be gone",
        hint="load a delivery that corrects it",
    )


def _later_runs_refusal(state: DatasetState, row: DatasetRun, later: QuerySet[DatasetRun]) -> Refusal | None:
    """Return a refusal if later runs depend on this one.

    Runs of rows with a time of their own depend on it only if they ignored or refused late rows, appends never.
    """
    policy = HistoryPolicy.from_dict(state.history_policy)
    if policy.input == APPEND:
        return None
    runs = list(later.select_related("run").order_by("sequence"))
    if not runs:
        return None
    hint = "revert them first, the newest before the others"
    if policy.input not in (EFFECTIVE, CDC) or policy.closes_absent:
        named = ", ".join(run.run.run_id for run in runs[:3]) + (" …" if len(runs) > 3 else "")
        return Refusal(
            "LATER_RUNS",
            f"{len(runs)} later runs were applied to {state.qualified_name}, and rest upon run {row.run}: {named}",
            hint=hint,
            count=len(runs),
        )
    ignoring_late_rows = [
        run for run in runs if any(run.counts.get(name) for name in ("late_ignored", "beyond_horizon", "refused"))
    ]
    if not ignoring_late_rows:
        return None
    return Refusal(
        "LATER_RUNS",
        f"run {ignoring_late_rows[0].run} ignored or refused late rows, perhaps because of run {row.run}",
        hint=hint,
        count=len(ignoring_late_rows),
    )


def revert_manifest(work: RunWork) -> RevertManifest:
    of_run, plan, rows = work.run.details["asked"]["run_id"], *prepare(work, plan_revertible)
    facts = retried(lambda: reversion(of_run, plan.steps[0].dataset.qualified_name, by=work.run))
    return RevertManifest(
        run_id=work.run.run_id,
        load=retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)),
        reverted_run=of_run,
        reverted_sequence=facts.row.sequence or 0,
        newest_applied_at=facts.newest_applied_at,
        later_runs=facts.later_runs,
        refused=facts.refusal.as_json() if facts.refusal else None,
    )


@transaction.atomic
def mark_reverted(run: LoadRun) -> None:
    """Mark the reverted run as no longer applied."""
    key = run.datasets.get().dataset_key
    DatasetRun.objects.filter(run__run_id=run.details["asked"]["run_id"], dataset_key=key).update(reverted_by=run)
