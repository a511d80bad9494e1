"""Tests of the audit chain against SQL access: signatures, triggers, and heads recorded outside the database."""

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import connection

from elevata.audit.append_only import trigger_names
from elevata.audit.hash_chain import Head, link_hash
from elevata.audit.models import ChainHead, ChainLink, ChainPending, ChangeLogEntry
from elevata.audit.services import chain, recorded_heads
from elevata.audit.services.change_log import record_change
from elevata.audit.services.export_files import wrong_files
from elevata.audit.services.verification import verify_chain
from elevata.core.canonical_json import sha256_hex
from tests.elevata.audit.append_only import triggers_lifted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

KEY = "another-audit-key-of-more-than-32-characters"


def change(name: str = "dev") -> None:
    record_change(action="changed", subject_kind="policy", subject_key=name, subject_name=name, after={"a": 1})


@pytest.fixture
def three() -> list[int]:
    for name in ("first", "second", "third"):
        change(name)
    return list(ChangeLogEntry.objects.order_by("id").values_list("id", flat=True))


@pytest.fixture
def audit_folder(settings, tmp_path: Path) -> Path:
    settings.AUDIT_FOLDER = tmp_path / "audit"
    return settings.AUDIT_FOLDER


def sql(statement: str, *values: object) -> None:
    with triggers_lifted(), connection.cursor() as cursor:
        cursor.execute(statement, values)


def first_problem() -> tuple[str | None, int | None]:
    problem = verify_chain().problem
    return (problem.code, problem.subject) if problem else (None, None)


def code() -> str | None:
    return first_problem()[0]


def forge_entry() -> int:
    """Insert an entry without the services and return its id."""
    row = ChangeLogEntry.objects.create(
        at=datetime.now(UTC), actor="x", actor_kind="system", action="changed", subject_kind="x", changes="{}"
    )
    return row.pk


# --- notes ---------------------------------------------------------------------------------------


def insert_note(pk: int, digest: str, **signed: str) -> None:
    fields = {"key_id": "", "signature": "", "refused": "", **signed}
    sql(
        "INSERT INTO audit_chainpending (kind, subjects, key_id, signature, refused) VALUES (%s, %s, %s, %s, %s)",
        "change",
        json.dumps([[pk, digest]]),
        fields["key_id"],
        fields["signature"],
        fields["refused"],
    )


def test_row_with_a_pending_record_inserted_by_sql_is_never_sealed(three: list[int]) -> None:
    pk = forge_entry()
    insert_note(pk, sha256_hex(ChangeLogEntry.objects.get(pk=pk).content()))
    assert first_problem() == ("signature_wrong", pk)
    assert chain.seal() == 0
    change("fourth")
    assert not ChainLink.objects.filter(subject_id=pk).exists()
    assert (first_problem(), chain.head().sequence) == (("signature_wrong", pk), 4)


def test_pending_record_with_the_signature_of_a_link_is_never_sealed(three: list[int]) -> None:
    pk, link = forge_entry(), ChainLink.objects.first()
    insert_note(pk, "a" * 64, key_id=link.key_id, signature=link.signature)
    assert (chain.seal(), first_problem()) == (0, ("signature_wrong", pk))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> ChainPending:
    """Return a signed pending record that is not sealed yet."""
    with monkeypatch.context() as dying:
        dying.setattr(chain, "_seal_batch", lambda wait: 0)
        change()
    return ChainPending.objects.get()


def test_reused_pending_record_is_never_sealed(waiting: ChainPending) -> None:
    ((pk, digest),) = waiting.subjects
    assert chain.seal() == 1
    insert_note(pk, digest, key_id=waiting.key_id, signature=waiting.signature)
    assert (chain.seal(), first_problem()) == (0, ("note_repeated", pk))


def test_pending_record_with_changed_subjects_is_never_sealed(waiting: ChainPending) -> None:
    pk = forge_entry()
    sql("UPDATE audit_chainpending SET subjects = %s", json.dumps([[pk, "a" * 64]]))
    assert (chain.seal(), code()) == (0, "signature_wrong")


def test_row_deleted_before_sealing_is_reported_missing(waiting: ChainPending) -> None:
    sql("DELETE FROM audit_changelogentry")
    assert (chain.seal(), code()) == (0, "row_missing")


