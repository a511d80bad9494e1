"""Tests of selectors: states, history columns and lineage, in a constant number of queries."""

import pytest
from pytest_django import DjangoAssertNumQueries

from architecture.domain.tables import history_table
from metadata.models import TargetDataset
from metadata.selectors import dataset_states, datasets, history_columns
from metadata.selectors.dataset_lineage import lineage
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import create_target_column, update_target_dataset
from metadata.services.lifecycle import retire_column, retire_dataset
from metadata.services.references import create_reference
from tests.factories import SourceColumnFactory, SourceDatasetFactory, airport_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def rawcore() -> TargetDataset:
    generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


def add_routes(rawcore: TargetDataset) -> TargetDataset:
    source = SourceDatasetFactory(system__short_name="net", name="route")
    SourceColumnFactory(dataset=source, name="route_no", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="origin_icao")
    generate_targets(source_dataset=source)
    routes = TargetDataset.objects.get(name="rc_net_route")
    pair = (routes.columns.get(name="origin_icao"), rawcore.columns.get(name="icao"))
    create_reference(child=routes, parent=rawcore, role_name="origin", pairs=[pair])
    return routes


def test_dataset_states_take_six_queries(
    rawcore: TargetDataset, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(6):
        dataset_states.dataset_states()


def test_more_datasets_and_references_take_no_more_queries(
    rawcore: TargetDataset, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    add_routes(rawcore)
    with django_assert_num_queries(6):
        dataset_states.dataset_states()


def test_dataset_state_has_the_key_of_its_history(rawcore: TargetDataset) -> None:
    assert dataset_states.dataset_state(rawcore).history_key == str(rawcore.history.key)


def test_history_datasets_are_not_listed(rawcore: TargetDataset) -> None:
    names = [state.name for state in dataset_states.dataset_states()]
    assert names == ["raw_air_airport", "rc_air_airport", "stg_air_airport"]


def test_dataset_state_of_a_history_is_that_of_its_base(rawcore: TargetDataset) -> None:
    assert dataset_states.dataset_state(rawcore.history).name == "rc_air_airport"


def test_dataset_state_contains_retired_objects_as_inactive(rawcore: TargetDataset) -> None:
    retire_column(column=rawcore.columns.get(name="name"), expected_version=1)
    retire_dataset(dataset=rawcore, expected_version=1)
    state = dataset_states.dataset_state(rawcore)
    assert (state.active, [column.active for column in state.columns]) == (False, [True, False, True])


def test_inputs_are_stable_keys(rawcore: TargetDataset) -> None:
    stage = TargetDataset.objects.get(name="stg_air_airport")
    state = dataset_states.dataset_state(rawcore)
    assert state.inputs == (str(stage.key),)
    assert state.columns[0].inputs == (str(stage.columns.get(name="icao").key),)


def test_dataset_state_has_full_column_types(rawcore: TargetDataset) -> None:
    assert [column.type for column in dataset_states.dataset_state(rawcore).columns] == [
        "string",
        "string",
        "float",
    ]


def test_a_reference_names_its_column_and_pairs(rawcore: TargetDataset) -> None:
    routes = add_routes(rawcore)
    (reference,) = dataset_states.dataset_state(routes).references
    child, parent = routes.columns.get(name="origin_icao"), rawcore.columns.get(name="icao")
    assert (reference.column_name, reference.pairs) == ("origin_key", ((str(child.key), str(parent.key)),))


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"profile": "fivetran"},
        {"profile": "dbt"},
        {"profile": "scd2"},
        {"input": "effective", "time": "changed_on", "profile": "dbt"},
    ],
)
def test_historys_columns_are_those_of_its_table(rawcore: TargetDataset, policy: dict) -> None:
    routes = add_routes(rawcore)
    create_target_column(dataset=routes, name="changed_on", type="date")
    routes = update_target_dataset(dataset=routes, expected_version=routes.version, history_policy=policy)
    columns = [(column.name, column.type) for column in history_columns.history_columns(routes.history)]
    table = history_table(dataset_states.dataset_state(routes))
    assert columns == [(column.name, column.type) for column in table.columns]


def test_lineage_reaches_from_the_source_to_history(rawcore: TargetDataset) -> None:
    graph = lineage(rawcore)
    assert [(node.label, node.distance) for node in graph.nodes] == [
        ("air.airport", -3),
        ("raw.raw_air_airport", -2),
        ("stage.stg_air_airport", -1),
        ("rawcore.rc_air_airport", 0),
        ("rawcore.rc_air_airport_hist", 1),
    ]


def test_lineage_looks_the_same_from_a_source(rawcore: TargetDataset) -> None:
    assert len(lineage(rawcore.generated_from).nodes) == 5


def test_dataset_lineage_contains_references_to_the_dataset(rawcore: TargetDataset) -> None:
    add_routes(rawcore)
    references = [edge for edge in lineage(rawcore).edges if edge.kind == "reference"]
    assert [edge.label for edge in references] == ["origin_key"]


def test_only_the_dataset_itself_has_the_distance_zero(rawcore: TargetDataset) -> None:
    routes = add_routes(rawcore)
    distances = {node.label: node.distance for node in lineage(rawcore.history).nodes}
    assert (distances[str(rawcore)], distances[str(routes)]) == (-1, -2)
    assert [name for name, distance in distances.items() if distance == 0] == [str(rawcore.history)]


def test_datasets_that_only_refer_to_another_are_not_downstream_of_it(rawcore: TargetDataset) -> None:
    routes, graph = add_routes(rawcore), lineage(rawcore)
    assert routes.pk in [node.pk for node in graph.nodes]
    assert graph.downstream_pks == [rawcore.pk, rawcore.history.pk]


def test_lineage_takes_a_constant_number_of_queries(
    rawcore: TargetDataset, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    add_routes(rawcore)
    with django_assert_max_num_queries(5):
        lineage(rawcore)


def test_a_dataset_page_takes_a_constant_number_of_queries(
    rawcore: TargetDataset, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    add_routes(rawcore)
    with django_assert_max_num_queries(10):
        for row in datasets.target_dataset_detail():
            [str(item.source or item.upstream) for item in row.inputs.all()]
            [str(read.source_column or read.upstream_column) for c in row.columns.all() for read in c.inputs.all()]
