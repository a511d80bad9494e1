"""Loads of a PostgreSQL table from a watermark on: mark, deaths, reverts and refusals.

The read rows and the movement of marks are tested without Spark (tests/loader/domain/sources/test_marks.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from loader.contract.manifest.loads import LoadManifest
from loader.contract.manifest.sources import DatabaseSpec
from loader.contract.run_states import PRUNE, REVERT
from loader.domain.historization.detection import key_list_source
from loader.domain.sources.marks import marks_in
from loader.engine.loads import load, raw_loads
from loader.engine.sources.key_lists import write_key_list
from tests.fixtures.source_database import own_schema, server_place
from tests.loader.harness import finished
from tests.loader.histories import Kept

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.takes(seconds=15)]

DAY = [f"2024-02-{n:02d}T00:00:00Z" for n in range(1, 29)]
AT = [f"2024-01-01 00:00:00.{n:06d}+00" for n in range(30)]
DELTA, EFFECTIVE = {"input": "delta"}, {"input": "effective", "time": "at"}
TABLE = """
CREATE TABLE marks.item (id integer PRIMARY KEY, v text, at timestamptz);
"""


@pytest.fixture
def server() -> Iterator[psycopg.Connection]:
    with own_schema("marks", TABLE) as connection:
        yield connection


@dataclass
class Table(Kept):
    """Dataset over a table of the server, whose rows carry the time of their last change."""

    server: Any = None
    intake: Any = None

    @property
    def _feed(self) -> bool:
        return False

    def deliver(self, rows: list[dict]) -> Path:
        """Write the rows into the server's table."""
        for row in rows:
            self.server.execute(
                "INSERT INTO marks.item VALUES (%(id)s, %(v)s, %(at)s) "
                "ON CONFLICT (id) DO UPDATE SET v = excluded.v, at = excluded.at",
                row,
            )
        return Path("marks.item")

    def manifest(self, path: Path, *, at: str, run_id: str, **options) -> LoadManifest:
        made = super().manifest(path, at=at, run_id=run_id, **options)
        (raw,), (rawcore,) = made.raw, made.rawcore
        source = replace(raw.source, location="marks.item", database=DatabaseSpec(server_place()), intake=self.intake)
        inputs = tuple(replace(stage_input, incremental=True) for stage_input in rawcore.inputs)
        key_list = key_list_source(source) if self.policy.get("delete_detection") == "key_list" else None
        raw = replace(raw, source=source, key_list=key_list)
        return replace(made, raw=(raw,), rawcore=(replace(rawcore, inputs=inputs),))

    def run(self, day: int, *rows: tuple[int, str, int], **options: Any) -> dict:
        """Write rows (key, value, time), load the table, and return raw's finishing event."""
        self.prepare()
        self.sequence += 1
        path = self.deliver([{"id": id_, "v": v, "at": AT[at]} for id_, v, at in rows])
        self.made = self.manifest(path, at=DAY[day], run_id=f"run-{self.sequence}", **options)
        self.status, events = self.attempt(self.made)
        return finished(events, self.raw_state.key)

    def rows_read(self, day: int, *rows: tuple[int, str, int], **options: Any) -> int:
        event = self.run(day, *rows, **options)
        assert self.status == "succeeded", self.events
        return event["counts"]["rows"]

    def refused(self, day: int, *rows: tuple[int, str, int], **options: Any) -> dict:
        """Load the table and return raw's refusal; the run leaves no number behind."""
        event = self.run(day, *rows, **options)
        self.sequence -= 1
        assert self.status == "failed"
        return event["error"]

    def mark(self) -> str | None:
        spec = self.history_spec if self.historize else self.rawcore_spec
        commit = self.table(spec).newest_run_commit()
        marks = marks_in(commit.notes if commit else None)
        return marks[self.raw_state.key].values["at"] if marks else None

    def values(self) -> list[tuple]:
        return [(row["id"], row["v"]) for row in self.history()]

    def current_values(self) -> list[tuple]:
        return [(row["id"], row["v"]) for row in self.current()]


@pytest.fixture
def table(spark, tmp_path, server):
    """Return a function that makes the dataset."""

    def make(policy: dict, look_back: str | None = None, **more: Any) -> Table:
        columns = {"id": "integer", "v": "string", "at": "timestamp"}
        intake = {"watermark": ["at"]} | ({"look_back": look_back} if look_back else {})
        given = {"columns": columns, "policy": policy, "format": "table", "server": server, "intake": intake}
        return Table(spark, tmp_path, **given | more)

    return make


def text_of_time(number: int) -> str:
    return AT[number].replace(".000000", "") + ":00"


def test_load_reads_rows_from_the_watermark_on(table):
    item = table(DELTA)
    first = item.run(1, (1, "a", 1), (2, "b", 2), (3, "c", 3))
    assert (first["counts"]["rows"], first["window"]) == (3, {"from": None, "to": {"at": text_of_time(3)}})
    second = item.run(2, (1, "A", 4))
    assert (second["counts"]["rows"], second["window"]) == (
        2,
        {"from": {"at": text_of_time(3)}, "to": {"at": text_of_time(4)}},
    )
    assert item.values() == [(1, "a"), (1, "A"), (2, "b"), (3, "c")]
    assert item.current_values() == [(1, "A"), (2, "b"), (3, "c")]
    assert (item.rows_read(3), item.mark(), len(item.values())) == (1, text_of_time(4), 4)
    item.columns |= {"w": "string"}
    item.server.execute("ALTER TABLE marks.item ADD w text DEFAULT 'new'")
    assert (item.rows_read(4), item.mark()) == (3, text_of_time(4))


