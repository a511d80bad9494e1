"""Envelopes of messages: the row, the operation and the order of an event of Debezium, and malformed messages."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.domain.sources.kafka import OFFSETS_PER_MILLISECOND, TopicOptions
from loader.engine.nested_values import is_undecoded
from loader.engine.sources.formats.json_lines import (
    STRICT,
    has_lone_surrogate,
    is_one_object,
    object_schema,
    repeats_a_key,
)

READ = "r"  # a row of a snapshot
# Fields of an event before its row is parsed.
_EVENT = object_schema(("before", "after", "op"), ("source.lsn", "source.ts_ms"))
# Fields of the schema beside an event: those of the row before and after the change, as text.
_SHAPE = T.ArrayType(T.StructType([T.StructField(name, T.StringType()) for name in ("field", "fields")]))
_ENVELOPE = T.StructType([T.StructField("schema", T.StructType([T.StructField("fields", _SHAPE)]))])
# A message that is no object has no event; the checks refuse it.
_EVENT_OPTIONS = {name: value for name, value in STRICT.items() if name != "columnNameOfCorruptRecord"}


def parsed_events(events: DataFrame, options: TopicOptions) -> DataFrame:
    """Return the messages with the columns of ``_EVENT``, and the JSON text of the ``row`` and of its ``fields``."""
    if not options.is_debezium:
        return events.withColumn("row", F.col("value"))
    schema = T.StructType([*_ENVELOPE.fields, T.StructField("payload", _EVENT), *_EVENT.fields])
    parsed = events.withColumn("event", F.from_json("value", schema, _EVENT_OPTIONS))
    event = {name: _of_payload(F.col("event"), name) for name in _EVENT.names}
    fields = F.coalesce(_fields_of("after"), _fields_of("before"))
    parsed = parsed.withColumns(event | {"fields": fields}).drop("event")
    return parsed.withColumn("row", F.when(F.col("op") == "d", F.col("before")).otherwise(F.col("after")))


def _fields_of(row: str) -> Column:
    """Return the fields of the row before or after the change in the schema beside an event."""
    described = F.filter(F.col("event.schema.fields"), lambda entry: entry["field"] == row)
    return F.get(described, F.lit(0))["fields"]


def _of_payload(event: Column, name: str) -> Column:
    """Return a field of an event, which is the payload of a message with a schema."""
    payload = event.getField("payload")
    return F.when(payload.isNotNull(), payload.getField(name)).otherwise(event.getField(name))


def is_json_object(value: Column) -> Column:
    return F.coalesce(is_one_object(F.trim(value, F.lit(" \t\r\n"))), F.lit(False))


def is_malformed_message(value: Column) -> Column:
    """Return the condition that a message without an envelope is malformed; NULL without a value."""
    return is_undecoded(value) | ~is_json_object(value) | repeats_a_key(value) | has_lone_surrogate(value)


def sequence_of(options: TopicOptions) -> Column:
    """Return the number by which the events of a row are ordered."""
    offset = F.col("offset")
    match options.sequence:
        case "lsn":
            return F.col("source.lsn").try_cast("bigint")
        case "time":
            time = F.try_multiply(F.col("source.ts_ms").try_cast("bigint"), F.lit(OFFSETS_PER_MILLISECOND))
            return time + offset % OFFSETS_PER_MILLISECOND
    return offset
