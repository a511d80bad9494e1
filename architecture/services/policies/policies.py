"""Change policies: what an environment allows, over the installation's variables as defaults.

A change that is as strict or stricter takes effect at once. As soon as one choice in it is looser, the whole change
waits as a proposal until a second person who manages the policies of that environment accepts it; until then the old
policy decides. Every step is a row of the audit chain.
"""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from architecture.domain.policy import Loosening, PolicySet, loosened
from architecture.domain.reports.workflow import Refused
from architecture.models import Environment, PolicyProposal, PolicyRecord
from architecture.report_places import place_of_environment
from architecture.services.actors import must_be_permitted, on_behalf_of
from architecture.services.notifications import tell_policy_decided, tell_policy_proposed
from metadata.domain.chain import Problem
from metadata.domain.roles import Permission
from metadata.permissions import may
from metadata.services import chain
from metadata.services.changelog import record_change

_Status, _Action = PolicyProposal.Status, PolicyRecord.Action


def policy_of(environment: Environment) -> PolicySet:
    """The policy set in force: the environment's own choices over the ``ELEVATA_ALLOW_…`` defaults."""
    return PolicySet.from_json(environment.policies, default_policy())


def policy_in_force(environment: Environment) -> PolicySet:
    """Return the policy set that decides, which is the one that the last record of the audit chain put in force.

    Refused POLICY_UNPROVEN if that record was not written by the product, or the environment says something else.
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
    return PolicySet.of_flags(settings.POLICY_DEFAULTS)


def loosening_of(environment: Environment, policies: Mapping[str, Any]) -> tuple[Loosening, ...]:
    """Return every choice that would let through more than the policy in force. PolicyProblem for what is no policy.

    Compared over the installation's defaults and over those without its variables, so that nobody alone keeps open
    what a variable opens for a while.
    """
    found: dict[str, Loosening] = {}
    for defaults in (default_policy(), PolicySet()):
        before = PolicySet.from_json(environment.policies, defaults)
        for one in loosened(before, PolicySet.from_json(policies, defaults)):
            found.setdefault(one.choice, one)
    return tuple(found.values())


def tightening_of(proposal: PolicyProposal) -> tuple[Loosening, ...]:
    """Return the choices of a proposal that let through less than the policy in force, for who decides on it."""
    before, after = (PolicySet.from_json(one) for one in (proposal.before, proposal.after))
    looser = {one["choice"] for one in proposal.looser}
    found = (one for one in loosened(after, before) if one.choice not in looser)
    return tuple(Loosening(one.choice, one.after, one.before) for one in found)


@transaction.atomic
def update_policies(
    *, environment: Environment, policies: Mapping[str, Any], expected_version: int, person: Any, reason: str = ""
) -> PolicyProposal | None:
    """Set what the environment says differently from the defaults, or propose it where anything is looser.

    Return the proposal that waits for a second person; None if the change is in force. Refused POLICY_CHANGED if
    somebody was faster, POLICY_PROPOSED while another proposal waits; PolicyProblem for what is no policy.
    """
    must_be_permitted(person, Permission.MANAGE_POLICIES, on=place_of_environment(environment))
    row = Environment.objects.select_for_update().get(pk=environment.pk)
    if row.policies_version != expected_version:
        raise Refused("POLICY_CHANGED")
    row.policies = _last_recorded(row)
    looser = loosening_of(row, policies)
    if looser:
        return _propose(row, dict(policies), looser, person, reason)
    _put_in_force(row, dict(policies), person)
    _record(row, _Action.SET, policies=row.policies, person=person, note=reason)
    environment.refresh_from_db()
    return None


@transaction.atomic
def accept_policy(*, proposal: PolicyProposal, person: Any, note: str = "") -> PolicyProposal:
    """Put a looser policy in force, as a second person.

    Refused OWN_PROPOSAL for who proposed it, ALREADY_DECIDED, and POLICY_OUTDATED where it would not come to what was
    proposed any more, or who proposed it does not manage policies now.
    """
    row = _locked(proposal)
    _must_be_second(row, person)
    _refuse_outdated(row)
    _become(row, _Status.ACCEPTED, person, note)
    _put_in_force(row.environment, row.policies, person)
    return _decided(row, _Action.ACCEPTED, person)


@transaction.atomic
def reject_policy(*, proposal: PolicyProposal, person: Any, note: str = "") -> PolicyProposal:
    """Turn a looser policy down, as a second person; the policy in force stays."""
    row = _locked(proposal)
    _must_be_second(row, person)
    _become(row, _Status.REJECTED, person, note)
    return _decided(row, _Action.REJECTED, person)


@transaction.atomic
def withdraw_policy(*, proposal: PolicyProposal, person: Any) -> PolicyProposal:
    """Take one's own proposal back."""
    row = _locked(proposal)
    must_be_permitted(person, Permission.MANAGE_POLICIES, on=place_of_environment(row.environment))
    if row.proposed_by_id != person.pk:
        raise Refused("NOT_PERMITTED", "only who proposed a policy withdraws it", "reject it instead")
    _become(row, _Status.WITHDRAWN, person)
    return _decided(row, _Action.WITHDRAWN, person)


