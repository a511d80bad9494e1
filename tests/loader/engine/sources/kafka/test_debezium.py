"""Values and order of Debezium's events in Spark, without a broker."""

import base64
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from loader.contract.refusals import Refusal
from loader.domain.sources.placeholders import Placeholder
from loader.engine.conversions import typed
from loader.engine.sources.checks.row_faults import refuse_faults
from loader.engine.sources.deliveries import read_opened
from loader.engine.sources.kafka.snapshot_rows import EarlierRows
from loader.engine.sources.schemas import unknown_columns
from metadata.domain.sources.option_kinds import UNAVAILABLE
from tests.loader.debezium_types import REFUSED, WITH_SCHEMA, WITHOUT_SCHEMA, Case, types_table
from tests.loader.engine.sources.kafka.messages import Log, event, field, opened, source_of
from tests.loader.topics import Topic

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[5] / "docs/use/debezium.md"
EVENTS = {"id": "integer", "v": "string", "_op": "string", "_sequence": "bigint"}


def read_values(spark, monkeypatch, cases: list[Case]) -> list[str | None]:
    """Return the values of one event that has a column for each case; the cases have the same options."""
    columns = range(len(cases))
    options = dict(cases[0].options)
    if unit := options.get("time_unit", "").partition("c=")[2]:
        options["time_unit"] = ", ".join(f"c{place}={unit}" for place in columns)
    names = [f"c{place}" for place in columns]
    fields = [case.field_of(name) for name, case in zip(names, cases, strict=True)]
    row = {"id": 1} | {name: case.value for name, case in zip(names, cases, strict=True)}
    schema = [field("id", "int32"), *fields] if cases[0].schema else None
    source = source_of({"id": "integer"} | {n: c.type for n, c in zip(names, cases, strict=True)}, **options)
    topic = opened(spark, monkeypatch, source, [event("c", row, schema)])
    texts = []
    for name, case in zip(names, cases, strict=True):
        value = typed(topic.column(name), case.type)
        text = F.hex(value) if case.type == "binary" else value.cast("string")
        is_lost = topic.unfit(name) | value.isNull()
        texts.append(F.when(is_lost, F.lit(REFUSED)).otherwise(text).alias(name))
    return list(topic.frame().select(*texts).first())


@pytest.mark.parametrize("cases", [WITH_SCHEMA, WITHOUT_SCHEMA], ids=["with schema", "without schema"])
def test_debezium_values_are_read_as_the_table_of_types_shows(spark, monkeypatch, cases):
    of_options = [list(group) for _, group in groupby(cases, key=lambda case: case.options)]
    texts = [text for group in of_options for text in read_values(spark, monkeypatch, group)]
    lines = [(case.line, text) for case, text in zip(cases, texts, strict=True)]
    assert lines == [(case.line, case.arrives) for case in cases]


def test_documentation_contains_the_table_of_debezium_types():
    assert types_table() in PAGE.read_text(encoding="utf-8"), "print types_table() of tests.loader.debezium_types"


def test_each_message_is_read_by_its_own_schema_or_without_a_schema(spark, monkeypatch):
    name, at = "io.debezium.time.", 1_706_695_200_000
    messages = [
        event("c", {"id": 1, "t": at}, [field("id", "int32"), field("t", "int64", f"{name}Timestamp")]),
        event("c", {"id": 2, "t": at * 1_000}, [field("id", "int32"), field("t", "int64", f"{name}MicroTimestamp")]),
        event("c", {"id": 3, "t": at * 1_000}),
        {"schema": None, "payload": event("c", {"id": 4, "t": "2024-01-31 10:00:00"})},
    ]
    topic = opened(spark, monkeypatch, source_of({"id": "integer", "t": "timestamp"}), messages)
    delivery = read_opened(topic, topic.source)
    rows = delivery.frame.select(typed(F.col("t"), "timestamp").cast("string")).collect()
    delivery.release()
    assert {row[0] for row in rows} == {"2024-01-31 10:00:00"}


