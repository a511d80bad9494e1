"""Inputs of columns that are matched by name: listed in states, and changed by renames."""

import pytest

from architecture.models import ChangeReport
from elevata.accounts.actors import acting_as
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    update_target_column,
)
from metadata.services.lifecycle import rename_column
from tests.architecture.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def read_by_name(world: World) -> World:
    """Return a world with a built history whose column ``v`` has no inputs and is matched to ``v`` of a view."""
    with acting_as(world.author):
        stage = create_schema(name="stage", layer="stage")
        rawcore = TargetSchema.objects.filter(name="rawcore").first() or create_schema(name="rawcore", layer="rawcore")
        view = create_target_dataset(schema=stage, name="stg_a", materialization="view")
        key = {"type": "integer", "role": "business_key", "key_ordinal": 1}
        create_target_column(dataset=view, name="id", inputs=[], **key)
        create_target_column(dataset=view, name="v", type="string", inputs=[])
        table = create_target_dataset(schema=rawcore, name="rc_a", historize=True, inputs=[view])
        create_target_column(dataset=table, name="id", inputs=[view.columns.get(name="id")], **key)
        create_target_column(dataset=table, name="v", type="string", inputs=[])
    world.executed()
    return world


def of_view(name: str = "v") -> TargetColumn:
    return TargetDataset.objects.get(name="stg_a").columns.get(name=name)


def operations(report: ChangeReport) -> set[tuple[str, str, str]]:
    return {(row["op"], row["dataset"], row["decision"]) for row in report.document["rows"] if row["column"] == "v"}


def test_state_lists_the_input_of_a_column_matched_by_name(read_by_name: World) -> None:
    (table,) = (table for table in dataset_states() if table.name == "rc_a")
    (column,) = (column for column in table.columns if column.name == "v")
    assert column.inputs == (str(of_view().key),)


def test_rename_upstream_of_a_column_matched_by_name_needs_approval(read_by_name: World) -> None:
    with acting_as(read_by_name.author):
        rename_column(column=of_view(), name="w", expected_version=of_view().version)
    assert ("change_logic", "rawcore.rc_a", "needs_approval") in operations(read_by_name.report())


def test_expression_upstream_of_a_column_matched_by_name_needs_approval(read_by_name: World) -> None:
    with acting_as(read_by_name.author):
        update_target_column(column=of_view(), expected_version=of_view().version, expression="'x'", inputs=[])
    assert operations(read_by_name.report()) == {("change_logic", "stage.stg_a", "needs_approval")}