def differing_policy() -> Problem | None:
    """Return the first environment whose policy is not the one that its last record put in force."""
    for environment in Environment.objects.order_by("pk"):
        last = _decided_records(environment).first()
        if environment.policies != (last.policies if last is not None else {}):
            said = f"the policy of {environment} is not the one that was last put in force"
            return Problem("policy_differs", said, kind="policy", subject=last.pk if last is not None else None)
    return None


def _decided_records(environment: Environment) -> QuerySet[PolicyRecord]:
    """Return the records that put a policy in force, newest first."""
    records = PolicyRecord.objects.filter(environment=environment, action__in=(_Action.SET, _Action.ACCEPTED))
    return records.select_related("environment", "proposal").order_by("-pk")


def _last_recorded(environment: Environment) -> dict[str, Any]:
    """Return what the newest proven record put in force. A change is compared with that, not with what SQL wrote."""
    return next((row.policies for row in _decided_records(environment) if chain.proven(row)), {})


def _propose(
    environment: Environment, policies: dict[str, Any], looser: tuple[Loosening, ...], person: Any, reason: str
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
                looser=[one.as_json() for one in looser],
                reason=reason.strip(),
                proposed_by=person,
            )
    except IntegrityError:
        raise Refused("POLICY_PROPOSED") from None
    _record(environment, _Action.PROPOSED, policies=policies, person=person, note=proposal.reason, proposal=proposal)
    _log(environment, "proposed", before, after, person, reason)
    tell_policy_proposed(proposal)
    return proposal


def _put_in_force(environment: Environment, policies: dict[str, Any], person: Any) -> None:
    """Write the policy over the version that was read; what still waits for an older one is outdated."""
    before, after = policy_of(environment), PolicySet.from_json(policies, default_policy())
    changed = Environment.objects.filter(pk=environment.pk, policies_version=environment.policies_version).update(
        policies=policies, policies_version=F("policies_version") + 1
    )
    if not changed:
        raise Refused("POLICY_CHANGED")
    environment.refresh_from_db()
    if before != after:
        _log(environment, "changed", before, after, person)
    for row in PolicyProposal.objects.filter(environment=environment, status=_Status.PROPOSED):
        _become(row, _Status.OUTDATED, person)
        _record(environment, _Action.OUTDATED, policies=row.policies, person=person, proposal=row)


def _locked(proposal: PolicyProposal) -> PolicyProposal:
    """The proposal as stored now, with its environment locked: policies change one by one."""
    environment = Environment.objects.select_for_update().get(pk=proposal.environment_id)
    environment.policies = _last_recorded(environment)
    row = PolicyProposal.objects.select_for_update().get(pk=proposal.pk)
    row.environment = environment
    return row


def _must_be_second(proposal: PolicyProposal, person: Any) -> None:
    must_be_permitted(person, Permission.MANAGE_POLICIES, on=place_of_environment(proposal.environment))
    if proposal.proposed_by_id == person.pk:
        raise Refused("OWN_PROPOSAL")
    if proposal.status != _Status.PROPOSED:
        raise Refused("ALREADY_DECIDED", f"the proposal was {proposal.status}")


def _refuse_outdated(proposal: PolicyProposal) -> None:
    """Refused POLICY_OUTDATED unless the proposal still comes to exactly what the second person was shown."""
    environment = proposal.environment
    after = PolicySet.from_json(proposal.policies, default_policy())
    if (
        environment.policies_version != proposal.base_version
        or policy_of(environment).as_json() != proposal.before
        or after.as_json() != proposal.after
    ):
        raise Refused("POLICY_OUTDATED")
    proposer = get_user_model().objects.get(pk=proposal.proposed_by_id)
    if not may(proposer, Permission.MANAGE_POLICIES, on=place_of_environment(environment)):
        raise Refused("POLICY_OUTDATED", f"{proposer.get_username()}, who proposed it, does not manage policies now")


def _become(proposal: PolicyProposal, status: str, person: Any, note: str = "") -> None:
    decided = PolicyProposal.objects.filter(pk=proposal.pk, status=_Status.PROPOSED).update(
        status=status, decided_by=person, decided_at=timezone.now(), note=note.strip()
    )
    if not decided:
        raise Refused("ALREADY_DECIDED", f"the proposal was {proposal.status}")
    environment = proposal.environment
    proposal.refresh_from_db()
    proposal.environment = environment


def _decided(proposal: PolicyProposal, action: str, person: Any) -> PolicyProposal:
    environment = proposal.environment
    _record(environment, action, policies=proposal.policies, person=person, note=proposal.note, proposal=proposal)
    if action != _Action.ACCEPTED:
        before, after = (PolicySet.from_json(one) for one in (proposal.before, proposal.after))
        _log(environment, action, after, before, person, proposal.note)
    tell_policy_decided(proposal)
    return proposal


def _record(
    environment: Environment,
    action: str,
    *,
    policies: Mapping[str, Any],
    person: Any,
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
        person=person,
        person_name=person.get_username(),
        note=note.strip(),
        at=timezone.now(),
    )
    chain.append(row)


def _log(
    environment: Environment, action: str, before: PolicySet, after: PolicySet, person: Any, reason: str = ""
) -> None:
    with on_behalf_of(person):
        record_change(
            action=str(action),
            subject_kind="policy",
            subject_key=environment.name,
            subject_name=f"policy of {environment}",
            before=before.as_json(),
            after=after.as_json(),
            reason=reason,
        )
