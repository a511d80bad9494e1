"""Tests of renaming, retiring and reactivating datasets and columns."""

import pytest

from elevata.core.errors import MetadataError
from metadata.models import TargetDataset
from metadata.services import lifecycle
from metadata.services.datasets import targets
from tests.factories import (
    TargetColumnFactory,
    TargetDatasetFactory,
)
from tests.metadata.applied import apply_state

pytestmark = pytest.mark.django_db


def rename(row: TargetDataset, name: str) -> TargetDataset:
    return lifecycle.rename_dataset(dataset=row, name=name, expected_version=row.version)


# --- renames ---------------------------------------------------------------------------------


def test_a_rename_keeps_the_former_name(rawcore: TargetDataset) -> None:
    assert rename(rawcore, "airport").former_names == ["rc_air_airport"]


def test_a_name_that_no_environment_has_is_no_former_name(rawcore: TargetDataset) -> None:
    assert rename(rename(rawcore, "one"), "two").former_names == ["rc_air_airport"]


def test_the_newest_former_name_is_last(rawcore: TargetDataset) -> None:
    renamed = rename(rawcore, "one")
    apply_state(renamed)
    again = rename(renamed, "two")
    assert again.former_names == ["rc_air_airport", "one"]
    assert again.history.former_names == ["rc_air_airport_hist", "one_hist"]


def test_a_rename_and_its_undo_leave_no_former_name(rawcore: TargetDataset) -> None:
    again = rename(rename(rawcore, "one"), "rc_air_airport")
    assert (again.former_names, again.history.former_names) == ([], [])


def test_history_is_renamed_with_its_base(rawcore: TargetDataset) -> None:
    history = rename(rawcore, "airport").history
    assert (history.name, history.former_names) == ("airport_hist", ["rc_air_airport_hist"])


def test_a_rename_keeps_the_key(rawcore: TargetDataset) -> None:
    assert rename(rawcore, "airport").key == rawcore.key


def test_history_cannot_be_renamed_without_its_base(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="named after its base"):
        rename(rawcore.history, "other_hist")


def test_a_rename_onto_another_name_is_refused(rawcore: TargetDataset) -> None:
    TargetDatasetFactory(schema=rawcore.schema, name="taken")
    with pytest.raises(MetadataError, match="name of another dataset"):
        rename(rawcore, "taken")


def test_a_rename_that_makes_a_column_technical_is_refused(rawcore: TargetDataset) -> None:
    TargetColumnFactory(dataset=rawcore, name="port_key")
    with pytest.raises(MetadataError, match="technical column"):
        rename(rawcore, "port")


def test_a_column_rename_onto_a_retired_column_is_refused(rawcore: TargetDataset) -> None:
    lifecycle.retire_column(column=rawcore.columns.get(name="elevation"), expected_version=1)
    with pytest.raises(MetadataError, match="is retired"):
        lifecycle.rename_column(column=rawcore.columns.get(name="name"), name="elevation", expected_version=1)


def test_a_policy_follows_a_renamed_column(rawcore: TargetDataset) -> None:
    targets.update_target_dataset(dataset=rawcore, expected_version=1, history_policy={"track": ["name"]})
    lifecycle.rename_column(column=rawcore.columns.get(name="name"), name="title", expected_version=1)
    rawcore.refresh_from_db()
    assert rawcore.history_policy == {"track": ["title"]}


def test_expressions_downstream_follow_a_renamed_column(rawcore: TargetDataset, stage: TargetDataset) -> None:
    row = targets.create_target_column(dataset=rawcore, name="loud", type="string", expression="upper(name) || 'name'")
    lifecycle.rename_column(column=stage.columns.get(name="name"), name="title", expected_version=1)
    row.refresh_from_db()
    assert row.expression == "upper(`title`) || 'name'"


def test_a_filter_downstream_follows_a_renamed_column(rawcore: TargetDataset, stage: TargetDataset) -> None:
    targets.update_target_dataset(dataset=rawcore, expected_version=1, filter="elevation > 0")
    lifecycle.rename_column(column=stage.columns.get(name="elevation"), name="height", expected_version=1)
    rawcore.refresh_from_db()
    assert rawcore.filter == "`height` > 0"


# --- retirement ------------------------------------------------------------------------------


def test_retired_dataset_retires_its_history(rawcore: TargetDataset) -> None:
    lifecycle.retire_dataset(dataset=rawcore, expected_version=1)
    rawcore.history.refresh_from_db()
    assert not rawcore.history.active


def test_restored_dataset_restores_its_history(rawcore: TargetDataset) -> None:
    lifecycle.retire_dataset(dataset=rawcore, expected_version=1)
    row = lifecycle.unretire_dataset(dataset=rawcore, expected_version=2)
    assert (row.active, row.history.active) == (True, True)


def test_last_business_key_column_of_a_historized_dataset_cannot_be_retired(rawcore: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="needs a business key"):
        lifecycle.retire_column(column=rawcore.columns.get(name="icao"), expected_version=1)


def test_an_unretired_column_is_in_use(rawcore: TargetDataset) -> None:
    column = rawcore.columns.get(name="name")
    lifecycle.retire_column(column=column, expected_version=1)
    assert lifecycle.unretire_column(column=column, expected_version=2).active
