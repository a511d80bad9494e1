"""Tests of the lineage of columns from sources to exposures."""

import pytest
from pytest_django import DjangoAssertNumQueries

from metadata.domain.column_lineage import BOTH, UPSTREAM, ColumnLineage
from metadata.domain.impact import BREAKS, DROP, FOLLOWS, REFUSES, RETYPE, STAYS
from metadata.domain.types import DataType
from metadata.models import ColumnInput, DatasetInput, SourceColumn, TargetColumn, TargetDataset
from metadata.selectors.column_lineage import column_lineage, lineage_of, whole_lineage
from metadata.selectors.impact import Downstream, impact_of
from metadata.selectors.lineage import of_columns
from metadata.selectors.requested_lineage import requested, starts_named
from metadata.services.datasets.targets import create_target_dataset
from metadata.services.exposures import create_exposure
from metadata.services.references import create_reference
from tests.factories import (
    ColumnInputFactory,
    DatasetInputFactory,
    TargetColumnFactory,
    TargetDatasetFactory,
    TargetSchemaFactory,
)
from tests.metadata.contracts import BOARD

pytestmark = pytest.mark.django_db

AIRPORT, HISTORY = "rawcore.rc_air_airport", "rawcore.rc_air_airport_hist"


@pytest.fixture
def mart(airport: TargetDataset) -> TargetDataset:
    """Return ``mart.names``, a model over the history of airports, with an exposure."""
    schema = TargetSchemaFactory(name="mart", layer="serving")
    select = f"SELECT upper(name) AS shout, icao FROM {HISTORY}"
    made = create_target_dataset(schema=schema, name="names", select=select)
    create_exposure(dataset=made, **BOARD)
    return made


@pytest.fixture
def circle(db: None) -> list[TargetColumn]:
    """Return two columns that read each other, which services would refuse."""
    first, other = TargetDatasetFactory(name="one"), TargetDatasetFactory(name="other")
    columns = [TargetColumnFactory(dataset=dataset, name="x") for dataset in (first, other)]
    for reader, read in (columns, columns[::-1]):
        item = DatasetInputFactory(dataset=reader.dataset, upstream=read.dataset)
        ColumnInputFactory(column=reader, dataset_input=item, upstream_column=read)
    return columns


def path(lineage: ColumnLineage) -> list[tuple[int, str]]:
    return [(node.distance, node.qualified_name) for node in lineage.nodes]


def named(dataset: str, name: str) -> TargetColumn:
    return TargetColumn.objects.get(dataset__name=dataset.split(".")[1], name=name)


def test_column_lineage_reaches_from_the_source_to_models_of_the_history(mart: TargetDataset):
    steps = path(column_lineage(named(AIRPORT, "name")))
    assert steps == [
        (-3, "air.airport.name"),
        (-2, "raw.raw_air_airport.name"),
        (-1, "stage.stg_air_airport.name"),
        (0, f"{AIRPORT}.name"),
        (1, f"{HISTORY}.name"),
        (2, "mart.names.shout"),
    ]


def test_column_lineage_is_the_same_from_its_source(mart: TargetDataset):
    whole = column_lineage(SourceColumn.objects.get(name="name"))
    assert {name for _, name in path(whole)} == {name for _, name in path(column_lineage(named(AIRPORT, "name")))}


def test_a_column_has_its_expression(mart: TargetDataset):
    lineage = column_lineage(named("mart.names", "shout"))
    assert "UPPER" in lineage.nodes[-1].expression.upper()


def test_an_exposure_reads_the_columns_of_its_dataset(mart: TargetDataset):
    lineage = column_lineage(named(AIRPORT, "name"))
    (board,) = lineage.exposures
    assert (board.name, board.distance) == ("Board", 3)
    assert [node.qualified_name for node in lineage.reads[board.id]] == ["mart.names.shout"]


def test_upstream_column_lineage_has_no_exposures(mart: TargetDataset):
    assert column_lineage(named("mart.names", "shout"), UPSTREAM).exposures == ()


def test_column_lineage_is_limited_by_steps_on_each_side(mart: TargetDataset):
    starts = starts_named(f"{AIRPORT}.name")
    assert {distance for distance, _ in path(lineage_of(starts, BOTH, up=1, down=2))} == {-1, 0, 1, 2}


def test_requested_dataset_lineage_starts_from_all_its_columns(mart: TargetDataset):
    lineage = requested(HISTORY, "", up=0, down=0)
    assert [node.qualified_name for node in lineage.nodes] == [
        f"{HISTORY}.{name}" for name in ("icao", "name", "elevation")
    ]


def test_whole_lineage_contains_the_edges_of_a_column_lineage(mart: TargetDataset):
    whole, part = whole_lineage(), column_lineage(named(AIRPORT, "name"))
    assert set(part.edges) <= set(whole.edges)


def test_an_unknown_name_or_id_has_no_lineage(mart: TargetDataset):
    for focus, column in (("nothing.here", ""), ("'; %😀", ""), ("", "target:x"), ("", "kind:" + "0" * 32)):
        assert requested(focus, column) is None


