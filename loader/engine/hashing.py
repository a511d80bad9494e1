"""Encoding v2 and digests as native Spark expressions, as ``loader.domain.historization.hashing`` defines them.

Needs a session with ``spark.sql.ansi.enabled=true`` (a decimal's text is then plain digits, never ``1E-7``) and, for
timestamps without a zone, ``spark.sql.session.timeZone=UTC``.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.domain.historization.hashing import EXACT_INTEGERS_BELOW, MICROSECONDS_PER_DAY, escape, in_order, peppered

TEXT = (T.StringType, T.VarcharType, T.CharType)


def canonical(column: Column, data_type: T.DataType) -> Column:
    """Return the canonical text of a value, unescaped; NULL stays NULL. Raise TypeError for a nested type."""
    match data_type:
        case T.StringType() | T.VarcharType() | T.CharType():
            return column
        case T.BooleanType() | T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return column.cast("string")
        case T.DecimalType():
            return _decimal_text(column, data_type.scale)
        case T.FloatType() | T.DoubleType():
            return _float_text(column.cast("double"))
        case T.TimestampType() | T.TimestampNTZType():
            return F.unix_micros(column.cast("timestamp")).cast("string")
        case T.DateType():
            return (F.unix_date(column).cast("bigint") * F.lit(MICROSECONDS_PER_DAY)).cast("string")
        case T.BinaryType():
            return F.lower(F.hex(column))
    raise TypeError(f"a value of type {data_type.simpleString()} has no canonical text")


def encode(components: Sequence[tuple[str, Column, T.DataType]]) -> Column:
    """Return the text to hash. Ids are sorted once, when the plan is built, not per row."""
    # NULL contributes nothing, because concat with a NULL is NULL, and concat_ws leaves NULLs out.
    parts = [
        F.concat(F.lit(f"{escape(identifier)}~"), _escape(canonical(column, data_type), data_type))
        for identifier, column, data_type in in_order(components)
    ]
    return F.concat_ws("|", *parts) if parts else F.lit("")


def digest(components: Sequence[tuple[str, Column, T.DataType]], pepper: str = "") -> Column:
    """Return the SHA-256 of the encoded components: 64 lower-case hexadecimal digits, never NULL."""
    secret = [(identifier, F.lit(value), T.StringType()) for identifier, value in peppered(pepper)]
    return F.sha2(encode([*secret, *components]), 256)


def _escape(text: Column, data_type: T.DataType) -> Column:
    """Escape the special characters of text, the backslash first; other types cannot contain any."""
    if not isinstance(data_type, TEXT):
        return text
    for character in ("\\", "~", "|"):
        text = F.replace(text, F.lit(character), F.lit(escape(character)))
    return text


def _decimal_text(column: Column, scale: int) -> Column:
    text = column.cast("string")
    if scale <= 0:
        return text
    return F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))


def _float_text(column: Column) -> Column:
    """Format a float with ``%a``, including NaN and the infinities; NULL stays NULL instead of ``null``."""
    plain = (F.abs(column) < F.lit(float(EXACT_INTEGERS_BELOW))) & (F.rint(column) == column)
    digits = column.cast("bigint").cast("string")
    return F.when(plain, digits).when(column.isNotNull(), F.format_string("%a", column))
