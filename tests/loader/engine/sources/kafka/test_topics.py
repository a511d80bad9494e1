"""Loads of topics from a real broker: change events of Debezium and JSON objects, to raw and history.

The selection of offsets is tested without a broker (tests/loader/domain/sources/test_message_feeds.py).
"""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from architecture.domain.tables import raw_table
from loader.domain.reference import ReferenceEngine
from loader.engine.loads import load
from tests.fixtures.spark import by_night
from tests.loader.topics import CDC, Topic
from tests.readers.environment import answered, readers_python
from tests.services.kafka import event

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.takes(seconds=120)]

DAY = [f"2024-01-0{number}T00:00:00Z" for number in range(1, 9)]


@pytest.fixture
def items(spark, tmp_path, broker) -> Topic:
    return Topic(spark, tmp_path, address=broker.address, topic=broker.create("items", 2))


def message_of(op: str, id_: int, v: str | None, lsn: int, **more: Any) -> tuple[dict, dict]:
    return {"id": id_}, event(op, {"id": id_, "v": v}, lsn, **more)


def test_events_in_any_order_give_the_history_of_the_reference(items, broker):
    """Send each key to one partition; events come late, twice, with and without their schema, and with tombstones."""
    chance = random.Random(4)
    reference = ReferenceEngine(
        {"keys": ["id"], "columns": {"id": "integer", "v": "string", "_sequence": "bigint"}, "policy": CDC}
    )
    events = [
        (chance.choice("cuud" if lsn > 20 else "r"), id_, f"v{chance.randrange(4)}", lsn)
        for lsn, id_ in enumerate(chance.choices(range(8), k=80), start=1)
    ]
    chance.shuffle(events)
    for run in range(2):
        delivered = events[run * 40 : run * 40 + 40]
        delivered += chance.sample(events[: run * 40 + 40], 10)
        for op, id_, v, lsn in delivered:
            messages = [message_of(op, id_, v, lsn, schema=lsn % 3 > 0)]
            broker.send(items.topic, [*messages, *([({"id": id_}, None)] if op == "d" else [])], partition=id_ % 2)
        names = {"c": "I", "r": "I", "u": "U", "d": "D"}
        rows = [{"id": id_, "v": v, "_sequence": lsn, "_op": names[op]} for op, id_, v, lsn in delivered]
        reference.apply({"at": DAY[run], "run_id": f"r{run}", "rows": rows})
        status, raw, _ = items.run(f"r{run}", run)
        assert (status, raw["counts"]["rows"]) == ("succeeded", 50), raw
        expected = [(row["id"], row["v"], row["valid_from"], row["valid_to"]) for row in reference.rows()]
        as_text = [(id_, v, str(start), None if end is None else str(end)) for id_, v, start, end in expected]
        assert sorted(items.short(), key=str) == sorted(as_text, key=str)
    assert len({(partition, offset) for partition, offset, _ in items.raw()}) == 100
    status, raw, _ = items.run("r9", 5)
    assert (status, raw["counts"]) == ("succeeded", {"rows": 0, "duplicates": 0})
    assert raw["warnings"][0].startswith("No new messages")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "phase",
    ["reading and checking", "writing raw", "comparing", "writing rawcore", "writing history"],
)
def test_a_run_that_died_is_repeated_and_no_message_is_loaded_twice(items, broker, monkeypatch, phase):
    broker.send(items.topic, [message_of("c", 1, "a", 1)])
    items.run("r1", 0)
    broker.send(items.topic, [message_of("u", 1, "b", 2)])
    items.sequence += 1
    manifest = items.manifest(at=DAY[1], run_id="r2")
    with monkeypatch.context() as broken:
        broken.setattr(Topic, "_record", dying_at(phase))
        with pytest.raises((RuntimeError, ValueError)):
            items.repeat(manifest)
    assert items.repeat(replace(manifest, attempt=2))[0] == "succeeded"
    broker.send(items.topic, [message_of("u", 1, "c", 3)])
    assert items.run("r3", 2)[0] == "succeeded"
    assert items.raw() == [(0, 0, "r1"), (0, 1, "r2"), (0, 2, "r3")]
    assert items.short() == [(1, "a", "1", "2"), (1, "b", "2", "3"), (1, "c", "3", None)]


