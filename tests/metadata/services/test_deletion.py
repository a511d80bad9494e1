"""Tests of deleting descriptions: only retired and unread ones, and always with a change-log entry."""

import pytest

from elevata.accounts.actors import acting_as
from elevata.accounts.services.users import ensure_user
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.deletion import delete_column, delete_dataset
from metadata.services.lifecycle import retire_column, retire_dataset
from tests.factories import airport_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def airports() -> TargetDataset:
    generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


def column(dataset: TargetDataset, name: str) -> TargetColumn:
    return dataset.columns.get(name=name)


def retired(dataset: TargetDataset, name: str) -> TargetColumn:
    row = column(dataset, name)
    return retire_column(column=row, expected_version=row.version)


def test_deletion_of_a_retired_column_is_logged_with_user_and_reason(airports):
    elevation = retired(airports, "elevation")
    with acting_as(ensure_user(name="ada", roles=["editor"])):
        delete_column(column=elevation, expected_version=elevation.version, reason="nobody asked for it")
    assert not airports.columns.filter(name="elevation").exists()
    entry = ChangeLogEntry.objects.order_by("-pk").first()
    assert (entry.actor, entry.action, entry.reason) == ("ada", "deleted", "nobody asked for it")
    assert (entry.subject_key, entry.dataset_key) == (str(elevation.key), airports.key)


def test_a_column_in_use_is_not_deleted(airports):
    used = column(airports, "elevation")
    with pytest.raises(MetadataError, match="must be retired") as refused:
        delete_column(column=used, expected_version=used.version)
    assert refused.value.code == "in_use"
    assert airports.columns.filter(name="elevation").exists()


def test_a_column_that_another_reads_is_not_deleted(airports):
    read = retired(TargetDataset.objects.get(name="stg_air_airport"), "elevation")
    with pytest.raises(MetadataError, match="needs it") as refused:
        delete_column(column=read, expected_version=read.version)
    assert refused.value.code == "in_use"


def test_deletion_of_a_retired_dataset_includes_its_columns_and_history(airports):
    dataset = retire_dataset(dataset=airports, expected_version=airports.version)
    delete_dataset(dataset=dataset, expected_version=dataset.version)
    assert not TargetDataset.objects.filter(name__startswith="rc_air_airport").exists()
    assert not TargetColumn.objects.filter(dataset_id=dataset.pk).exists()


def test_a_history_is_not_deleted_without_its_base(airports):
    dataset = retire_dataset(dataset=airports, expected_version=airports.version)
    with pytest.raises(MetadataError, match="goes with its base"):
        delete_dataset(dataset=dataset.history, expected_version=dataset.history.version)
