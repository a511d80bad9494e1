"""Tests of change-log entries: content, actor, completeness and number of queries."""

import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from elevata.accounts.actors import acting_as
from elevata.accounts.services import users
from elevata.accounts.services.users import ensure_user
from elevata.audit.models import ChainPending, ChangeLogEntry
from elevata.audit.services.change_log import record_change
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from metadata.models import SourceDataset
from metadata.services import lifecycle, source_contracts, sources
from metadata.services.datasets import generation
from metadata.services.exchange import metadata_files
from metadata.services.rows.row_changes import remove, store
from tests.factories import SourceColumnFactory, SourceDatasetFactory, SystemFactory
from tests.metadata.change_log import changes, column, entries, generated, retired_column, taken_back, told
from tests.metadata.services.rows.test_change_log import _set_dataset_inputs

pytestmark = pytest.mark.django_db

AIRPORTS = Path(__file__).resolve().parents[3] / "examples" / "airports"


# --- content of an entry -------------------------------------------------------------------------


def test_rename_entry_has_both_names_and_the_reason() -> None:
    dataset = generated()
    lifecycle.rename_dataset(dataset=dataset, name="rc_field", expected_version=dataset.version, reason="clearer")
    base, history = entries()[-2:]
    assert (base.action, base.subject_name, base.reason) == ("renamed", "rawcore.rc_field", "clearer")
    assert changes(base) == {
        "name": {"before": "rc_air_airport", "after": "rc_field"},
        "former_names": {"after": ["rc_air_airport"]},
    }
    assert (history.action, history.subject_name) == ("renamed", "rawcore.rc_field_hist")


def test_history_entry_has_the_dataset_key_of_its_base() -> None:
    dataset = generated()
    lifecycle.rename_dataset(dataset=dataset, name="rc_field", expected_version=dataset.version)
    assert {entry.dataset_key for entry in entries()[-2:]} == {dataset.key}


def test_column_entry_has_the_key_of_its_dataset() -> None:
    row = column(generated(), "name")
    lifecycle.rename_column(column=row, name="title", expected_version=1)
    assert entries()[-1].dataset_key == row.dataset.key


def test_retire_and_unretire_are_logged_as_retired_and_restored() -> None:
    row = retired_column()
    lifecycle.unretire_column(column=row, expected_version=row.version)
    assert [entry.action for entry in entries()[-2:]] == ["retired", "restored"]


def test_new_dataset_is_one_entry_with_its_columns_and_their_inputs() -> None:
    generated()
    (entry,) = [entry for entry in entries() if entry.subject_name == "rawcore.rc_air_airport"]
    columns = changes(entry)["columns"]["after"]
    assert [(column["name"], column["type"], column["inputs"]) for column in columns] == [
        ("icao", "string", ["stage.stg_air_airport.icao"]),
        ("name", "string", ["stage.stg_air_airport.name"]),
        ("elevation", "float", ["stage.stg_air_airport.elevation"]),
    ]


def test_a_column_that_came_later_has_an_entry_of_its_own() -> None:
    generated()
    _take_columns_of("lid")
    assert ("created", "column", "rawcore.rc_air_airport.lid") in told()


def _take_columns_of(name: str) -> None:
    source = SourceDataset.objects.get()
    source_contracts.take_columns(source_dataset=source, proposals=[{"name": name, "type": "string"}])


def test_changed_inputs_are_logged_by_name_before_and_after() -> None:
    _set_dataset_inputs()()
    assert changes(entries()[-1]) == {
        "inputs": {"before": ["rawcore.rc_air_airport"], "after": ["stage.stg_air_airport"]}
    }


def test_two_columns_that_swap_names_are_two_renames(tmp_path: Path) -> None:
    metadata_files.import_metadata(AIRPORTS)
    metadata_files.export_metadata(tmp_path)
    count_before = ChangeLogEntry.objects.count()
    file = tmp_path / "systems" / "net.yaml"
    text = file.read_text()
    names = ("name: airline", "name: aircraft") if "name: aircraft" in text else _two_names(text)
    file.write_text(text.replace(names[0], "\0").replace(names[1], names[0]).replace("\0", names[1]))
    metadata_files.import_metadata(tmp_path)
    renamed = [entry for entry in entries()[count_before:] if entry.action == "renamed"]
    assert sorted(changes(entry)["name"]["after"] for entry in renamed) == sorted(
        changes(entry)["name"]["before"] for entry in renamed
    )
    assert len(renamed) == 2


def _two_names(text: str) -> tuple[str, str]:
    """Return two columns of the file that are not in a business key."""
    lines = [line.strip().removeprefix("- ") for line in text.splitlines()]
    names = [line for line in lines if line.startswith("name: ")]
    return names[-1], names[-2]


def test_deleted_column_is_logged_with_its_inputs() -> None:
    row = column(generated(), "name")
    with writing():
        remove([row])
    entry = entries()[-1]
    assert (entry.action, entry.subject_kind, entry.subject_name) == (
        "deleted",
        "column",
        "rawcore.rc_air_airport.name",
    )
    assert changes(entry)["inputs"] == {"before": ["stage.stg_air_airport.name"]}


def test_time_of_retirement_is_logged_to_the_microsecond() -> None:
    row = retired_column()
    text = changes(entries()[-1])["retired_at"]["after"]
    assert datetime.fromisoformat(text) == row.retired_at


