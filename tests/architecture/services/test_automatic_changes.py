"""Safe changes that a load executes itself, and changes that need an approval first."""

from typing import Any

import pytest

from architecture.selectors.dataset_states import described_states
from architecture.services.automatic_changes import Pending, pending_changes
from architecture.services.observations import last_observations
from elevata.accounts.actors import acting_as
from elevata.audit.services.chain import sealed_through
from metadata.models import TargetColumn
from metadata.services.datasets.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    set_dataset_inputs,
    update_target_column,
)
from metadata.services.deletion import delete_column
from metadata.services.lifecycle import retire_column, retire_dataset
from tests.architecture.executions import customer
from tests.architecture.services.test_reports import column
from tests.architecture.world import World, agree_on_policy, committed
from tests.database.seals import seal_as_written

pytestmark = pytest.mark.django_db


def pending(world: World, *others: Any) -> Pending:
    """Return the pending changes that a load of the customers would find."""
    committed()
    world.warehouse.show()
    environment = world.environment
    return pending_changes(
        environment=environment,
        states=described_states(environment=environment),
        keys={str(dataset.key) for dataset in (customer(), *others)},
        observations=last_observations(environment=environment),
        through=sealed_through(),
    )


def delete(world: World, name: str) -> None:
    with acting_as(world.author):
        retire_column(column=column(name), expected_version=column(name).version)
        delete_column(column=column(name), expected_version=column(name).version)


def change_column(world: World, name: str, **changes: object) -> None:
    with acting_as(world.author):
        update_target_column(column=column(name), expected_version=column(name).version, **changes)


def test_destructive_change_needs_approval_in_a_load_though_the_policy_allows_it(built):
    agree_on_policy(built.environment, {"severities": {"DROP_COLUMN": "allow"}})
    delete(built, "balance")
    assert built.report().risk == "destructive"
    assert any("drop_column" in change for change in pending(built).needing)


@pytest.mark.parametrize("name", ["full_name", "customer_id"])
def test_change_of_logic_needs_approval_despite_a_former_name_of_a_deleted_column(built, name):
    delete(built, "balance")
    TargetColumn.objects.filter(pk=column(name).pk).update(former_names=["balance"])
    seal_as_written()
    change_column(built, name, expression="1 + 1")
    assert pending(built).needing
    assert [row["code"] for row in built.report().document["rows"]] == ["HISTORY_DIFFERS"]


def test_missing_table_with_changed_logic_is_not_created_without_approval(built):
    built.warehouse.shapes.pop(str(customer().key))
    assert not pending(built).needing
    change_column(built, "customer_id", expression="1 + 1")
    assert pending(built).needing
    assert [row["code"] for row in built.report().document["rows"]] == ["HISTORY_DIFFERS"]


def test_missing_table_with_another_business_key_is_blocked(built):
    built.warehouse.shapes.pop(str(customer().key))
    change_column(built, "full_name", role="business_key", key_ordinal=2, nullable=False)
    assert pending(built).needing
    assert built.report().status == "blocked"


def test_retired_view_never_applied_needs_approval_in_a_load_of_its_reader(built):
    """Check a view that was retired before its first comparison: a load of its reader would run its later logic."""
    with acting_as(built.author):
        schema = create_schema(name="stage", layer="stage")
        view = create_target_dataset(schema=schema, name="stg_new", materialization="view")
        create_target_column(dataset=view, name="customer_id", type="integer", inputs=[])
        retire_dataset(dataset=view, expected_version=view.version)
        row = customer()
        set_dataset_inputs(dataset=row, inputs=[view], expected_version=row.version)
    built.executed()
    assert any("stage.stg_new" in change for change in pending(built, view).needing)
