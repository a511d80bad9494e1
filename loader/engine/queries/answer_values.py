"""Values of an answer as JSON.

Integers, floats and booleans stay as they are; decimals, dates and timestamps (UTC) become text, NULL becomes null.
"""

import math
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T


def as_values(frame: DataFrame) -> DataFrame:
    """Return the frame with distinct column names and with times as text.

    Spark converts the times: Python's ``datetime`` lacks some years, and ``collect`` uses the local time zone.
    """
    fields = frame.schema.fields
    plain = frame.toDF(*(f"c{index}" for index in range(len(fields))))
    return plain.select(*(_value_of(F.col(f"c{index}"), field.dataType) for index, field in enumerate(fields)))


def _value_of(column: Column, type_: T.DataType) -> Column:
    if isinstance(type_, T.TimestampType):
        return F.concat(F.translate(column.cast("string"), " ", "T"), F.lit("Z"))
    if isinstance(type_, T.TimestampNTZType):
        return F.translate(column.cast("string"), " ", "T")
    if isinstance(type_, T.ArrayType | T.MapType | T.StructType | T.StringType | T.NumericType | T.BooleanType):
        return column
    return F.hex(column) if isinstance(type_, T.BinaryType) else column.cast("string")


def _utc(value: datetime) -> datetime:
    """Return an instant in UTC. Rows of Spark have local times, of which Python converts none near the year 10000."""
    if value.tzinfo is not None:
        return value.astimezone(UTC)
    seconds = time.mktime(value.timetuple())
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=value.microsecond)


def json_value(value: Any) -> Any:
    """Return a value as a JSON value; NaN and infinities become text."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return _utc(value).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex().upper()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, T.Row):
        return {name: json_value(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {str(json_value(name)): json_value(item) for name, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list) else value