def test_a_run_that_dies_between_raw_and_history_loses_no_rows(table, monkeypatch):
    item = table(DELTA)
    item.rows_read(1, (1, "a", 1), (2, "b", 2))
    with monkeypatch.context() as broken:
        broken.setattr(load, "load_rawcore", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        item.run(2, (1, "A", 3))
    assert (item.status, item.mark()) == ("failed", text_of_time(2))
    item.sequence -= 1
    assert item.rows_read(3, (3, "c", 4)) == 3
    assert (item.current_values(), item.mark()) == ([(1, "A"), (2, "b"), (3, "c")], text_of_time(4))


@pytest.mark.nightly
@pytest.mark.parametrize("policy", [DELTA, EFFECTIVE], ids=["by restore", "by the event log"])
def test_the_rows_of_a_reverted_run_are_read_again(table, policy):
    item = table(policy)
    item.rows_read(1, (1, "a", 1), (2, "b", 2))
    item.rows_read(2, (1, "A", 3), (3, "c", 4))
    status, _ = item.perform_run(REVERT, item.revert_manifest("run-2", 2, later_runs=()))
    assert (status, item.mark(), item.current_values()) == ("succeeded", text_of_time(2), [(1, "a"), (2, "b")])
    assert item.rows_read(3) == 3
    assert (item.mark(), item.current_values()) == (text_of_time(4), [(1, "A"), (2, "b"), (3, "c")])
    status, _ = item.perform_run(PRUNE, item.prune_manifest("2024-01-01"))
    assert (status, item.mark()) == ("succeeded", text_of_time(4))


def test_a_dataset_without_history_has_the_mark_in_rawcore(table):
    item = table(DELTA, historize=False)
    item.rows_read(1, (1, "a", 1), (2, "b", 2))
    assert (item.rows_read(2, (1, "A", 3)), item.mark(), item.current_values()) == (
        2,
        text_of_time(3),
        [(1, "A"), (2, "b")],
    )


@pytest.mark.nightly
def test_key_list_and_rows_are_read_from_the_same_snapshot(table, monkeypatch):
    item = table(DELTA | {"delete_detection": "key_list"})
    item.rows_read(1, (1, "a", 1), (2, "b", 2), (3, "c", 3))
    item.server.execute("DELETE FROM marks.item WHERE id = 1")

    def meanwhile(*given: Any) -> Any:
        item.server.execute("DELETE FROM marks.item WHERE id = 2")
        return write_key_list(*given)

    monkeypatch.setattr(raw_loads, "write_key_list", meanwhile)
    event = item.run(2, (3, "C", 4))
    assert (item.status, event["counts"]["rows"], event["counts"]["keys"]) == ("succeeded", 1, 2)
    assert item.current_values() == [(2, "b"), (3, "C")]
    monkeypatch.undo()
    assert (item.rows_read(3), item.current_values()) == (1, [(3, "C")])


def test_refused_load_does_not_move_the_mark(table):
    item = table(DELTA)
    item.rows_read(1, (1, "a", 1), (2, "b", 9))
    item.server.execute("INSERT INTO marks.item VALUES (7, 'seven', NULL), (8, 'eight', NULL)")
    refusal = item.refused(2, (3, "c", 10))
    assert (refusal["code"], refusal["column"], refusal["count"]) == ("NULL_WATERMARK", "at", 2)
    assert refusal["samples"][0].startswith("id=7")
    item.server.execute("DELETE FROM marks.item WHERE at IS NULL OR id > 1")
    refusal = item.refused(2)
    assert (refusal["code"], refusal["samples"]) == (
        "WATERMARK_BACKWARDS",
        [f"highest: {text_of_time(1)}", f"mark: {text_of_time(9)}"],
    )
    assert item.mark() == text_of_time(9)
    assert item.refused(2, since="yesterday")["code"] == "BAD_SINCE"


@pytest.mark.nightly
def test_full_and_since_runs_read_the_requested_rows_and_a_full_run_resets_the_mark(table):
    item = table(DELTA, look_back="1 second")
    item.rows_read(1, *((n, "a", n) for n in range(10)))
    assert item.rows_read(2, since="2024-01-01 00:00:00.000007") == 3
    item.server.execute("UPDATE marks.item SET at = at - interval '1 hour', v = 'restored'")
    assert item.refused(3)["code"] == "WATERMARK_BACKWARDS"
    assert item.rows_read(3, full=True) == 10
    assert item.mark() == "2023-12-31 23:00:00.000009+00:00"
    assert item.rows_read(4, (1, "b", 1)) == 10


def test_watermark_with_a_policy_that_closes_absent_keys_is_refused_before_reading(table):
    item = table({})
    event = item.run(1, (1, "a", 1))
    assert (event["status"], finished(item.events, item.state.key)["error"]["code"]) == ("skipped", "BAD_INTAKE")


def test_row_dated_in_the_future_is_loaded_and_does_not_move_the_mark(table):
    item = table(DELTA)
    item.server.execute("INSERT INTO marks.item VALUES (9, 'far', '2999-01-01 00:00:00+00')")
    first = item.run(1, (1, "a", 1), (2, "b", 2))
    assert (item.status, first["counts"]["rows"], item.mark()) == ("succeeded", 3, text_of_time(2))
    assert (first["window"]["to"], first["window"]["ahead"]) == ({"at": text_of_time(2)}, {"at": 1})
    assert "1 row with at after" in first["warnings"][0]
    assert (item.rows_read(2, (2, "B", 3), (4, "d", 4)), item.mark()) == (3, text_of_time(4))
    assert item.current_values() == [(1, "a"), (2, "B"), (4, "d"), (9, "far")]