def test_a_column_without_inputs_reads_the_column_of_its_name(airport: TargetDataset):
    ColumnInput.objects.filter(column=named(AIRPORT, "name")).delete()
    names = [name for _, name in path(column_lineage(named(AIRPORT, "name")))]
    assert "stage.stg_air_airport.name" in names
    assert names == [name for _, name in path(column_lineage(named("stage.stg_air_airport", "name")))]


def test_cycle_in_column_lineage_is_drawn_and_reported(circle: list[TargetColumn]):
    lineage = column_lineage(circle[0])
    assert len(lineage.nodes) == len(lineage.edges) == 2
    assert {node.dataset for node in lineage.cycles[0]} == {"rawcore.one", "rawcore.other"}
    graph = of_columns(lineage, lambda node: "/", lambda node: "/", ())
    assert [len(node.ports) for node in graph.nodes] == [1, 1]


def test_column_lineage_query_count_does_not_grow_with_columns(
    mart: TargetDataset, django_assert_max_num_queries: DjangoAssertNumQueries
):
    with django_assert_max_num_queries(32):
        column_lineage(named(AIRPORT, "name"))
    for number in range(20):
        column = TargetColumnFactory(dataset=mart, name=f"more{number}")
        item = DatasetInput.objects.get(dataset=mart)
        ColumnInputFactory(column=column, dataset_input=item, upstream_column=named(AIRPORT, "name"))
    with django_assert_max_num_queries(32):
        assert len(column_lineage(named(AIRPORT, "name")).nodes) == 26


def test_the_impact_of_a_drop_has_direct_and_distant_dependents(mart: TargetDataset):
    effects = {(each.effect, str(each.dataset), each.what) for each in impact_of(named(AIRPORT, "name"), DROP)}
    assert (BREAKS, "mart.names", "exposure Board") in effects
    assert (REFUSES, "mart.names", "SELECT") in effects
    assert (STAYS, HISTORY, "column name") in effects


def test_the_impact_of_a_new_type_reaches_the_exposure(mart: TargetDataset):
    effects = [(each.effect, each.what) for each in impact_of(named(AIRPORT, "name"), RETYPE)]
    assert effects == [(FOLLOWS, "column name"), (FOLLOWS, "column shout"), (BREAKS, "exposure Board")]


def test_impact_of_a_type_change_is_refused_by_a_reference_unless_its_keys_are_compatible():
    parent = TargetColumnFactory(dataset__name="rc_plant", name="plant_no", data_type="integer", key_ordinal=1)
    child = TargetColumnFactory(dataset__name="rc_part", name="plant", data_type="integer")
    create_reference(child=child.dataset, parent=parent.dataset, pairs=[(child, parent)])
    for column in (parent, child):
        (effect,) = impact_of(column, RETYPE)
        assert (effect.effect, str(effect.dataset), effect.what) == (
            REFUSES,
            "rawcore.rc_part",
            "reference to rawcore.rc_plant",
        )
        assert [each.effect for each in impact_of(column, RETYPE, type=DataType("bigint"))] == [STAYS]


def test_impact_of_a_type_change_lists_filters_that_name_the_column(airport: TargetDataset):
    TargetDataset.objects.filter(pk=airport.pk).update(filter="elevation > 0")
    (effect,) = (
        each for each in impact_of(named("stage.stg_air_airport", "elevation"), RETYPE) if each.what == "filter"
    )
    assert (effect.effect, effect.dataset, effect.before) == (STAYS, airport, "elevation > 0")


def test_impact_of_a_source_column_lists_the_columns_that_read_it(mart: TargetDataset):
    column = SourceColumn.objects.get(name="name")
    effects = {(each.effect, str(each.dataset), each.what) for each in Downstream(column).impact(DROP)}
    assert (BREAKS, "raw.raw_air_airport", "column name") in effects
    assert (BREAKS, "mart.names", "exposure Board") in effects


def test_columns_that_decide_rows_are_in_lineage_and_impact(airport: TargetDataset):
    schema = TargetSchemaFactory(name="mart", layer="serving")
    select = f"SELECT a.icao FROM {AIRPORT} a WHERE a.elevation > 9"
    high = create_target_dataset(schema=schema, name="high", select=select)
    create_target_dataset(schema=schema, name="copied", select="SELECT icao FROM mart.high")
    elevation = named(AIRPORT, "elevation")
    lineage = column_lineage(elevation)
    assert [(each.name, each.dataset) for each in lineage.row_inputs] == [(f"{AIRPORT}.elevation", "mart.high")]
    upstream = column_lineage(high.columns.get(), UPSTREAM)
    assert upstream.row_inputs == lineage.row_inputs
    assert column_lineage(named(AIRPORT, "name")).row_inputs == ()
    effects = [(each.effect, str(each.dataset), each.what) for each in impact_of(elevation, RETYPE)]
    assert effects[-2:] == [(STAYS, "mart.high", "rows"), (STAYS, "mart.copied", "rows")]
