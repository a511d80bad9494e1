"""Policy changes: a looser policy needs a second administrator, a stricter one does not."""

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.test import override_settings

from architecture.domain.change_policy import PolicySet
from architecture.domain.refusals import Refused
from architecture.models import Environment, PolicyProposal, PolicyRecord
from architecture.selectors.inbox import policies_waiting, tasks_of
from architecture.services.approvals import approvals_missing, approve
from architecture.services.change_policy import (
    accept_policy,
    policy_of,
    reject_policy,
    update_policies,
    withdraw_policy,
)
from architecture.services.executions import claim_execution, request_execution
from architecture.services.previews import make_preview
from elevata.accounts.actors import acting_as
from elevata.accounts.models import RoleGrant
from elevata.accounts.roles import Role
from elevata.accounts.services.users import create_service_account, deactivate_user, set_roles
from elevata.audit.models import ChainLink, ChangeLogEntry
from elevata.audit.services import chain
from elevata.audit.services.verification import verify_chain
from elevata.core.errors import MetadataError
from elevata.notifications.models import Notice
from metadata.models import TargetColumn
from metadata.services.datasets.targets import update_target_column
from tests.architecture.world import World, person

pytestmark = pytest.mark.django_db
LOOSE = {"approvals": {"review": {"count": 0}}}
STRICT = {"severities": {"ADD_COLUMN": "block"}}


@pytest.fixture
def root(built: World):
    return person("root", Role.ADMIN)


@pytest.fixture
def rita(built: World):
    return person("rita", Role.ADMIN)


def update(world: World, policies: dict, by, **fields) -> PolicyProposal | None:
    version = Environment.objects.get(pk=world.environment.pk).policies_version
    return update_policies(
        environment=world.environment, policies=policies, expected_version=version, user=by, **fields
    )


def in_force(world: World) -> PolicySet:
    return policy_of(Environment.objects.get(pk=world.environment.pk))


def refused_with(code: str, call, **arguments: object) -> None:
    with pytest.raises(Refused) as refused:
        call(**arguments)
    assert refused.value.code == code


def not_null(world: World, user):
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(user):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    return world.report()


# --- one administrator ---------------------------------------------------------------------------


def test_administrator_cannot_waive_the_approval_of_their_own_change(built, root):
    set_roles(user=built.author, roles=["admin"])
    built.author = type(built.author).objects.get(pk=built.author.pk)
    report = not_null(built, built.author)
    proposal = update(built, LOOSE, built.author)
    assert in_force(built) == PolicySet()
    assert approvals_missing(built.report()) == 1
    make_preview(report=report, user=built.author)
    refused_with("NOT_APPROVED", request_execution, report=report, user=built.author)
    refused_with("OWN_PROPOSAL", accept_policy, proposal=proposal, user=built.author)
    refused_with("OWN_CHANGE", approve, report=report, user=built.author)


def test_a_stricter_policy_takes_effect_at_once(built, root):
    assert update(built, STRICT, root) is None
    assert in_force(built).severity("ADD_COLUMN") == "block"


def test_removing_a_stricter_choice_is_a_proposal(built, root):
    update(built, STRICT, root)
    assert update(built, {}, root).status == "proposed"
    assert in_force(built).severity("ADD_COLUMN") == "block"


def test_policy_change_with_one_looser_choice_is_a_proposal_as_a_whole(built, root):
    assert update(built, LOOSE | STRICT, root) is not None
    assert in_force(built) == PolicySet()


def test_higher_approval_count_without_the_role_is_a_proposal(built, root):
    update(built, {"approvals": {"review": {"count": 3, "role": "approver"}}}, root)
    assert update(built, {"approvals": {"review": {"count": 4}}}, root) is not None
    assert in_force(built).approvals["review"].role == "approver"


