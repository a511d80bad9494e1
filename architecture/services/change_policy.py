"""Change policies of environments, with the installation's variables as defaults.

A change that is as strict or stricter takes effect at once. If one choice is looser, the whole change becomes a
proposal until a second user who manages the policies of that environment accepts it; until then the old policy
stays in force. Every step is a row of the audit chain.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from architecture.domain.change_policy import PolicySet
from architecture.domain.policy_loosening import Loosening, loosened
from architecture.domain.refusals import Refused
from architecture.models import Environment, PolicyProposal, PolicyRecord
from architecture.permissions import must_be_permitted, on_behalf_of, place_of_environment
from architecture.services.notifications import tell_policy_decided, tell_policy_proposed
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.audit.hash_chain import Problem
from elevata.audit.services import chain
from elevata.audit.services.change_log import record_change

_Status, _Action = PolicyProposal.Status, PolicyRecord.Action


def policy_of(environment: Environment) -> PolicySet:
    """Return the environment's policy set: its own choices over the ``ELEVATA_ALLOW_…`` defaults."""
    return PolicySet.from_json(environment.policies, default_policy())


def policy_in_force(environment: Environment) -> PolicySet:
    """Return the environment's policy set after comparing it with the last record in the audit chain.

    Raises Refused POLICY_UNPROVEN if the product did not write that record, or if the environment's row differs.
    """
    last = _decided_records(environment).first()
    if last is None:
        stored, recorded = Environment.objects.values_list("policies", flat=True).get(pk=environment.pk), {}
    else:
        stored, recorded = last.environment.policies, last.policies  # read in one statement
    if stored != recorded or (last is not None and not chain.proven(last)):
        raise Refused("POLICY_UNPROVEN")
    return PolicySet.from_json(recorded, default_policy())


def default_policy() -> PolicySet:
    return PolicySet.of_flags(settings.POLICY_DEFAULTS, settings.READERS)


def loosening_of(environment: Environment, policies: Mapping[str, Any]) -> tuple[Loosening, ...]:
    """Return all choices that are looser than the policy in force. Raise PolicyProblem for an invalid policy.

    The policies are compared with the installation's defaults and with the defaults without its variables, so that a
    single user cannot make a temporary setting permanent.
    """
    loosenings: dict[str, Loosening] = {}
    for defaults in (default_policy(), PolicySet()):
        before = PolicySet.from_json(environment.policies, defaults)
        for loosening in loosened(before, PolicySet.from_json(policies, defaults)):
            loosenings.setdefault(loosening.choice, loosening)
    return tuple(loosenings.values())


def tightening_of(proposal: PolicyProposal) -> tuple[Loosening, ...]:
    """Return the choices of a proposal that are stricter than the policy in force, for the deciding user."""
    before, after = (PolicySet.from_json(document) for document in (proposal.before, proposal.after))
    looser = {entry["choice"] for entry in proposal.looser}
    loosenings = (loosening for loosening in loosened(after, before) if loosening.choice not in looser)
    return tuple(Loosening(loosening.choice, loosening.after, loosening.before) for loosening in loosenings)


@transaction.atomic
def update_policies(
    *, environment: Environment, policies: Mapping[str, Any], expected_version: int, user: Any, reason: str = ""
) -> PolicyProposal | None:
    """Set the choices that differ from the defaults, or propose them if any is looser.

    Returns the proposal that waits for a second user; None if the change is in force. Raises Refused POLICY_CHANGED
    after a concurrent change, POLICY_PROPOSED while another proposal waits; PolicyProblem for an invalid policy.
    """
    must_be_permitted(user, Permission.MANAGE_POLICIES, on=place_of_environment(environment))
    row = Environment.objects.select_for_update().get(pk=environment.pk)
    if row.policies_version != expected_version:
        raise Refused("POLICY_CHANGED")
    row.policies = _last_recorded(row)
    looser = loosening_of(row, policies)
    if looser:
        return _propose(row, dict(policies), looser, user, reason)
    _put_in_force(row, dict(policies), user)
    _record(row, _Action.SET, policies=row.policies, user=user, note=reason)
    environment.refresh_from_db()
    return None


