"""Tests of the change log by REST and of its export, which can be verified."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.audit.export_format import SELECTION, verify_lines
from elevata.audit.models import ChangeLogEntry
from metadata.domain.bulk_edits import OWNER
from metadata.models import SourceDataset, TargetDataset
from metadata.services.bulk_edits import apply_edits, edits_of
from metadata.services.datasets.targets import update_target_dataset
from metadata.services.sources import create_system
from tests.factories import SourceDatasetFactory, TargetDatasetFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def person() -> User:
    return ensure_user(name="ada", roles=[Role.EDITOR])


@pytest.fixture
def reader(person: User, client: Client) -> Client:
    """Return a client signed in as a viewer; the log has the user's own entry, one by her and one by the system."""
    with acting_as(person):
        create_system(name="Air", short_name="air")
    create_system(name="Rail", short_name="rail")
    client.force_login(person)
    return client


def lines(answer) -> list[bytes]:
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).splitlines(keepends=True)


def test_entries_are_read_newest_first(reader: Client) -> None:
    page = reader.get("/api/v1/changes/").json()
    assert [entry["subject_name"] for entry in page["results"]] == ["rail", "air", "ada"]
    assert page["results"][1]["actor"] == "ada"
    assert page["results"][1]["changes"]["name"] == {"after": "Air"}


def test_change_is_read_by_its_id(reader: Client) -> None:
    entry = ChangeLogEntry.objects.get(actor="ada")
    assert reader.get(f"/api/v1/changes/{entry.pk}/").json()["subject_key"] == "air"


def test_changes_refuse_write_methods(operator: Client) -> None:
    create_system(name="Air", short_name="air")
    entry = ChangeLogEntry.objects.latest("pk")
    for method in ("post", "put", "patch", "delete"):
        assert getattr(operator, method)(f"/api/v1/changes/{entry.pk}/").status_code == 405


@pytest.mark.parametrize("address", ["/api/v1/changes/export/", "/changes/change-log.jsonl"])
def test_change_export_verifies_and_contains_every_entry(reader: Client, address: str) -> None:
    result = verify_lines(lines(reader.get(address)))
    assert (result.content, result.rows, result.unlinked) == (SELECTION, {"change": 3}, 0)


@pytest.mark.parametrize("address", ["/api/v1/changes/export/", "/changes/change-log.jsonl"])
def test_change_export_contains_only_entries_that_match_the_filters(reader: Client, address: str) -> None:
    assert verify_lines(lines(reader.get(address, {"actor": "ada"}))).rows == {"change": 1}


def test_an_unknown_filter_is_refused(reader: Client) -> None:
    assert reader.get("/api/v1/changes/export/?persn=ada").status_code == 400


def test_a_filter_that_cannot_be_read_is_refused(reader: Client) -> None:
    assert reader.get("/changes/change-log.jsonl?since=soon").status_code == 400


# --- undo ------------------------------------------------------------------------------------


@pytest.fixture
def owned() -> tuple[list[TargetDataset], ChangeLogEntry]:
    """Return two datasets that got an owner by one edit, and an entry of that edit."""
    rows = [TargetDatasetFactory(), TargetDatasetFactory()]
    apply_edits(edits_of(rows, OWNER, "ops"))
    return rows, ChangeLogEntry.objects.latest("pk")


def test_undo_reverts_all_changes_made_together(reader: Client, owned: tuple) -> None:
    rows, entry = owned
    answer = reader.post(f"/api/v1/changes/{entry.pk}/undo/", {}, content_type="application/json")
    assert {undone["key"] for undone in answer.json()["undone"]} == {str(row.key) for row in rows}
    assert not TargetDataset.objects.exclude(owner="").exists()


def test_undo_refuses_a_row_changed_since(reader: Client, owned: tuple) -> None:
    (row, _), entry = owned
    row.refresh_from_db()
    update_target_dataset(dataset=row, expected_version=row.version, owner="ann")
    answer = reader.post(f"/api/v1/changes/{entry.pk}/undo/", {}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (409, "changed_since")
    assert sorted(TargetDataset.objects.values_list("owner", flat=True)) == ["ann", "ops"]


def test_a_refused_undo_names_its_rows(reader: Client, owned: tuple) -> None:
    (row, _), entry = owned
    row.refresh_from_db()
    update_target_dataset(dataset=row, expected_version=row.version, owner="ann")
    answer = reader.post(f"/api/v1/changes/{entry.pk}/undo/", {}, content_type="application/json").json()
    assert [(problem["at"], problem["key"]) for problem in answer["rows"]] == [(str(row), str(row.key))]


def test_undo_reverts_an_edit_of_source_datasets(reader: Client) -> None:
    rows = SourceDatasetFactory.create_batch(2)
    entry = apply_edits(edits_of(rows, OWNER, "ops"))
    answer = reader.post(f"/api/v1/changes/{entry.pk}/undo/", {}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    assert {item["key"] for item in answer.json()["undone"]} == {str(row.key) for row in rows}
    assert not SourceDataset.objects.filter(owner="ops").exists()
