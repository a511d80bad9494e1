"""Claim of a load run together with the leases of the datasets it writes, in one transaction."""

from dataclasses import dataclass, replace
from functools import partial

from django.db import transaction

from architecture.domain.refusals import Refused
from architecture.services.leases import Held, Holder, take_leases
from elevata.audit.services import chain
from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.services import wait
from loader.contract.refusals import Refusal
from loader.contract.run_states import BRINGING, HISTORY_BATCH
from loader.domain.dependencies import Scope
from loader.models import LoadRun
from loader.services.loads.load_runs import LOAD_RUN, claim
from loader.services.loads.plans import LoadPlan, plan_history_batch, plan_load, plan_named


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
        retried(lambda: wait(job_pk=run_pk, phase=phase))
        return None


def plan_of(run: LoadRun) -> LoadPlan:
    """Return the plan of a run of any kind. Raise Refusal if its scope has become empty."""
    if run.kind == HISTORY_BATCH:
        return plan_history_batch(run.scope["name"], run.details["asked"].get("copied", ""))
    return plan_load(Scope.from_json(run.scope)) if run.kind in BRINGING else plan_named(run.scope["name"])


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
