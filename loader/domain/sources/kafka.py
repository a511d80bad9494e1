"""Kafka topics as sources: options, settings of Spark's reader, change events of Debezium.

This module is pure: ``loader.readers.kafka`` asks a cluster, ``loader.engine.sources.kafka.topics`` reads its messages.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loader.contract.refusals import Refusal
from loader.domain.sources.feeds import FeedRange
from loader.domain.sources.hosts import check_host
from loader.domain.sources.options import check_source_options
from metadata.domain.sources.clusters import Broker, ClusterPlace
from metadata.domain.sources.formats import KAFKA
from metadata.domain.sources.option_kinds import (
    DEBEZIUM,
    EARLIEST,
    LSN,
    MICROSECONDS,
    PLAIN,
    REFUSE,
    SKIP,
    TIME,
    UNAVAILABLE,
    TimeUnits,
)
from metadata.domain.sources.reading_options import ReadingOptions

# Operations of Debezium's events, and those of a change feed: insert, update, delete.
OPERATIONS = {"c": "I", "r": "I", "u": "U", "d": "D"}
TRUNCATE = "t"
# A sequence by time has this many offsets per millisecond.
OFFSETS_PER_MILLISECOND = 1 << 20
CONNECT_SECONDS = 10
# Spark divides more messages than this among its tasks, even if they are in one partition.
MESSAGES_OF_TASK = 50_000

_MECHANISMS = {
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "scram-sha-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "scram-sha-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class TopicOptions:
    """Checked options of a topic as source (``metadata.domain.sources.reading_options.OPTIONS``)."""

    envelope: str = PLAIN
    sequence: str = LSN
    time_unit: str = MICROSECONDS
    unavailable_value: str = UNAVAILABLE
    binary_values: str | None = None
    truncates: str = REFUSE
    lost_offsets: str = REFUSE
    reading: ReadingOptions = ReadingOptions.of(KAFKA, {})

    @classmethod
    def of(cls, name: str, given: Mapping[str, Any]) -> "TopicOptions":
        """Return the checked options, with their defaults. Raise Refusal UNKNOWN_OPTION or BAD_OPTION."""
        check_source_options(name, KAFKA, given)
        own = {option: value for option, value in given.items() if option in cls.__dataclass_fields__}
        return cls(**own, reading=ReadingOptions.of(KAFKA, given))

    @property
    def is_debezium(self) -> bool:
        return self.envelope == DEBEZIUM

    @property
    def units(self) -> TimeUnits:
        return TimeUnits.of(self.time_unit) or TimeUnits()

    @property
    def skips_lost(self) -> bool:
        return self.lost_offsets == EARLIEST

    @property
    def skips_truncates(self) -> bool:
        return self.truncates == SKIP


def check_brokers(brokers: Iterable[Broker], hosts: Collection[str]) -> None:
    """Raise Refusal HOST_NOT_ALLOWED unless all brokers are in ELEVATA_SOURCE_HOSTS."""
    for broker in brokers:
        check_host(broker.host, broker.port, hosts)


def spark_options(place: ClusterPlace, password: str, topic: str, ranges: Iterable[FeedRange]) -> dict[str, str]:
    """Return the options of Spark's reader for these messages, without those of aborted transactions."""
    ranges = list(ranges)
    options = {
        "kafka.bootstrap.servers": str(place),
        "kafka.security.protocol": place.security.upper(),
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: [offsets.partition for offsets in ranges]}),
        "startingOffsets": json.dumps({topic: {str(offsets.partition): offsets.start for offsets in ranges}}),
        "endingOffsets": json.dumps({topic: {str(offsets.partition): offsets.end for offsets in ranges}}),
        "failOnDataLoss": "true",
    }
    if place.user:
        options["kafka.sasl.mechanism"] = place.mechanism.upper()
        options["kafka.sasl.jaas.config"] = (
            f"{_MECHANISMS[place.mechanism]} required username={_quoted(place.user)} password={_quoted(password)};"
        )
    return options


def _quoted(text: str) -> str:
    """Return a text as Kafka's client reads it in its settings, where a line end would end the quoted text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def event_of(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return Debezium's event in a message, with or without its schema; None for another message."""
    payload = message.get("payload")
    event = payload if isinstance(payload, Mapping) and "schema" in message else message
    return event if "op" in event and ("after" in event or "before" in event) else None


def fields_of(message: Mapping[str, Any]) -> Any:
    """Return the fields of the row in the schema beside an event of Debezium; None without a schema."""
    schema = message.get("schema")
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    by_name = {entry.get("field"): entry.get("fields") for entry in fields or () if isinstance(entry, Mapping)}
    return by_name.get("after") or by_name.get("before")


def row_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns of an event: the row after the change, or before a delete."""
    row = event.get("before" if event.get("op") == "d" else "after")
    return row if isinstance(row, Mapping) else {}


def sequence_of(event: Mapping[str, Any], offset: int, sequence: str) -> Any:
    """Return the number by which an event is ordered, by the option ``sequence``; None if the event lacks it."""
    source = event.get("source")
    source = source if isinstance(source, Mapping) else {}
    if sequence == LSN:
        return source.get("lsn")
    if sequence != TIME:
        return offset
    milliseconds = source.get("ts_ms")
    if milliseconds is None:
        return None
    try:
        return int(milliseconds) * OFFSETS_PER_MILLISECOND + offset % OFFSETS_PER_MILLISECOND
    except (TypeError, ValueError):
        return None


def missing_topic(place: ClusterPlace, topic: str) -> Refusal:
    return Refusal(
        "MISSING_TOPIC",
        f"{place} has no topic {topic}",
        file=topic,
        hint="Names are case-sensitive. Correct the source's location, or create the topic.",
    )
