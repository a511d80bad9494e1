"""Values that copies write to PostgreSQL, and those that it does not take."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, StringType, StructField, TimestampNTZType, TimestampType

from loader.contract.manifest.copies import CopyTarget
from loader.contract.refusals import Refusal
from loader.engine.samples import sample_rows
from metadata.domain.sql import quote_identifier

# First day of PostgreSQL's dates and timestamps, and the last date that is written, as SQL of Spark.
_EARLIEST, _LATEST = "DATE '-4713-11-24'", "DATE '+294246-12-31'"
_DATE, _DATE_TIME = "yyyyyy-MM-dd G", "yyyyyy-MM-dd HH:mm:ss.SSSSSS"


def written_value(column: StructField) -> Column:
    """Return the values of a column as the JDBC writer gets them: dates and times as texts.

    Java's own dates are of the Julian calendar up to 1582, which has other days than that of Spark and PostgreSQL.
    """
    value = F.col(quote_identifier(column.name))
    if isinstance(column.dataType, DateType):
        # Spark formats dates as times, whose range ends before that of dates; the text of later ones is refused.
        is_late = value > F.expr(_LATEST)
        value = F.when(is_late, value.cast("string")).otherwise(F.date_format(F.when(~is_late, value), _DATE))
    elif isinstance(column.dataType, TimestampType):
        value = F.date_format(value, f"{_DATE_TIME}xxxxx G")
    elif isinstance(column.dataType, TimestampNTZType):
        value = F.date_format(value, f"{_DATE_TIME} G")
    return value.alias(column.name)


def refusal_of_values(frame: DataFrame, target: CopyTarget) -> Refusal | None:
    """Return the refusal for the first column of a copy with values that PostgreSQL does not take."""
    conditions = ((field.name, _is_refused(field.name, field.dataType)) for field in frame.schema.fields)
    refused = {name: condition for name, condition in conditions if condition is not None}
    if not refused:
        return None
    counts = frame.agg(*(F.count_if(is_refused).alias(name) for name, (is_refused, _) in refused.items())).first()
    assert counts is not None  # an aggregate without keys has a row
    name, count = next(((name, count) for name, count in zip(refused, counts, strict=True) if count), ("", 0))
    if not count:
        return None
    is_refused, values = refused[name]
    return Refusal(
        "COPY_FAILED",
        f"{target.table} in {target.system}: {count} rows have {values} in column {name}, "
        "which PostgreSQL does not take",
        column=name,
        count=count,
        samples=sample_rows(frame.where(is_refused), target.keys),
        hint="The target was left as it was. Correct the values where they come from; the next load copies again.",
    )


def _is_refused(name: str, type_: DataType) -> tuple[Column, str] | None:
    """Return the condition for values that PostgreSQL does not take, and their name; None if it takes all."""
    value = F.col(quote_identifier(name))
    if isinstance(type_, StringType):
        return value.contains("\0"), "a NUL character"
    if isinstance(type_, DateType):
        is_within = value.between(F.expr(_EARLIEST), F.expr(_LATEST))
        return ~is_within, "a date before 24 November 4714 BC or after the year 294246"
    if isinstance(type_, TimestampType | TimestampNTZType):
        return value < F.expr(_EARLIEST), "a time before 24 November 4714 BC"
    return None