def dying_at(phase: str) -> Callable[..., None]:
    """Return a recorder of events that dies as a dataset reaches a phase, and lets nothing be recorded after it."""
    dead = []

    def record(self: Topic, event: str, **fields: Any) -> None:
        if dead or fields.get("phase") == phase:
            dead.append(event)
            raise RuntimeError("killed")
        self.events.append({"event": event} | fields)

    return record


def test_next_run_loads_messages_of_a_run_that_failed_before_the_history(items, broker, monkeypatch):
    broker.send(items.topic, [message_of("c", 1, "a", 1)])
    items.prepare()
    items.sequence += 1
    with monkeypatch.context() as broken:
        broken.setattr(load, "load_rawcore", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        assert items.repeat(items.manifest(at=DAY[0], run_id="r1"))[0] == "failed"
    items.sequence -= 1
    broker.send(items.topic, [message_of("u", 1, "b", 2)])
    assert items.run("r2", 1)[0] == "succeeded"
    assert items.raw() == [(0, 0, "r2"), (0, 1, "r2")]
    assert items.short() == [(1, "a", "1", "2"), (1, "b", "2", None)]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "BAD_JSON"),
        by_night('{"op": "c"} {}', "BAD_JSON"),
        by_night("[1]", "BAD_JSON"),
        by_night(r'{"op": "c", "after": {"id": 1, "v": "\ud83d"}, "source": {"lsn": 1}}', "BAD_JSON"),
        (b'{"v": "\xff"}', "WRONG_ENCODING"),
        by_night({"id": 1, "v": "a"}, "BAD_EVENT"),
        by_night({"op": "c", "after": None, "source": {"lsn": 1}}, "BAD_EVENT"),
        ({"op": "d", "before": None, "source": {"lsn": 1}}, "BAD_EVENT"),
        by_night('{"op": "c", "after": {"id": 1, "v": "a", "v": "b"}, "source": {"lsn": 1}}', "DUPLICATE_FIELD"),
        by_night({"op": "t", "before": None, "after": None, "source": {"lsn": 1}}, "TABLE_TRUNCATED"),
        by_night({"op": "c", "after": {"id": 1, "v": "a"}, "source": {"pos": 4}}, "NO_SEQUENCE"),
        (event("u", {"id": 1, "v": "__debezium_unavailable_value"}, 9), "UNAVAILABLE_VALUE"),
        by_night(event("c", {"id": "one", "v": "a"}, 9), "VALUE_DOES_NOT_FIT"),
        by_night(event("c", {"id": None, "v": "a"}, 9), "NULL_KEY"),
    ],
)
def test_a_wrong_message_refuses_the_delivery_with_partition_and_offset(items, broker, message, code):
    broker.send(items.topic, [message_of("c", 1, "a", 1), (None, message)], partition=1)
    items.prepare()
    error = items.refused("r1", 0)
    assert (error["code"], error["count"], error["row"]) == (code, 1, 1), error
    assert error["message"].startswith(f"{items.topic}, partition 1, offset 1")
    assert error["samples"][0].startswith("partition 1, offset 1: ")


def test_a_column_that_no_event_has_refuses_the_delivery(items, broker):
    items.prepare()
    broker.send(items.topic, [({"id": 1}, event("c", {"id": 1}, 1))])
    assert items.refused("r1", 0)["code"] == "MISSING_COLUMN"


def test_a_delete_needs_only_the_key(items, broker):
    broker.send(items.topic, [message_of("c", 1, "a", 1), ({"id": 1}, event("d", {"id": 1}, 2))])
    assert items.run("r1", 0)[0] == "succeeded"
    assert items.short() == [(1, "a", "1", "2")]


def test_truncates_are_skipped_with_a_warning_if_declared(items, broker):
    items.options |= {"truncates": "skip"}
    truncate = {"op": "t", "before": None, "after": None, "source": {"lsn": 2}}
    broker.send(items.topic, [message_of("c", 1, "a", 1), (None, truncate)])
    status, raw, _ = items.run("r1", 0)
    assert (status, raw["warnings"]) == ("succeeded", ["Skipped 1 message of a truncated table."])


def test_a_column_outside_the_contract_is_drift(items, broker):
    broker.send(items.topic, [({"id": 1}, event("c", {"id": 1, "v": "a", "price": 1.5}, 1))])
    assert items.run("r1", 0)[1]["drift"] == [{"name": "price", "type": "float", "nullable_seen": False}]


