"""Histories that are disabled and resumed: compared with the logic of their last load, and always approved."""

from dataclasses import replace

import pytest

from architecture.domain.states.flat_states import of_row
from architecture.domain.states.state_files import ArchitectureState
from architecture.models import AppliedDataset, KeptHistory
from architecture.services.approvals import approve
from architecture.services.state_import import import_state
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.services.datasets.targets import (
    create_schema,
    create_target_dataset,
    set_dataset_inputs,
    update_target_column,
    update_target_dataset,
)
from metadata.services.deletion import delete_dataset
from metadata.services.lifecycle import retire_dataset, unretire_dataset
from tests.architecture.executions import code_of, customer
from tests.architecture.services.test_reports import column
from tests.architecture.world import World, agree_on_policy, customers, person

pytestmark = pytest.mark.django_db


def change(world: World, **changes: object) -> None:
    row = customer()
    with acting_as(world.author):
        update_target_dataset(dataset=row, expected_version=row.version, **changes)


def change_column(world: World, name: str, **changes: object) -> None:
    row = column(name)
    with acting_as(world.author):
        update_target_column(column=row, expected_version=row.version, **changes)


def history_operations(world: World) -> list[tuple[str, str, str, str]]:
    """Return the operations of a report that concern the use of the history."""
    rows = world.report().document["rows"]
    return [
        (row["op"], row["side"], row["decision"], row["code"]) for row in rows if row["op"].endswith("retire_table")
    ]


@pytest.fixture
def switched_off(built: World) -> World:
    change(built, historize=False)
    built.executed()
    assert KeptHistory.objects.count() == 1
    return built


def switch_on(world: World) -> list[tuple[str, str, str, str]]:
    change(world, historize=True)
    return history_operations(world)


def resumed(decision: str, code: str) -> list[tuple[str, str, str, str]]:
    return [("unretire_table", "history", decision, code)]


def test_resumed_history_needs_approval_without_other_changes(switched_off):
    assert switch_on(switched_off) == resumed("needs_approval", "HISTORY_RESUMED")


@pytest.mark.full
@pytest.mark.parametrize(
    "change_meanwhile",
    [
        lambda world: change(world, filter="1 > 2"),
        lambda world: change_column(world, "full_name", expression="'none'"),
        lambda world: change(world, history_policy={"deletes": "ignore"}),
    ],
    ids=["filter", "expression", "comparison"],
)
def test_resumed_history_needs_approval_for_logic_changed_while_it_was_off(switched_off, change_meanwhile):
    change_meanwhile(switched_off)
    switched_off.executed()
    assert switch_on(switched_off) == resumed("needs_approval", "HISTORY_DIFFERS")


def test_resumed_history_reports_another_form_set_while_it_was_off(switched_off):
    change(switched_off, history_policy={"open_end": "9999-12-31"})
    switched_off.executed()
    assert switch_on(switched_off) == resumed("needs_approval", "HISTORY_FORM")


@pytest.mark.full
def test_resumed_history_is_blocked_by_a_business_key_changed_while_it_was_off(switched_off):
    change_column(switched_off, "customer_id", role="attribute", key_ordinal=None)
    change_column(switched_off, "full_name", role="business_key", key_ordinal=1)
    switched_off.executed()
    assert switch_on(switched_off) == resumed("blocked", "KEY_CHANGE")


def test_resumed_history_reports_logic_changed_in_the_report_that_switched_it_off(built):
    change(built, historize=False, filter="1 > 2")
    built.executed()
    assert switch_on(built) == resumed("needs_approval", "HISTORY_DIFFERS")


@pytest.mark.full
def test_history_resumed_a_second_time_is_compared_with_its_newest_logic(switched_off):
    change(switched_off, filter="1 > 2")
    switched_off.executed()
    change(switched_off, historize=True)
    switched_off.executed()
    assert not KeptHistory.objects.exists()
    change(switched_off, historize=False)
    switched_off.executed()
    assert switch_on(switched_off) == resumed("needs_approval", "HISTORY_RESUMED")


