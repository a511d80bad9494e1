"""Retention: whole segments are exported and then removed, and the chain stays valid."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.audit.append_only import remove_linked, trigger_names
from elevata.audit.models import AuditSegment, ChainLink, ChangeLogEntry
from elevata.audit.services import chain, retention
from elevata.audit.services.change_log import record_change
from elevata.audit.services.export_files import wrong_exports
from elevata.audit.services.exports import export_segment
from elevata.audit.services.retention import prune
from elevata.audit.services.verification import verify_chain
from elevata.core.errors import MetadataError
from elevata.core.registry import Registered
from tests.elevata.audit.append_only import triggers_lifted
from tests.elevata.audit.test_append_only import triggers

NEEDED: set[int] = set()


pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture(autouse=True)
def needed_entries(monkeypatch: Any) -> set[int]:
    needed: Registered[Callable[[], set[int]]] = Registered()
    needed.add(lambda: NEEDED)
    monkeypatch.setattr(retention, "NEEDED_ENTRIES", needed)
    NEEDED.clear()
    return NEEDED


@pytest.fixture
def admin() -> Any:
    return ensure_user(name="root", roles=[Role.ADMIN])


@pytest.fixture
def log(admin: Any) -> None:
    """Create four entries: the admin's account, and three changes."""
    for name in ("first", "second", "third"):
        change(name)


def change(name: str = "dev") -> None:
    record_change(action="changed", subject_kind="policy", subject_key=name, subject_name=name, after={"a": 1})


def soon() -> Any:
    return timezone.now() + timedelta(minutes=1)


def remove(admin: Any, path: Path) -> AuditSegment:
    export_segment(path, before=soon())
    with acting_as(admin):
        return prune(path, reason="kept for seven years elsewhere")


def code(work: Callable[[], Any]) -> str:
    with pytest.raises(MetadataError) as refused:
        work()
    return refused.value.code


def problem() -> str | None:
    fault = verify_chain().problem
    return fault.code if fault else None


def tamper(statement: str, *values: object) -> None:
    with triggers_lifted(), connection.cursor() as cursor:
        cursor.execute(statement, values)


# --- removing ------------------------------------------------------------------------------------


def test_chain_is_intact_after_a_segment_is_removed(log: None, admin: Any, tmp_path: Path) -> None:
    head = chain.head()
    segment = remove(admin, tmp_path / "1.jsonl")
    assert (segment.first, segment.last, segment.head, segment.rows) == (1, 4, head.hash, 4)
    assert not ChangeLogEntry.objects.exists()
    assert ChainLink.objects.get(kind="segment").subject_id == segment.pk
    assert (problem(), verify_chain().segments) == (None, 1)


def test_removed_segment_has_its_actor_and_reason(log: None, admin: Any, tmp_path: Path) -> None:
    segment = remove(admin, tmp_path / "1.jsonl")
    assert (segment.actor, segment.reason) == ("root", "kept for seven years elsewhere")


def test_chain_is_intact_against_an_earlier_head_after_a_removal(log: None, admin: Any, tmp_path: Path) -> None:
    head = chain.head()
    change("fourth")
    remove(admin, tmp_path / "1.jsonl")
    assert verify_chain(against=head).intact


def test_second_segment_begins_after_the_first(log: None, admin: Any, tmp_path: Path) -> None:
    remove(admin, tmp_path / "1.jsonl")
    change("fourth")
    second = remove(admin, tmp_path / "2.jsonl")
    # Link 5 is the first segment's own row, which stays.
    assert (second.first, second.last, second.rows) == (5, 6, 1)
    assert problem() is None


def test_segment_contains_only_entries_sealed_before_the_given_time(log: None, tmp_path: Path) -> None:
    sealed = ChainLink.objects.get(sequence=3).sealed_at
    assert export_segment(tmp_path / "1.jsonl", before=sealed).last == 2


def test_removal_of_a_segment_restores_the_triggers(log: None, admin: Any, tmp_path: Path) -> None:
    remove(admin, tmp_path / "1.jsonl")
    assert triggers()["audit_changelogentry"] == set(trigger_names(connection.vendor))
    change("fourth")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM audit_changelogentry")