@pytest.mark.parametrize("flag", ["approver_may_execute", "automatic_safe_changes"])
def test_switching_a_flag_on_again_is_a_proposal(built, root, flag):
    update(built, {flag: False}, root)
    assert update(built, {}, root) is not None


@override_settings(POLICY_DEFAULTS={"drop_columns": True})
def test_severity_equal_to_a_default_opened_by_the_installation_is_a_proposal(built, root):
    """Check a severity that equals the built-in default but is looser than the policy without the variable."""
    assert update(built, {"severities": {"DROP_COLUMN": "needs_approval"}}, root) is not None


# --- second administrator -------------------------------------------------------------------------


def test_accepted_proposal_puts_the_looser_policy_in_force(built, root, rita):
    proposal = update(built, LOOSE, root, reason="the test environment needs none")
    accept_policy(proposal=proposal, user=rita, note="seen")
    assert in_force(built).approvals["review"].count == 0
    proposal.refresh_from_db()
    assert (proposal.status, proposal.decided_by, proposal.note) == ("accepted", rita, "seen")
    entry = ChangeLogEntry.objects.filter(subject_kind="policy").last()
    assert (entry.actor, entry.action) == ("rita", "changed")


def test_accepted_looser_policy_outdates_earlier_reports(built, root, rita):
    report = not_null(built, built.author)
    accept_policy(proposal=update(built, LOOSE, root), user=rita)
    make = {"report": report, "user": built.operator}
    refused_with("POLICY_MOVED", make_preview, **make)


def test_rejected_proposal_leaves_the_policy_unchanged(built, root, rita):
    proposal = update(built, LOOSE, root)
    reject_policy(proposal=proposal, user=rita, note="not here")
    assert in_force(built) == PolicySet()
    refused_with("ALREADY_DECIDED", accept_policy, proposal=proposal, user=rita)


def test_only_the_proposer_can_withdraw_a_proposal(built, root, rita):
    proposal = update(built, LOOSE, root)
    refused_with("NOT_PERMITTED", withdraw_policy, proposal=proposal, user=rita)
    refused_with("OWN_PROPOSAL", reject_policy, proposal=proposal, user=root)
    withdraw_policy(proposal=proposal, user=root)
    refused_with("ALREADY_DECIDED", accept_policy, proposal=proposal, user=rita)


def test_only_policy_managers_of_the_environment_can_accept_a_proposal(built, root):
    proposal = update(built, LOOSE, root)
    refused_with("NOT_PERMITTED", accept_policy, proposal=proposal, user=built.approver)
    elsewhere = person("else")
    RoleGrant.objects.create(user=elsewhere, role="admin", environment="prod")
    refused_with("NOT_PERMITTED", accept_policy, proposal=proposal, user=elsewhere)
    here = person("here")
    RoleGrant.objects.create(user=here, role="admin", environment=built.environment.name)
    accept_policy(proposal=proposal, user=here)


def test_a_service_account_neither_proposes_nor_accepts(built, root):
    robot = create_service_account(name="robot", owner=built.author)
    robot.groups.add(Group.objects.get(name="admin"))
    refused_with("SERVICE_ACCOUNT", update, world=built, policies=LOOSE, by=robot)
    refused_with("SERVICE_ACCOUNT", accept_policy, proposal=update(built, LOOSE, root), user=robot)


def test_read_only_token_cannot_accept_a_proposal(built, root, rita):
    proposal = update(built, LOOSE, root)
    with acting_as(rita, by_token=True, read_only=True), pytest.raises(MetadataError) as refused:
        accept_policy(proposal=proposal, user=rita)
    assert refused.value.code == "token_scope"


def test_second_proposal_is_refused_while_another_is_open(built, root, rita):
    update(built, LOOSE, root)
    refused_with(
        "POLICY_PROPOSED", update, world=built, policies={"approvals": {"safe": {"count": 1}}} | LOOSE, by=rita
    )