@pytest.mark.parametrize("subjects", ["1", "[]", '[["x"]]', '{"a": 1.5}'])
def test_malformed_pending_record_does_not_block_later_sealing(three: list[int], subjects: str) -> None:
    sql(
        "INSERT INTO audit_chainpending (kind, subjects, key_id, signature, refused) VALUES ('x', %s, '', '', '')",
        subjects,
    )
    change("fourth")
    assert (chain.head().sequence, code()) == (4, "signature_wrong")


# --- links ---------------------------------------------------------------------------------------


def rewrite_chain() -> None:
    """Rewrite every link with valid digests and hashes, as is possible with SQL access but without the key."""
    previous = Head().hash
    for link in ChainLink.objects.order_by("sequence"):
        digest = sha256_hex(ChangeLogEntry.objects.get(pk=link.subject_id).content())
        content = {"sequence": link.sequence, "kind": link.kind, "subject": link.subject_id, "digest": digest}
        new_hash = link_hash(**content, previous=previous, sealed_at=chain.link_of(link).sealed_at)
        sql(
            "UPDATE audit_chainlink SET digest = %s, previous = %s, hash = %s WHERE sequence = %s",
            digest,
            previous,
            new_hash,
            link.sequence,
        )
        previous = new_hash
    ChainHead.objects.update(hash=previous)


def test_a_chain_computed_anew_by_sql_is_found(three: list[int]) -> None:
    sql("UPDATE audit_changelogentry SET actor = 'mallory' WHERE id = %s", three[1])
    rewrite_chain()
    assert first_problem() == ("signature_wrong", three[1])


@pytest.mark.parametrize("column", ["signature", "key_id"])
def test_a_link_without_its_signature_is_found(three: list[int], column: str) -> None:
    sql(f"UPDATE audit_chainlink SET {column} = '' WHERE sequence = 2")
    assert first_problem() == ("signature_wrong", three[1])


def test_verification_detects_a_changed_sealing_time(three: list[int]) -> None:
    sql("UPDATE audit_chainlink SET sealed_at = '2020-01-01 00:00:00+00:00' WHERE sequence = 2")
    assert code() == "link_changed"


def test_verification_detects_a_changed_user_id_of_an_entry(three: list[int], django_user_model) -> None:
    user = django_user_model.objects.create(username="mallory")
    sql("UPDATE audit_changelogentry SET user_id = %s WHERE id = %s", user.pk, three[1])
    assert first_problem() == ("row_changed", three[1])


# --- keys ----------------------------------------------------------------------------------------


def test_verification_distinguishes_a_former_key_from_a_forged_signature(three: list[int], settings) -> None:
    before = settings.AUDIT_KEY
    settings.AUDIT_KEY = KEY
    assert code() == "key_unknown"
    settings.AUDIT_KEYS_FORMER = (before,)
    change("fourth")
    assert code() is None
    assert ChainLink.objects.values("key_id").distinct().count() == 2
    sql("UPDATE audit_chainlink SET signature = %s WHERE sequence = 1", "0" * 64)
    assert code() == "signature_wrong"


def test_pending_record_signed_with_a_former_key_is_sealed(waiting: ChainPending, settings) -> None:
    settings.AUDIT_KEYS_FORMER, settings.AUDIT_KEY = (settings.AUDIT_KEY,), KEY
    assert (chain.seal(), code()) == (1, None)


# --- triggers ------------------------------------------------------------------------------------


@pytest.fixture
def guarded() -> Iterator[None]:
    yield
    with triggers_lifted():
        pass


@pytest.mark.parametrize("place", [0, 1, 2])
def test_verification_detects_a_missing_trigger(three: list[int], guarded: None, place: int) -> None:
    name = trigger_names(connection.vendor)[place]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"DROP TRIGGER {name} ON audit_changelogentry")
        else:
            cursor.execute(f"DROP TRIGGER {name}_audit_changelogentry")
    assert code() == "trigger_missing"


