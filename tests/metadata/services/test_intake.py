"""Tests of the intake of a source dataset: saving, exchange, renamed columns, and requirements of its readers."""

from pathlib import Path

import pytest

from elevata.core.errors import MetadataError
from metadata.models import SourceDataset, TargetDataset
from metadata.services import sources
from metadata.services.datasets import targets
from metadata.services.datasets.generation import generate_targets
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from tests.factories import SystemFactory

pytestmark = pytest.mark.django_db

INTAKE = {"watermark": ["changed_at"], "look_back": "2 days"}
DELTA = {"input": "delta"}


def customers(**described) -> SourceDataset:
    system = SystemFactory(short_name="erp", kind="jdbc", location="postgresql://reader@db/erp")
    given = {"format": "table", "location": "sales.customer", "history_policy": DELTA, "intake": INTAKE}
    source = sources.create_source_dataset(system=system, name="customer", **given | described)
    for name, type_, place in (("id", "integer", 1), ("name", "string", None), ("changed_at", "timestamp", None)):
        sources.create_source_column(source_dataset=source, name=name, type=type_, key_ordinal=place)
    return source


def change(source: SourceDataset, **changes) -> SourceDataset:
    source.refresh_from_db()
    return sources.update_source_dataset(source_dataset=source, expected_version=source.version, **changes)


def test_an_intake_is_kept_in_its_normal_form() -> None:
    source = customers(intake={"watermark": ["id"], "look_back": "1000"})
    assert SourceDataset.objects.get(pk=source.pk).intake == {"watermark": ["id"], "look_back": 1000}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"intake": {"watermark": ["gone"]}}, "intake.watermark"),
        ({"intake": {"watermark": ["name"]}}, "intake.watermark"),
        ({"intake": {"watermark": ["id"], "look_back": "2 days"}}, "intake.look_back"),
        ({"intake": {"water": 1}}, "intake.water"),
        ({"history_policy": {}}, "intake.watermark"),
        (
            {"history_policy": {"input": "effective", "time": "changed_at", "absent_keys": "deleted"}},
            "intake.watermark",
        ),
    ],
)
def test_invalid_intake_is_refused_when_saved(changes: dict, field: str) -> None:
    source = customers()
    with pytest.raises(MetadataError) as refused:
        change(source, **changes)
    assert (refused.value.field, refused.value.where) == (field, "erp.customer")


def test_source_of_files_refuses_a_watermark() -> None:
    with pytest.raises(MetadataError) as refused:
        sources.create_source_dataset(
            system=SystemFactory(), name="a", location="a.csv", intake=INTAKE, history_policy={}
        )
    assert refused.value.field == "intake.watermark"


def test_intake_follows_a_renamed_column_and_protects_it() -> None:
    source = customers()
    column = sources.update_source_column(
        source_column=source.columns.get(name="changed_at"), expected_version=1, name="modified_at"
    )
    assert SourceDataset.objects.get(pk=source.pk).intake == INTAKE | {"watermark": ["modified_at"]}
    for changes in ({"active": False}, {"type": "string"}):
        with pytest.raises(MetadataError) as refused:
            sources.update_source_column(source_column=column, expected_version=column.version, **changes)
        assert refused.value.field == "intake.watermark"


def test_dataset_of_a_watermark_source_refuses_a_policy_that_closes_absent_keys() -> None:
    generate_targets(source_dataset=customers())
    rawcore = TargetDataset.objects.get(name="rc_erp_customer")
    with pytest.raises(MetadataError, match=r"erp\.customer has a watermark") as refused:
        targets.update_target_dataset(dataset=rawcore, expected_version=rawcore.version, history_policy={})
    assert (refused.value.code, refused.value.field) == ("bad_intake", "history_policy.input")


@pytest.mark.parametrize(
    ("described", "field"),
    [
        ({"history_policy": DELTA | {"delete_detection": "window"}, "intake": {}}, "intake.watermark"),
        ({"history_policy": {"delete_detection": "key_list"}, "intake": {}}, "history_policy.delete_detection"),
        ({"intake": {"key_list": "sales.keys"}}, "intake.key_list"),
    ],
)
def test_delete_detection_without_its_source_settings_is_refused(described, field) -> None:
    with pytest.raises(MetadataError) as refused:
        customers(**described)
    assert refused.value.field == field


def test_delete_detection_of_a_dataset_must_fit_its_source() -> None:
    generate_targets(source_dataset=customers(intake={}))
    rawcore = TargetDataset.objects.get(name="rc_erp_customer")
    with pytest.raises(MetadataError, match=r"does not fit erp\.customer: its intake\.watermark") as refused:
        targets.update_target_dataset(
            dataset=rawcore, expected_version=rawcore.version, history_policy=DELTA | {"delete_detection": "window"}
        )
    assert refused.value.field == "history_policy.delete_detection"
    policy = DELTA | {"delete_detection": "key_list"}
    row = targets.update_target_dataset(dataset=rawcore, expected_version=rawcore.version, history_policy=policy)
    assert row.history_policy == policy


def test_key_list_is_checked_like_a_location() -> None:
    with pytest.raises(MetadataError) as refused:
        sources.create_source_dataset(
            system=SystemFactory(), name="a", location="a.csv", intake={"key_list": "{{ home }}/keys.csv"}
        )
    assert refused.value.field == "intake.key_list"


def test_an_intake_is_exported_and_imported(tmp_path: Path) -> None:
    generate_targets(source_dataset=customers())
    export_metadata(tmp_path)
    files = {path: path.read_text() for path in tmp_path.rglob("*.yaml")}
    assert any("look_back: 2 days" in text for text in files.values())
    SourceDataset.objects.update(intake={})
    import_metadata(tmp_path)
    assert SourceDataset.objects.get(name="customer").intake == INTAKE
