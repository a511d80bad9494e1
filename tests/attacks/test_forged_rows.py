"""Attacks with rows written by SQL: none of them lets an unapproved change reach the warehouse."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone

from architecture.domain.change_policy import PolicySet
from architecture.models import (
    AppliedDataset,
    Approval,
    ChangeReport,
    Environment,
    Execution,
    ExecutionRecord,
    KeptHistory,
    PolicyProposal,
    PolicyRecord,
    Preview,
)
from architecture.selectors.authors import carried_out
from architecture.services.approvals import approvals_missing, approve, reject
from architecture.services.automatic_changes import pending_changes
from architecture.services.change_policy import accept_policy, policy_in_force, update_policies, withdraw_policy
from architecture.services.drift import adopt_as_baseline
from architecture.services.execution_attempts import ExecutionAttempt
from architecture.services.execution_checks import Todo, verify
from architecture.services.executions import cancel_execution, claim_execution, request_execution, resume_execution
from architecture.services.observations import last_observations
from architecture.services.previews import make_preview
from architecture.services.reports import decisions_on
from architecture.services.undo import undo_report
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChainLink
from elevata.audit.services import chain
from elevata.audit.services.verification import verify_chain
from elevata.core.canonical_json import sha256_hex
from loader.services.executions import perform_execution
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import update_target_dataset
from tests.architecture.conftest import built, renamed, world
from tests.architecture.executions import code_of, customer, needing_approval
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, person
from tests.elevata.audit.append_only import triggers_lifted

__all__ = ["built", "renamed", "world"]

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


def sql(statement: str, *values: object) -> None:
    with triggers_lifted([Approval]), connection.cursor() as cursor:
        cursor.execute(statement, values)


def forge_approval(report: ChangeReport, by: Any) -> Approval:
    """Insert an approval as by SQL, with an unsigned pending record for the chain."""
    approval = Approval.objects.create(
        report=report,
        fingerprint=report.fingerprint,
        person=by,
        person_name=by.get_username(),
        roles=["approver"],
        decision="approve",
        at=timezone.now(),
    )
    sql(
        "INSERT INTO audit_chainpending (kind, subjects, key_id, signature, refused) "
        "VALUES ('approval', %s, '', '', '')",
        json.dumps([[approval.pk, sha256_hex(approval.content())]]),
    )
    ChangeReport.objects.filter(pk=report.pk).update(status="approved")
    report.refresh_from_db()
    return approval


def describe(**changes: object) -> None:
    """Change the dataset as the user ada."""
    row = customer()
    with acting_as(person("ada", Role.EDITOR)):
        update_target_dataset(dataset=row, expected_version=row.version, **changes)


def ask(world: World, report: ChangeReport) -> Any:
    return request_execution(report=report, user=world.operator)


def test_approval_inserted_by_sql_is_refused(built: World) -> None:
    report = needing_approval(built)
    forge_approval(report, built.approver)
    assert (decisions_on(report), approvals_missing(report)) == ((), 1)
    assert code_of(make_preview, report=report, user=built.operator) == "APPROVAL_UNPROVEN"
    assert code_of(ask, world=built, report=report) == "APPROVAL_UNPROVEN"
    assert code_of(approve, report=report, user=person("carl", Role.APPROVER)) == "APPROVAL_UNPROVEN"


def test_sealing_does_not_validate_an_inserted_approval(built: World) -> None:
    report = needing_approval(built)
    forge_approval(report, built.approver)
    assert chain.seal() >= 0
    assert code_of(ask, world=built, report=report) == "APPROVAL_UNPROVEN"
    assert verify_chain(recorded=False).problem.code == "signature_wrong"


def test_forged_chain_link_does_not_validate_an_inserted_approval(built: World) -> None:
    report = needing_approval(built)
    approval = forge_approval(report, built.approver)
    sql(
        "INSERT INTO audit_chainlink "
        "(sequence, kind, subject_id, digest, previous, hash, sealed_at, key_id, signature) "
        "VALUES (999, 'approval', %s, %s, %s, %s, '2026-01-01 00:00:00+00:00', '', '')",
        approval.pk,
        sha256_hex(approval.content()),
        "a" * 64,
        "b" * 64,
    )
    assert code_of(ask, world=built, report=report) == "APPROVAL_UNPROVEN"


@pytest.mark.parametrize(
    ("column", "value"), [("fingerprint", "0" * 64), ("roles", '["admin"]'), ("person_name", "zoe"), ("note", "x")]
)
def test_approval_changed_by_sql_is_refused(built: World, column: str, value: str) -> None:
    report = built.approved() if needing_approval(built) else None
    chain.seal()
    sql(f"UPDATE architecture_approval SET {column} = %s", value)
    assert code_of(ask, world=built, report=report) == "APPROVAL_UNPROVEN"


def test_approval_assigned_to_another_user_by_sql_is_refused(built: World) -> None:
    needing_approval(built)
    report = built.approved()
    sql("UPDATE architecture_approval SET person_id = %s", person("zoe", Role.APPROVER).pk)
    assert code_of(ask, world=built, report=report) == "APPROVAL_UNPROVEN"


def test_approval_is_valid_before_and_after_sealing(built: World) -> None:
    needing_approval(built)
    report = built.approved()
    assert [decision.user for decision in decisions_on(report)] == ["bob"]
    chain.seal()
    assert [decision.user for decision in decisions_on(report)] == ["bob"]


def test_approval_signed_with_an_unknown_key_is_refused(built: World, settings) -> None:
    needing_approval(built)
    report = built.approved()
    settings.AUDIT_KEYS_FORMER, settings.AUDIT_KEY = (settings.AUDIT_KEY,), "k" * 40
    assert len(decisions_on(report)) == 1
    settings.AUDIT_KEYS_FORMER = ()
    assert code_of(ask, world=built, report=report) == "APPROVAL_UNPROVEN"


def test_rejection_undone_by_sql_still_blocks_execution(built: World) -> None:
    report = needing_approval(built)
    reject(report=report, user=person("carl", Role.APPROVER))
    ChangeReport.objects.filter(pk=report.pk).update(status="open")
    report.refresh_from_db()
    approve(report=report, user=built.approver)
    assert code_of(ask, world=built, report=report) == "REPORT_REJECTED"


@pytest.mark.parametrize(
    ("column", "value"),
    [("risk", "safe"), ("authors", "[]"), ("destructive", True), ("document", '{"rows": []}'), ("signature", "")],
)
def test_a_report_changed_by_sql_is_neither_approved_nor_executed(built: World, column: str, value: object) -> None:
    report = needing_approval(built)
    sql(f"UPDATE architecture_changereport SET {column} = %s WHERE id = %s", value, report.pk)
    report.refresh_from_db()
    assert code_of(approve, report=report, user=built.approver) == "REPORT_UNPROVEN"
    assert code_of(make_preview, report=report, user=built.operator) == "REPORT_UNPROVEN"
    assert code_of(ask, world=built, report=report) == "REPORT_UNPROVEN"


def test_statements_changed_by_sql_are_not_executed(renamed: World) -> None:
    preview = renamed.previewed()
    document = json.loads(json.dumps(preview.document))
    document["steps"][0]["statement"] = "DROP TABLE x"
    Preview.objects.filter(pk=preview.pk).update(document=document)
    assert code_of(ask, world=renamed, report=preview.report) == "PREVIEW_UNPROVEN"
    Preview.objects.filter(pk=preview.pk).update(document=document, fingerprint=sha256_hex(document))
    assert code_of(ask, world=renamed, report=preview.report) == "PREVIEW_UNPROVEN"


def test_queued_execution_with_a_preview_changed_by_sql_is_refused(renamed: World) -> None:
    execution = renamed.queued()
    document = json.loads(json.dumps(execution.preview.document))
    document["steps"][0]["statement"] = "DROP TABLE x"
    Preview.objects.filter(pk=execution.preview_id).update(document=document)
    assert claim_execution(execution_pk=execution.pk, worker="w1") is not None
    execution = Execution.objects.get(pk=execution.pk)
    assert code_of(verify, execution=execution) == "PREVIEW_UNPROVEN"


def test_role_granted_by_sql_is_not_detected(built: World) -> None:
    """Check the known limit that SQL access can create another user with a role, and act as that user."""
    from django.contrib.auth.models import Group, User

    user = User.objects.create(username="mallory2")
    user.groups.add(Group.objects.get(name="approver"))
    report = needing_approval(built)
    approve(report=report, user=user)
    assert approvals_missing(report) == 0
    chain.seal()
    assert verify_chain(recorded=False).problem is None


# --- policies ----------------------------------------------------------------------------------

OPEN = {"approvals": {"review": {"count": 0}}}


@pytest.fixture
def strict(built: World) -> World:
    """Return a world whose change policy, set through the product, needs two approvals for review."""
    arguments = {"environment": built.environment, "user": person("root", Role.ADMIN)}
    update_policies(**arguments, policies={"approvals": {"review": {"count": 2}}}, expected_version=1)
    chain.seal()
    assert verify_chain(recorded=False).problem is None
    return built


def test_policy_changed_by_sql_is_refused(strict: World) -> None:
    report = needing_approval(strict)
    Environment.objects.update(policies=OPEN)
    report.refresh_from_db()
    arguments = {"report": report, "user": strict.operator}
    assert code_of(strict.report) == "POLICY_UNPROVEN"
    assert code_of(make_preview, **arguments) == "POLICY_UNPROVEN"
    assert code_of(request_execution, **arguments) == "POLICY_UNPROVEN"
    assert code_of(approve, report=report, user=strict.approver) == "POLICY_UNPROVEN"
    assert code_of(changes_of_a_load, world=strict) == "POLICY_UNPROVEN"


def test_a_queued_execution_does_not_run_under_a_policy_changed_by_sql(strict: World) -> None:
    rename(strict, "full_name", "display_name")
    execution = strict.queued()
    Environment.objects.update(policies=OPEN)
    assert claim_execution(execution_pk=execution.pk, worker="w1") is not None
    assert code_of(verify, execution=Execution.objects.get(pk=execution.pk)) == "POLICY_UNPROVEN"


def test_first_policy_written_by_sql_is_refused(built: World) -> None:
    Environment.objects.update(policies=OPEN)
    assert code_of(built.report) == "POLICY_UNPROVEN"


def test_policy_written_by_sql_with_a_record_is_refused(strict: World) -> None:
    last = PolicyRecord.objects.latest("pk")
    values = {field.attname: getattr(last, field.attname) for field in PolicyRecord._meta.concrete_fields}
    PolicyRecord.objects.create(**values | {"id": None, "policies": OPEN, "version": last.version + 1})
    Environment.objects.update(policies=OPEN)
    assert code_of(strict.report) == "POLICY_UNPROVEN"


def test_verification_finds_a_policy_changed_by_sql(strict: World) -> None:
    Environment.objects.update(policies=OPEN)
    assert verify_chain(recorded=False).problem.code == "policy_differs"


def test_verification_finds_a_first_policy_written_by_sql(built: World) -> None:
    Environment.objects.update(policies=OPEN)
    chain.seal()
    assert verify_chain(recorded=False).problem.code == "policy_differs"


def test_saving_a_policy_changed_by_sql_is_a_proposal_against_the_recorded_one(strict: World) -> None:
    Environment.objects.update(policies=OPEN)
    arguments = {"environment": strict.environment, "user": person("root", Role.ADMIN), "expected_version": 2}
    assert update_policies(**arguments, policies=OPEN) is not None
    assert code_of(strict.report) == "POLICY_UNPROVEN"


@pytest.mark.parametrize(
    "field", ["proposed_by_id", "policies", "after", "looser", "reason", "environment_id", "base_version"]
)
def test_a_proposal_changed_by_sql_is_not_accepted(strict: World, field: str) -> None:
    root, rita = person("root", Role.ADMIN), person("rita", Role.ADMIN)
    arguments = {"environment": strict.environment, "user": root, "expected_version": 2}
    proposal = update_policies(**arguments, policies={"approvals": {"review": {"count": 1}}}, reason="for a night")
    other = PolicySet.from_json(OPEN, PolicySet()).as_json()
    forged = {
        "proposed_by_id": rita.pk,
        "policies": OPEN,
        "after": other,
        "looser": [],
        "reason": "as agreed",
        "environment_id": Environment.objects.create(name="prod").pk,
        "base_version": 7,
    }
    PolicyProposal.objects.update(**{field: forged[field]})
    proposal = PolicyProposal.objects.get()
    by = root if field == "proposed_by_id" else rita
    # What a proposal loosens is not recorded but computed again, so a forged list no longer fits the policy.
    code = "POLICY_OUTDATED" if field == "looser" else "PROPOSAL_UNPROVEN"
    assert code_of(accept_policy, proposal=proposal, user=by) == code
    assert policy_in_force(strict.environment).approvals["review"].count == 2


def test_a_proposal_written_by_sql_is_not_accepted(strict: World) -> None:
    root, rita = person("root", Role.ADMIN), person("rita", Role.ADMIN)
    arguments = {"environment": strict.environment, "user": root, "expected_version": 2}
    proposal = update_policies(**arguments, policies={"approvals": {"review": {"count": 1}}})
    values = {field.attname: getattr(proposal, field.attname) for field in PolicyProposal._meta.concrete_fields}
    withdraw_policy(proposal=proposal, user=root)
    forged = PolicyProposal.objects.create(**values | {"id": None, "proposal_id": uuid4()})
    assert code_of(accept_policy, proposal=forged, user=rita) == "PROPOSAL_UNPROVEN"


def test_saving_the_recorded_policy_repairs_one_changed_by_sql(strict: World) -> None:
    Environment.objects.update(policies=OPEN)
    arguments = {"environment": strict.environment, "user": person("root", Role.ADMIN), "expected_version": 2}
    assert update_policies(**arguments, policies={"approvals": {"review": {"count": 2}}}) is None
    assert approvals_missing(needing_approval(strict)) == 2


def test_older_policy_whose_successor_was_deleted_by_sql_is_found_but_not_refused(strict: World) -> None:
    """Check the known limit that the previous policy applies after its successor's record and link are removed.

    Verifying the chain detects it.
    """
    last = PolicyRecord.objects.latest("pk")
    with triggers_lifted([PolicyRecord, ChainLink]), connection.cursor() as cursor:
        cursor.execute("DELETE FROM audit_chainlink WHERE kind = 'policy' AND subject_id = %s", [last.pk])
        cursor.execute("DELETE FROM architecture_policyrecord WHERE id = %s", [last.pk])
    Environment.objects.update(policies={})
    assert approvals_missing(needing_approval(strict)) == 1
    assert verify_chain(recorded=False).problem is not None


# --- applied state -----------------------------------------------------------------------------


def changes_of_a_load(world: World) -> Any:
    """Return the pending changes that a load would make by itself."""
    states = dataset_states()
    keys = {state.key for state in states}
    observations = last_observations(environment=world.environment)
    return pending_changes(
        environment=world.environment, states=states, keys=keys, observations=observations, through=0
    )


def finish_all(todo: Todo, attempt: ExecutionAttempt) -> None:
    """Report all remaining steps as done."""
    for place in todo.left:
        attempt.step_finished(place, succeeded=True, version_after=1)


def change_applied(**values: object) -> None:
    """Change the applied state as SQL does, so that this process does not use its cached copy."""
    AppliedDataset.objects.update(**{"updated_at": timezone.now()} | values)


FORGED = ("state", "through", "table_versions", "qualified_name", "execution", "digest", "signature")


def forge_applied(column: str) -> None:
    row = AppliedDataset.objects.get()
    state = row.state | {"filter": "balance > 0"}
    values = {
        "state": {"state": state},
        "through": {"through": row.through + 1000},
        "table_versions": {"table_versions": {}},
        "qualified_name": {"qualified_name": "rawcore.other"},
        "execution": {"execution": None},
        "digest": {"state": state, "digest": sha256_hex(state)},
        "signature": {"signature": ""},
    }
    change_applied(**values[column])


@pytest.mark.parametrize("column", FORGED)
def test_applied_state_changed_by_sql_is_refused_and_found(renamed: World, column: str) -> None:
    preview = renamed.previewed()
    forge_applied(column)
    assert code_of(renamed.report) == "APPLIED_UNPROVEN"
    assert code_of(make_preview, report=preview.report, user=renamed.operator) == "APPLIED_UNPROVEN"
    assert code_of(ask, world=renamed, report=preview.report) == "APPLIED_UNPROVEN"
    assert code_of(changes_of_a_load, world=renamed) == "APPLIED_UNPROVEN"
    chain.seal()
    problem = verify_chain(recorded=False).problem
    assert (problem.code, problem.kind) == ("applied_unproven", "applied-dataset")


def test_mark_raised_by_sql_removes_no_author(renamed: World) -> None:
    key = str(AppliedDataset.objects.get().dataset_key)
    assert carried_out(renamed.environment, [key])[key] > 0
    forge_applied("through")
    assert carried_out(renamed.environment, [key]) == {key: 0}


def test_applied_state_moved_to_another_dataset_by_sql_is_refused(renamed: World) -> None:
    change_applied(dataset_key=UUID(int=7))
    assert code_of(renamed.report) == "APPLIED_UNPROVEN"


def test_applied_state_changed_by_sql_while_an_execution_runs_is_refused(renamed: World) -> None:
    execution = renamed.queued()
    attempt = claim_execution(execution_pk=execution.pk, worker="w1")
    renamed.warehouse.show()
    todo = verify(Execution.objects.get(pk=execution.pk))
    forge_applied("state")
    assert code_of(finish_all, todo=todo, attempt=attempt) == "APPLIED_UNPROVEN"


def test_adopting_a_dataset_repairs_its_forged_applied_state_and_keeps_all_authors(renamed: World) -> None:
    forge_applied("through")
    row = AppliedDataset.objects.get()
    arguments = {"environment": renamed.environment, "user": renamed.operator, "reason": "changed by SQL"}
    adopt_as_baseline(**arguments, dataset_keys=[str(row.dataset_key)])
    assert AppliedDataset.objects.get().through == 0
    assert "ada" in renamed.report().authors
    assert chain.seal() >= 0
    assert verify_chain(recorded=False).problem is None


@pytest.mark.parametrize("column", ["state", "signature"])
def test_a_kept_history_changed_by_sql_is_refused_and_found(built: World, column: str) -> None:
    describe(historize=False)
    built.executed()
    row = KeptHistory.objects.get()
    value = {"state": row.state | {"filter": "1 > 2"}, "signature": ""}[column]
    KeptHistory.objects.update(**{column: value})
    describe(historize=True, filter="1 > 2")
    assert code_of(built.report) == "APPLIED_UNPROVEN"
    chain.seal()
    assert verify_chain(recorded=False).problem.kind == "kept-history"
    arguments = {"environment": built.environment, "user": built.operator, "reason": "changed by SQL"}
    adopt_as_baseline(**arguments, dataset_keys=[str(customer().key)])
    assert approvals_missing(built.report()) == 1


def test_applied_state_restored_to_an_older_row_by_sql_is_not_detected(renamed: World) -> None:
    """Check the known limit that an older signed row can be restored, because its signature stays valid."""
    columns = ("state", "table_versions", "execution_id", "through", "digest", "signature", "qualified_name")
    before = AppliedDataset.objects.values(*columns).get()
    renamed.executed()
    change_applied(**before)
    chain.seal()
    assert verify_chain(recorded=False).problem is None
    assert renamed.report() is not None


def test_applied_state_deleted_by_sql_is_not_detected(built: World) -> None:
    """Check the known limit of a removed applied state: the dataset counts as never applied.

    All its editors then count as authors, and changed logic is not detected.
    """
    describe(filter="1 > 2")
    assert approvals_missing(built.report()) == 1
    AppliedDataset.objects.all().delete()
    chain.seal()
    assert verify_chain(recorded=False).problem is None
    key = str(customer().key)
    assert carried_out(built.environment, [key]) == {key: 0}
    assert approvals_missing(built.report()) == 0


# --- executions --------------------------------------------------------------------------------


def forge_execution(execution: Execution, column: str) -> None:
    other = person("zoe", Role.OPERATOR)
    values = {
        "requested_by": {"requested_by": other},
        "requester": {"requester": "zoe"},
        "command": {"command": "other"},
        "planned": {"planned": {"rows": [], "desired": {}, "through": 10**6}},
        "signature": {"signature": ""},
    }
    Execution.objects.filter(pk=execution.pk).update(**values[column])


@pytest.mark.parametrize("column", ["requested_by", "requester", "command", "planned", "signature"])
def test_a_queued_execution_changed_by_sql_ends_failed_and_runs_nothing(renamed: World, column: str) -> None:
    execution = renamed.queued()
    forge_execution(execution, column)
    chain.seal()
    assert verify_chain(recorded=False).problem.code == "execution_unproven"
    done = perform_execution(execution.pk, worker="w1", runner=None)
    assert (done.status, done.error["code"]) == ("failed", "EXECUTION_UNPROVEN")
    assert code_of(resume_execution, execution=done, user=renamed.operator) == "EXECUTION_UNPROVEN"


def test_an_execution_inserted_by_sql_ends_failed_and_runs_nothing(renamed: World) -> None:
    preview = renamed.previewed()
    execution = Execution.objects.create(
        environment=renamed.environment, report=preview.report, preview=preview, requested_by=renamed.operator
    )
    done = perform_execution(execution.pk, worker="w1", runner=None)
    assert (done.status, done.error["code"]) == ("failed", "EXECUTION_UNPROVEN")


def test_an_execution_without_a_report_inserted_by_sql_ends_failed(renamed: World) -> None:
    execution = Execution.objects.create(environment=renamed.environment, requested_by=renamed.operator)
    done = perform_execution(execution.pk, worker="w1", runner=None)
    assert (done.status, done.error["code"]) == ("failed", "EXECUTION_UNPROVEN")


def test_a_plan_changed_by_sql_while_it_runs_is_not_applied(renamed: World) -> None:
    execution = renamed.queued()
    attempt = claim_execution(execution_pk=execution.pk, worker="w1")
    renamed.warehouse.show()
    todo = verify(Execution.objects.get(pk=execution.pk))
    planned = Execution.objects.get(pk=execution.pk).planned
    Execution.objects.filter(pk=execution.pk).update(planned=planned | {"through": 10**6})
    assert code_of(finish_all, todo=todo, attempt=attempt) == "EXECUTION_UNPROVEN"


def test_a_plan_changed_by_sql_is_not_undone(renamed: World) -> None:
    execution = renamed.executed()
    planned = execution.planned
    Execution.objects.filter(pk=execution.pk).update(planned=planned | {"marks": {}})
    record = ExecutionRecord.objects.get(execution=execution)
    assert code_of(undo_report, record=record, user=renamed.operator) == "EXECUTION_UNPROVEN"


def test_execution_with_steps_changed_by_sql_is_refused(renamed: World) -> None:
    execution = renamed.queued()
    execution.operations.update(op="ADD_COLUMN")
    assert claim_execution(execution_pk=execution.pk, worker="w1") is not None
    renamed.warehouse.show()
    assert code_of(verify, execution=Execution.objects.get(pk=execution.pk)) == "EXECUTION_UNPROVEN"


def test_execution_requeued_by_sql_is_not_detected(renamed: World) -> None:
    """Check the known limit that a cancelled execution can be queued again; it passes the same checks."""
    execution = renamed.queued()
    cancel_execution(execution=execution, user=renamed.operator)
    Execution.objects.filter(pk=execution.pk).update(status="queued", error=None, finished_at=None)
    assert renamed.work(Execution.objects.get(pk=execution.pk)).status == "succeeded"
    chain.seal()
    assert verify_chain(recorded=False).problem is None


def test_step_marked_as_done_by_sql_is_not_detected(renamed: World) -> None:
    """Check the known limit that a pending execution's steps are unsigned and can be marked as done."""
    execution = renamed.queued()
    execution.operations.update(status="succeeded")
    chain.seal()
    assert verify_chain(recorded=False).problem is None


def test_triggers_removed_and_restored_are_not_detected(renamed: World) -> None:
    """Check the known limit that removed and restored triggers are not detected, only changes made meanwhile."""
    with triggers_lifted([Approval]):
        pass
    chain.seal()
    assert verify_chain(recorded=False).problem is None


def test_plan_changed_by_sql_removes_no_author_of_a_resumed_history(built: World) -> None:
    describe(historize=False)
    execution = built.executed()
    row = customer()
    with acting_as(person("eve", Role.EDITOR)):
        update_target_dataset(dataset=row, expected_version=row.version, filter="1 > 2")
    built.executed()
    describe(historize=True)
    planned = Execution.objects.get(pk=execution.pk).planned
    Execution.objects.filter(pk=execution.pk).update(planned=planned | {"marks": {str(row.key): 10**6}})
    assert "eve" in built.report().authors
