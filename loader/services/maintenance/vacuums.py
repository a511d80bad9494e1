"""Vacuums of tables: request, manifest, and the needs for former files."""

from typing import Any

from django.utils import timezone

from architecture.domain.tables import tables_of
from architecture.models import ChangeReport
from architecture.services.environments import current_environment
from architecture.services.row_signatures import proven_states
from architecture.services.undo_options import groups_of
from elevata.core.database import retried
from elevata.jobs import states
from loader.contract.manifest.maintenance import VacuumManifest
from loader.contract.run_states import REVERT, VACUUM
from loader.domain.vacuum import SAFE_HOURS, Need, refuse_short
from loader.models import LoadRun
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.plans import plan_named
from loader.services.maintenance.work import RunWork, check_reason, loaded_dataset, scope_of
from metadata.domain.sources.raw_keeping import Keeping, keeping_of, keeps_less
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset


def request_vacuum(
    *,
    dataset: str,
    reason: str,
    retention_hours: int = SAFE_HOURS,
    dry_run: bool = False,
    run_id: str | None = None,
    user: Any = None,
    requester: str = "",
    wake_worker: bool = True,
) -> RequestedRun:
    """Request a vacuum of a dataset's tables; a dry run only lists the files.

    Raise Refusal RETENTION_TOO_SHORT for fewer hours than the safe minimum, or than an undo report or a revert needs.
    """
    check_reason(reason)
    state = loaded_dataset(dataset)
    wanted = Asked(
        kind=VACUUM,
        scope=scope_of(state.qualified_name),
        asked={"retention_hours": retention_hours, "dry_run": dry_run},
        check=lambda: refuse_short(retention_hours, _needs(state), now=timezone.now()),
        reason=reason.strip(),
    )
    return request_run(wanted, run_id=run_id, user=user, requester=requester, wake_worker=wake_worker)


def _needs(state: DatasetState) -> list[Need]:
    """Return the undo reports and the unfinished reverts that need former files of a dataset."""
    environment = current_environment()
    open_ = (ChangeReport.Status.OPEN, ChangeReport.Status.APPROVED, ChangeReport.Status.BLOCKED)
    reports = ChangeReport.objects.filter(environment=environment, undo_of__isnull=False, status__in=open_)
    needs = [
        Need(record.execution.started_at or record.created_at, f"undo {report}")
        for report in reports.select_related("undo_of__execution")
        if (record := report.undo_of) is not None
        and any(group.goes_to_version and group.dataset_key == state.key for group in groups_of(record))
    ]
    queued = LoadRun.objects.filter(kind=REVERT, environment=environment, status__in=states.ACTIVE)
    for run in (run for run in queued if run.scope["name"] == state.qualified_name):
        reverted = LoadRun.objects.filter(run_id=run.details["asked"]["run_id"]).first()
        if reverted is not None:
            needs.append(Need(reverted.started_at or reverted.requested_at, f"revert {run.run_id}"))
    return needs


def vacuum_manifest(work: RunWork) -> VacuumManifest:
    asked, plan = work.run.details["asked"], retried(lambda: plan_named(work.run.scope["name"]))
    state = plan.steps[0].dataset
    work.attempt.prepare(steps=plan.steps, numbered=False)
    retried(lambda: refuse_short(asked["retention_hours"], _needs(state), now=timezone.now()))
    return VacuumManifest(
        run_id=work.run.run_id,
        dataset=state.key,
        name=state.qualified_name,
        tables=tables_of(state),
        retention_hours=asked["retention_hours"],
        dry_run=asked["dry_run"],
        keeping=retried(lambda: _keeping(state)),
    )


def _keeping(state: DatasetState) -> Keeping | None:
    """Return the keeping of a raw dataset, None for another one.

    Fewer deliveries than the applied state keeps are kept only once a report with them was executed.
    """
    row = TargetDataset.objects.filter(key=state.key).first() if state.layer == "raw" else None
    if row is None:
        return None
    applied = proven_states(environment=current_environment())
    # Releases that recorded no limits applied those of the metadata at once.
    recorded = (known for known in applied if known.key == state.key and known.rules_recorded)
    in_force = (keeping_of(known.load_policy) for known in recorded)
    return next((keeping for keeping in in_force if keeps_less(keeping, row.keeping)), row.keeping)
