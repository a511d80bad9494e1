"""Tests of keeping deliveries in raw: changed by service, form, REST and YAML, and part of the dataset's state."""

import pytest
from django.test import Client

from elevata.core.errors import MetadataError
from metadata.domain.sources.raw_keeping import ALL, BY_DAY, Keeping
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_state
from metadata.services.datasets.targets import update_target_dataset
from metadata.services.exchange.metadata_files import export_metadata, import_metadata

pytestmark = pytest.mark.django_db


@pytest.fixture
def raw(airport: TargetDataset) -> TargetDataset:
    return TargetDataset.objects.get(name="raw_air_airport")


def test_the_mode_and_the_limits_are_part_of_the_state(raw: TargetDataset):
    assert dataset_state(raw).load_policy is None
    row = update_target_dataset(dataset=raw, expected_version=raw.version, keep=ALL, keep_days=30, keep_deliveries=5)
    assert row.keeping == Keeping(ALL, 30, 5)
    assert dataset_state(raw).load_policy == {"keep": "all", "keep_days": 30, "keep_deliveries": 5}


def test_keeping_limit_for_the_latest_delivery_only_is_refused(raw: TargetDataset):
    with pytest.raises(MetadataError) as caught:
        update_target_dataset(dataset=raw, expected_version=raw.version, keep_days=30)
    assert caught.value.field == "keep_days"


def test_keeping_all_deliveries_is_refused_outside_of_raw(airport: TargetDataset):
    with pytest.raises(MetadataError) as caught:
        update_target_dataset(dataset=airport, expected_version=airport.version, keep=ALL)
    assert caught.value.field == "keep"


def test_raw_keeping_round_trips_through_yaml(raw: TargetDataset, tmp_path):
    update_target_dataset(dataset=raw, expected_version=raw.version, keep=BY_DAY, keep_days=30)
    export_metadata(tmp_path)
    text = (tmp_path / "targets/raw/raw_air_airport.yaml").read_text()
    assert "keep: by_day" in text
    assert "keep_days: 30" in text
    TargetDataset.objects.filter(pk=raw.pk).update(keep="latest", keep_days=None)
    import_metadata(tmp_path)
    raw.refresh_from_db()
    assert raw.keeping == Keeping(BY_DAY, 30, None)


def test_the_form_of_a_raw_dataset_saves_its_keeping(editor: Client, raw: TargetDataset):
    fields = {"keep": "all", "keep_days": "30", "keep_deliveries": "", "tags": "", "description": "", "owner": ""}
    address = f"/datasets/{raw.key}/edit/"
    assert 'name="keep_deliveries"' in editor.get(address).content.decode()
    assert editor.post(address, fields | {"version": raw.version}).status_code == 302
    raw.refresh_from_db()
    assert raw.keeping == Keeping(ALL, 30, None)
