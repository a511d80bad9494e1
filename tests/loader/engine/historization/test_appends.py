"""Appends on real tables: rows are added once per run, with or without a business key."""

import pytest

from loader.contract.run_states import REVERT
from loader.engine.historization import rawcore
from tests.fixtures.spark import held_in_memory
from tests.loader.harness import finished
from tests.loader.histories import Kept

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path"), pytest.mark.takes(seconds=8)]

DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 29)]
COLUMNS = {"place": "string", "amount": "integer"}
APPEND = {"input": "append"}


def fact(place: str, amount: int) -> dict:
    return {"place": place, "amount": amount}


@pytest.fixture
def sale(spark, tmp_path) -> Kept:
    return Kept(spark, tmp_path, name="sale", columns=COLUMNS, keys=(), policy=APPEND, historize=False)


def rows(item: Kept) -> list[tuple]:
    """Return place, amount and run of every row of rawcore."""
    frame = item.table(item.rawcore_spec).frame().select("place", "amount", "load_run_id")
    return sorted(tuple(row) for row in frame.collect())


def test_append_run_adds_its_rows_and_keeps_identical_facts(sale):
    sale.load([fact("a", 1), fact("a", 1), fact("b", 2)], at=DAY[0])
    status, event = sale.load([fact("a", 1)], at=DAY[1])
    assert (status, event["counts"]) == ("succeeded", {"rows": 1, "duplicates": 0, "new": 1})
    assert rows(sale) == [("a", 1, "run-1"), ("a", 1, "run-1"), ("a", 1, "run-2"), ("b", 2, "run-1")]
    assert held_in_memory(sale.spark) == []


def test_the_table_has_no_key_without_a_business_key(sale):
    assert [column.name for column in sale.rawcore_spec.columns] == [
        "place", "amount", "row_hash", "load_run_id", "loaded_at",
    ]  # fmt: skip


@pytest.mark.nightly
def test_append_accepts_an_earlier_load_timestamp(sale):
    sale.load([fact("a", 1)], at=DAY[5])
    status, _ = sale.load([fact("b", 2)], at=DAY[1])
    assert (status, len(rows(sale))) == ("succeeded", 2)


def test_a_repeated_run_adds_nothing(sale):
    sale.load([fact("a", 1)], at=DAY[0])
    manifest = sale.manifest(sale.deliver([fact("a", 1)]), at=DAY[0], run_id="run-1")
    _, event = sale.again(manifest)
    assert event["warnings"][-1] == "The table already held this run: nothing was added."
    assert rows(sale) == [("a", 1, "run-1")]


class Killed(Exception):
    pass


def test_file_of_a_killed_run_is_added_once_by_the_next_run(sale, monkeypatch):
    sale.load([fact("a", 1)], at=DAY[0])
    folder = sale.folder / "facts"
    folder.mkdir()
    sale.deliver([fact("b", 2)]).rename(folder / "2.jsonl")

    def die(*_args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(rawcore, "add_rows", die)
        sale.sequence += 1
        dead = sale.manifest(folder, at=DAY[1], run_id="dead")
        status, events = sale.attempt(dead)
        assert (status, finished(events, sale.state.key)["error"]["code"]) == ("failed", "UNEXPECTED")
    sale.sequence += 1
    for run_id in ("next", "next"):
        status, _ = sale.attempt(sale.manifest(folder, at=DAY[2], run_id=run_id))
        assert status == "succeeded"
    assert rows(sale) == [("a", 1, "run-1"), ("b", 2, "next")]


def test_each_file_of_a_folder_is_added_once(sale):
    folder = sale.folder / "facts"
    folder.mkdir()
    for n in (1, 2, 3):
        if n < 3:
            sale.prepare()
            sale.deliver([fact("a", n)]).rename(folder / f"{n}.jsonl")
        sale.sequence += 1
        status, events = sale.attempt(sale.manifest(folder, at=DAY[n], run_id=f"run-{n}"))
        assert status == "succeeded", events
    assert rows(sale) == [("a", 1, "run-1"), ("a", 2, "run-2")]


@pytest.mark.nightly
def test_revert_removes_the_rows_of_an_append_run_and_refuses_its_repetition(sale):
    for n in (1, 2, 3):
        sale.load([fact("a", n)], at=DAY[n])
    status, event = sale.perform_run(REVERT, sale.revert_manifest("run-2", 2))
    assert (status, event.get("error"), event["counts"]) == ("succeeded", None, {"rows": 2})
    assert rows(sale) == [("a", 1, "run-1"), ("a", 3, "run-3")]
    status, event = sale.load([fact("a", 5)], at=DAY[5])
    assert (status, rows(sale)[-1]) == ("succeeded", ("a", 5, "run-5"))
    manifest = sale.manifest(sale.deliver([fact("a", 2)]), at=DAY[6], run_id="run-2")
    _, event = sale.again(manifest)
    assert (event["status"], event["error"]["code"]) == ("failed", "RUN_REVERTED")
    assert rows(sale) == [("a", 1, "run-1"), ("a", 3, "run-3"), ("a", 5, "run-5")]


@pytest.mark.nightly
def test_files_of_a_reverted_run_are_not_read_again(sale):
    folder = sale.folder / "facts"
    folder.mkdir()
    sale.prepare()
    for n in (1, 2):
        sale.deliver([fact("a", n)]).rename(folder / f"{n}.jsonl")
        sale.sequence += 1
        assert sale.attempt(sale.manifest(folder, at=DAY[n], run_id=f"run-{n}"))[0] == "succeeded"
    status, event = sale.perform_run(REVERT, sale.revert_manifest("run-2", 2))
    assert (status, rows(sale)) == ("succeeded", [("a", 1, "run-1")]), event
    sale.deliver([fact("a", 4)]).rename(folder / "4.jsonl")
    sale.sequence += 1
    status, events = sale.attempt(sale.manifest(folder, at=DAY[4], run_id="run-4"))
    assert (status, rows(sale)) == ("succeeded", [("a", 1, "run-1"), ("a", 4, "run-4")]), events


@pytest.fixture
def keyed(spark, tmp_path) -> Kept:
    return Kept(spark, tmp_path, name="sale", columns=COLUMNS, keys=("place",), policy=APPEND, historize=False)


@pytest.mark.nightly
def test_rows_of_a_batch_with_a_business_key_collapse_or_conflict(keyed):
    status, event = keyed.load([fact("a", 1), fact("a", 1)], at=DAY[0])
    assert (status, rows(keyed)) == ("succeeded", [("a", 1, "run-1")])
    status, event = keyed.load([fact("b", 1), fact("b", 2)], at=DAY[1])
    refused = finished(keyed.events, keyed.raw_state.key)["error"]["code"]
    assert (status, refused, event["status"]) == ("failed", "CONFLICTING_ROWS", "skipped")
    keyed.load([fact("a", 3)], at=DAY[2])
    assert rows(keyed) == [("a", 1, "run-1"), ("a", 3, "run-3")]