def test_later_policy_change_outdates_the_proposal(built, root, rita):
    proposal = update(built, LOOSE, root)
    update(built, STRICT, rita)
    proposal.refresh_from_db()
    assert proposal.status == "outdated"
    refused_with("ALREADY_DECIDED", accept_policy, proposal=proposal, user=rita)
    assert in_force(built).severity("ADD_COLUMN") == "block"


def test_proposal_is_refused_if_the_policy_defaults_have_changed(built, root, rita):
    proposal = update(built, LOOSE, root)
    with override_settings(POLICY_DEFAULTS={"drop_tables": True}):
        refused_with("POLICY_OUTDATED", accept_policy, proposal=proposal, user=rita)


@pytest.mark.parametrize("lost", ["role", "account"])
def test_proposal_is_refused_if_its_proposer_no_longer_manages_policies(built, root, rita, lost):
    proposal = update(built, LOOSE, root)
    if lost == "role":
        set_roles(user=root, roles=["viewer"])
    else:
        deactivate_user(user=root)
    refused_with("POLICY_OUTDATED", accept_policy, proposal=proposal, user=rita)


def test_database_refuses_a_proposal_accepted_by_its_proposer(built, root):
    proposal = update(built, LOOSE, root)
    with pytest.raises(IntegrityError), transaction.atomic():
        PolicyProposal.objects.filter(pk=proposal.pk).update(
            status="accepted", decided_by=root, decided_at=proposal.proposed_at
        )


# --- notifications and records -------------------------------------------------------------------


def test_other_policy_managers_are_notified_of_a_proposal_and_asked_to_decide(built, root, rita):
    update(built, LOOSE, root)
    notices = Notice.objects.filter(event__kind="policy.proposed")
    assert {notice.user.username for notice in notices} == {"rita"}
    (task,), (own,) = policies_waiting(rita), policies_waiting(root)
    assert (task.own, task.whom, own.own) == (False, ("rita",), True)
    assert (tasks_of(rita).count, tasks_of(root).count) == (1, 0)
    assert policies_waiting(built.approver) == ()


def test_proposer_is_notified_of_the_decision(built, root, rita):
    accept_policy(proposal=update(built, LOOSE, root), user=rita)
    notices = Notice.objects.filter(event__kind="policy.decided")
    assert {notice.user.username for notice in notices} == {"root"}
    assert policies_waiting(rita) == ()
    assert not Notice.objects.filter(event__kind="policy.proposed", read_at__isnull=True).exists()


def test_policy_records_of_every_step_are_sealed_in_the_chain(built, root, rita):
    looser = LOOSE | {"severities": {"DROP_TABLE": "allow"}}
    update(built, STRICT, root)
    accept_policy(proposal=update(built, LOOSE, root), user=rita)
    reject_policy(proposal=update(built, looser, root), user=rita)
    withdraw_policy(proposal=update(built, looser, root), user=root)
    actions = list(PolicyRecord.objects.values_list("action", flat=True))
    assert actions == ["set", "proposed", "accepted", "proposed", "rejected", "proposed", "withdrawn"]
    chain.seal(wait=True)
    assert ChainLink.objects.filter(kind="policy").count() == len(actions)
    assert verify_chain().intact


# --- another environment -------------------------------------------------------------------------


def test_a_report_of_another_environment_is_not_executed_here(built):
    """Check the refusal, because the policy of that environment would decide over the warehouse of this one."""
    report = not_null(built, built.author)
    approve(report=report, user=built.approver)
    make_preview(report=report, user=built.operator)
    with override_settings(ENVIRONMENT="prod"):
        refused_with("OTHER_ENVIRONMENT", request_execution, report=report, user=built.operator)
    answer = request_execution(report=report, user=built.operator)
    with override_settings(ENVIRONMENT="prod"):
        assert claim_execution(execution_pk=answer.execution.pk, worker="w") is None
    assert claim_execution(execution_pk=answer.execution.pk, worker="w") is not None
