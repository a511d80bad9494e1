"""Work of reverts, prunes, compactions and acceptances: the runner does each in one request."""

from collections.abc import Callable
from typing import Any, Protocol

from django.db import transaction

from architecture.domain.states.tables import TableSpec, tables_of
from architecture.services.reports.automatic_changes import Pending
from elevata.core.database import retried
from elevata.jobs import states
from loader.domain.runs.maintenance import ACCEPT, COMPACT, PRUNE, REVERT
from loader.domain.runs.manifest import AcceptManifest, CompactManifest, PruneManifest, RevertManifest
from loader.domain.runs.refusals import Refusal
from loader.models import DatasetRun, LoadRun
from loader.services.maintenance.maintenance import reversion
from loader.services.runner.conversation import Conversation
from loader.services.runs.attempts import LoadAttempt
from loader.services.runs.manifests import LoadPlan, applied_rows, governed_load, plan_named, plan_one

# In the runner's answer: the number of the newest run that an accepted table holds, and that of the run itself.
HELD, SEQUENCE = "held", "sequence"


class RunWork(Protocol):
    """Work of one attempt of a run, as maintenance needs it (``loader.services.runs.load_work.LoadWork``)."""

    @property
    def run(self) -> LoadRun: ...

    attempt: LoadAttempt
    talk: Conversation

    def pending(self, todo: LoadPlan) -> Pending: ...
    def store(self, event: dict[str, Any]) -> None: ...
    def must_answer(self, finished: dict[str, Any]) -> str: ...


def govern(work: RunWork) -> str:
    """Perform a maintenance run; return the runner's result: succeeded or failed."""
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
    if said == states.SUCCEEDED and isinstance(manifest, AcceptManifest):
        (table,) = (one for one in answer["tables"].values() if HELD in one)
        retried(lambda: _take_over(work.run, table[HELD], table[SEQUENCE]))
    return said


@transaction.atomic
def _mark_reverted(run: LoadRun) -> None:
    """Mark the reverted run as no longer applied."""
    key = run.datasets.get().dataset_key
    DatasetRun.objects.filter(run__run_id=run.details["asked"]["run_id"], dataset_key=key).update(reverted_by=run)


@transaction.atomic
def _take_over(run: LoadRun, held: int, sequence: int) -> None:
    """Number the run as the accepted table has it, and mark runs that the table does not hold as reverted."""
    row = run.datasets.get()
    lost = applied_rows().filter(dataset_key=row.dataset_key, run__environment=run.environment, sequence__gt=held)
    DatasetRun.objects.filter(pk__in=list(lost.values_list("pk", flat=True))).update(reverted_by=run)
    DatasetRun.objects.filter(pk=row.pk).update(sequence=sequence)


def _revert(work: RunWork) -> RevertManifest:
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


def _prune(work: RunWork) -> PruneManifest:
    asked, (plan, rows) = work.run.details["asked"], _ready(work)
    return PruneManifest(
        run_id=work.run.run_id,
        load=retried(lambda: governed_load(run=work.run, plan=plan, rows=rows)),
        ended_before=asked["ended_before"],
        archive=asked["archive"],
    )


def _accept(work: RunWork) -> AcceptManifest:
    plan, rows = _ready(work, plan_named)
    return AcceptManifest(work.run.run_id, retried(lambda: governed_load(run=work.run, plan=plan, rows=rows)))


def _ready(work: RunWork, planned: Callable[[str], LoadPlan] = plan_one) -> tuple[LoadPlan, dict[str, DatasetRun]]:
    """Return the plan and its rows. Raise Refusal TABLES_DIFFER while the tables are not as described."""
    plan = retried(lambda: planned(work.run.scope["name"]))
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


def _compact(work: RunWork) -> CompactManifest:
    plan = retried(lambda: plan_named(work.run.scope["name"]))
    state = plan.steps[0].dataset
    work.attempt.prepare(steps=plan.steps, numbered=False)
    tables: tuple[TableSpec, ...] = tables_of(state)
    return CompactManifest(work.run.run_id, state.key, state.qualified_name, tables)


_MANIFESTS = {REVERT: _revert, PRUNE: _prune, COMPACT: _compact, ACCEPT: _accept}
_PHASES = {REVERT: "reverting", PRUNE: "pruning", COMPACT: "compacting", ACCEPT: "accepting the table"}
