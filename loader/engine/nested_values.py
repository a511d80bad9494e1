"""Values at the top or inside of nested ones: years of dates, exact timestamps in JSON, text that is not UTF-8."""

from collections.abc import Callable
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

TEMPORAL = (T.DateType, T.TimestampType, T.TimestampNTZType)
MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
# Condition of a value that is not nested; None for a type that it does not concern.
_Test = Callable[[Column, T.DataType], Column | None]


def within_years(value: Column, ddl: str) -> Column:
    """Return a date or timestamp of the years 1 to 9999, else NULL."""
    return F.when((value >= F.lit("0001-01-01").cast(ddl)) & (value < F.lit("+10000-01-01").cast(ddl)), value)


def is_undecoded(text: Column) -> Column:
    """Return the condition that a text is not UTF-8; never NULL."""
    return F.coalesce(~F.is_valid_utf8(text), F.lit(False))


def json_of(value: Column, source: T.DataType) -> Column:
    """Return a nested value as JSON, with all six decimals of its timestamps.

    Spark writes three decimals. This form is kept where it loses nothing, so that the text of such values stays.
    A map whose keys are nested is a list of entries, ``[{"key": …, "value": …}]``.
    """
    is_finer = _has(value, source, _is_finer)
    written = _with_text_keys(value, source)
    shown = value if written is None else written
    text = F.to_json(shown)
    return text if is_finer is None else F.when(is_finer, F.to_json(shown, MICROSECONDS)).otherwise(text)


def _with_text_keys(value: Column, source: T.DataType) -> Column | None:
    """Return a value whose maps have keys that Spark writes as JSON; None if it writes them as they are.

    It writes dates and times as the numbers that it stores, and bytes and nested keys as addresses in its memory.
    """
    match source:
        case T.StructType():
            parts = {part.name: _with_text_keys(value.getField(part.name), part.dataType) for part in source}
            if all(part is None for part in parts.values()):
                return None
            fields = (value.getField(name) if part is None else part for name, part in parts.items())
            named = (field.alias(name) for name, field in zip(parts, fields, strict=True))
            return F.when(value.isNotNull(), F.struct(*named))
        case T.ArrayType():
            if _with_text_keys(value, source.elementType) is None:
                return None
            # Not None: whether a part is changed depends on its type only.
            return F.transform(value, lambda part: cast("Column", _with_text_keys(part, source.elementType)))
        case T.MapType():
            return _map_with_text_keys(value, source)
    return None


def _map_with_text_keys(value: Column, source: T.MapType) -> Column | None:
    is_changed = _with_text_keys(value, source.valueType) is not None
    if is_changed:
        value = F.transform_values(value, lambda _, part: cast("Column", _with_text_keys(part, source.valueType)))
    match source.keyType:
        case T.DateType():
            return F.transform_keys(value, lambda key, _: key.cast("string"))
        case T.TimestampType():
            return F.transform_keys(value, lambda key, _: F.date_format(key, MICROSECONDS["timestampFormat"]))
        case T.TimestampNTZType():
            return F.transform_keys(value, lambda key, _: F.date_format(key, MICROSECONDS["timestampNTZFormat"]))
        case T.BinaryType():
            return F.transform_keys(value, lambda key, _: F.base64(key))
        case T.StructType() | T.ArrayType() | T.MapType():
            return F.map_entries(value)
    return value if is_changed else None


def json_within_years(value: Column, source: T.DataType) -> Column:
    """Return a nested value as JSON; NULL if it has a date or timestamp outside of the years 1 to 9999."""
    is_far = _has(value, source, _is_far)
    return json_of(value, source) if is_far is None else F.when(~is_far, json_of(value, source))


def has_undecoded_text(value: Column, source: T.DataType) -> Column | None:
    """Return the condition that a value is, or contains, a text that is not UTF-8; None if its type has no text."""
    return _has(value, source, lambda part, kind: is_undecoded(part) if isinstance(kind, T.StringType) else None)


def _is_far(value: Column, source: T.DataType) -> Column | None:
    if not isinstance(source, TEMPORAL):
        return None
    return within_years(value, source.simpleString()).isNull() & value.isNotNull()


def _is_finer(value: Column, source: T.DataType) -> Column | None:
    if not isinstance(source, (T.TimestampType, T.TimestampNTZType)):
        return None
    return F.pmod(F.unix_micros(value.cast("timestamp")), F.lit(1000)) != 0


def _has(value: Column, source: T.DataType, test: _Test) -> Column | None:
    """Return the condition that a value, or a part of it, fulfils a test; None if no part can. It is never NULL."""
    match source:
        case T.StructType():
            conditions = [_has(value.getField(part.name), part.dataType, test) for part in source]
        case T.ArrayType():
            if _has(value, source.elementType, test) is None:
                return None
            # Not None: whether a part can fulfil the test depends on its type only.
            conditions = [F.exists(value, lambda part: cast("Column", _has(part, source.elementType, test)))]
        case T.MapType():
            keys, values = T.ArrayType(source.keyType), T.ArrayType(source.valueType)
            conditions = [_has(F.map_keys(value), keys, test), _has(F.map_values(value), values, test)]
        case _:
            conditions = [test(value, source)]
    known = [F.coalesce(condition, F.lit(False)) for condition in conditions if condition is not None]
    if not known:
        return None
    return known[0] if len(known) == 1 else F.exists(F.array(*known), lambda condition: condition)
