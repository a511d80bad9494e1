"""Approvals of maintenance runs: one user requests a run, others approve it, and workers perform approved runs only.

The environment's change policy has the number of approvals and the approvers' role. A run that lacks approvals is
blocked, and queued with its last approval. Approvals are entries of the change log, whose chain proves them. They
count until the run ends: one that a user asks for again then waits for new approvals.
"""

import json
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction

from architecture.domain import decisions
from architecture.domain.decisions import Decided, Need
from architecture.domain.refusals import Refused
from architecture.models import Environment
from architecture.permissions import (
    must_be_permitted,
    on_behalf_of,
    place_of_environment,
    refuse_elsewhere,
    role_names,
    who_answers,
)
from architecture.services.change_policy import policy_in_force
from elevata.accounts.roles import Permission
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services import chain
from elevata.audit.services.change_log import record_change
from elevata.core.canonical_json import sha256_hex
from elevata.core.words import counted
from elevata.jobs import services as jobs
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.submission import Submitted
from loader.contract.run_states import APPROVED
from loader.models import LoadRun

SUBJECT, ACTION = "maintenance", "approved"
# Key in the details of a run: number of times that a user asked for it again after it had ended.
REPETITION = "repetition"


def needed_approvals(environment: Environment, kind: str) -> Need:
    """Return the approvals that a run of this kind needs in the environment. Raise Refused POLICY_UNPROVEN."""
    if kind not in APPROVED:
        return Need()
    return policy_in_force(environment).maintenance_need


def missing_approvals(run: LoadRun) -> int:
    """Return the number of approvals that a run still needs."""
    need = needed_approvals(run.environment, run.kind)
    if not need.count:
        return 0
    return decisions.approvals_missing(_decisions(run), fingerprint=_digest(run), need=need, authors=requesters(run))


def is_unapproved(run: LoadRun) -> bool:
    """Return True if the run waits for approvals, or ended before its work because it lacked some."""
    return (run.error or {}).get("code") == "RUN_UNAPPROVED"


def next_repetition(run: LoadRun) -> dict[str, int]:
    """Return the details with which former approvals of the run no longer count; none for kinds without approvals."""
    return {REPETITION: run.details.get(REPETITION, 0) + 1} if run.kind in APPROVED else {}


def requesters(run: LoadRun) -> frozenset[str]:
    """Return the users who answer for the request and for its last repetition."""
    users = [run.requested_by] if run.requested_by is not None else []
    if run.details.get("repeated_by") is not None:
        users += get_user_model().objects.filter(username=run.details["repeated_by"])
    return frozenset(map(who_answers, users))


def refuse_unapproved(run: LoadRun) -> None:
    """Raise Refused RUN_UNAPPROVED for a run that lacks approvals."""
    missing = missing_approvals(run)
    if missing:
        role = needed_approvals(run.environment, run.kind).role
        by = f" by the role {role}" if role else " by another user"
        raise Refused("RUN_UNAPPROVED", f"{counted(missing, 'more approval')}{by} needed")


@transaction.atomic
def approve_maintenance(*, run: LoadRun, user: Any, note: str = "") -> bool:
    """Record the user's approval of a run, and queue the run once it has enough; return True if it was queued.

    Raise Refused OWN_RUN for the user who requested it, NOT_APPROVABLE if it needs no approval, ALREADY_DECIDED
    for a second approval by one user, OTHER_ENVIRONMENT for a run of another environment.
    """
    place = place_of_environment(run.environment)
    must_be_permitted(user, Permission.APPROVE_REPORTS, on=place)
    refuse_elsewhere(run.environment, f"run {run.run_id}")
    # Locked, so that of two approvals at the same time the second one counts the first.
    Job.objects.select_for_update().get(pk=run.pk)
    row = LoadRun.objects.select_related("environment", "requested_by").get(pk=run.pk)
    if row.status not in states.RESTARTABLE or not is_unapproved(row) or not missing_approvals(row):
        state = row.get_status_display().lower()
        raise Refused("NOT_APPROVABLE", f"run {row.run_id} is {state} and needs no approval")
    name, digest = who_answers(user), _digest(row)
    if name in requesters(row):
        raise Refused("OWN_RUN", f"{name} requested run {row.run_id}, or repeated it")
    if any((known.user, known.fingerprint) == (name, digest) for known in _decisions(row)):
        raise Refused("ALREADY_DECIDED", f"{name} has approved run {row.run_id} already", "ask another approver")
    with on_behalf_of(user):
        record_change(
            action=ACTION,
            subject_kind=SUBJECT,
            subject_key=row.run_id,
            subject_name=f"{row.get_kind_display().lower()} of {row.scope['name']}",
            after={"request": digest, "roles": role_names(user, place)},
            reason=note.strip(),
        )
    if missing_approvals(row) or not jobs.queue_again(job_pk=row.pk, started_at=None):
        return False
    Submitted(row).wake_after_commit()
    return True


def _digest(run: LoadRun) -> str:
    """Return the digest of the request; an approval counts for this digest only."""
    return sha256_hex(
        {
            "run": run.run_id,
            "kind": str(run.kind),
            "scope": run.scope,
            "asked": run.details.get("asked"),
            "requested_by": run.requested_by_id,
            "reason": run.reason,
        }
        | {name: run.details[name] for name in (REPETITION,) if name in run.details}
    )


def _decisions(run: LoadRun) -> tuple[Decided, ...]:
    """Return the approvals of a run that the chain proves."""
    entries = ChangeLogEntry.objects.filter(subject_kind=SUBJECT, subject_key=run.run_id, action=ACTION)
    rows = list(entries.exclude(user=None).select_related("user").order_by("pk"))
    proven, approvals = chain.proven(*rows), []
    for row in (row for row in rows if row.pk in proven):
        changes = json.loads(row.changes)
        request, roles = (changes.get(name, {}).get("after") for name in ("request", "roles"))
        approvals.append(Decided(who_answers(row.user), decisions.YES, request or "", tuple(roles or ())))
    return tuple(approvals)
