"""Tests of the environment's rule for names that most engines require quotes for."""

import pytest

from elevata.core.errors import MetadataError
from metadata.models import TargetDataset
from metadata.services.datasets.paste_preview import apply, prepare
from metadata.services.datasets.targets import create_target_column, create_target_dataset
from metadata.services.lifecycle import rename_column, rename_dataset
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def dataset() -> TargetDataset:
    return TargetColumnFactory(name="amount").dataset


def add(dataset: TargetDataset, name: str = "order total", **answer: bool):
    return create_target_column(dataset=dataset, name=name, type="string", **answer)


def test_new_column_with_a_name_that_needs_quotes_requires_confirmation(dataset: TargetDataset):
    with pytest.raises(MetadataError, match="because it has a space; confirm it") as refused:
        add(dataset, quoted_name=False)
    assert (refused.value.code, refused.value.field) == ("quoted_name", "name")
    assert not dataset.columns.filter(name="order total").exists()


def test_confirmed_name_that_needs_quotes_is_saved(dataset: TargetDataset):
    assert add(dataset, quoted_name=True).name == "order total"


def test_rename_to_a_name_that_needs_quotes_requires_confirmation(dataset: TargetDataset):
    column = dataset.columns.get()
    with pytest.raises(MetadataError, match="reserved word"):
        rename_column(column=column, name="order", expected_version=1, quoted_name=False)


def test_dataset_names_that_need_quotes_require_confirmation(dataset: TargetDataset):
    with pytest.raises(MetadataError, match="reserved word"):
        create_target_dataset(schema=dataset.schema, name="order", quoted_name=False)
    with pytest.raises(MetadataError, match="reserved word"):
        rename_dataset(dataset=dataset, name="order", expected_version=1, quoted_name=False)


def test_select_with_a_name_that_needs_quotes_requires_confirmation(dataset: TargetDataset):
    schema = TargetSchemaFactory(name="bizcore")
    select = f"SELECT amount AS `order total` FROM {dataset}"
    with pytest.raises(MetadataError) as refused:
        create_target_dataset(schema=schema, name="totals", select=select, quoted_name=False)
    assert (refused.value.code, refused.value.field) == ("quoted_name", "select")


def test_pasted_names_that_need_quotes_require_one_confirmation(dataset: TargetDataset):
    text = "Name\tType\norder total\tstring"
    prepared = prepare(dataset, text, column="", cell="name")
    accepted = prepare(dataset, text, column="", cell="name", quoted_name=True)
    assert (prepared.asks, prepared.refused) == (True, 1)
    assert (accepted.refused, apply(accepted)) == (0, True)


def test_raw_column_with_a_name_that_needs_quotes_is_accepted():
    raw = TargetDatasetFactory(name="raw_orders", schema__name="raw")
    assert add(raw, quoted_name=False).name == "order total"


def test_environment_can_allow_names_that_need_quotes(dataset: TargetDataset, settings):
    settings.QUOTED_NAMES = "allow"
    assert add(dataset, quoted_name=False).name == "order total"


def test_environment_can_refuse_names_that_need_quotes(dataset: TargetDataset, settings):
    settings.QUOTED_NAMES = "refuse"
    with pytest.raises(MetadataError, match="choose another"):
        add(dataset, quoted_name=True)
