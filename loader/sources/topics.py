"""Connection test, topics and first messages of a Kafka cluster."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings

from elevata.core import strict_json
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.extras import packages_of
from loader.domain.sources.debezium import PLAIN as PLAIN_VALUE
from loader.domain.sources.debezium import UNREAD, Encoding, encodings, type_of
from loader.domain.sources.kafka import OPERATIONS, event_of, fields_of, row_of, sequence_of
from loader.domain.sources.sampling import SampledColumn
from loader.readers.records.debezium import text_of_value, unwrapped
from loader.readers.records.values import Number, text_of
from loader.services.sources.specs import cluster_place
from loader.sources.file_samples import MAX_COLUMNS, column_of_json
from loader.sources.page_limits import password_of
from loader.sources.results import ConnectionResult, ListedItem, Listing, Sample, sampled
from loader.sources.text_files import nulls_of
from metadata.domain.sources.clusters import KEY, MESSAGE_COLUMNS, OFFSET, PARTITION, TIMESTAMP
from metadata.domain.sources.formats import KAFKA, OP, SEQUENCE
from metadata.domain.sources.option_kinds import DEBEZIUM, LSN, PLAIN
from metadata.domain.types import parse
from metadata.models import System

if TYPE_CHECKING:
    from loader.readers.kafka.client import Cluster, Message

_SECONDS = 5
_PLAIN = Encoding(PLAIN_VALUE)
ROWS = 500


def reach_cluster(system: System) -> ConnectionResult:
    """Return the result of a connection test: brokers, sign-in, and the number of topics that may be seen."""
    cluster = _cluster(system)
    facts, place = cluster.facts(), cluster.place
    shown = (
        ("Brokers", ", ".join(map(str, facts.brokers))),
        ("Signed in as", place.user or "anonymous"),
        ("Topics that may be seen", f"{len(facts.topics):,}"),
        ("Connection", "encrypted" if place.security.endswith("ssl") else "not encrypted"),
    )
    message = (
        "The cluster answers." if facts.topics else "The cluster answers, but there is no topic this user may see."
    )
    return ConnectionResult(message, shown)


def list_topics(system: System, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Return one page of the topics, sorted by name."""
    topics = _cluster(system).facts().topics
    names = sorted(name for name in topics if search.strip().lower() in name.lower())
    items = (
        ListedItem(name, name, KAFKA, note=counted(topics[name], "partition")) for name in names[start : start + count]
    )
    return Listing(tuple(items), len(names))


