"""Comparison of Delta's checksum files with the log: an outdated, short or foreign checksum is not used."""

from dataclasses import replace

import pytest

from loader.engine.tables.checksums import Checksum, contradiction

ADD_A, ADD_B = ({"add": {"path": name, "size": 10}} for name in "ab")
MARKED = {"storageType": "u", "pathOrInlineDv": "xyz", "offset": 1, "sizeInBytes": 3, "cardinality": 1}


def commit(txn_id: str, *actions: dict) -> list[dict]:
    return [{"commitInfo": {"txnId": txn_id}}, *actions]


LOG = [
    commit("t2", {"remove": {"path": "a"}}, ADD_B, {"txn": {"appId": "item", "version": 2}}),
    commit("t1", ADD_A, {"txn": {"appId": "item", "version": 1}}),
]
RIGHT = Checksum("t2", files=1, bytes=10, listed={("b", ""): 10}, transactions={"item": 2})


def test_checksum_that_agrees_with_the_log_is_used():
    assert contradiction(RIGHT, LOG) == ""


def test_checksum_without_lists_is_used_for_its_counts():
    assert contradiction(replace(RIGHT, listed=None, transactions=None), LOG) == ""


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (replace(RIGHT, txn_id="t1", listed={("a", ""): 10}), "another commit"),
        (replace(RIGHT, txn_id=None), "another commit"),
        (replace(RIGHT, files=2), "counts 2 files and lists 1"),
        (replace(RIGHT, files=0, bytes=0, listed={}), "the log has the file b"),
        (replace(RIGHT, bytes=11), "counts"),
        (replace(RIGHT, listed={("c", ""): 10}), "the log has the file b"),
        (replace(RIGHT, files=2, bytes=20, listed={("a", ""): 10, ("b", ""): 10}), "no longer has the file a"),
        (replace(RIGHT, transactions={"item": 1}), "transaction 2 of item"),
        (replace(RIGHT, transactions={}), "transaction 2 of item"),
    ],
)
def test_checksum_that_contradicts_the_log_is_not_used(wrong, reason):
    assert reason in contradiction(wrong, LOG)


def test_checksum_of_a_cleaned_log_is_not_used():
    assert contradiction(RIGHT, []) == "its commit is no longer in the log"


def test_file_with_a_new_deletion_vector_counts_as_another_file():
    marked = {"add": {"path": "b", "size": 10, "deletionVector": MARKED}}
    log = [commit("t3", {"remove": {"path": "b"}}, marked), *LOG]
    right = replace(RIGHT, txn_id="t3", listed={("b", "uxyz@1"): 10})
    assert contradiction(right, log) == ""
    assert "has the file b" in contradiction(replace(RIGHT, txn_id="t3"), log)


def test_checksum_of_another_owners_table_needs_no_transaction_id():
    unnamed = [[ADD_B]]
    assert contradiction(RIGHT, unnamed, needs_id=False) == ""
    assert contradiction(RIGHT, [], needs_id=False) == ""
    assert "another commit" in contradiction(RIGHT, [commit("t1", ADD_B)], needs_id=False)
    assert "has the file b" in contradiction(replace(RIGHT, listed={("c", ""): 10}), unnamed, needs_id=False)
