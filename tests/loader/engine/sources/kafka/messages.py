"""Messages of a topic as Spark's reader gives them, without a broker."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from loader.contract.manifest.sources import ClusterSpec, DeliveredColumn, SourceSpec
from loader.domain.sources.feeds import FeedRange, Topic
from loader.engine.sources.kafka import topics
from loader.engine.sources.kafka.snapshot_rows import EarlierRows
from loader.engine.sources.kafka.topics import OpenedTopic
from metadata.domain.sources.clusters import parse_cluster

TOPIC = "items"


def source_of(columns: dict[str, str], **options: Any) -> SourceSpec:
    """Return a source whose key is the first column."""
    key, *_ = columns
    described = tuple(
        DeliveredColumn(f"k-{name}", name, type_, nullable=name != key, business_key=name == key)
        for name, type_ in columns.items()
    )
    cluster = ClusterSpec(parse_cluster("kafka://127.0.0.1:9092"))
    options = {"envelope": "debezium", **options}
    return SourceSpec("shop.items", TOPIC, "kafka", described, options, one_row_per_key=False, cluster=cluster)


def opened(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    source: SourceSpec,
    values: list[Any],
    *,
    start: int = 0,
    earlier: EarlierRows | None = None,
) -> OpenedTopic:
    """Return a topic with these messages in one partition, the first at offset ``start``."""
    frame = _frame(spark, values, start)
    monkeypatch.setattr(topics, "_messages", lambda *_: frame)
    ranges = (FeedRange(TOPIC, "id", 0, start, start + len(values)),)
    return topics.open_topic(spark, source, ranges, earlier)


def _frame(spark: SparkSession, values: list[Any], start: int) -> DataFrame:
    rows = [
        Row(
            partition=0,
            offset=start + place,
            timestamp=None,
            key=None,
            value=value if isinstance(value, str) else json.dumps(value),
        )
        for place, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, "partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value STRING")


@dataclass
class Log:
    """Messages of a topic with one partition, in place of a cluster's."""

    monkeypatch: pytest.MonkeyPatch
    values: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.monkeypatch.setattr(topics, "_cluster", lambda *_: self)
        self.monkeypatch.setattr(topics, "_messages", self._messages)

    def describe(self, topic: str) -> Topic:
        return Topic(topic, "id", {0: (0, len(self.values))})

    def _messages(self, spark: SparkSession, source: SourceSpec, ranges: tuple[FeedRange, ...]) -> DataFrame:
        start, end = (ranges[0].start, ranges[0].end) if ranges else (0, 0)
        return _frame(spark, self.values[start:end], start)


def field(name: str, type_: str, logical: str = "", **more: Any) -> dict[str, Any]:
    """Return a field of a schema of Kafka Connect."""
    return {"field": name, "type": type_, "optional": True} | ({"name": logical} if logical else {}) | more


def event(op: str, row: Any, fields: list[dict] | None = None, **source: Any) -> dict[str, Any]:
    """Return an event, with its schema if there are ``fields``."""
    is_delete = op == "d"
    payload = {
        "before": row if is_delete else None,
        "after": None if is_delete else row,
        "source": {"lsn": 1, "ts_ms": 1_706_695_200_000} | source,
        "op": op,
    }
    if fields is None:
        return payload
    rows = [{"field": side, "type": "struct", "fields": fields} for side in ("before", "after")]
    return {"schema": {"type": "struct", "fields": [*rows, field("op", "string")]}, "payload": payload}
