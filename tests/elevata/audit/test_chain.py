"""Tests of the chain in the database: sealing in order after commit, and detection of changed rows."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.utils import timezone

from elevata.audit.append_only import guarded_models
from elevata.audit.hash_chain import Head
from elevata.audit.models import ChainHead, ChainLink, ChainPending, ChangeLogEntry
from elevata.audit.services import chain, verification
from elevata.audit.services.change_log import record_change
from elevata.audit.services.verification import verify_chain
from elevata.core.errors import MetadataError
from metadata.services import sources
from tests.elevata.audit.append_only import triggers_lifted
from tests.factories import SystemFactory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


def change(name: str = "dev") -> None:
    record_change(action="changed", subject_kind="policy", subject_key=name, subject_name=name, after={"a": 1})


def entry() -> ChangeLogEntry:
    return ChangeLogEntry(
        at=timezone.now(), actor="x", actor_kind="system", action="changed", subject_kind="x", changes="{}"
    )


def problem() -> str | None:
    result = verify_chain()
    return result.problem.code if result.problem else None


# --- sealing -------------------------------------------------------------------------------------


def test_change_is_sealed_after_its_commit() -> None:
    change()
    (link,) = ChainLink.objects.all()
    assert (link.sequence, link.kind, link.subject_id) == (1, "change", ChangeLogEntry.objects.get().pk)
    assert chain.head() == Head(1, link.hash)


def test_change_by_a_metadata_service_is_sealed() -> None:
    sources.create_system(name="Air", short_name="air")
    assert verify_chain().as_json() | {"head": None, "chain": None} == {
        "intact": True,
        "links": 1,
        "unsealed": 0,
        "segments": 0,
        "unrecorded": 0,
        "restores": [],
        "head": None,
        "chain": None,
        "problem": None,
    }


def test_change_is_not_sealed_before_its_commit() -> None:
    with transaction.atomic():
        change()
        assert not ChainLink.objects.exists()
    assert ChainLink.objects.count() == 1


def test_rolled_back_change_is_never_sealed() -> None:
    with transaction.atomic():
        change()
        transaction.set_rollback(True)
    change()
    assert verify_chain().links == 1


def test_next_change_seals_rows_left_by_a_dead_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(chain, "_seal_batch", lambda wait: 0)
        change("first")
        change("second")
    assert verify_chain().unsealed == 2
    change("third")
    assert (verify_chain().links, verify_chain().unsealed) == (3, 0)


def test_a_seal_that_fails_does_not_fail_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(wait: bool) -> int:
        raise RuntimeError("no")

    with monkeypatch.context() as failing:
        failing.setattr(chain, "_seal_batch", fail)
        change()
    assert chain.seal() == 1


def test_sealing_is_refused_inside_a_transaction() -> None:
    with transaction.atomic():
        change()
        with pytest.raises(RuntimeError, match="durable"):
            chain.seal()


def test_seal_without_pending_rows_creates_no_link() -> None:
    assert chain.seal() == 0
    assert chain.head() == Head()


def test_rows_of_a_transaction_are_linked_in_their_order() -> None:
    with transaction.atomic():
        rows = ChangeLogEntry.objects.bulk_create(entry() for _ in range(450))
        chain.append(*rows)
    assert list(ChainLink.objects.values_list("subject_id", flat=True)) == [row.pk for row in rows]


def test_append_refuses_a_model_that_is_not_in_the_chain() -> None:
    with pytest.raises(TypeError, match="System is not in the chain"), transaction.atomic():
        chain.append(SystemFactory.build())


def test_each_chain_kind_belongs_to_exactly_one_model() -> None:
    kinds = [model.CHAIN.name for model in guarded_models() if model.CHAIN is not None]
    assert len(kinds) == len(set(kinds))
    assert {"approval", "change", "execution_event", "maintenance_run", "policy", "record", "segment"} == set(kinds)


# --- proving -------------------------------------------------------------------------------------


@pytest.fixture
def three() -> list[int]:
    for name in ("first", "second", "third"):
        change(name)
    return list(ChangeLogEntry.objects.order_by("id").values_list("id", flat=True))


def tamper(statement: str, *values: object) -> None:
    with triggers_lifted(), connection.cursor() as cursor:
        cursor.execute(statement, values)


def test_an_untouched_chain_is_intact(three: list[int]) -> None:
    assert problem() is None


@pytest.mark.parametrize(
    "column", ["actor", "actor_kind", "action", "subject_kind", "subject_key", "subject_name", "changes", "reason"]
)
def test_a_changed_row_is_found_and_named(three: list[int], column: str) -> None:
    tamper(f"UPDATE audit_changelogentry SET {column} = 'system2' WHERE id = %s", three[1])
    result = verify_chain()
    assert (result.problem.code, result.problem.sequence, result.problem.subject) == ("row_changed", 2, three[1])
    assert result.links == 1


def test_verification_detects_a_changed_time_of_an_entry(three: list[int]) -> None:
    tamper("UPDATE audit_changelogentry SET at = '2020-01-01 00:00:00+00:00' WHERE id = %s", three[0])
    assert problem() == "row_changed"


def test_verification_names_a_deleted_row(three: list[int]) -> None:
    tamper("DELETE FROM audit_changelogentry WHERE id = %s", three[1])
    fault = verify_chain().problem
    assert (fault.code, fault.subject) == ("row_missing", three[1])


def test_verification_names_a_row_inserted_without_the_services(three: list[int]) -> None:
    slipped = ChangeLogEntry.objects.create(
        at=timezone.now(), actor="x", actor_kind="system", action="changed", subject_kind="x", changes="{}"
    )
    fault = verify_chain().problem
    assert (fault.code, fault.subject) == ("row_extra", slipped.pk)


def test_verification_detects_a_deleted_link_inside_the_chain(three: list[int]) -> None:
    tamper("DELETE FROM audit_chainlink WHERE sequence = 2")
    fault = verify_chain().problem
    assert (fault.code, fault.sequence) == ("link_missing", 2)


def test_verification_detects_a_deleted_last_link_with_its_row(three: list[int]) -> None:
    tamper("DELETE FROM audit_chainlink WHERE sequence = 3")
    tamper("DELETE FROM audit_changelogentry WHERE id = %s", three[2])
    assert problem() == "link_missing"


def test_verification_detects_a_head_set_back_to_an_older_link(three: list[int]) -> None:
    second = ChainLink.objects.get(sequence=2)
    ChainHead.objects.update(sequence=2, hash=second.hash)
    assert problem() == "head_changed"


def test_verification_detects_a_head_with_a_changed_hash(three: list[int]) -> None:
    ChainHead.objects.update(hash="f" * 64)
    assert problem() == "head_changed"


def test_verification_detects_a_link_of_an_unknown_kind(three: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(chain.chained_models(), "change")
    assert problem() == "kind_unknown"


def test_chain_is_verified_in_chunks(three: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_CHUNK", 2)
    assert (verify_chain().links, problem()) == (3, None)


def test_row_changed_before_sealing_is_never_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(chain, "_seal_batch", lambda wait: 0)
        change()
    tamper("UPDATE audit_changelogentry SET actor = 'somebody'")
    assert (chain.seal(), problem()) == (0, "row_changed")


@pytest.fixture
def rewritten(three: list[int]) -> Callable[[], None]:
    """Return a function that rewrites the whole chain, as an attacker with full database access could."""

    def rewrite() -> None:
        tamper("UPDATE audit_changelogentry SET actor = 'somebody' WHERE id = %s", three[0])
        tamper("DELETE FROM audit_chainlink")
        ChainHead.objects.all().delete()
        chain_rows = list(ChangeLogEntry.objects.order_by("id"))
        chain.append(*chain_rows)

    return rewrite


def test_chain_is_intact_against_an_earlier_head(three: list[int]) -> None:
    head = chain.head()
    change("fourth")
    assert verify_chain(against=head).intact


def test_earlier_head_reveals_a_rewritten_chain(rewritten: Callable[[], None]) -> None:
    head = chain.head()
    rewritten()
    assert verify_chain(recorded=False).intact
    assert verify_chain(against=head).problem.code == "artifact_differs"


def test_verification_refuses_a_head_beyond_the_end_of_the_chain(three: list[int]) -> None:
    assert verify_chain(against=Head(9, "a" * 64)).problem.code == "artifact_differs"


def test_chain_is_intact_against_the_head_of_an_empty_chain(three: list[int]) -> None:
    assert verify_chain(against=Head()).intact


def test_append_without_rows_stores_no_pending_record() -> None:
    chain.append()
    assert not ChainPending.objects.exists()


def test_refused_change_adds_no_link_to_the_chain(three: list[int]) -> None:
    SystemFactory(short_name="air", name="Air")
    with pytest.raises(MetadataError):
        sources.create_system(name="Air", short_name="air")
    assert (verify_chain().links, problem()) == (3, None)
