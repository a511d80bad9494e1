"""Tests of quality checks of datasets: writes, renames, protection of their columns, files."""

from pathlib import Path

import pytest

from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError, StaleVersion
from metadata.models import QualityCheck, TargetDataset
from metadata.selectors.dependents import of_column_retirement
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import update_schema, update_target_column
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from metadata.services.lifecycle import rename_column, rename_dataset, retire_column
from metadata.services.quality import create_check, delete_check, retire_check, unretire_check, update_check
from tests.factories import airport_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def airport() -> TargetDataset:
    generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


@pytest.fixture
def named(airport: TargetDataset) -> QualityCheck:
    return create_check(dataset=airport, name="named", kind="not_null", arguments={"columns": ["name"]})


def rename(dataset: TargetDataset, old: str, new: str) -> None:
    column = dataset.columns.get(name=old)
    rename_column(column=column, name=new, expected_version=column.version)


def retire(dataset: TargetDataset, name: str) -> None:
    column = dataset.columns.get(name=name)
    retire_column(column=column, expected_version=column.version)


def test_check_change_is_logged_with_its_dataset(airport, named):
    update_check(check=named, expected_version=1, severity="stop", reason="names are needed")
    entry = ChangeLogEntry.objects.filter(subject_kind="check").latest("pk")
    assert (entry.subject_name, entry.dataset_key) == ("rawcore.rc_air_airport.named", airport.key)
    assert (entry.action, entry.reason) == ("changed", "names are needed")
    assert '"severity":{"after":"stop","before":"warn"}' in entry.changes


def test_a_check_that_another_user_changed_is_not_overwritten(named):
    update_check(check=named, expected_version=1, severity="stop")
    with pytest.raises(StaleVersion):
        update_check(check=named, expected_version=1, severity="warn")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "not_null", "arguments": {"columns": ["former"]}}, "no column of the dataset"),
        ({"kind": "row_count", "arguments": {"minimum": "1"}, "severity": "quarantine"}, "finds no rows"),
        ({"kind": "not_null", "arguments": {"columns": ["name"]}, "name": "NAMED"}, "another check of this name"),
        ({"kind": "not_null", "arguments": {"columns": ["name"]}, "name": " "}, "needs a name"),
        (
            {
                "kind": "relationship",
                "arguments": {"columns": ["name"], "dataset": "rawcore.rc_x", "other_columns": ["a"]},
            },
            "there is no dataset 'rawcore.rc_x'",
        ),
    ],
)
def test_an_invalid_check_is_refused(airport, named, values, message):
    with pytest.raises(MetadataError) as refused:
        create_check(dataset=airport, **{"name": "other", **values})
    assert message in refused.value.message


def test_history_refuses_checks_of_its_own(airport):
    history = TargetDataset.objects.get(history_of=airport)
    with pytest.raises(MetadataError, match="the checks of its base"):
        create_check(dataset=history, name="x", kind="row_count", arguments={"minimum": "1"})


def test_checks_follow_a_column_rename_in_their_own_and_compared_columns(airport, named):
    there = {"columns": ["icao"], "dataset": "rawcore.rc_air_airport", "other_columns": ["name"]}
    other = create_check(dataset=airport, name="other", kind="relationship", arguments=there)
    rename(airport, "name", "title")
    named.refresh_from_db()
    other.refresh_from_db()
    assert (named.arguments, named.version) == ({"columns": ["title"]}, 2)
    assert other.arguments["other_columns"] == ["title"]


def test_check_follows_a_rename_of_the_compared_dataset(airport):
    there = {"columns": ["name"], "dataset": "rawcore.rc_air_airport", "other_columns": ["icao"]}
    check = create_check(dataset=airport, name="other", kind="relationship", arguments=there)
    rename_dataset(dataset=airport, name="rc_airport", expected_version=airport.version)
    check.refresh_from_db()
    assert check.arguments["dataset"] == "rawcore.rc_airport"


def test_a_rename_of_a_column_that_a_select_names_is_refused(airport):
    create_check(dataset=airport, name="q", kind="query", arguments={"sql": "SELECT name FROM raw.x"})
    with pytest.raises(MetadataError, match="change that first"):
        rename(airport, "name", "title")


def read_by(select: str) -> QualityCheck:
    """Return a check of another dataset with a SELECT."""
    raw = TargetDataset.objects.get(name="raw_air_airport")
    return create_check(dataset=raw, name="q", kind="query", arguments={"sql": select})