def test_expired_messages_refuse_the_run_unless_they_may_be_skipped(items, broker):
    broker.send(items.topic, [message_of("c", 1, "a", 1)])
    items.run("r1", 0)
    broker.send(items.topic, [message_of("u", 1, f"v{lsn}", lsn) for lsn in range(2, 6)])
    broker.expire(items.topic, 3)
    assert items.refused("r2", 1)["code"] == "OFFSETS_EXPIRED"
    items.options |= {"lost_offsets": "earliest"}
    status, raw, _ = items.run("r3", 2)
    assert (status, raw["warnings"]) == ("succeeded", [f"2 messages of {items.topic} expired before being loaded."])
    assert items.raw() == [(0, 0, "r1"), (0, 3, "r3"), (0, 4, "r3")]


def test_a_new_partition_is_read_from_its_start_and_a_new_topic_is_refused(items, broker):
    broker.send(items.topic, [message_of("c", 1, "a", 1)])
    items.run("r1", 0)
    broker.grow(items.topic, 3)
    broker.send(items.topic, [message_of("c", 2, "b", 2)], partition=2)
    items.run("r2", 1)
    assert items.raw() == [(0, 0, "r1"), (2, 0, "r2")]
    broker.delete(items.topic)
    broker.create_again(items.topic, 3)
    broker.send(items.topic, [message_of("c", 3, "c", 3)])
    assert items.refused("r3", 2)["code"] == "TOPIC_REPLACED"
    items.options |= {"lost_offsets": "earliest"}
    message = f"{items.topic} was deleted and created again: it is read from its earliest message on."
    assert items.run("r4", 3)[1]["warnings"] == [message]


@pytest.mark.nightly
@pytest.mark.parametrize("phase", ["reading and checking", "writing raw", "comparing"])
def test_topic_that_is_deleted_during_a_load_is_loaded_whole_or_not_at_all(items, broker, monkeypatch, tmp_path, phase):
    """DuckDB reads raw and history afterwards."""
    first, second = range(1, 41), range(41, 3_041)
    broker.send(items.topic, [message_of("c", key, f"v{key}", key) for key in first])
    assert items.run("r1", 0)[0] == "succeeded"
    broker.send(items.topic, [message_of("c", key, f"v{key}", key) for key in second])

    monkeypatch.setattr(Topic, "_record", calling_at(phase, lambda: broker.delete(items.topic)))
    status, raw, rawcore = items.run("r2", 1)
    whole = status == "succeeded"
    if not whole:
        items.sequence -= 1
        error = raw.get("error") or rawcore["error"]
        assert error["code"] in {"OFFSETS_EXPIRED", "SOURCE_GONE", "MISSING_TOPIC"}, error
    check_messages(items, tmp_path / "tables.json", range(1, 3_041) if whole else first)

    broker.create_again(items.topic, 2)
    broker.send(items.topic, [message_of("c", 9_999, "later", 9_999)])
    assert items.refused("r3", 2)["code"] == "TOPIC_REPLACED"


def calling_at(phase: str, action: Callable[[], None]) -> Callable[..., None]:
    """Return a recorder of events that calls the action once, as a dataset reaches a phase."""
    called = []

    def record(self: Topic, event: str, **fields: Any) -> None:
        if not called and fields.get("phase") == phase:
            called.append(event)
            action()
        self.events.append({"event": event} | fields)

    return record


def check_messages(items: Topic, listed: Path, keys: range) -> None:
    """Compare raw and the open versions of the history with the messages, by DuckDB."""
    tables = {"raw": items.table(raw_table(items.raw_state)), "history": items.table(items.history_spec)}
    listed.write_text(json.dumps({name: table.location for name, table in tables.items()}))
    answer = answered(readers_python(), "read_tables.py", listed)["DuckDB"]
    values = {f"v{key}" for key in keys}
    for name in tables:
        assert len(answer[name]) == len(keys), (name, answer[name][:2])
        assert {value for row in answer[name] for value in row if value in values} == values


def test_only_committed_messages_are_read(items, broker):
    _, aborted = message_of("c", 1, "aborted", 1)
    _, committed = message_of("c", 1, "committed", 2)
    with broker.transaction(items.topic, aborted, commit=False):
        pass
    with broker.transaction(items.topic, committed):
        assert items.run("r1", 0)[1]["counts"]["rows"] == 0
    assert items.run("r2", 1)[1]["counts"]["rows"] == 1
    assert items.short() == [(1, "committed", "2", None)]