def test_resumed_history_without_recorded_logic_needs_approval(switched_off):
    KeptHistory.objects.all().delete()
    assert switch_on(switched_off) == resumed("needs_approval", "HISTORY_RESUMED")


@pytest.mark.full
def test_view_that_becomes_a_table_again_resumes_its_history_by_approval(built):
    change(built, materialization="view", historize=False)
    built.executed()
    change(built, filter="1 > 2")
    built.executed()
    change(built, materialization="table", historize=True)
    assert history_operations(built) == resumed("needs_approval", "HISTORY_DIFFERS")


def test_recreated_dataset_resumes_its_history_by_approval(built):
    agree_on_policy(built.environment, {"severities": {"DROP_TABLE": "needs_approval"}})
    row = customer()
    with acting_as(built.author):
        retire_dataset(dataset=row, expected_version=row.version)
        delete_dataset(dataset=customer(), expected_version=customer().version)
    built.executed()
    assert not AppliedDataset.objects.exists()
    customers(built.author, filter="1 > 2")
    assert history_operations(built) == resumed("needs_approval", "HISTORY_DIFFERS")


def test_restored_dataset_needs_approval_for_logic_changed_while_retired(built):
    row = customer()
    with acting_as(built.author):
        retire_dataset(dataset=row, expected_version=row.version)
    built.executed()
    change(built, filter="1 > 2")
    with acting_as(built.author):
        unretire_dataset(dataset=customer(), expected_version=customer().version)
    rows = built.report().document["rows"]
    assert {(row["op"], row["decision"], row["code"]) for row in rows} == {
        ("unretire_table", "metadata_only", "METADATA_ONLY"),
        ("change_logic", "needs_approval", "HISTORY_DIFFERS"),
    }


def test_imported_baseline_does_not_resume_a_kept_history(switched_off):
    (row,) = AppliedDataset.objects.all()
    state = ArchitectureState((replace(of_row(row.state), historize=True, filter="1 > 2"),))
    row.delete()
    import_state(environment=switched_off.environment, state=state, user=switched_off.operator, reason="moved")
    change(switched_off, historize=True, filter="1 > 2")
    assert history_operations(switched_off) == resumed("needs_approval", "HISTORY_DIFFERS")


@pytest.mark.full
def test_author_of_logic_changed_while_a_history_was_off_cannot_approve_its_resumption(switched_off):
    """Check an edit that was free without a history: the approval of the resumption covers it."""
    eve, mallory = person("eve", Role.EDITOR), person("mallory", Role.EDITOR, Role.APPROVER)
    row = customer()
    with acting_as(mallory):
        update_target_dataset(dataset=row, expected_version=row.version, filter="1 > 2")
    switched_off.executed()
    row = customer()
    with acting_as(eve):
        update_target_dataset(dataset=row, expected_version=row.version, historize=True)
    report = switched_off.report()
    assert {"eve", "mallory"} <= set(report.authors)
    assert code_of(approve, report=report, user=mallory) == "OWN_CHANGE"
    approve(report=report, user=switched_off.approver)


@pytest.mark.full
def test_user_who_changed_an_upstream_view_while_a_history_was_off_is_an_author(built):
    eve, mallory = person("eve", Role.EDITOR), person("mallory", Role.EDITOR, Role.APPROVER)
    with acting_as(built.author):
        view = create_target_dataset(
            schema=create_schema(name="stage", layer="stage"), name="stg_a", materialization="view"
        )
        row = customer()
        set_dataset_inputs(dataset=row, inputs=[view], expected_version=row.version)
    built.executed()
    change(built, historize=False)
    built.executed()
    with acting_as(mallory):
        update_target_dataset(dataset=view, expected_version=view.version, filter="1 > 2")
    built.executed()
    row = customer()
    with acting_as(eve):
        update_target_dataset(dataset=row, expected_version=row.version, historize=True)
    assert {"eve", "mallory"} <= set(built.report().authors)
