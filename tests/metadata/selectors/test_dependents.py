"""Tests of the dependents shown before a rename, retirement or deletion, against its actual effect."""

from collections.abc import Iterable

import pytest

from elevata.core.errors import MetadataError
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors import dependents
from metadata.selectors.dependents import BREAKS, FOLLOWS, REFUSES, STAYS, Dependent
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import (
    create_target_column,
    create_target_dataset,
    set_dataset_inputs,
    update_target_column,
    update_target_dataset,
)
from metadata.services.deletion import delete_column, delete_dataset
from metadata.services.lifecycle import rename_column, rename_dataset, retire_column, retire_dataset
from metadata.services.references import create_reference, retire_reference
from tests.factories import SourceColumnFactory, SourceDatasetFactory, TargetSchemaFactory, airport_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def airport() -> TargetDataset:
    generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


@pytest.fixture
def places(airport: TargetDataset) -> TargetDataset:
    """Return ``mart.places``, which reads airports by a filter, by an expression and by plain columns."""
    schema = TargetSchemaFactory(name="mart", layer="bizcore")
    row = create_target_dataset(schema=schema, name="places", inputs=[airport], take_columns=True)
    create_target_column(dataset=row, name="shout", type="string", expression="upper(name)")
    return update_target_dataset(dataset=row, expected_version=row.version, filter="name IS NOT NULL")


def named(dataset: TargetDataset, name: str) -> TargetColumn:
    return TargetColumn.objects.get(dataset=dataset, name=name)


def summaries(rows: Iterable[Dependent]) -> list[tuple[str, str, str, str, str]]:
    return [(row.effect, str(row.dataset), row.what, row.before, row.after) for row in rows]


def routes_to(airport: TargetDataset, role: str = "") -> TargetDataset:
    source = SourceDatasetFactory(system__short_name="net", name="route")
    SourceColumnFactory(dataset=source, name="route_no", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="origin")
    generate_targets(source_dataset=source)
    routes = TargetDataset.objects.get(name="rc_net_route")
    pair = (named(routes, "origin"), named(airport, "icao"))
    create_reference(child=routes, parent=airport, role_name=role, pairs=[pair])
    return routes


# --- renames -----------------------------------------------------------------------------------


def test_column_rename_lists_dependents_with_their_new_text(airport: TargetDataset, places: TargetDataset) -> None:
    assert summaries(dependents.of_column_rename(named(airport, "name"), "title")) == [
        (FOLLOWS, "rawcore.rc_air_airport_hist", "history", "name", "title"),
        (FOLLOWS, "mart.places", "filter", "name IS NOT NULL", "`title` IS NOT NULL"),
        (STAYS, "mart.places", "column name", "", ""),
        (FOLLOWS, "mart.places", "column shout", "upper(name)", "upper(`title`)"),
    ]


def test_column_rename_has_the_effect_that_its_dependents_show(airport: TargetDataset, places: TargetDataset) -> None:
    announced = {row.what: row.after for row in dependents.of_column_rename(named(airport, "name"), "title")}
    rename_column(column=named(airport, "name"), name="title", expected_version=1, reason="clearer")
    places.refresh_from_db()
    assert places.filter == announced["filter"]
    assert named(places, "shout").expression == announced["column shout"]


def test_column_rename_without_a_name_lists_dependents_without_new_text(
    airport: TargetDataset, places: TargetDataset
) -> None:
    assert [row.after for row in dependents.of_column_rename(named(airport, "name"))] == ["", "", "", ""]


def test_column_rename_lists_a_history_policy_that_names_the_column(airport: TargetDataset) -> None:
    policy = {"track": ["name"]}
    update_target_dataset(dataset=airport, expected_version=airport.version, history_policy=policy)
    rows = dependents.of_column_rename(named(airport, "name"), "title")
    assert (FOLLOWS, "rawcore.rc_air_airport", "history policy", "name", "title") in summaries(rows)


def test_column_rename_keeps_references(airport: TargetDataset) -> None:
    routes_to(airport, "origin")
    rows = dependents.of_column_rename(named(airport, "icao"), "code")
    assert (STAYS, "rawcore.rc_net_route", "reference to rawcore.rc_air_airport", "", "") in summaries(rows)


