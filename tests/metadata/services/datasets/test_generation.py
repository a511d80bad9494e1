"""Tests of generation into the database: idempotent, and preserving users' edits."""

from collections.abc import Callable

import pytest

from elevata.core.errors import MetadataError
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets, is_generated, stored_targets
from metadata.services.datasets.targets import create_target_column, update_target_column, update_target_dataset
from metadata.services.lifecycle import rename_column, rename_dataset, retire_column, retire_dataset
from metadata.services.references import create_reference
from metadata.services.sources import create_source_column, update_source_column, update_source_dataset
from tests.factories import SourceColumnFactory, TargetDatasetFactory, TargetSchemaFactory, airport_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def source() -> SourceDataset:
    dataset = airport_source()
    generate_targets(source_dataset=dataset)
    return dataset


def dataset(name: str) -> TargetDataset:
    return TargetDataset.objects.get(name=name)


def column(table: str, name: str) -> TargetColumn:
    return TargetColumn.objects.get(dataset__name=table, name=name)


def switch(source: SourceDataset, name: str, *, active: bool) -> None:
    row = source.columns.get(name=name)
    update_source_column(source_column=row, expected_version=row.version, active=active)
    generate_targets(source_dataset=source)


def test_generation_creates_datasets_in_all_layers() -> None:
    summary = generate_targets(source_dataset=airport_source())
    assert summary.as_json()["created"] == [
        "raw.raw_air_airport",
        "rawcore.rc_air_airport",
        "rawcore.rc_air_airport_hist",
        "stage.stg_air_airport",
    ]


def test_repeated_generation_changes_nothing(source: SourceDataset) -> None:
    assert not generate_targets(source_dataset=source)


def test_repeated_generation_writes_no_row(source: SourceDataset) -> None:
    before = list(TargetColumn.objects.order_by("id").values_list("id", "version", "updated_at"))
    generate_targets(source_dataset=source)
    assert list(TargetColumn.objects.order_by("id").values_list("id", "version", "updated_at")) == before


def is_known_as_generated(source: SourceDataset) -> bool:
    fresh = SourceDataset.objects.get(pk=source.pk)
    return is_generated(fresh, stored_targets([fresh])[fresh.pk])


def test_unchanged_source_is_recognized_as_generated(source: SourceDataset) -> None:
    rename_column(column=column("rc_air_airport", "icao"), name="code", expected_version=1)
    retire_column(column=column("rc_air_airport", "elevation"), expected_version=1)
    assert is_known_as_generated(source)


EFFECTS = {
    "a new column": lambda source: SourceColumnFactory(dataset=source, name="lid"),
    "a column that is gone": lambda source: source.columns.filter(name="elevation").update(active=False),
    "a dataset that is gone": lambda source: TargetDataset.objects.filter(name="rc_air_airport_hist").delete(),
    "a source out of use": lambda source: SourceDataset.objects.filter(pk=source.pk).update(active=False),
}


@pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS)
def test_changed_source_is_recognized_as_not_generated(source: SourceDataset, effect: Callable) -> None:
    effect(source)
    assert not is_known_as_generated(source)
    generate_targets(source_dataset=source)
    assert is_known_as_generated(source)


def test_generated_column_inputs_lead_from_rawcore_to_the_source(source: SourceDataset) -> None:
    row = column("rc_air_airport", "icao")
    while isinstance(row, TargetColumn):
        (read,) = row.inputs.all()
        row = read.source_column or read.upstream_column
    assert row == source.columns.get(name="icao")


def test_new_source_column_is_last_in_every_layer(source: SourceDataset) -> None:
    create_source_column(source_dataset=source, name="lid", type="string")
    generate_targets(source_dataset=source)
    for table in ("raw_air_airport", "stg_air_airport", "rc_air_airport"):
        assert dataset(table).columns.last().name == "lid"


def test_generation_keeps_a_renamed_dataset(source: SourceDataset) -> None:
    rename_dataset(dataset=dataset("rc_air_airport"), name="airport", expected_version=1)
    assert not generate_targets(source_dataset=source)


def test_generation_keeps_a_renamed_column(source: SourceDataset) -> None:
    rename_column(column=column("rc_air_airport", "name"), name="title", expected_version=1)
    assert not generate_targets(source_dataset=source)


def test_generation_keeps_an_edited_type_despite_a_new_source_type(source: SourceDataset) -> None:
    update_target_column(column=column("rc_air_airport", "elevation"), expected_version=1, type="decimal(10,2)")
    row = source.columns.get(name="elevation")
    update_source_column(source_column=row, expected_version=1, type="integer")
    generate_targets(source_dataset=source)
    assert str(column("rc_air_airport", "elevation").type) == "decimal(10,2)"


def test_generation_keeps_an_edited_description(source: SourceDataset) -> None:
    update_target_column(column=column("rc_air_airport", "name"), expected_version=1, description="Ours")
    generate_targets(source_dataset=source)
    assert column("rc_air_airport", "name").description == "Ours"


def test_generation_keeps_a_column_added_by_a_user(source: SourceDataset) -> None:
    create_target_column(dataset=dataset("rc_air_airport"), name="shouted", type="string", expression="upper(name)")
    generate_targets(source_dataset=source)
    assert column("rc_air_airport", "shouted").active


def test_generation_retires_a_removed_column_in_every_layer(source: SourceDataset) -> None:
    switch(source, "elevation", active=False)
    rows = TargetColumn.objects.filter(name="elevation")
    assert [(row.active, row.retired_by) for row in rows] == [(False, "generation")] * 3