def test_refusal_of_a_debezium_value_shows_its_type_and_possible_meanings(spark, monkeypatch):
    source = source_of({"id": "integer", "t": "timestamp"})
    topic = opened(spark, monkeypatch, source, [event("c", {"id": 1, "t": 1_706_695_200_000})])
    with pytest.raises(Refusal) as refused:
        refuse_faults(topic, topic.frame(), source)
    assert refused.value.code == "VALUE_DOES_NOT_FIT"
    (sample,) = refused.value.samples
    assert "1970-01-20T18:04:55.200000Z in microseconds" in sample
    assert "time_unit" in refused.value.hint
    unknown = [event("c", {"id": 1, "t": 5}, [field("id", "int32"), field("t", "int64", "com.example.Ticks")])]
    topic = opened(spark, monkeypatch, source_of({"id": "integer", "t": "bigint"}), unknown)
    with pytest.raises(Refusal) as refused:
        refuse_faults(topic, topic.frame(), topic.source)
    (sample,) = refused.value.samples
    assert sample.endswith("offset 0: 5 (com.example.Ticks)")


def test_a_column_outside_the_contract_has_the_type_of_its_schema(spark, monkeypatch):
    fields = [field("id", "int32"), field("t", "int64", "io.debezium.time.Timestamp")]
    messages = [event("c", {"id": 1, "t": 1_706_695_200_000}, fields)]
    topic = opened(spark, monkeypatch, source_of({"id": "integer"}), messages)
    (column,) = unknown_columns(topic, topic.frame(), ("id",))
    assert (column["name"], column["type"]) == ("t", "timestamp")


PLACEHOLDERS = [
    UNAVAILABLE,
    [UNAVAILABLE],
    base64.b64encode(UNAVAILABLE.encode()).decode(),
    [base64.b64encode(UNAVAILABLE.encode()).decode()],
    UNAVAILABLE.encode().hex(),
    list(UNAVAILABLE.encode()),
    ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    {UNAVAILABLE: UNAVAILABLE},
    json.dumps({UNAVAILABLE: UNAVAILABLE}, separators=(",", ":")),
    {"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": 4326},
]


def test_the_placeholder_of_an_unavailable_value_refuses_the_delivery_in_each_form(spark, monkeypatch):
    source = source_of(EVENTS)
    for value in PLACEHOLDERS:
        with pytest.raises(Refusal) as refused:
            opened(spark, monkeypatch, source, [event("u", {"id": 1, "v": value})])
        assert refused.value.code == "UNAVAILABLE_VALUE", value


def test_placeholder_is_refused_only_in_contract_columns_and_as_a_whole_value(spark, monkeypatch):
    messages = [
        event("u", {"id": 1, "v": f"see {UNAVAILABLE}", "other": UNAVAILABLE}),
        event("d", {"id": 1, "v": UNAVAILABLE}),
    ]
    assert opened(spark, monkeypatch, source_of(EVENTS), messages).frame().count() == 2
    source = source_of(EVENTS, unavailable_value="__gone")
    with pytest.raises(Refusal) as refused:
        opened(spark, monkeypatch, source, [event("u", {"id": 1, "v": list(b"__gone")})])
    assert refused.value.code == "UNAVAILABLE_VALUE"
    assert Placeholder.of("__gone") != Placeholder.of(UNAVAILABLE)


def test_mongodb_documents_are_read_as_rows(spark, monkeypatch):
    columns = {
        **{"_id": "string", "n": "bigint", "price": "decimal(10,2)", "at": "timestamp", "note": "string"},
        **{"inner.x": "integer", "other": "json", "born": "timestamp"},
    }
    document = {
        "_id": {"$oid": "65b9"},
        "n": {"$numberLong": "9007199254740993"},
        "price": {"$numberDecimal": "1.50"},
        "at": {"$date": 1_706_695_200_123},
        "born": {"$date": {"$numberLong": "-86400000"}},
        "note": '{"$oid":"text"}',
        "inner": {"x": 3},
        "other": {"$oid": "65b9"},
    }
    topic = opened(spark, monkeypatch, source_of(columns), [event("c", json.dumps(document))])
    assert refuse_faults(topic, topic.frame(), topic.source).rows == 1
    row = topic.frame().select(*(typed(topic.column(name), columns[name]).cast("string") for name in columns)).first()
    assert list(row) == [
        *("65b9", "9007199254740993", "1.50", "2024-01-31 10:00:00.123", '{"$oid":"text"}', "3"),
        '{"$oid":"65b9"}',
        "1969-12-31 00:00:00",
    ]


