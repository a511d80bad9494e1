"""Tests shared by all writes: the optimistic lock, and the database's constraints."""

import pytest
from django.db import IntegrityError, transaction

from elevata.core.errors import MetadataError, StaleVersion
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.services import sources
from tests.factories import (
    ColumnInputFactory,
    DatasetInputFactory,
    SourceColumnFactory,
    SourceDatasetFactory,
    SystemFactory,
    TargetColumnFactory,
    TargetDatasetFactory,
)

pytestmark = pytest.mark.django_db


# --- optimistic lock -------------------------------------------------------------------------


def test_changing_write_increments_the_version() -> None:
    system = SystemFactory()
    assert sources.update_system(system=system, expected_version=1, owner="Kim").version == 2


def test_a_change_that_changes_nothing_keeps_the_version() -> None:
    system = SystemFactory(owner="Kim")
    assert sources.update_system(system=system, expected_version=1, owner="Kim").version == 1


def test_a_stale_version_is_refused() -> None:
    system = SystemFactory()
    sources.update_system(system=system, expected_version=1, owner="Kim")
    with pytest.raises(StaleVersion, match="another user"):
        sources.update_system(system=system, expected_version=1, owner="Alex")


def test_edit_of_a_deleted_row_is_refused() -> None:
    column = SourceColumnFactory()
    type(column).objects.all().delete()
    with pytest.raises(MetadataError, match="does not exist any more"):
        sources.update_source_column(source_column=column, expected_version=1, owner="Kim")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(MetadataError) as refused:
        sources.update_system(system=SystemFactory(), expected_version=1, colour="red")
    assert refused.value.field == "colour"


# --- database constraints --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (TargetColumn, {"data_type": "nonsense"}),
        (TargetColumn, {"length": 5, "data_type": "float"}),
        (TargetColumn, {"data_type": "decimal"}),
        (TargetColumn, {"role": "business_key"}),
        (TargetColumn, {"active": False}),
        (TargetColumn, {"name": "ICAO"}),
        (TargetDataset, {"name": "x_hist"}),
        (TargetDataset, {"name": "X_HIST"}),
        (TargetDataset, {"materialization": "view"}),
    ],
)
def test_database_refuses_invalid_column_and_dataset_values(rawcore: TargetDataset, model: type, values: dict) -> None:
    row = rawcore if model is TargetDataset else rawcore.columns.get(name="name")
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.filter(pk=row.pk).update(**values)


def test_database_refuses_a_dataset_input_without_a_source_or_dataset() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        DatasetInputFactory(dataset=TargetDatasetFactory())


def test_database_refuses_a_column_input_without_a_column() -> None:
    item = DatasetInputFactory(source=SourceDatasetFactory())
    column = TargetColumnFactory(dataset=item.dataset)
    with pytest.raises(IntegrityError), transaction.atomic():
        ColumnInputFactory(column=column, dataset_input=item)


def test_a_source_that_is_read_cannot_be_deleted(rawcore: TargetDataset) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        SourceDataset.objects.all().delete()