def test_removal_refuses_to_delete_rows_outside_the_segment(log: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed_entry = ChainLink.objects.get(sequence=4).subject_id

    def greedy(*_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM audit_changelogentry WHERE id = %s", [sealed_entry])

    monkeypatch.setattr("elevata.audit.append_only.guard", greedy)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        remove_linked(connection, ChangeLogEntry, kind="change", first=1, last=3)
    assert ChangeLogEntry.objects.count() == 4


def test_rows_are_not_removed_outside_a_transaction(log: None) -> None:
    with pytest.raises(transaction.TransactionManagementError):
        remove_linked(connection, ChangeLogEntry, kind="change", first=1, last=3)


# --- refusing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR, Role.APPROVER, Role.OPERATOR])
def test_prune_refuses_users_who_are_not_admins(log: None, tmp_path: Path, role: Role) -> None:
    export_segment(tmp_path / "1.jsonl", before=soon())
    with acting_as(ensure_user(name="ada", roles=[role])):
        assert code(lambda: prune(tmp_path / "1.jsonl", reason="x")) == "not_permitted"


def test_prune_refuses_the_system_as_actor(log: None, tmp_path: Path) -> None:
    export_segment(tmp_path / "1.jsonl", before=soon())
    assert code(lambda: prune(tmp_path / "1.jsonl", reason="x")) == "not_permitted"


def test_prune_refuses_a_read_only_token_of_an_admin(log: None, admin: Any, tmp_path: Path) -> None:
    export_segment(tmp_path / "1.jsonl", before=soon())
    with acting_as(admin, by_token=True, read_only=True):
        assert code(lambda: prune(tmp_path / "1.jsonl", reason="x")) == "token_scope"


def refused(admin: Any, path: Path, reason: str = "x") -> str:
    with acting_as(admin):
        return code(lambda: prune(path, reason=reason))


def test_prune_requires_a_reason(log: None, admin: Any, tmp_path: Path) -> None:
    export_segment(tmp_path / "1.jsonl", before=soon())
    assert refused(admin, tmp_path / "1.jsonl", " ") == "invalid"


def test_an_export_that_was_altered_is_refused(log: None, admin: Any, tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    export_segment(path, before=soon())
    path.write_text(path.read_text().replace('"second"', '"secund"'))
    assert refused(admin, path) == "export_changed"
    assert ChangeLogEntry.objects.count() == 4


def test_an_export_with_a_repeated_field_is_refused(log: None, admin: Any, tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    export_segment(path, before=soon())
    path.write_text(path.read_text().replace("{", '{"content": "other", ', 1))
    assert refused(admin, path) == "invalid"


def test_prune_refuses_a_missing_export(log: None, admin: Any, tmp_path: Path) -> None:
    assert refused(admin, tmp_path / "1.jsonl") == "unreadable"


def test_the_same_segment_is_not_removed_twice(log: None, admin: Any, tmp_path: Path) -> None:
    remove(admin, tmp_path / "1.jsonl")
    assert refused(admin, tmp_path / "1.jsonl") == "segment_out_of_order"


def test_another_chains_segment_is_refused(log: None, admin: Any, tmp_path: Path) -> None:
    export_segment(tmp_path / "1.jsonl", before=soon())
    tamper("DELETE FROM audit_chainlink")
    tamper("DELETE FROM audit_changelogentry")
    tamper("DELETE FROM audit_chainhead")
    change("another")
    assert refused(admin, tmp_path / "1.jsonl") == "artifact_differs"


def test_a_segment_with_a_row_missing_is_refused(log: None, admin: Any, tmp_path: Path) -> None:
    export_segment(tmp_path / "1.jsonl", before=soon())
    tamper("DELETE FROM audit_changelogentry WHERE subject_key = 'second'")
    assert refused(admin, tmp_path / "1.jsonl") == "row_missing"
    assert ChangeLogEntry.objects.count() == 3


@pytest.mark.parametrize("row_count", [3, 5])
def test_a_removal_of_more_or_fewer_rows_than_the_file_lists_is_refused(
    log: None, admin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_count: int
) -> None:
    export_segment(tmp_path / "1.jsonl", before=soon())
    monkeypatch.setattr(retention, "remove_linked", lambda *_, **__: row_count)
    message = f"the file lists 4 rows of kind change, but the database has {row_count}"
    with acting_as(admin), pytest.raises(MetadataError, match=message):
        prune(tmp_path / "1.jsonl", reason="x")


def test_a_broken_chain_is_not_exported(log: None, tmp_path: Path) -> None:
    tamper("UPDATE audit_changelogentry SET actor = 'mallory' WHERE subject_key = 'second'")
    assert code(lambda: export_segment(tmp_path / "1.jsonl", before=soon())) == "row_changed"
    assert not (tmp_path / "1.jsonl").exists()


def test_segment_export_refuses_to_overwrite_a_file(log: None, tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text("mine")
    assert code(lambda: export_segment(tmp_path / "1.jsonl", before=soon())) == "exists"
    assert [path.name for path in tmp_path.iterdir()] == ["1.jsonl"]


def test_segment_export_refuses_a_time_before_the_first_entry(log: None, tmp_path: Path) -> None:
    early = timezone.now() - timedelta(days=1)
    assert code(lambda: export_segment(tmp_path / "1.jsonl", before=early)) == "nothing_to_remove"


def test_a_segment_ends_before_an_entry_that_is_needed(log: None, needed_entries: set[int], tmp_path: Path) -> None:
    third = ChangeLogEntry.objects.get(subject_key="second")
    needed_entries.add(third.pk)
    assert export_segment(tmp_path / "1.jsonl", before=soon()).last == 2


def test_prune_refuses_a_segment_with_an_entry_needed_since_its_export(
    log: None, admin: Any, needed_entries: set[int], tmp_path: Path
) -> None:
    export_segment(tmp_path / "1.jsonl", before=soon())
    needed = ChangeLogEntry.objects.get(subject_key="second").pk
    needed_entries.add(needed)
    assert refused(admin, tmp_path / "1.jsonl") == "still_needed"


# --- proving -------------------------------------------------------------------------------------


@pytest.fixture
def segment(log: None, admin: Any, tmp_path: Path) -> AuditSegment:
    return remove(admin, tmp_path / "1.jsonl")


def test_an_altered_segment_is_found(segment: AuditSegment) -> None:
    tamper("UPDATE audit_auditsegment SET digest = %s", "f" * 64)
    assert problem() == "row_changed"


def test_a_segment_that_claims_more_links_is_found(segment: AuditSegment) -> None:
    change("fourth")
    tamper("DELETE FROM audit_changelogentry")
    tamper("UPDATE audit_auditsegment SET last = 6")
    assert problem() in ("segment_changed", "row_changed")


def test_a_segment_that_claims_links_beyond_the_end_is_found(segment: AuditSegment) -> None:
    values = {"file": "2", "digest": "", "removed_at": timezone.now(), "actor": "x", "actor_kind": "system"}
    with transaction.atomic():
        forged = AuditSegment.objects.create(first=5, last=99, head="", rows=9, reason="x", **values)
        chain.append(forged)
    assert problem() == "segment_changed"


def test_verification_detects_a_segment_inserted_without_a_link(log: None) -> None:
    tamper("DELETE FROM audit_changelogentry")
    values = {"file": "1", "digest": "", "removed_at": timezone.now(), "actor": "x", "actor_kind": "system"}
    AuditSegment.objects.create(first=1, last=4, head=chain.head().hash, rows=4, reason="x", **values)
    assert problem() == "row_extra"


def test_verification_reports_missing_rows_after_their_segment_is_deleted(segment: AuditSegment) -> None:
    tamper("DELETE FROM audit_auditsegment")
    assert problem() == "row_missing"


def test_verification_detects_a_removed_entry_inserted_again(log: None, admin: Any, tmp_path: Path) -> None:
    entry = ChangeLogEntry.objects.get(subject_key="second")
    remove(admin, tmp_path / "1.jsonl")
    ChangeLogEntry.objects.bulk_create([entry])
    assert problem() == "segment_incomplete"


def test_verification_detects_an_entry_deleted_after_the_last_segment(segment: AuditSegment) -> None:
    change("fourth")
    tamper("DELETE FROM audit_changelogentry WHERE subject_key = 'fourth'")
    assert problem() == "row_missing"


def test_verification_since_a_checkpoint_ignores_earlier_links(log: None) -> None:
    checkpoint = chain.head()
    change("fourth")
    tamper("UPDATE audit_changelogentry SET actor = 'mallory' WHERE subject_key = 'second'")
    assert (verify_chain(since=checkpoint).intact, verify_chain().intact) == (True, False)
    tamper("UPDATE audit_changelogentry SET actor = 'mallory' WHERE subject_key = 'fourth'")
    assert verify_chain(since=checkpoint).problem.code == "row_changed"


def test_unchanged_exports_of_removed_segments_are_accepted(segment: AuditSegment, tmp_path: Path) -> None:
    assert wrong_exports(tmp_path) is None


def test_verification_detects_a_missing_export_of_a_removed_segment(segment: AuditSegment, tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").unlink()
    assert wrong_exports(tmp_path).code == "export_missing"


def test_verification_detects_an_altered_export_of_a_removed_segment(segment: AuditSegment, tmp_path: Path) -> None:
    with (tmp_path / "1.jsonl").open("ab") as file:
        file.write(b"\n")
    assert wrong_exports(tmp_path).code == "export_changed"
