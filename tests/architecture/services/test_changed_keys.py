"""A dataset that is described anew under its name has another stable key: its tables stay where they are."""

import pytest

from architecture.domain.refusals import Refused
from architecture.models import AppliedDataset, ChangeReport
from architecture.selectors.dataset_states import described_state, described_states
from architecture.services.approvals import approve
from architecture.services.change_policy import update_policies
from architecture.services.drift import adopt_as_baseline, drift_of
from architecture.services.reports import operations_of
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.domain.scope import DATASET, Scope
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_state
from metadata.services.datasets.targets import create_target_column
from metadata.services.deletion import delete_dataset
from metadata.services.lifecycle import rename_dataset, retire_dataset
from tests.architecture.world import World, customers, person, remembered_in

pytestmark = pytest.mark.django_db

NAME = "rawcore.rc_crm_customer"


def customer() -> TargetDataset:
    return TargetDataset.objects.get(name="rc_crm_customer")


@pytest.fixture
def moved(world) -> World:
    """Built under another name, renamed, deleted, and described anew under that name."""
    remembered_in(world, "customers described anew", lambda: describe_anew(world))
    return world


def describe_anew(world: World) -> None:
    customers(world.author, name="rc_crm_person")
    world.executed()
    made = TargetDataset.objects.get(name="rc_crm_person")
    with acting_as(world.author):
        rename_dataset(dataset=made, name="rc_crm_customer", expected_version=made.version)
        world.executed()
        retire_dataset(dataset=customer(), expected_version=customer().version)
        delete_dataset(dataset=customer(), expected_version=customer().version)
        customers(world.author)
    assert str(customer().key) not in world.warehouse.shapes


def add_region(world: World, by=None) -> None:
    with acting_as(by or world.author):
        create_target_column(dataset=customer(), name="region", type="string", inputs=[])


def warned(report: ChangeReport) -> set[tuple[str, str]]:
    return {(warning["code"], warning["dataset"]) for warning in report.document["warnings"]}


def test_dataset_recreated_under_its_name_has_no_changes_and_a_warning(moved):
    report = moved.report()
    assert (report.status, operations_of(report)) == ("no_changes", ())
    assert warned(report) == {("KEY_CHANGED_NAME_KEPT", NAME)}


def test_warning_of_a_changed_key_is_only_in_reports_of_its_dataset(moved):
    assert warned(moved.report(Scope(DATASET, NAME))) == {("KEY_CHANGED_NAME_KEPT", NAME)}
    customers(moved.author, name="rc_crm_order")
    assert warned(moved.report(Scope(DATASET, "rawcore.rc_crm_order"))) == set()


def test_added_column_is_created_in_the_existing_tables(moved):
    tables = set(moved.warehouse.shapes)
    add_region(moved)
    execution = moved.executed()
    assert execution.status == "succeeded"
    assert {str(row.table_key) for row in execution.operations.all()} <= tables
    assert set(moved.warehouse.shapes) == tables
    assert {"region"} < {column.name for table in tables for column in moved.warehouse.shapes[table].columns}
    assert (moved.report().status, warned(moved.report())) == ("no_changes", {("KEY_CHANGED_NAME_KEPT", NAME)})


def test_column_keeps_its_stored_key(moved):
    before = {table: {column.key for column in shape.columns} for table, shape in moved.warehouse.shapes.items()}
    add_region(moved)
    moved.executed()
    for table, keys in before.items():
        assert keys < {column.key for column in moved.warehouse.shapes[table].columns}


def test_applied_state_keeps_the_key_of_its_tables(moved):
    known = AppliedDataset.objects.get().dataset_key
    add_region(moved)
    moved.executed()
    applied = AppliedDataset.objects.get()
    assert (applied.dataset_key, applied.state["key"]) == (known, str(known))
    assert set(applied.table_versions) == set(moved.warehouse.shapes)


def test_dataset_with_a_changed_key_is_in_sync_and_can_be_adopted(moved):
    assert [dataset.status for dataset in drift_of(moved.environment).datasets] == ["in_sync"]
    (known,) = described_states(environment=moved.environment)
    asked = {"user": moved.operator, "reason": "as it is"}
    (row,) = adopt_as_baseline(environment=moved.environment, dataset_keys=[known.key], **asked)
    assert str(row.dataset_key) == known.key


def test_described_state_of_a_dataset_with_a_changed_key_has_the_keys_of_its_tables(moved):
    state = described_state(customer(), environment=moved.environment)
    assert {state.key, state.history_key} == set(moved.warehouse.shapes)
    assert described_state(customer().history, environment=moved.environment) == state


def test_described_state_of_a_new_dataset_has_its_own_keys(moved):
    customers(moved.author, name="rc_crm_order")
    order = TargetDataset.objects.get(name="rc_crm_order")
    assert described_state(order, environment=moved.environment) == dataset_state(order)


def test_user_who_recreated_a_dataset_is_an_author(moved):
    eve = person("eve", Role.EDITOR, Role.APPROVER)
    root = person("root", Role.ADMIN)
    policies = {"approvals": {"safe": {"count": 1, "role": "approver"}}}
    update_policies(environment=moved.environment, policies=policies, expected_version=1, user=root)
    add_region(moved, by=eve)
    report = moved.report()
    assert report.authors == ["ada", "eve"]
    with pytest.raises(Refused) as refused:
        approve(report=report, user=eve)
    assert refused.value.code == "OWN_CHANGE"