def test_rename_of_an_input_column_used_by_a_cdc_policy_is_refused_as_listed(airport: TargetDataset) -> None:
    stage = TargetDataset.objects.get(name="stg_air_airport")
    operation = create_target_column(dataset=stage, name="op", type="string", inputs=[])
    changed = create_target_column(dataset=airport, name="changed_at", type="timestamp", inputs=[])
    policy = {"input": "cdc", "op": "op", "time": changed.name}
    update_target_dataset(dataset=airport, expected_version=airport.version, history_policy=policy)
    rows = dependents.of_column_rename(operation, "operation")
    assert (REFUSES, "rawcore.rc_air_airport", "history policy", "op", "") in summaries(rows)
    with pytest.raises(MetadataError):
        rename_column(column=operation, name="operation", expected_version=1, reason="clearer")


def test_dataset_rename_lists_its_key_history_and_references(airport: TargetDataset, places: TargetDataset) -> None:
    routes_to(airport)
    assert summaries(dependents.of_dataset_rename(airport, "rc_airfield")) == [
        (FOLLOWS, "rawcore.rc_air_airport", "key column", "rc_air_airport_key", "rc_airfield_key"),
        (FOLLOWS, "rawcore.rc_air_airport_hist", "history", "rc_air_airport_hist", "rc_airfield_hist"),
        (FOLLOWS, "rawcore.rc_net_route", "reference", "rc_air_airport_key", "rc_airfield_key"),
        (STAYS, "mart.places", "input", "", ""),
    ]
    rename_dataset(dataset=airport, name="rc_airfield", expected_version=airport.version, reason="clearer")
    assert TargetDataset.objects.get(history_of=airport).name == "rc_airfield_hist"


def test_dataset_rename_keeps_a_reference_with_a_role(airport: TargetDataset) -> None:
    routes_to(airport, "origin")
    rows = dependents.of_dataset_rename(airport, "rc_airfield")
    assert (STAYS, "rawcore.rc_net_route", "reference origin", "", "") in summaries(rows)


def test_downstream_is_everything_that_rows_flow_into(airport: TargetDataset, places: TargetDataset) -> None:
    raw = TargetDataset.objects.get(name="raw_air_airport")
    labels = [node.label for node in dependents.downstream(raw)]
    assert labels == ["stage.stg_air_airport", "rawcore.rc_air_airport", "mart.places"]


# --- retiring and deleting -----------------------------------------------------------------------


def test_column_retirement_lists_broken_readers(airport: TargetDataset, places: TargetDataset) -> None:
    assert summaries(dependents.of_column_retirement(named(airport, "name"))) == [
        (BREAKS, "mart.places", "filter", "name IS NOT NULL", ""),
        (BREAKS, "mart.places", "column name", "", ""),
        (BREAKS, "mart.places", "column shout", "upper(name)", ""),
    ]


def refuses_retirement(column: TargetColumn) -> bool:
    try:
        retire_column(column=column, expected_version=column.version)
    except MetadataError:
        return True
    return False


@pytest.mark.parametrize("name", ["icao", "name", "elevation"])
def test_a_retirement_is_announced_as_refused_when_the_service_refuses_it(airport: TargetDataset, name: str) -> None:
    policy = {"track": ["name"]}
    update_target_dataset(dataset=airport, expected_version=airport.version, history_policy=policy)
    announced = any(dependent.effect == REFUSES for dependent in dependents.of_column_retirement(named(airport, name)))
    assert announced == refuses_retirement(named(airport, name)) == (name != "elevation")


def test_reference_refuses_the_retirement_of_its_column(airport: TargetDataset) -> None:
    routes = routes_to(airport)
    assert any(dependent.effect == REFUSES for dependent in dependents.of_column_retirement(named(routes, "origin")))
    assert refuses_retirement(named(routes, "origin"))


def test_dataset_retirement_lists_its_history_and_broken_readers(airport: TargetDataset, places: TargetDataset) -> None:
    routes_to(airport, "origin")
    assert summaries(dependents.of_dataset_retirement(airport)) == [
        (FOLLOWS, "rawcore.rc_air_airport_hist", "history", "", ""),
        (BREAKS, "mart.places", "input", "", ""),
        (BREAKS, "rawcore.rc_net_route", "reference origin", "", ""),
    ]


