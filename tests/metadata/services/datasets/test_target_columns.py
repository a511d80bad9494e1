"""Tests of a dataset's columns together: order, batch edits, and the columns copied into a new dataset."""

import pytest

from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError, StaleVersion
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.column_batches import BatchProblem, ColumnEdit, edit_target_columns
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import (
    create_target_dataset,
    order_target_columns,
    update_target_column,
    update_target_dataset,
)
from metadata.services.lifecycle import retire_column
from metadata.services.references import create_reference
from tests.factories import (
    SourceColumnFactory,
    SourceDatasetFactory,
    TargetColumnFactory,
    TargetSchemaFactory,
    airport_source,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def airport() -> TargetDataset:
    """Return ``rawcore.rc_air_airport`` with icao (key), name and elevation."""
    generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


def named(dataset: TargetDataset, name: str) -> TargetColumn:
    return dataset.columns.get(name=name)


def names(dataset: TargetDataset) -> list[str]:
    return list(dataset.columns.filter(active=True).order_by("ordinal", "id").values_list("name", flat=True))


def edit(column: TargetColumn, **changes) -> ColumnEdit:
    return ColumnEdit(column.name, changes, column, column.version)


# --- order -------------------------------------------------------------------------------------


def in_order(dataset: TargetDataset) -> list[TargetColumn]:
    return list(dataset.columns.filter(active=True).order_by("ordinal", "id"))


def test_columns_take_the_given_order(airport: TargetDataset) -> None:
    icao, name, elevation = previous = in_order(airport)
    order_target_columns(dataset=airport, order=[elevation, icao, name], seen=previous)
    assert names(airport) == ["elevation", "icao", "name"]


def test_only_columns_that_move_are_written(airport: TargetDataset) -> None:
    icao, name, elevation = previous = in_order(airport)
    order_target_columns(dataset=airport, order=[icao, elevation, name], seen=previous)
    assert [named(airport, name).version for name in ("icao", "name", "elevation")] == [1, 2, 2]


def test_ordering_keeps_the_position_of_retired_columns(airport: TargetDataset) -> None:
    retire_column(column=named(airport, "name"), expected_version=1)
    icao, elevation = previous = in_order(airport)
    order_target_columns(dataset=airport, order=[elevation, icao], seen=previous)
    assert [(column.name, column.ordinal) for column in airport.columns.order_by("ordinal")] == [
        ("elevation", 1),
        ("name", 2),
        ("icao", 3),
    ]


def test_ordering_makes_duplicate_positions_unique(airport: TargetDataset) -> None:
    TargetColumn.objects.filter(dataset=airport).update(ordinal=7)
    previous = in_order(airport)
    order_target_columns(dataset=airport, order=previous[::-1], seen=previous)
    assert [column.ordinal for column in in_order(airport)] == [1, 2, 3]
    assert names(airport) == ["elevation", "name", "icao"]


def test_ordering_refuses_a_concurrently_changed_order(airport: TargetDataset) -> None:
    previous = in_order(airport)
    TargetColumnFactory(dataset=airport, name="note", ordinal=9)
    with pytest.raises(MetadataError) as refused:
        order_target_columns(dataset=airport, order=previous[::-1], seen=previous)
    assert refused.value.code == "order_changed"
    assert names(airport) == ["icao", "name", "elevation", "note"]


def test_ordering_requires_every_column_once(airport: TargetDataset) -> None:
    previous = in_order(airport)
    with pytest.raises(MetadataError, match="every column in use once"):
        order_target_columns(dataset=airport, order=[previous[0], previous[0], previous[1]], seen=previous)


# --- batch edits ---------------------------------------------------------------------------------


def test_batch_edit_changes_columns_and_logs_the_reason(airport: TargetDataset) -> None:
    count = ChangeLogEntry.objects.count()
    edits = [edit(named(airport, "name"), owner="Kim"), edit(named(airport, "elevation"), type="decimal(8,2)")]
    edit_target_columns(dataset=airport, edits=edits, reason="tidied")
    assert named(airport, "name").owner == "Kim"
    assert str(named(airport, "elevation").type) == "decimal(8,2)"
    assert [entry.reason for entry in ChangeLogEntry.objects.all()[count:]] == ["tidied", "tidied"]


def test_two_columns_change_places_in_the_business_key(airport: TargetDataset) -> None:
    name, icao = named(airport, "name"), named(airport, "icao")
    update_target_column(column=name, expected_version=1, role="business_key", key_ordinal=2)
    name.refresh_from_db()
    swap = [edit(icao, key_ordinal=2), edit(name, key_ordinal=1)]
    edit_target_columns(dataset=airport, edits=swap)
    assert (named(airport, "name").key_ordinal, named(airport, "icao").key_ordinal) == (1, 2)


def test_new_column_reads_columns_of_its_expression_or_of_its_name(airport: TargetDataset) -> None:
    stage = TargetDataset.objects.get(name="stg_air_airport")
    TargetColumnFactory(dataset=stage, name="lid", ordinal=9)
    edits = [
        ColumnEdit("lid", {"type": "string"}),
        ColumnEdit("shout", {"type": "string", "expression": "upper(name)"}),
        ColumnEdit("note", {"type": "string"}),
    ]
    edit_target_columns(dataset=airport, edits=edits)

    def reads(name: str) -> list[str]:
        return [item.upstream_column.name for item in named(airport, name).inputs.all()]

    assert (reads("lid"), reads("shout"), reads("note")) == (["lid"], ["name"], [])


def test_batch_edit_reports_every_invalid_cell_and_writes_nothing(airport: TargetDataset) -> None:
    edits = [
        edit(named(airport, "name"), owner="Kim"),
        edit(named(airport, "elevation"), expression="upper("),
        ColumnEdit("row_hash", {"type": "string"}),
        ColumnEdit("untyped", {}),
    ]
    with pytest.raises(BatchProblem) as refused:
        edit_target_columns(dataset=airport, edits=edits)
    assert [(problem.column, problem.field, problem.code) for problem in refused.value.problems] == [
        ("elevation", "expression", "bad_expression"),
        ("row_hash", "name", "bad_name"),
        ("untyped", "type", "missing_field"),
    ]
    assert named(airport, "name").owner == ""


def test_batch_edit_reports_an_unknown_column_at_the_expression_that_names_it(airport: TargetDataset) -> None:
    with pytest.raises(BatchProblem) as refused:
        edit_target_columns(dataset=airport, edits=[edit(named(airport, "name"), expression="upper(nme)")])
    (problem,) = refused.value.problems
    assert (problem.column, problem.field, problem.code) == ("name", "expression", "unknown_column")


def test_batch_edit_with_a_stale_column_is_refused_as_stale(airport: TargetDataset) -> None:
    name, elevation = named(airport, "name"), named(airport, "elevation")
    update_target_column(column=name, expected_version=1, owner="Bob")
    with pytest.raises(BatchProblem) as refused:
        edit_target_columns(dataset=airport, edits=[edit(name, owner="Kim"), edit(elevation, owner="Kim")])
    assert refused.value.stale
    assert [named(airport, name).owner for name in ("name", "elevation")] == ["Bob", ""]


def test_batch_edit_as_a_check_writes_nothing(airport: TargetDataset) -> None:
    count = ChangeLogEntry.objects.count()
    edits = [edit(named(airport, "name"), owner="Kim"), ColumnEdit("note", {"type": "string"})]
    edit_target_columns(dataset=airport, edits=edits, check=True)
    assert named(airport, "name").owner == ""
    assert names(airport) == ["icao", "name", "elevation"]
    assert ChangeLogEntry.objects.count() == count


def test_a_column_of_another_dataset_is_refused(airport: TargetDataset) -> None:
    other = TargetColumnFactory(name="elsewhere")
    with pytest.raises(BatchProblem) as refused:
        edit_target_columns(dataset=airport, edits=[edit(other, owner="Kim")])
    assert refused.value.problems[0].column == "elsewhere"


# --- keys with references ------------------------------------------------------------------------


@pytest.fixture
def routes(airport: TargetDataset) -> TargetDataset:
    """Return routes that refer to airports by icao."""
    source = SourceDatasetFactory(system__short_name="net", name="route")
    SourceColumnFactory(dataset=source, name="route_no", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="origin")
    generate_targets(source_dataset=source)
    dataset = TargetDataset.objects.get(name="rc_net_route")
    pairs = [(named(dataset, "origin"), named(airport, "icao"))]
    create_reference(child=dataset, parent=airport, role_name="origin", pairs=pairs)
    return dataset


def test_places_in_a_business_key_count_from_1(airport: TargetDataset) -> None:
    name = named(airport, "name")
    with pytest.raises(MetadataError, match="counts from 1"):
        update_target_column(column=name, expected_version=1, role="business_key", key_ordinal=0)


@pytest.mark.parametrize("changes", [{"role": "business_key", "key_ordinal": 2}, {"role": "attribute"}])
def test_key_of_a_referenced_dataset_cannot_change(
    airport: TargetDataset, routes: TargetDataset, changes: dict
) -> None:
    update_target_dataset(dataset=airport, expected_version=airport.version, historize=False)
    name = "name" if changes["role"] == "business_key" else "icao"
    with pytest.raises(MetadataError, match="rc_net_route"):
        update_target_column(column=named(airport, name), expected_version=1, **{"key_ordinal": None} | changes)
    assert named(airport, name).version == 1


def test_referencing_column_cannot_get_an_incompatible_type(airport: TargetDataset, routes: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="would not hold any more") as refused:
        update_target_column(column=named(routes, "origin"), expected_version=1, type="integer")
    assert refused.value.field == "type"
    update_target_column(column=named(routes, "origin"), expected_version=1, type="string(4)")


def test_batch_edit_refuses_an_incompatible_type_of_a_referencing_column(
    airport: TargetDataset, routes: TargetDataset
) -> None:
    with pytest.raises(BatchProblem) as refused:
        edit_target_columns(dataset=routes, edits=[edit(named(routes, "origin"), type="integer")])
    assert [(problem.field, problem.code) for problem in refused.value.problems] == [("type", "in_use")]


# --- inputs of a column --------------------------------------------------------------------------


def test_inputs_and_other_fields_are_changed_in_one_version(airport: TargetDataset) -> None:
    stage = TargetDataset.objects.get(name="stg_air_airport")
    saved = update_target_column(
        column=named(airport, "name"), expected_version=1, owner="Kim", inputs=[named(stage, "icao")]
    )
    assert saved.version == 2
    assert [item.upstream_column.name for item in named(airport, "name").inputs.all()] == ["icao"]


def test_change_of_inputs_alone_creates_a_new_version(airport: TargetDataset) -> None:
    stage = TargetDataset.objects.get(name="stg_air_airport")
    column = named(airport, "name")
    update_target_column(column=column, expected_version=1, inputs=[named(stage, "icao")])
    with pytest.raises(StaleVersion):
        update_target_column(column=column, expected_version=1, owner="late")


def test_given_inputs_have_precedence_over_the_expression(airport: TargetDataset) -> None:
    stage = TargetDataset.objects.get(name="stg_air_airport")
    inputs = [named(stage, "name"), named(stage, "icao")]
    update_target_column(column=named(airport, "name"), expected_version=1, expression="upper(name)", inputs=inputs)
    assert [item.upstream_column.name for item in named(airport, "name").inputs.all()] == ["name", "icao"]


# --- a new dataset with its inputs' columns ------------------------------------------------------


def test_new_dataset_takes_the_columns_of_its_input(airport: TargetDataset) -> None:
    places = create_target_dataset(
        schema=airport.schema, name="places", inputs=[airport], take_columns=True, historize=True
    )
    columns = [
        (
            column.name,
            str(column.type),
            column.role,
            column.key_ordinal,
            [item.upstream_column.name for item in column.inputs.all()],
        )
        for column in places.columns.all()
    ]
    assert columns == [
        ("icao", "string", "business_key", 1, ["icao"]),
        ("name", "string", "attribute", None, ["name"]),
        ("elevation", "float", "attribute", None, ["elevation"]),
    ]
    assert places.history.name == "places_hist"


def test_new_dataset_takes_key_and_shared_names_from_its_first_input(airport: TargetDataset) -> None:
    source = SourceDatasetFactory(system__short_name="net", name="station")
    SourceColumnFactory(dataset=source, name="Station Code", key_ordinal=1, ordinal=1)
    SourceColumnFactory(dataset=source, name="name", ordinal=2, data_type="integer")
    schema = TargetSchemaFactory(name="mart", layer="bizcore")
    places = create_target_dataset(schema=schema, name="places", inputs=[airport, source], take_columns=True)
    roles = {column.name: (column.role, str(column.type)) for column in places.columns.all()}
    assert roles == {
        "icao": ("business_key", "string"),
        "name": ("attribute", "string"),
        "elevation": ("attribute", "float"),
        "station_code": ("attribute", "string"),
    }
