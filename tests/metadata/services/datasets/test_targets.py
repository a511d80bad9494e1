"""Tests of creating and changing target datasets, their columns and their inputs."""

import pytest

from elevata.core.errors import MetadataError
from metadata.models import TargetDataset
from metadata.services import lifecycle, sources
from metadata.services.datasets import targets
from tests.factories import (
    SourceDatasetFactory,
    TargetColumnFactory,
    TargetSchemaFactory,
)

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "a_hist"}, "name"),
        ({"name": "größe"}, "name"),
        ({"materialization": "index"}, "materialization"),
        ({"filter": "select 1"}, "filter"),
        ({"filter": "other = 1"}, "filter"),
        ({"history_policy": {"tine": "load"}}, "history_policy.tine"),
    ],
)
def test_invalid_target_dataset_is_refused_with_its_field(values: dict, field: str) -> None:
    with pytest.raises(MetadataError) as refused:
        targets.create_target_dataset(**{"schema": TargetSchemaFactory(), "name": "a", **values})
    assert refused.value.field == field


def test_a_view_has_no_history() -> None:
    with pytest.raises(MetadataError, match="Only a table"):
        targets.create_target_dataset(schema=TargetSchemaFactory(), name="a", materialization="view", historize=True)


@pytest.mark.parametrize("layer", ["raw", "stage", "bizcore", "serving"])
def test_only_rawcore_keeps_a_history(layer: str) -> None:
    schema = TargetSchemaFactory(name=layer, layer=layer)
    with pytest.raises(MetadataError, match=f"layer {layer} keeps no history"):
        targets.create_target_dataset(schema=schema, name="a", historize=True)


def test_a_historized_dataset_has_a_history_row() -> None:
    row = targets.create_target_dataset(schema=TargetSchemaFactory(), name="rc_a", historize=True)
    assert row.history.name == "rc_a_hist"


def test_a_name_that_differs_only_by_case_is_refused(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="name of another dataset"):
        targets.create_target_dataset(schema=rawcore.schema, name="RC_Air_Airport")


@pytest.mark.parametrize("name", ["", "load_run_id", "rc_air_airport_key", "version_state", "a\tb", "ICAO", "__held"])
def test_invalid_column_name_is_refused(rawcore: TargetDataset, name: str) -> None:
    with pytest.raises(MetadataError) as refused:
        targets.create_target_column(dataset=rawcore, name=name, type="string")
    assert refused.value.field == "name"


def test_column_cannot_be_renamed_to_a_name_with_two_leading_underscores(rawcore: TargetDataset) -> None:
    column = rawcore.columns.get(name="icao")
    with pytest.raises(MetadataError, match="begins with __"):
        lifecycle.rename_column(column=column, name="__icao", expected_version=column.version)


def test_delivered_name_may_begin_with_two_underscores_and_its_target_name_may_not() -> None:
    source = SourceDatasetFactory()
    sources.create_source_column(source_dataset=source, name="__op", type="string", target_name="op")
    with pytest.raises(MetadataError, match="begins with __") as refused:
        sources.create_source_column(source_dataset=source, name="__seq", type="bigint", target_name="__seq")
    assert refused.value.field == "target_name"


def test_a_history_dataset_gets_no_columns(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="are its base's"):
        targets.create_target_column(dataset=rawcore.history, name="x", type="string")


def test_raw_dataset_refuses_expressions(rawcore: TargetDataset) -> None:
    raw = TargetDataset.objects.get(name="raw_air_airport")
    with pytest.raises(MetadataError, match="without expressions"):
        targets.create_target_column(dataset=raw, name="x", type="string", expression="1")


def test_new_column_takes_its_inputs_from_its_expression(rawcore: TargetDataset) -> None:
    row = targets.create_target_column(dataset=rawcore, name="label", type="string", expression="icao || ' ' || name")
    assert [item.upstream_column.name for item in row.inputs.all()] == ["icao", "name"]


def test_expression_with_a_column_of_no_input_is_refused(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="names 'runway'"):
        targets.create_target_column(dataset=rawcore, name="x", type="string", expression="upper(runway)")


def test_column_input_of_another_dataset_is_refused(rawcore: TargetDataset) -> None:
    stranger = TargetColumnFactory()
    column = rawcore.columns.get(name="name")
    with pytest.raises(MetadataError, match="does not belong to an input"):
        targets.update_target_column(column=column, expected_version=1, inputs=[stranger])


def test_dataset_cannot_read_itself_through_others(rawcore: TargetDataset, stage: TargetDataset) -> None:
    source = [item.source or item.upstream for item in stage.inputs.all()]
    with pytest.raises(MetadataError, match="would read itself"):
        targets.set_dataset_inputs(dataset=stage, expected_version=1, inputs=[*source, rawcore.history])


def test_input_read_by_columns_cannot_be_removed(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="columns still read"):
        targets.set_dataset_inputs(dataset=rawcore, expected_version=1, inputs=[])
