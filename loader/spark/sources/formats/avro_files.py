"""Avro, read by Spark's data source; values of logical types that it does not know are converted here."""

from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.records.avro_schemas import LOCAL_NANOS, TIMESTAMP_NANOS, AvroSchema, kind_of, logical_of
from loader.spark.expressions import any_of
from loader.spark.nested_values import MICROSECONDS
from loader.spark.pyspark_types import jvm_of
from loader.spark.sources.files import JAVA_ERRORS, DeliveredFile, content_of, unreadable
from loader.spark.sources.formats.typed_files import NO_TABLE_HAS, TypedFormat, types_differ
from loader.spark.sources.opened import (
    Delivered,
    Group,
    Layout,
    Opened,
    Rows,
    attribute,
    attribute_at,
)

_MICROSECONDS_OF_DAY = 86_400_000_000
_TIME_OF_TIMESTAMP = len("1970-01-01 ") + 1
# Beginning of the names of columns that mark cut values.
_MARK = "\ue000cut "
_NANOSECONDS = (TIMESTAMP_NANOS, LOCAL_NANOS)


class AvroFormat(TypedFormat):
    """Avro. Spark's data source applies the schema of one file to all, so the schema of each file is read first."""

    def __init__(self) -> None:
        super().__init__("avro")

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        files: dict[str, list[DeliveredFile]] = {}
        for file in delivered.files:
            files.setdefault(_schema_text(delivered, file), []).append(file)
        types: dict[str, tuple[T.DataType, DeliveredFile]] = {}
        problems: dict[str, tuple[DeliveredFile, str]] = {}
        names: list[tuple[str, ...]] = []
        for text, (file, *_) in files.items():
            schema = AvroSchema.of(text, file.shown)
            try:
                frame = self._frame(delivered, schema, [file.pattern])
            except JAVA_ERRORS as error:
                raise unreadable(file.shown, error) from error
            names.append(tuple(part["name"] for part in schema.fields))
            for part, read in zip(schema.fields, frame.schema, strict=False):  # the frame has marks, too
                kind = read.dataType
                if problem := schema.problem(part["type"]):
                    kind, problems[read.name] = NO_TABLE_HAS, (file, problem)
                elif schema.is_time(part["type"]):
                    kind = T.TimeType()
                known, first = types.setdefault(read.name, (kind, file))
                if known != kind:
                    raise types_differ(read.name, kind, file, known, first)
        layouts = list(zip(names, files.values(), strict=True))
        return self._layout({name: kind for name, (kind, _) in types.items()}, layouts, contract, problems)

    def rows(self, opened: Opened, group: Group) -> Rows:
        schema = AvroSchema.of(_schema_text(opened, group.files[0]), group.files[0].shown)
        frame = self._frame(opened, schema, group.patterns)
        values = {name: attribute(name) for name in group.names}
        values |= {path: attribute_at(path) for path in group.paths}
        marks = {name: _MARK + name.partition(".")[0] for name in values}
        return Rows(frame, values, cut={name: attribute(mark) for name, mark in marks.items() if mark in frame.columns})

    def _frame(self, delivered: Delivered, schema: AvroSchema, paths: list[str]) -> DataFrame:
        reader = delivered.spark.read.format("avro").option("recursiveFieldMaxDepth", "1")
        stripped = schema.for_spark
        frame = (reader if stripped is None else reader.option("avroSchema", stripped)).load(paths)
        columns, marks = [], []
        for part in schema.fields:
            if part["name"] not in frame.columns:  # a type inside of itself, of which Spark leaves nothing
                columns.append(F.lit(None).cast("string").alias(part["name"]))
                continue
            column = attribute(part["name"])
            converted, cut = _converted(schema, part["type"], column), _is_cut(schema, part["type"], column)
            columns.append(column if converted is None else converted.alias(part["name"]))
            if cut is not None:
                marks.append(F.coalesce(cut, F.lit(False)).alias(_MARK + part["name"]))
        return frame.select(*columns, *marks)


def _schema_text(delivered: Delivered, file: DeliveredFile) -> str:
    """Return the schema in a file's header as JSON. Raise Refusal UNREADABLE_FILE."""
    avro = jvm_of(delivered.spark).org.apache.avro
    try:
        with content_of(delivered.spark, file) as content:
            return avro.file.DataFileStream(content, avro.generic.GenericDatumReader()).getSchema().toString()
    except JAVA_ERRORS as error:
        raise unreadable(file.shown, error) from error


# Conversion of values whose logical types Spark does not know. None stands for a type that needs none.


def _converted(schema: AvroSchema, kind: Any, value: Column) -> Column | None:
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
            if _converted(schema, kind["items"], value) is None:
                return None
            return F.transform(value, lambda item: cast("Column", _converted(schema, kind["items"], item)))
        case "map":
            if _converted(schema, kind["values"], value) is None:
                return None
            return F.transform_values(
                value, lambda _, item: cast("Column", _converted(schema, kind["values"], item))
            )
        case "record" if not schema.is_recursive(kind):
            fields = {part["name"]: value.getField(part["name"]) for part in kind["fields"]}
            changed = {part["name"]: _converted(schema, part["type"], fields[part["name"]]) for part in kind["fields"]}
            if any(column is not None for column in changed.values()):
                parts = [(fields[name] if column is None else column).alias(name) for name, column in changed.items()]
                return F.when(value.isNotNull(), F.struct(*parts))
    return None


def _union(schema: AvroSchema, members: list[Any], value: Column) -> Column:
    """Return a value of a union of several types, of which Spark makes a struct, as the JSON of its one member."""
    texts = []
    for place, member in enumerate(members):
        delivered = value.getField(f"member{place}")
        converted = _converted(schema, member, delivered)
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


def _is_cut(schema: AvroSchema, kind: Any, value: Column) -> Column | None:
    """Return the condition that a stored value, or a part of it, has digits below microseconds; None if it cannot."""
    members = schema.members(kind)
    if len(members) > 1:
        parts = [_is_cut(schema, member, value.getField(f"member{place}")) for place, member in enumerate(members)]
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
            return _any_of([_is_cut(schema, part["type"], value.getField(part["name"])) for part in parts])
    return None


def _is_cut_inside(schema: AvroSchema, kind: Any, items: Column) -> Column | None:
    if _is_cut(schema, kind, items) is None:
        return None
    # The cast: whether a part can be cut depends on its schema only.
    return F.exists(items, lambda item: F.coalesce(cast("Column", _is_cut(schema, kind, item)), F.lit(False)))


def _any_of(parts: list[Column | None]) -> Column | None:
    conditions = [F.coalesce(part, F.lit(False)) for part in parts if part is not None]
    return any_of(conditions) if conditions else None
