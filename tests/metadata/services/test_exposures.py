"""Tests of contracts and exposures in the metadata: refusals, files and change log."""

from pathlib import Path
from typing import Any

import pytest

from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from metadata.models import Exposure, TargetDataset
from metadata.services.datasets.targets import create_schema, create_target_dataset, update_target_dataset
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from metadata.services.exposures import create_exposure, delete_exposure, update_exposure
from tests.metadata.contracts import BOARD, sales_mart

pytestmark = pytest.mark.django_db


@pytest.fixture
def mart(db: None) -> TargetDataset:
    return sales_mart()


def board() -> Exposure:
    return Exposure.objects.select_related("dataset__schema").get(name="Board")


def bizcore(**described: Any) -> TargetDataset:
    schema = create_schema(name="bizcore", layer="bizcore")
    return create_target_dataset(schema=schema, name="customer", owner="Sales", **described)


def test_only_a_serving_dataset_is_a_contract(db: None):
    with pytest.raises(MetadataError, match="only a dataset of the serving layer is a contract"):
        bizcore(contract=True)


def test_a_contract_keeps_an_owner(mart: TargetDataset):
    with pytest.raises(MetadataError, match="a contract needs an owner"):
        update_target_dataset(dataset=mart, expected_version=mart.version, owner="")


def test_only_a_serving_dataset_has_exposures(db: None):
    with pytest.raises(MetadataError, match="only datasets of the serving layer have exposures"):
        create_exposure(dataset=bizcore(), **BOARD)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", " "),
        ("owner", ""),
        ("link", ""),
        ("link", "javascript:alert(1)"),
        ("link", "https:///x"),
        ("kind", "x"),
    ],
)
def test_exposure_requires_a_name_an_owner_a_kind_and_a_valid_link(mart: TargetDataset, field: str, value: str):
    with pytest.raises(MetadataError) as refused:
        create_exposure(dataset=mart, **BOARD | {"name": "Other", field: value})
    assert refused.value.field == field


@pytest.mark.parametrize("link", ["http://bi/board", "reports/sales.ipynb", "/mnt/share/sales 2024.xlsx"])
def test_a_link_is_an_address_or_a_path(mart: TargetDataset, link: str):
    assert create_exposure(dataset=mart, **BOARD | {"name": "Other", "link": link}).link == link


def test_changes_of_an_exposure_are_logged_with_its_dataset(mart: TargetDataset):
    row = update_exposure(exposure=board(), expected_version=1, owner="Controlling", reason="moved")
    delete_exposure(exposure=row, expected_version=row.version)
    entries = ChangeLogEntry.objects.filter(subject_kind="exposure").order_by("pk")
    assert [(entry.action, entry.subject_name) for entry in entries] == [
        (action, "mart.sales.Board") for action in ("created", "changed", "deleted")
    ]
    assert {entry.dataset_key for entry in entries} == {mart.key}


def test_contract_and_exposures_round_trip_through_files(mart: TargetDataset, tmp_path: Path):
    export_metadata(tmp_path / "before")
    key = board().key
    Exposure.objects.all().delete()
    TargetDataset.objects.filter(pk=mart.pk).update(contract=False)
    import_metadata(tmp_path / "before")
    export_metadata(tmp_path / "after")
    (before, after) = ((tmp_path / name / "targets" / "mart" / "sales.yaml") for name in ("before", "after"))
    assert (board().key, after.read_text()) == (key, before.read_text())
    assert "contract: true" in after.read_text()