# --- when there is an entry ----------------------------------------------------------------------


def test_update_with_the_same_values_creates_no_entry() -> None:
    system = SystemFactory(owner="Kim")
    sources.update_system(system=system, expected_version=1, owner="Kim")
    assert entries() == []


def test_a_second_generation_leaves_no_entry() -> None:
    generated()
    count_before = ChangeLogEntry.objects.count()
    generation.generate_targets(source_dataset=SourceDataset.objects.get())
    assert ChangeLogEntry.objects.count() == count_before


def test_import_check_creates_no_entry() -> None:
    metadata_files.import_metadata(AIRPORTS, check=True)
    assert entries() == []


def test_a_refusal_leaves_no_entry() -> None:
    with pytest.raises(MetadataError):
        sources.create_system(name="x", short_name="not a name")
    assert entries() == []


def test_changes_rolled_back_to_a_savepoint_are_not_logged() -> None:
    with writing():
        system = sources.create_system(name="Kept", short_name="kept")

        def change_and_fail() -> None:
            sources.create_system(name="Gone", short_name="gone")
            sources.update_system(system=system, expected_version=1, owner="Kim")

        with pytest.raises(MetadataError, match="not after all"):
            taken_back(change_and_fail)
    assert told() == [("created", "system", "kept")]
    assert "owner" not in changes(entries()[0])


def test_changes_of_a_row_in_one_unit_are_one_entry() -> None:
    with writing():
        row = sources.create_system(name="Air", short_name="air")
        row = sources.update_system(system=row, expected_version=1, owner="Kim")
        sources.update_system(system=row, expected_version=2, owner="Alex")
    assert told() == [("created", "system", "air")]
    assert changes(entries()[0])["owner"] == {"after": "Alex"}


def test_change_reverted_in_the_same_unit_creates_no_entry() -> None:
    row = SystemFactory(owner="Kim")
    with writing():
        row = sources.update_system(system=row, expected_version=1, owner="Alex")
        sources.update_system(system=row, expected_version=2, owner="Kim")
    assert entries() == []


def test_row_stored_outside_a_unit_is_logged() -> None:
    row = SystemFactory()
    row.owner = "Kim"
    store(row)
    assert told() == [("changed", "system", row.short_name)]


def test_entries_are_written_with_the_rows_or_not_at_all() -> None:
    with transaction.atomic():
        sources.create_system(name="Air", short_name="air")
        assert len(entries()) == 1
        transaction.set_rollback(True)
    assert entries() == []
    assert not ChainPending.objects.exists()


# --- actor ---------------------------------------------------------------------------------------


def test_entry_has_the_user_and_the_request_id() -> None:
    user = ensure_user(name="ada", roles=["editor"])
    with acting_as(user, request_id="r-1"):
        sources.create_system(name="Air", short_name="air")
    entry = entries()[-1]
    assert (entry.actor, entry.actor_kind, entry.user_id, entry.request_id) == ("ada", "person", user.pk, "r-1")


def test_entry_without_a_user_has_the_system_as_actor() -> None:
    sources.create_system(name="Air", short_name="air")
    assert (entries()[0].actor, entries()[0].actor_kind, entries()[0].user_id) == ("system", "system", None)


def test_user_with_log_entries_cannot_be_deleted() -> None:
    user = ensure_user(name="ada", roles=["editor"])
    with acting_as(user):
        sources.create_system(name="Air", short_name="air")
    with pytest.raises(Exception, match="protected"):
        user.delete()


def test_record_change_logs_only_the_changed_values() -> None:
    key = uuid.uuid4()
    record_change(
        action="changed",
        subject_kind="policy",
        subject_key="dev",
        subject_name="dev",
        before={"drop_columns": False, "same": 1},
        after={"drop_columns": True, "same": 1},
        dataset_key=key,
        reason="because",
    )
    (entry,) = entries()
    assert changes(entry) == {"drop_columns": {"before": False, "after": True}}
    assert (entry.dataset_key, entry.reason) == (key, "because")


# --- queries -------------------------------------------------------------------------------------


def _queries(work: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        work()
    return len(captured)


def test_query_count_of_a_generation_does_not_depend_on_the_number_of_columns() -> None:
    counts = []
    for name, columns in (("warm", 2), ("few", 2), ("many", 40)):
        source = SourceDatasetFactory(system__short_name="air", name=name)
        for n in range(columns):
            SourceColumnFactory(dataset=source, name=f"c{n}", ordinal=n + 1, key_ordinal=1 if n == 0 else None)
        counts.append(_queries(lambda source=source: generation.generate_targets(source_dataset=source)))
    assert counts[1] == counts[2]


def test_role_changes_of_a_user_are_logged() -> None:
    users.ensure_user(name="ada", roles=["editor"], password="analytical engine")
    users.ensure_user(name="ada", roles=["editor", "operator"])
    assert [entry.action for entry in entries()] == ["created", "changed"]
    assert changes(entries()[1]) == {"roles": {"before": ["editor"], "after": ["editor", "operator"]}}


def test_entries_of_an_import_have_the_same_time() -> None:
    metadata_files.import_metadata(AIRPORTS)
    assert len({entry.at for entry in entries()}) == 1