def test_deletion_is_refused_by_readers_of_the_column_or_dataset(airport: TargetDataset, places: TargetDataset) -> None:
    update_target_dataset(dataset=places, expected_version=places.version, filter="")
    column = retire_column(column=named(airport, "elevation"), expected_version=1)
    assert summaries(dependents.of_column_deletion(column)) == [(REFUSES, "mart.places", "column elevation", "", "")]
    with pytest.raises(MetadataError, match="needs it"):
        delete_column(column=column, expected_version=column.version)
    airport.refresh_from_db()
    dataset = retire_dataset(dataset=airport, expected_version=airport.version)
    assert (REFUSES, "mart.places", "input", "", "") in summaries(dependents.of_dataset_deletion(dataset))
    with pytest.raises(MetadataError, match="needs it"):
        delete_dataset(dataset=dataset, expected_version=dataset.version)


def test_deletion_of_an_unread_column_has_no_dependents(airport: TargetDataset) -> None:
    column = retire_column(column=named(airport, "elevation"), expected_version=1)
    assert dependents.of_column_deletion(column) == []
    delete_column(column=column, expected_version=column.version)


def test_unreadable_expression_is_listed_as_refusing_a_rename(airport: TargetDataset, places: TargetDataset) -> None:
    broken = named(places, "shout")
    TargetColumn.objects.filter(pk=broken.pk).update(expression="upper(")
    rows = dependents.of_column_rename(named(airport, "name"), "title")
    assert (REFUSES, "mart.places", "column shout", "upper(", "") in summaries(rows)


def test_dependents_follow_a_changed_expression(airport: TargetDataset, places: TargetDataset) -> None:
    column = named(places, "shout")
    update_target_column(column=column, expected_version=column.version, expression="upper(icao)")
    subjects = [dependent.what for dependent in dependents.of_column_rename(named(airport, "name"))]
    assert "column shout" not in subjects


# --- references ----------------------------------------------------------------------------------


def test_reference_retirement_lists_the_foreign_key_and_keeps_both_ends(airport: TargetDataset) -> None:
    reference = routes_to(airport, role="origin").references.get()
    assert summaries(dependents.of_reference_retirement(reference)) == [
        (FOLLOWS, "rawcore.rc_net_route", "foreign key", "origin_key", ""),
        (FOLLOWS, "rawcore.rc_net_route_hist", "history", "origin_key", ""),
        (STAYS, "rawcore.rc_net_route", "column origin", "", ""),
        (STAYS, "rawcore.rc_air_airport", "business key", "", ""),
    ]


def test_retired_reference_has_no_dependents(airport: TargetDataset) -> None:
    reference = routes_to(airport).references.get()
    assert dependents.of_reference_retirement(retire_reference(reference=reference, expected_version=1)) == []


# --- queries ---------------------------------------------------------------------------------------


def test_removing_an_input_lists_the_columns_and_filter_that_read_it(
    airport: TargetDataset, places: TargetDataset
) -> None:
    retire_column(column=named(places, "elevation"), expected_version=1)
    rows = dependents.of_inputs_change(places, [])
    assert [(dependent.effect, dependent.what) for dependent in rows] == [
        (REFUSES, "column icao"),
        (REFUSES, "column name"),
        (REFUSES, "column elevation"),
        (REFUSES, "column shout"),
        (REFUSES, "filter"),
        (REFUSES, "column shout"),
    ]
    assert "it is retired: delete or restore it" in rows[2].says


def test_unchanged_inputs_have_no_dependents(airport: TargetDataset, places: TargetDataset) -> None:
    assert dependents.of_inputs_change(places, [airport]) == []


def test_inputs_change_is_listed_as_refused_if_the_service_refuses_it(
    airport: TargetDataset, places: TargetDataset
) -> None:
    top = create_target_dataset(schema=places.schema, name="top", inputs=[places])
    for inputs in ([], [airport, top], [top]):
        assert REFUSES in {dependent.effect for dependent in dependents.of_inputs_change(places, inputs)}
        with pytest.raises(MetadataError):
            set_dataset_inputs(dataset=places, expected_version=places.version, inputs=inputs)
    inputs = [airport.generated_from, airport]
    assert {dependent.effect for dependent in dependents.of_inputs_change(places, inputs)} == {FOLLOWS}
    set_dataset_inputs(dataset=places, expected_version=places.version, inputs=inputs)