def sequences(topic: Any) -> list[tuple[str, int]]:
    """Return value and number of each row, in order of the log."""
    rows = topic.frame().orderBy("offset").select(topic.column("v"), topic.column("_sequence").cast("bigint"))
    return [tuple(row) for row in rows.collect()]


def change(op: str, v: str, lsn: int, id_: int = 1) -> dict:
    return event(op, {"id": id_, "v": v}, lsn=lsn)


def test_a_change_after_a_snapshot_row_in_the_log_is_newer(spark, monkeypatch):
    messages = [
        *(change("r", "old", 200), change("r", "other", 200, 2), change("u", "new", 150)),
        *(change("u", "newer", 160), change("u", "late", 90, 3), change("u", "x", 300, 2)),
    ]
    topic = opened(spark, monkeypatch, source_of(EVENTS), messages)
    assert sequences(topic) == [("old", 149), ("other", 200), ("new", 150), ("newer", 160), ("late", 90), ("x", 300)]


def test_a_snapshot_row_is_newer_than_changes_before_it_in_the_log(spark, monkeypatch):
    messages = [change("c", "a", 100), change("r", "b", 300), change("r", "c", 301), change("u", "d", 250)]
    topic = opened(spark, monkeypatch, source_of(EVENTS), messages)
    assert sequences(topic) == [("a", 100), ("b", 248), ("c", 249), ("d", 250)]


def test_a_change_is_newer_than_the_snapshot_row_of_an_earlier_load(spark, monkeypatch):
    stored = [("1", "I", 200), ("1", "U", 100), ("2", "I", 200), ("3", "I", 400)]
    earlier = EarlierRows(200, spark.createDataFrame(stored, "id STRING, _op STRING, _sequence BIGINT"))
    messages = [
        *(change("u", "a", 150), change("u", "b", 160), change("u", "a", 150), change("d", "c", 250)),
        *(change("u", "d", 210, 2), change("u", "late", 150, 3), change("c", "first", 10, 4)),
    ]
    topic = opened(spark, monkeypatch, source_of(EVENTS), messages, start=9, earlier=earlier)
    expected = [("a", 201), ("b", 202), ("a", 201), ("c", 250), ("d", 210), ("late", 150), ("first", 10)]
    assert sequences(topic) == expected


@pytest.mark.nightly
def test_a_change_that_follows_a_snapshot_row_is_current_in_the_next_load(spark, tmp_path, monkeypatch):
    log, items = Log(monkeypatch), Topic(spark, tmp_path, address="127.0.0.1:9092", topic="items")
    log.values += [change("r", "old", 200), change("r", "old", 200, 2), change("u", "new", 150)]
    assert items.run("r1", 0)[0] == "succeeded"
    assert sorted(items.short()) == [(1, "new", "150", None), (1, "old", "149", "150"), (2, "old", "200", None)]
    log.values += [change("u", "new", 160, 2)]
    assert items.run("r2", 1)[0] == "succeeded"
    log.values += [change("u", "newer", 170, 2), change("u", "newest", 300, 2), change("r", "again", 310)]
    assert items.run("r3", 2)[0] == "succeeded"
    current = {row["id"]: row["v"] for row in items.table(items.rawcore_spec).frame().collect()}
    assert current == {1: "again", 2: "newest"}
    assert [row[1:] for row in sorted(items.short(), key=lambda row: int(row[2])) if row[0] == 2] == [
        *(("old", "200", "201"), ("new", "201", "202"), ("newer", "202", "300"), ("newest", "300", None)),
    ]


def test_snapshot_rows_ordered_by_time_precede_the_changes_that_follow(spark, monkeypatch):
    messages = [
        event("r", {"id": 1, "v": "old"}, lsn=None, ts_ms=1_706_695_210_000),
        event("u", {"id": 1, "v": "new"}, lsn=None, ts_ms=1_706_695_205_000),
    ]
    topic = opened(spark, monkeypatch, source_of(EVENTS, sequence="time"), messages)
    (_, old), (_, new) = sequences(topic)
    assert old == new - 1