@transaction.atomic
def accept_policy(*, proposal: PolicyProposal, user: Any, note: str = "") -> PolicyProposal:
    """Put a looser policy in force, as a second user.

    Raises Refused: OWN_PROPOSAL for the proposer, ALREADY_DECIDED, PROPOSAL_UNPROVEN if the proposal was changed
    outside the product, POLICY_OUTDATED if its result would differ now or the proposer no longer manages policies.
    """
    row = _locked(proposal)
    _must_be_second(row, user)
    _refuse_unproven(row)
    _refuse_outdated(row)
    _become(row, _Status.ACCEPTED, user, note)
    _put_in_force(row.environment, row.policies, user)
    return _decided(row, _Action.ACCEPTED, user)


@transaction.atomic
def reject_policy(*, proposal: PolicyProposal, user: Any, note: str = "") -> PolicyProposal:
    """Reject a looser policy, as a second user; the policy in force stays."""
    row = _locked(proposal)
    _must_be_second(row, user)
    _become(row, _Status.REJECTED, user, note)
    return _decided(row, _Action.REJECTED, user)


@transaction.atomic
def withdraw_policy(*, proposal: PolicyProposal, user: Any) -> PolicyProposal:
    """Withdraw your proposal."""
    row = _locked(proposal)
    must_be_permitted(user, Permission.MANAGE_POLICIES, on=place_of_environment(row.environment))
    if row.proposed_by_id != user.pk:
        raise Refused("NOT_PERMITTED", "only who proposed a policy withdraws it", "reject it instead")
    _become(row, _Status.WITHDRAWN, user)
    return _decided(row, _Action.WITHDRAWN, user)


def differing_policy() -> Problem | None:
    """Return the first environment whose policy differs from its last record."""
    for environment in Environment.objects.order_by("pk"):
        last = _decided_records(environment).first()
        if environment.policies != (last.policies if last is not None else {}):
            message = f"the policy of {environment} is not the one that was last put in force"
            return Problem("policy_differs", message, kind="policy", subject=last.pk if last is not None else None)
    return None


def _decided_records(environment: Environment) -> QuerySet[PolicyRecord]:
    """Return the records that put a policy in force, newest first."""
    records = PolicyRecord.objects.filter(environment=environment, action__in=(_Action.SET, _Action.ACCEPTED))
    return records.select_related("environment", "proposal").order_by("-pk")


def _last_recorded(environment: Environment) -> dict[str, Any]:
    """Return the policy of the newest proven record.

    Changes are compared with it, because the environment's row may have been changed outside the product.
    """
    return next((row.policies for row in _decided_records(environment) if chain.proven(row)), {})


def _propose(
    environment: Environment, policies: dict[str, Any], looser: tuple[Loosening, ...], user: Any, reason: str
) -> PolicyProposal:
    before, after = policy_of(environment), PolicySet.from_json(policies, default_policy())
    try:
        with transaction.atomic():
            proposal = PolicyProposal.objects.create(
                environment=environment,
                policies=policies,
                base_version=environment.policies_version,
                before=before.as_json(),
                after=after.as_json(),
                looser=[loosening.as_json() for loosening in looser],
                reason=reason.strip(),
                proposed_by=user,
            )
    except IntegrityError:
        raise Refused("POLICY_PROPOSED") from None
    _record(environment, _Action.PROPOSED, policies=policies, user=user, note=proposal.reason, proposal=proposal)
    _log(environment, "proposed", before, after, user, reason)
    tell_policy_proposed(proposal)
    return proposal


def _put_in_force(environment: Environment, policies: dict[str, Any], user: Any) -> None:
    """Write the policy, if its version is the one that was read. Proposals for older versions become outdated."""
    before, after = policy_of(environment), PolicySet.from_json(policies, default_policy())
    changed = Environment.objects.filter(pk=environment.pk, policies_version=environment.policies_version).update(
        policies=policies, policies_version=F("policies_version") + 1
    )
    if not changed:
        raise Refused("POLICY_CHANGED")
    environment.refresh_from_db()
    if before != after:
        _log(environment, "changed", before, after, user)
    for row in PolicyProposal.objects.filter(environment=environment, status=_Status.PROPOSED):
        _become(row, _Status.OUTDATED, user)
        _record(environment, _Action.OUTDATED, policies=row.policies, user=user, proposal=row)


