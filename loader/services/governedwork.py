"""Performing reverts, prunes and compactions: the runner does each in one request."""

from typing import TYPE_CHECKING

from django.db import transaction

from architecture.domain.states.tables import TableSpec, tables_of
from loader.domain import runs as states
from loader.domain.governance import COMPACT, PRUNE, REVERT
from loader.domain.manifest import CompactManifest, PruneManifest, RevertManifest
from loader.domain.refusals import Refusal
from loader.models import DatasetRun, LoadRun
from loader.services.database import retried
from loader.services.governed import reversion
from loader.services.manifests import LoadPlan, governed_load, plan_named, plan_one

if TYPE_CHECKING:
    from loader.services.work import LoadWork


def govern(work: "LoadWork") -> str:
    """Do what a governed run asks for; returns what the runner said of it."""
    manifest = _MANIFESTS[work.run.kind](work)
    work.attempt.enter(_PHASES[work.run.kind])
    finished = work.talk.ask(work.run.kind, manifest, work.store)
    answer = finished.get("answer") or {}
    if "tables" in answer:
        details = {**work.run.details, "tables": answer["tables"]}
        retried(lambda: LoadRun.objects.filter(pk=work.run.pk).update(details=details))
    said = work.must_answer(finished)
    if said == states.SUCCEEDED and work.run.kind == REVERT:
        retried(lambda: _mark_reverted(work.run))
    return said


@transaction.atomic
def _mark_reverted(run: LoadRun) -> None:
    """The run that was taken back is no longer applied."""
    key = run.datasets.get().dataset_key
    DatasetRun.objects.filter(run__run_id=run.details["asked"]["run_id"], dataset_key=key).update(reverted_by=run)


def _revert(work: "LoadWork") -> RevertManifest:
    of_run, plan, rows = work.run.details["asked"]["run_id"], *_ready(work)
    found = retried(lambda: reversion(of_run, plan.steps[0].dataset.qualified_name, by=work.run))
    return RevertManifest(
        run_id=work.run.run_id,
        load=retried(lambda: governed_load(run=work.run, plan=plan, rows=rows)),
        reverted_run=of_run,
        reverted_sequence=found.row.sequence or 0,
        newest_applied_at=found.newest_applied_at,
        later_runs=found.later_runs,
        refused=found.refusal.as_json() if found.refusal else None,
    )


def _prune(work: "LoadWork") -> PruneManifest:
    asked, (plan, rows) = work.run.details["asked"], _ready(work)
    return PruneManifest(
        run_id=work.run.run_id,
        load=retried(lambda: governed_load(run=work.run, plan=plan, rows=rows)),
        ended_before=asked["ended_before"],
        archive=asked["archive"],
    )


def _ready(work: "LoadWork") -> tuple[LoadPlan, dict[str, DatasetRun]]:
    """The plan and its row. Refused while the tables are not as the metadata describe them."""
    plan = retried(lambda: plan_one(work.run.scope["name"]))
    rows = work.attempt.prepare(steps=plan.steps, comes_last=True)
    operations = work.pending(plan).operations
    if operations:
        raise Refusal(
            "TABLES_DIFFER",
            f"the tables of {work.run.scope['name']} are not as the metadata describe them: "
            f"{operations[0].describe()} is pending",
            hint="load it first, so that they are",
        )
    return plan, rows


def _compact(work: "LoadWork") -> CompactManifest:
    plan = retried(lambda: plan_named(work.run.scope["name"]))
    state = plan.steps[0].dataset
    work.attempt.prepare(steps=plan.steps, numbered=False)
    tables: tuple[TableSpec, ...] = tables_of(state)
    return CompactManifest(work.run.run_id, state.key, state.qualified_name, tables)


_MANIFESTS = {REVERT: _revert, PRUNE: _prune, COMPACT: _compact}
_PHASES = {REVERT: "reverting", PRUNE: "pruning", COMPACT: "compacting"}