def sample_topic(system: System, location: str, options: dict[str, Any] | None) -> Sample:
    """Return the columns of a topic's first messages. Without ``options``, the envelope is recognised."""
    cluster = _cluster(system)
    topic = cluster.describe(location.strip())
    first = cluster.first_messages(topic, ROWS)
    messages = [message for message in first if message.value is not None]
    objects = [_object(location, message) for message in messages]
    if options is None:
        is_debezium = bool(objects) and all(event_of(entry) is not None for entry in objects)
        options = {"envelope": DEBEZIUM} if is_debezium else {}
    envelope, nulls = options.get("envelope", PLAIN), nulls_of(options, empty_is_null=False)
    sequence = options.get("sequence", LSN)
    rows: list[Mapping[str, Any]] = []
    known: list[dict[str, Encoding]] = []
    about: list[dict[str, Any]] = []
    for message, entry in zip(messages, objects, strict=True):
        event = event_of(entry) if envelope == DEBEZIUM else None
        if envelope == DEBEZIUM and (event is None or event.get("op") not in OPERATIONS):
            continue
        rows.append(_row(location, message, event) if event is not None else entry)
        known.append(encodings(fields_of(entry)) if event is not None else {})
        about.append(_about(message, event, sequence))
    names = list(dict.fromkeys(name for row in rows for name in row if name not in MESSAGE_COLUMNS))
    if len(names) > MAX_COLUMNS:
        raise Refusal("TOO_MANY_COLUMNS", f"{location} has {len(names):,} columns")
    columns, values = [], []
    for name in names:
        raw = [None if text_of(row.get(name)) in nulls else row.get(name) for row in rows]
        by_schema = [encoding_of_row.get(name, _PLAIN) for encoding_of_row in known]
        texts = [text_of_value(value, encoding) for value, encoding in zip(raw, by_schema, strict=True)]
        declared = type_of(by_schema)
        columns.append(
            SampledColumn(name, declared, f"the schema of the messages says {by_schema[0].shown}")
            if declared is not None
            else column_of_json(name, raw, texts)
        )
        if unread := next((encoding.shown for encoding in by_schema if encoding.kind == UNREAD), None):
            columns[-1] = replace(columns[-1], problem=f"{unread} is not read")
        values.append(texts)
    result = sampled(
        columns,
        values,
        whole=len(first) < ROWS,
        typed=False,
        where=location,
        options=options,
        key=tuple(_message_key(messages, names)),
        key_evidence="the key of the messages",
    )
    added = (*((OP, SEQUENCE) if envelope == DEBEZIUM else ()), KEY, PARTITION, OFFSET, TIMESTAMP)
    named = tuple(SampledColumn(name, parse(MESSAGE_COLUMNS[name]), "the message itself has it") for name in added)
    more = tuple(tuple(text_of(entry[name]) for entry in about) for name in added)
    return replace(result, columns=result.columns + named, values=result.values + more)


def _row(topic: str, message: "Message", event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns of an event; those of MongoDB are in the JSON text of a document."""
    row = event.get("before" if event.get("op") == "d" else "after")
    if not isinstance(row, str):
        return row_of(event)
    return unwrapped(_object(topic, replace(message, value=row.encode())))


def _message_key(messages: "list[Message]", names: list[str]) -> tuple[str, ...]:
    """Return the columns in the keys of all messages, if these are JSON objects with columns of the rows."""
    keys = set()
    for message in messages:
        try:
            value = strict_json.loads((message.key or b"").decode())
        except (strict_json.BadJson, UnicodeDecodeError):
            return ()
        value = value.get("payload", value) if isinstance(value, dict) else None
        keys.add(tuple(value) if isinstance(value, dict) else ())
    (key,) = keys if len(keys) == 1 else ((),)
    return key if set(key) <= set(names) else ()


def _cluster(system: System) -> "Cluster":
    with packages_of("kafka"):
        from loader.readers.kafka.client import Cluster
    return Cluster(cluster_place(system), settings.SOURCE_HOSTS, system.secret, password_of(system), _SECONDS)


def _object(topic: str, message: "Message") -> Mapping[str, Any]:
    place = f"{topic}, partition {message.partition}, offset {message.offset}"
    try:
        value = strict_json.loads((message.value or b"").decode(), parse_int=Number, parse_float=Number)
    except (strict_json.BadJson, UnicodeDecodeError) as error:
        reason = str(error)
    else:
        if isinstance(value, dict):
            return value
        reason = "it is no object"
    raise Refusal(
        "BAD_JSON",
        f"{place}: not one JSON object ({reason})",
        file=topic,
        row=message.offset,
        hint="Topics are read as JSON objects or as Debezium's change events in JSON.",
    )


def _about(message: "Message", event: Mapping[str, Any] | None, sequence: str) -> dict[str, Any]:
    event = event or {}
    number = sequence_of(event, message.offset, sequence)
    return {
        KEY: message.key.decode(errors="replace") if message.key is not None else None,
        PARTITION: Number(message.partition),
        OFFSET: Number(message.offset),
        TIMESTAMP: datetime.fromtimestamp(message.timestamp / 1000, UTC).isoformat(),
        OP: OPERATIONS.get(event.get("op", "")),
        SEQUENCE: Number(number) if isinstance(number, int) else number,
    }