def test_a_rename_of_a_column_that_a_select_of_another_dataset_names_is_refused(airport):
    read_by("SELECT name FROM `rawcore`.`RC_AIR_AIRPORT`")
    with pytest.raises(MetadataError, match="change that first"):
        rename(airport, "name", "title")
    rename(airport, "elevation", "height")


def test_a_column_that_a_select_of_another_dataset_names_is_not_retired(airport):
    read_by("SELECT name FROM rawcore.rc_air_airport_hist")
    with pytest.raises(MetadataError, match="check raw.raw_air_airport.q names it"):
        retire(airport, "name")


@pytest.mark.parametrize("table", ["rawcore.rc_air_airport", "rawcore.rc_air_airport_hist"])
def test_a_rename_of_a_dataset_that_a_select_reads_is_refused(airport, table):
    read_by(f"SELECT 1 FROM {table}")
    with pytest.raises(MetadataError, match="check raw.raw_air_airport.q reads it in its SELECT") as refused:
        rename_dataset(dataset=airport, name="rc_airport", expected_version=airport.version)
    assert refused.value.code == "in_use"


def test_dataset_rename_is_accepted_if_a_query_check_reads_a_longer_name(airport):
    read_by("SELECT 1 FROM rawcore.rc_air_airport_2")
    rename_dataset(dataset=airport, name="rc_airport", expected_version=airport.version)


def test_a_rename_of_a_schema_that_a_select_reads_is_refused(airport):
    read_by("SELECT 1 FROM rawcore.rc_air_airport")
    schema = airport.schema
    with pytest.raises(MetadataError, match="check raw.raw_air_airport.q reads it in its SELECT"):
        update_schema(schema=schema, expected_version=schema.version, name="core")


def test_a_column_that_a_check_names_is_not_retired_before_the_check(airport, named):
    assert [dependent.what for dependent in of_column_retirement(airport.columns.get(name="name"))] == ["check named"]
    with pytest.raises(MetadataError, match="check rawcore.rc_air_airport.named names it"):
        retire(airport, "name")
    retire_check(check=named, expected_version=named.version)
    retire(airport, "name")
    named.refresh_from_db()
    with pytest.raises(MetadataError, match="no column of the dataset"):
        unretire_check(check=named, expected_version=named.version)


def test_a_type_for_which_a_check_is_not_valid_is_refused(airport):
    create_check(dataset=airport, name="long", kind="length", arguments={"columns": ["name"], "maximum": "5"})
    column = airport.columns.get(name="name")
    with pytest.raises(MetadataError, match="check long would not be valid any more"):
        update_target_column(column=column, expected_version=column.version, type="integer")


def test_a_check_is_deleted(named):
    delete_check(check=named, expected_version=1, reason="not needed")
    assert not QualityCheck.objects.exists()
    assert ChangeLogEntry.objects.get(subject_kind="check", action="deleted").reason == "not needed"


def test_checks_are_exported_and_imported_by_their_keys(airport, named, tmp_path: Path):
    update_check(check=named, expected_version=1, severity="stop", description="for mails")
    export_metadata(tmp_path)
    text = (tmp_path / "targets/rawcore/rc_air_airport.yaml").read_text()
    assert "kind: not_null" in text
    assert import_metadata(tmp_path).changes == []
    (tmp_path / "targets/rawcore/rc_air_airport.yaml").write_text(text.replace("severity: stop", "severity: warn"))
    assert import_metadata(tmp_path).changes == [("updated", "check", "rawcore.rc_air_airport.named")]
    named.refresh_from_db()
    assert (named.severity, named.description) == ("warn", "for mails")
    QualityCheck.objects.all().delete()
    assert ("created", "check", "rawcore.rc_air_airport.named") in import_metadata(tmp_path).changes
    assert QualityCheck.objects.get().key == named.key


def test_a_file_with_a_check_of_an_unknown_column_is_refused_with_its_place(airport, named, tmp_path: Path):
    export_metadata(tmp_path)
    file = tmp_path / "targets/rawcore/rc_air_airport.yaml"
    file.write_text(file.read_text().replace("columns: [name]", "columns: [former]"))
    with pytest.raises(MetadataError, match="no column of the dataset") as refused:
        import_metadata(tmp_path)
    assert "rc_air_airport.yaml" in refused.value.place