def test_a_trigger_that_does_nothing_is_found(three: list[int], guarded: None) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ALTER TABLE audit_changelogentry DISABLE TRIGGER append_only_update")
        else:
            cursor.execute("DROP TRIGGER append_only_update_audit_changelogentry")
            cursor.execute(
                "CREATE TRIGGER append_only_update_audit_changelogentry BEFORE UPDATE ON audit_changelogentry "
                "WHEN 1 = 0 BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
    assert code() == "trigger_changed"


@pytest.mark.services
def test_a_function_that_does_nothing_is_found(three: list[int], guarded: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION elevata_append_only() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN RETURN COALESCE(NEW, OLD); END $$"
        )
    assert code() == "trigger_changed"


ADDITIONS = {
    "sqlite": [
        (
            "CREATE TRIGGER other AFTER INSERT ON audit_changelogentry BEGIN SELECT 1; END",
            "DROP TRIGGER other",
        )
    ],
    "postgresql": [
        (
            "CREATE TRIGGER other BEFORE UPDATE OF actor ON audit_changelogentry FOR EACH ROW "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "DROP TRIGGER other ON audit_changelogentry",
        ),
        (
            "CREATE RULE other AS ON INSERT TO audit_changelogentry WHERE NEW.actor = 'eve' DO INSTEAD NOTHING",
            "DROP RULE other ON audit_changelogentry",
        ),
        (
            "ALTER TABLE audit_changelogentry ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE audit_changelogentry DISABLE ROW LEVEL SECURITY",
        ),
        ("CREATE TABLE other () INHERITS (audit_changelogentry)", "DROP TABLE other"),
    ],
}


def test_further_triggers_rules_policies_and_child_tables_are_found(three: list[int]) -> None:
    for statement, undo in ADDITIONS[connection.vendor]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            try:
                assert code() == "table_altered", statement
            finally:
                cursor.execute(undo)
    assert code() is None


# --- recorded heads ------------------------------------------------------------------------------


def cut_to(sequence: int) -> None:
    """Remove the links after ``sequence`` with their rows and reset the head, leaving a consistent chain."""
    subjects = list(ChainLink.objects.filter(sequence__gt=sequence).values_list("subject_id", flat=True))
    for subject in subjects:
        sql("DELETE FROM audit_changelogentry WHERE id = %s", subject)
    sql("DELETE FROM audit_chainlink WHERE sequence > %s", sequence)
    ChainHead.objects.update(sequence=sequence, hash=ChainLink.objects.get(sequence=sequence).hash)


def test_recorded_heads_reveal_a_cut_tail(three: list[int]) -> None:
    cut_to(2)
    assert verify_chain(recorded=False).intact
    problem = verify_chain().problem
    assert (problem.code, problem.sequence) == ("heads_differ", 3)


def test_recorded_heads_reveal_a_cut_tail_after_new_changes(three: list[int]) -> None:
    cut_to(2)
    for name in ("other", "another"):
        change(name)
    assert verify_chain(recorded=False).intact
    assert code() == "heads_differ"


def test_restore_with_a_recorded_statement_is_accepted(three: list[int]) -> None:
    before = chain.head()
    cut_to(2)
    recorded_heads.state(chain.head(), before=before, reason="disk failed")
    change("fourth")
    verification = verify_chain()
    assert (verification.problem, [restore.reason for restore in verification.restores]) == (None, ["disk failed"])
    cut_to(2)
    assert code() == "heads_differ"


def test_verification_detects_a_forged_restore_statement(three: list[int]) -> None:
    recorded_heads.state(chain.head(), before=Head(), reason="disk failed")
    lines = recorded_heads.path().read_text().splitlines()
    row = json.loads(lines[-1])
    row["document"]["reason"] = "nothing"
    recorded_heads.path().write_text("\n".join([*lines[:-1], json.dumps(row)]) + "\n")
    assert code() == "heads_changed"


def test_verification_detects_a_forged_recorded_head(three: list[int]) -> None:
    cut_to(2)
    lines = recorded_heads.path().read_text().splitlines()
    row = json.loads(lines[-1])
    row["document"]["chain"] = chain.head().as_json()
    recorded_heads.path().write_text("\n".join([*lines[:-1], json.dumps(row)]) + "\n")
    assert code() == "heads_changed"


def test_deleted_file_of_recorded_heads_is_reported_and_not_recreated(three: list[int]) -> None:
    recorded_heads.path().unlink()
    change("fourth")
    assert code() == "heads_missing"
    assert not recorded_heads.path().exists()


def test_first_seal_creates_the_file_before_its_head_is_recorded(audit_folder: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(recorded_heads, "record", lambda *args, **kwargs: None)  # still to be done by the first process
        change("first")
        assert oct(recorded_heads.path().stat().st_mode & 0o777) == "0o600"
    change("second")
    assert (code(), verify_chain().unrecorded) == (None, 0)


def test_recorded_heads_are_readable_by_their_owner_only(three: list[int], audit_folder: Path) -> None:
    recorded_heads.state(chain.head(), before=Head(), reason="x")
    modes = [oct(path.stat().st_mode & 0o777) for path in (audit_folder, recorded_heads.path())]
    assert modes == ["0o700", "0o600"]


def test_unwritable_recorded_heads_log_an_error_and_do_not_fail_a_change(three: list[int], caplog) -> None:
    path = recorded_heads.path()
    shutil.move(path, path.with_suffix(".away"))
    path.mkdir()
    try:
        change("fourth")
    finally:
        path.rmdir()
        shutil.move(path.with_suffix(".away"), path)
    assert "could not be recorded" in caplog.text
    assert (verify_chain().intact, verify_chain().unrecorded) == (True, 1)
    change("fifth")
    assert verify_chain().unrecorded == 0


def test_incomplete_last_line_of_recorded_heads_is_ignored(three: list[int]) -> None:
    with recorded_heads.path().open("a") as file:
        file.write('{"purpose": "recorded-he')
    change("fourth")
    assert (code(), verify_chain().unrecorded) == (None, 0)


def test_recorded_heads_are_compacted_and_keep_restore_statements(
    three: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_heads, "_LARGEST", 2000)
    monkeypatch.setattr(recorded_heads, "_KEPT", 3)
    recorded_heads.state(chain.head(), before=Head(), reason="kept")
    for number in range(20):
        change(str(number))
    assert len(recorded_heads.path().read_text().splitlines()) < 12
    verification = verify_chain()
    assert (verification.problem, verification.unrecorded, len(verification.restores)) == (None, 0, 1)
    cut_to(10)
    assert code() == "heads_differ"


def test_recorded_heads_ignore_a_head_older_than_the_last(three: list[int]) -> None:
    lines = recorded_heads.path().read_text()
    recorded_heads.record(Head(2, "a" * 64))
    assert recorded_heads.path().read_text() == lines


# --- exports in the folder -----------------------------------------------------------------------


@pytest.fixture
def exported(three: list[int]) -> Callable[[], None]:
    folder = recorded_heads.path().parent
    path = folder / "proof.json"
    path.write_text(json.dumps({"chain": chain.head().as_json()}))
    (folder / "notes.json").write_text("not an artifact")
    yield path
    path.unlink()
    (folder / "notes.json").unlink()


def test_exports_in_the_audit_folder_are_compared_with_the_chain(exported: Path) -> None:
    assert wrong_files() is None
    cut_to(2)
    assert wrong_files().code == "artifact_differs"


def test_export_of_links_lost_by_a_stated_restore_is_accepted(exported: Path) -> None:
    before = chain.head()
    cut_to(2)
    recorded_heads.state(chain.head(), before=before, reason="disk failed")
    assert wrong_files(verify_chain().restores) is None


# --- what is not detected ------------------------------------------------------------------------


def test_chain_cut_together_with_its_recorded_heads_is_detected_only_by_an_artifact(three: list[int]) -> None:
    """Check that a cut with SQL and data-folder access is revealed only by an artifact stored elsewhere."""
    head = chain.head()
    cut_to(2)
    lines = recorded_heads.path().read_text().splitlines()
    recorded_heads.path().write_text("\n".join(lines[:-1]) + "\n")
    assert code() is None
    assert verify_chain(against=head).problem.code == "artifact_differs"


def test_row_appended_with_the_audit_key_is_not_detected(three: list[int]) -> None:
    """Check that rows inserted with SQL access and the audit key are as valid as the product's own."""
    chain.append(ChangeLogEntry.objects.get(pk=forge_entry()))
    assert code() is None
