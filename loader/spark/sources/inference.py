"""Inference of types from the values of delivered columns.

Text is a number only if reading it as one loses nothing: ``007`` and numbers of twenty digits stay string.
JSON itself distinguishes text and numbers.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.spark.sources.conversion import typed
from loader.spark.sources.delivery_reading import Opened
from loader.spark.sources.options import JSONL
from metadata.domain import types as ours

_INTEGER = r"^(0|-?[1-9]\d{0,18})$"
# Fifteen digits before the point: every such number is exact. An exponent needs a point or a sign.
_FLOAT = r"^-?(0|[1-9]\d{0,14})(\.\d+([eE][+-]?\d+)?|[eE][+-]\d+)?$"
_TIME_OF_DAY = r"^.{10}[T ]"


def inferred_columns(opened: Opened, frame: DataFrame, names: tuple[str, ...]) -> list[dict]:
    """Return ``{"name", "type", "nullable_seen"}`` for each name, in order, in one pass over ``frame``."""
    if not names:
        return []
    tests = {name: _tests(opened, name) for name in names}
    aggregates = [F.count(F.lit(1)).alias("rows")]
    for place, name in enumerate(names):
        aggregates.append(F.count(opened.column(name)).alias(f"present{place}"))
        aggregates += [F.count_if(test).alias(f"{kind}{place}") for kind, test in tests[name].items()]
    found = frame.agg(*aggregates).first()
    native = _json_types(opened)
    columns = []
    for place, name in enumerate(names):
        present = found[f"present{place}"]
        fitting = [kind for kind in tests[name] if present and found[f"{kind}{place}"] == present]
        described = opened.type_of(name) if not opened.is_text else native.get(name)
        columns.append({"name": name, "type": _choice(fitting, described), "nullable_seen": present < found["rows"]})
    return columns


def _tests(opened: Opened, name: str) -> dict[str, Column]:
    """Return a condition for each type, from narrow to wide; the first type that all values satisfy is used.

    Empty if the format gives the type.
    """
    if not opened.is_text:
        return {}
    value = opened.column(name)
    moment = typed(value, ours.TIMESTAMP)
    return {
        ours.BOOLEAN: F.lower(value).isin("true", "false"),
        ours.INTEGER: value.rlike(_INTEGER) & value.try_cast("int").isNotNull(),
        ours.BIGINT: value.rlike(_INTEGER) & value.try_cast("bigint").isNotNull(),
        ours.FLOAT: value.rlike(_FLOAT),
        ours.DATE: typed(value, ours.DATE).isNotNull(),
        ours.TIMESTAMP: moment.isNotNull() & value.rlike(_TIME_OF_DAY) | typed(value, ours.DATE).isNotNull(),
    }


def _choice(fitting: list[str], described: T.DataType | None) -> str:
    if described is None or isinstance(described, T.NullType):
        return fitting[0] if fitting else ours.STRING
    match described:
        case T.StructType() | T.ArrayType() | T.MapType() | T.VariantType():
            return ours.JSON
        case T.StringType():
            return next((kind for kind in fitting if kind in (ours.DATE, ours.TIMESTAMP)), ours.STRING)
        case T.LongType() if ours.INTEGER in fitting:
            return ours.INTEGER
        case T.TimeType():
            return ours.TIME
    return str(ours.from_spark(described.simpleString()))


def _json_types(opened: Opened) -> dict[str, T.DataType]:
    """Return the types of JSON's own notation.

    Empty if keys differ only in case, since Spark cannot distinguish them.
    """
    if opened.format != JSONL or len({name.lower() for name in opened.names}) < len(opened.names):
        return {}
    schema = opened.spark.read.json([file.pattern for file in opened.files]).schema
    return {field.name: field.dataType for field in schema}
