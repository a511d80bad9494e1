"""Values of Avro whose logical types Spark does not know.

None stands for a type whose values need no conversion, or of which none can be cut.
"""

from typing import Any, cast

from pyspark.sql import Column
from pyspark.sql import functions as F

from loader.engine.expressions import any_of
from loader.engine.nested_values import MICROSECONDS
from loader.readers.records.avro_schemas import LOCAL_NANOS, TIMESTAMP_NANOS, AvroSchema, kind_of, logical_of

_MICROSECONDS_OF_DAY = 86_400_000_000
_TIME_OF_TIMESTAMP = len("1970-01-01 ") + 1
_NANOSECONDS = (TIMESTAMP_NANOS, LOCAL_NANOS)


def convert(schema: AvroSchema, kind: Any, value: Column) -> Column | None:
    members = schema.members(kind)
    if len(members) > 1:
        return _union(schema, members, value)
    (kind,) = members or ["null"]
    match logical_of(kind):
        case "time-millis":
            return _time_text(value.cast("bigint") * 1000)
        case "time-micros":
            return _time_text(value)
        case "timestamp-nanos":
            return F.timestamp_micros(_whole_microseconds(value))
        case "local-timestamp-nanos":
            return F.timestamp_micros(_whole_microseconds(value)).cast("timestamp_ntz")
    return None if isinstance(kind, str) else _nested(schema, kind, value)


def _nested(schema: AvroSchema, kind: dict[str, Any], value: Column) -> Column | None:
    # The casts: whether a part is converted depends on its schema only.
    match kind_of(kind):
        case "array":
            if convert(schema, kind["items"], value) is None:
                return None
            return F.transform(value, lambda item: cast("Column", convert(schema, kind["items"], item)))
        case "map":
            if convert(schema, kind["values"], value) is None:
                return None
            return F.transform_values(value, lambda _, item: cast("Column", convert(schema, kind["values"], item)))
        case "record" if not schema.is_recursive(kind):
            fields = {part["name"]: value.getField(part["name"]) for part in kind["fields"]}
            changed = {part["name"]: convert(schema, part["type"], fields[part["name"]]) for part in kind["fields"]}
            if any(column is not None for column in changed.values()):
                parts = [(fields[name] if column is None else column).alias(name) for name, column in changed.items()]
                return F.when(value.isNotNull(), F.struct(*parts))
    return None


def _union(schema: AvroSchema, members: list[Any], value: Column) -> Column:
    """Return a value of a union of several types, of which Spark makes a struct, as the JSON of its one member."""
    texts = []
    for place, member in enumerate(members):
        delivered = value.getField(f"member{place}")
        converted = convert(schema, member, delivered)
        text = F.to_json(F.array(delivered if converted is None else converted), MICROSECONDS)
        texts.append(F.when(delivered.isNotNull(), F.substring(text, 2, F.length(text) - 2)))
    return F.parse_json(F.coalesce(*texts))


def _time_text(microseconds: Column) -> Column:
    """Return a time of day as text; a number that is none stays a number, which does not fit a time."""
    text = F.substring(F.timestamp_micros(microseconds).cast("string"), _TIME_OF_TIMESTAMP, len("hh:mm:ss.ffffff"))
    is_time = microseconds.between(0, _MICROSECONDS_OF_DAY - 1)
    return F.when(is_time, text).otherwise(microseconds.cast("string"))


def _whole_microseconds(nanoseconds: Column) -> Column:
    return F.call_function("div", nanoseconds - F.pmod(nanoseconds, F.lit(1000)), F.lit(1000))


def is_cut(schema: AvroSchema, kind: Any, value: Column) -> Column | None:
    """Return the condition that a stored value, or a part of it, has digits below microseconds; None if it cannot."""
    members = schema.members(kind)
    if len(members) > 1:
        parts = [is_cut(schema, member, value.getField(f"member{place}")) for place, member in enumerate(members)]
        return _any_of(parts)
    (kind,) = members or ["null"]
    if logical_of(kind) in _NANOSECONDS:
        return F.pmod(value, F.lit(1000)) != 0
    if isinstance(kind, str):
        return None
    match kind_of(kind):
        case "array":
            return _is_cut_inside(schema, kind["items"], value)
        case "map":
            return _is_cut_inside(schema, kind["values"], F.map_values(value))
        case "record" if not schema.is_recursive(kind):
            parts = kind["fields"]
            return _any_of([is_cut(schema, part["type"], value.getField(part["name"])) for part in parts])
    return None


def _is_cut_inside(schema: AvroSchema, kind: Any, items: Column) -> Column | None:
    if is_cut(schema, kind, items) is None:
        return None
    # The cast: whether a part can be cut depends on its schema only.
    return F.exists(items, lambda item: F.coalesce(cast("Column", is_cut(schema, kind, item)), F.lit(False)))


def _any_of(parts: list[Column | None]) -> Column | None:
    conditions = [F.coalesce(part, F.lit(False)) for part in parts if part is not None]
    return any_of(conditions) if conditions else None
