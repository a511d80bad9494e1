"""Datasets recreated under their name: the stable key is new, the tables stay."""

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
def recreated(world) -> World:
    """Return a world with a dataset that was built, renamed, deleted and recreated under its new name."""
    remembered_in(world, "customers described anew", lambda: recreate(world))
    return world


def recreate(world: World) -> None:
    customers(world.author, name="rc_crm_person")
    world.executed()
    dataset = TargetDataset.objects.get(name="rc_crm_person")
    with acting_as(world.author):
        rename_dataset(dataset=dataset, name="rc_crm_customer", expected_version=dataset.version)
        world.executed()
        retire_dataset(dataset=customer(), expected_version=customer().version)
        delete_dataset(dataset=customer(), expected_version=customer().version)
        customers(world.author)
    assert str(customer().key) not in world.warehouse.shapes


def add_region(world: World, by=None) -> None:
    with acting_as(by or world.author):
        create_target_column(dataset=customer(), name="region", type="string", inputs=[])


def warnings_of(report: ChangeReport) -> set[tuple[str, str]]:
    return {(warning["code"], warning["dataset"]) for warning in report.document["warnings"]}


def test_dataset_recreated_under_its_name_has_no_changes_and_a_warning(recreated):
    report = recreated.report()
    assert (report.status, operations_of(report)) == ("no_changes", ())
    assert warnings_of(report) == {("KEY_CHANGED_NAME_KEPT", NAME)}


def test_warning_of_a_changed_key_is_only_in_reports_of_its_dataset(recreated):
    assert warnings_of(recreated.report(Scope(DATASET, NAME))) == {("KEY_CHANGED_NAME_KEPT", NAME)}
    customers(recreated.author, name="rc_crm_order")
    assert warnings_of(recreated.report(Scope(DATASET, "rawcore.rc_crm_order"))) == set()


def test_added_column_is_created_in_the_existing_tables(recreated):
    tables = set(recreated.warehouse.shapes)
    add_region(recreated)
    execution = recreated.executed()
    assert execution.status == "succeeded"
    assert {str(row.table_key) for row in execution.operations.all()} <= tables
    assert set(recreated.warehouse.shapes) == tables
    assert {"region"} < {column.name for table in tables for column in recreated.warehouse.shapes[table].columns}
    assert (recreated.report().status, warnings_of(recreated.report())) == (
        "no_changes",
        {("KEY_CHANGED_NAME_KEPT", NAME)},
    )


def test_column_keeps_its_stored_key(recreated):
    before = {table: {column.key for column in shape.columns} for table, shape in recreated.warehouse.shapes.items()}
    add_region(recreated)
    recreated.executed()
    for table, keys in before.items():
        assert keys < {column.key for column in recreated.warehouse.shapes[table].columns}


def test_applied_state_keeps_the_key_of_its_tables(recreated):
    known = AppliedDataset.objects.get().dataset_key
    add_region(recreated)
    recreated.executed()
    applied = AppliedDataset.objects.get()
    assert (applied.dataset_key, applied.state["key"]) == (known, str(known))
    assert set(applied.table_versions) == set(recreated.warehouse.shapes)


def test_dataset_with_a_changed_key_is_in_sync_and_can_be_adopted(recreated):
    assert [dataset.status for dataset in drift_of(recreated.environment).datasets] == ["in_sync"]
    (known,) = described_states(environment=recreated.environment)
    arguments = {"user": recreated.operator, "reason": "as it is"}
    (row,) = adopt_as_baseline(environment=recreated.environment, dataset_keys=[known.key], **arguments)
    assert str(row.dataset_key) == known.key


def test_described_state_of_a_dataset_with_a_changed_key_has_the_keys_of_its_tables(recreated):
    state = described_state(customer(), environment=recreated.environment)
    assert {state.key, state.history_key} == set(recreated.warehouse.shapes)
    assert described_state(customer().history, environment=recreated.environment) == state


def test_described_state_of_a_new_dataset_has_its_own_keys(recreated):
    customers(recreated.author, name="rc_crm_order")
    order = TargetDataset.objects.get(name="rc_crm_order")
    assert described_state(order, environment=recreated.environment) == dataset_state(order)


def test_user_who_recreated_a_dataset_is_an_author(recreated):
    eve = person("eve", Role.EDITOR, Role.APPROVER)
    root = person("root", Role.ADMIN)
    policies = {"approvals": {"safe": {"count": 1, "role": "approver"}}}
    update_policies(environment=recreated.environment, policies=policies, expected_version=1, user=root)
    add_region(recreated, by=eve)
    report = recreated.report()
    assert report.authors == ["ada", "eve"]
    with pytest.raises(Refused) as refused:
        approve(report=report, user=eve)
    assert refused.value.code == "OWN_CHANGE"
