"""Compactions of tables: request and manifest."""

from architecture.domain.tables import TableSpec, tables_of
from elevata.core.database import retried
from elevata.jobs import states
from loader.contract.manifest.maintenance import CompactManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import COMPACT
from loader.models import DatasetRun, LoadRun
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.plans import plan_named
from loader.services.maintenance.work import RunWork, scope_of


def request_compaction(
    *, dataset_key: str, run_id: str | None = None, reason: str = "", wake_worker: bool = True
) -> RequestedRun | None:
    """Request the compaction of a dataset's small files; return None if one is queued or running."""
    row = DatasetRun.objects.filter(dataset_key=dataset_key).order_by("-pk").first()
    if row is None:
        raise Refusal("UNKNOWN_DATASET", f"no run ever loaded {dataset_key}")
    waiting = LoadRun.objects.filter(kind=COMPACT, status__in=states.ACTIVE)
    if any(run.scope["name"] == row.qualified_name for run in waiting):
        return None
    wanted = Asked(kind=COMPACT, scope=scope_of(row.qualified_name), asked={}, reason=reason)
    return request_run(wanted, run_id=run_id, wake_worker=wake_worker)


def compact_manifest(work: RunWork) -> CompactManifest:
    plan = retried(lambda: plan_named(work.run.scope["name"]))
    state = plan.steps[0].dataset
    work.attempt.prepare(steps=plan.steps, numbered=False)
    tables: tuple[TableSpec, ...] = tables_of(state)
    return CompactManifest(work.run.run_id, state.key, state.qualified_name, tables)