def _locked(proposal: PolicyProposal) -> PolicyProposal:
    """Return the current proposal after locking its environment, because policy changes are serialized."""
    environment = Environment.objects.select_for_update().get(pk=proposal.environment_id)
    environment.policies = _last_recorded(environment)
    row = PolicyProposal.objects.select_for_update().get(pk=proposal.pk)
    row.environment = environment
    return row


def _must_be_second(proposal: PolicyProposal, user: Any) -> None:
    must_be_permitted(user, Permission.MANAGE_POLICIES, on=place_of_environment(proposal.environment))
    if proposal.proposed_by_id == user.pk:
        raise Refused("OWN_PROPOSAL")
    if proposal.status != _Status.PROPOSED:
        raise Refused("ALREADY_DECIDED", f"the proposal was {proposal.status}")


def _refuse_unproven(proposal: PolicyProposal) -> None:
    """Raise Refused PROPOSAL_UNPROVEN unless a proven record contains this proposal and its author."""
    record = proposal.records.filter(action=_Action.PROPOSED).select_related("environment", "proposal").first()
    fields = ("environment_id", "proposed_by_id", "policies", "after", "reason", "base_version")
    recorded = ("environment_id", "person_id", "policies", "policy", "note", "version")
    if record is None or attrgetter(*fields)(proposal) != attrgetter(*recorded)(record) or not chain.proven(record):
        raise Refused("PROPOSAL_UNPROVEN")


def _refuse_outdated(proposal: PolicyProposal) -> None:
    """Raise Refused POLICY_OUTDATED unless the result of the proposal is exactly the one shown."""
    environment = proposal.environment
    after = PolicySet.from_json(proposal.policies, default_policy())
    if (
        environment.policies_version != proposal.base_version
        or policy_of(environment).as_json() != proposal.before
        or after.as_json() != proposal.after
        or [loosening.as_json() for loosening in loosening_of(environment, proposal.policies)] != proposal.looser
    ):
        raise Refused("POLICY_OUTDATED")
    proposer = get_user_model().objects.get(pk=proposal.proposed_by_id)
    if not may(proposer, Permission.MANAGE_POLICIES, on=place_of_environment(environment)):
        raise Refused("POLICY_OUTDATED", f"{proposer.get_username()}, who proposed it, does not manage policies now")


def _become(proposal: PolicyProposal, status: str, user: Any, note: str = "") -> None:
    decided = PolicyProposal.objects.filter(pk=proposal.pk, status=_Status.PROPOSED).update(
        status=status, decided_by=user, decided_at=timezone.now(), note=note.strip()
    )
    if not decided:
        raise Refused("ALREADY_DECIDED", f"the proposal was {proposal.status}")
    environment = proposal.environment
    proposal.refresh_from_db()
    proposal.environment = environment


def _decided(proposal: PolicyProposal, action: str, user: Any) -> PolicyProposal:
    environment = proposal.environment
    _record(environment, action, policies=proposal.policies, user=user, note=proposal.note, proposal=proposal)
    if action != _Action.ACCEPTED:
        before, after = (PolicySet.from_json(document) for document in (proposal.before, proposal.after))
        _log(environment, action, after, before, user, proposal.note)
    tell_policy_decided(proposal)
    return proposal


def _record(
    environment: Environment,
    action: str,
    *,
    policies: Mapping[str, Any],
    user: Any,
    note: str = "",
    proposal: PolicyProposal | None = None,
) -> None:
    row = PolicyRecord.objects.create(
        environment=environment,
        proposal=proposal,
        action=action,
        version=environment.policies_version,
        policies=dict(policies),
        policy=PolicySet.from_json(policies, default_policy()).as_json(),
        person=user,
        person_name=user.get_username(),
        note=note.strip(),
        at=timezone.now(),
    )
    chain.append(row)


def _log(
    environment: Environment, action: str, before: PolicySet, after: PolicySet, user: Any, reason: str = ""
) -> None:
    with on_behalf_of(user):
        record_change(
            action=str(action),
            subject_kind="policy",
            subject_key=environment.name,
            subject_name=f"policy of {environment}",
            before=before.as_json(),
            after=after.as_json(),
            reason=reason,
        )