def test_json_objects_keep_exact_values_and_may_omit_columns(spark, tmp_path, broker):
    columns = {"id": "integer", "price": "decimal(30,10)", "at.place": "string", "note": "string", "op": "string"}
    prices = Topic(
        spark,
        tmp_path,
        columns=columns | {"_offset": "bigint", "_partition": "integer"},
        policy={"input": "cdc", "time": "_offset", "op": "op"},
        options={},
        address=broker.address,
        topic=broker.create("prices"),
    )
    exact = '{"id": 1, "price": 12345678901234567890.0123456789, "at": {"place": "\u00dc"}, "op": "I"}'
    broker.send(prices.topic, [(None, exact), (None, None), (None, {"id": 2, "op": "I", "price": None})])
    status, raw, _ = prices.run("r1", 0)
    assert (status, raw["counts"]["rows"]) == ("succeeded", 2), raw
    assert raw["warnings"] == ["Skipped 1 message without a value.", "No new message has note."]
    rows = prices.table(prices.history_spec).frame().select("id", "price", "`at.place`", "_offset").orderBy("id")
    assert [(row[0], str(row[1]), row[2], row[3]) for row in rows.collect()] == [
        (1, "12345678901234567890.0123456789", "\u00dc", 0),
        (2, "None", None, 2),
    ]


def test_days_and_microseconds_of_debezium_become_dates_and_timestamps(items, broker):
    items.columns = {"id": "integer", "v": "date", "t": "timestamp"} | {
        name: type_ for name, type_ in items.columns.items() if name.startswith("_")
    }
    row = {"id": 1, "v": 19_723, "t": 1_704_067_200_123_456}
    broker.send(items.topic, [(None, event("c", row, 1)), (None, event("u", row | {"t": "2024-01-01T00:00:00Z"}, 2))])
    assert items.run("r1", 0)[0] == "succeeded"
    rows = items.table(items.history_spec).frame().orderBy("_sequence").collect()
    assert [(str(row["v"]), str(row["t"])) for row in rows] == [
        ("2024-01-01", "2024-01-01 00:00:00.123456"),
        ("2024-01-01", "2024-01-01 00:00:00"),
    ]


@pytest.mark.nightly
def test_a_change_that_follows_a_snapshot_row_is_current_in_one_load_and_in_the_next(items, broker):
    broker.send(
        items.topic, [message_of("r", 1, "old", 200), message_of("r", 2, "old", 200), message_of("u", 1, "new", 150)]
    )
    assert items.run("r1", 0)[0] == "succeeded"
    assert items.short() == [(1, "new", "150", None), (1, "old", "149", "150"), (2, "old", "200", None)]
    broker.send(items.topic, [message_of("u", 2, "new", 160)])
    assert items.run("r2", 1)[0] == "succeeded"
    broker.send(
        items.topic,
        [message_of("u", 2, "newer", 170), message_of("u", 2, "newest", 300), message_of("r", 1, "again", 310)],
    )
    assert items.run("r3", 2)[0] == "succeeded"
    current = {row["id"]: row["v"] for row in items.table(items.rawcore_spec).frame().collect()}
    assert current == {1: "again", 2: "newest"}
    assert (2, "new", "201", "202") in items.short()


@pytest.mark.parametrize(
    "v", [list(b"__debezium_unavailable_value"), by_night("X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")]
)
def test_a_placeholder_in_the_form_of_the_column_refuses_the_delivery(items, broker, v):
    items.prepare()
    broker.send(items.topic, [message_of("r", 1, "a", 1), (None, event("u", {"id": 1, "v": v}, 2))])
    assert items.refused("r1", 0)["code"] == "UNAVAILABLE_VALUE"


def test_events_without_a_log_position_are_ordered_by_time_and_offset(items, broker):
    items.options |= {"sequence": "time"}
    at = 1_700_000_000_000
    messages = [("c", "a", at), ("u", "later", at + 1), ("u", "b", at), ("u", "c", at)]
    broker.send(items.topic, [message_of(op, 1, v, number, at=time) for number, (op, v, time) in enumerate(messages)])
    assert items.run("r1", 0)[0] == "succeeded"
    assert [v for _, v, *_ in sorted(items.versions(), key=lambda row: int(row[2]))] == ["a", "b", "c", "later"]