def test_generation_restores_a_column_that_is_active_again(source: SourceDataset) -> None:
    switch(source, "elevation", active=False)
    switch(source, "elevation", active=True)
    assert TargetColumn.objects.filter(name="elevation", active=True).count() == 3


def test_generation_keeps_a_column_retired_by_a_user(source: SourceDataset) -> None:
    retire_column(column=column("rc_air_airport", "elevation"), expected_version=1)
    generate_targets(source_dataset=source)
    assert not column("rc_air_airport", "elevation").active


def test_generation_keeps_a_dataset_retired_by_a_user(source: SourceDataset) -> None:
    retire_dataset(dataset=dataset("rc_air_airport"), expected_version=1)
    generate_targets(source_dataset=source)
    assert not TargetDataset.objects.filter(name__startswith="rc_air_airport", active=True).exists()


def test_generation_of_an_inactive_source_retires_its_datasets(source: SourceDataset) -> None:
    update_source_dataset(source_dataset=source, expected_version=1, active=False)
    generate_targets(source_dataset=source)
    assert not TargetDataset.objects.filter(active=True).exists()


def test_generation_of_a_reactivated_source_restores_its_datasets(source: SourceDataset) -> None:
    update_source_dataset(source_dataset=source, expected_version=1, active=False)
    generate_targets(source_dataset=source)
    update_source_dataset(source_dataset=source, expected_version=2, active=True)
    generate_targets(source_dataset=source)
    assert TargetDataset.objects.filter(active=True).count() == 4


def test_generation_keeps_history_switched_off_by_a_user(source: SourceDataset) -> None:
    update_target_dataset(dataset=dataset("rc_air_airport"), expected_version=1, historize=False)
    generate_targets(source_dataset=source)
    assert not dataset("rc_air_airport_hist").active


def test_generation_keeps_history_switched_on_by_a_user() -> None:
    source = airport_source()
    update_source_dataset(source_dataset=source, expected_version=1, historize=False)
    generate_targets(source_dataset=source)
    update_target_dataset(dataset=dataset("rc_air_airport"), expected_version=1, historize=True)
    generate_targets(source_dataset=source)
    assert dataset("rc_air_airport_hist").active


def test_generation_omits_a_column_with_integrate_off() -> None:
    source = airport_source()
    SourceColumnFactory(dataset=source, name="noise", ordinal=9, integrate=False)
    generate_targets(source_dataset=source)
    assert not TargetColumn.objects.filter(name="noise").exists()


def test_a_new_column_does_not_take_the_name_of_a_foreign_key(source: SourceDataset) -> None:
    rawcore = dataset("rc_air_airport")
    pair = (column("rc_air_airport", "name"), column("rc_air_airport", "icao"))
    create_reference(child=rawcore, parent=rawcore, role_name="hub", pairs=[pair])
    create_source_column(source_dataset=source, name="hub_key", type="string")
    generate_targets(source_dataset=source)
    assert rawcore.columns.last().name == "hub_key_2"


def test_a_name_that_another_dataset_has_is_refused() -> None:
    TargetDatasetFactory(schema=TargetSchemaFactory(name="raw"), name="raw_air_airport")
    with pytest.raises(MetadataError, match="needs the name 'raw_air_airport'"):
        generate_targets(source_dataset=airport_source())


def test_a_refused_generation_writes_nothing() -> None:
    TargetDatasetFactory(schema=TargetSchemaFactory(name="rawcore"), name="rc_air_airport")
    with pytest.raises(MetadataError):
        generate_targets(source_dataset=airport_source())
    assert TargetDataset.objects.count() == 1


def test_a_source_without_columns_is_refused() -> None:
    source = airport_source()
    source.columns.all().delete()
    with pytest.raises(MetadataError, match="no column"):
        generate_targets(source_dataset=source)


def test_a_policy_that_does_not_fit_the_source_is_refused() -> None:
    source = airport_source()
    SourceDataset.objects.update(history_policy={"time": "gone"})
    with pytest.raises(MetadataError, match="no column 'gone'"):
        generate_targets(source_dataset=source)


def test_a_generated_policy_names_the_targets_columns() -> None:
    source = airport_source(icao={"key_ordinal": 1}, **{"Full Name": {}})
    update_source_dataset(source_dataset=source, expected_version=1, history_policy={"track": ["Full Name"]})
    generate_targets(source_dataset=source)
    assert dataset("rc_air_airport").history_policy == {"track": ["full_name"]}


def test_generation_retires_no_column_that_a_policy_names(source: SourceDataset) -> None:
    """Check that a column named by rawcore's history policy is not retired; a user must change the policy first."""
    rawcore = dataset("rc_air_airport")
    update_target_dataset(dataset=rawcore, expected_version=1, history_policy={"track": ["name"]})
    with pytest.raises(MetadataError, match="no column 'name'") as refused:
        switch(source, "name", active=False)
    assert (refused.value.field, refused.value.where) == ("history_policy.track", "rawcore.rc_air_airport")


def test_generation_adds_no_required_column_to_a_parent_of_ghost_rows(source: SourceDataset) -> None:
    child = TargetDatasetFactory(schema=dataset("rc_air_airport").schema, name="rc_flight")
    origin = create_target_column(dataset=child, name="origin", type="string")
    key = TargetColumn.objects.get(dataset__name="rc_air_airport", key_ordinal=1)
    create_reference(child=child, parent=dataset("rc_air_airport"), unknown_parent="ghost", pairs=[(origin, key)])
    create_source_column(source_dataset=source, name="tower", type="string", nullable=False)
    with pytest.raises(MetadataError, match=r"rc_air_airport.tower may not be NULL"):
        generate_targets(source_dataset=source)
