"""Windows of Delta tables and typed files: the rows from the mark on, selected by a filter.

``loader.domain.sources.marks`` has the rules. Tables of databases select their rows by SQL
(``loader.domain.sources.databases``), endpoints by a parameter.
"""

from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from loader.domain.manifest.sources import DeliveredColumn, SourceSpec
from loader.domain.sources.marks import Reading, Values, kind_of
from loader.spark.expressions import all_of, any_of
from loader.spark.sources.checks.row_faults import converted
from loader.spark.sources.opened import Opened
from metadata.domain.types import parse, spark_type


def within_window(opened: Opened, source: SourceSpec, reading: Reading) -> Opened:
    """Return the delivery with the window of the run and the condition for its rows.

    The highest values are those of the version or files that are read. A missing watermark column leaves the delivery
    as it is; ``missing_columns`` refuses it. Raise Refusal WATERMARK_BACKWARDS or BAD_SINCE.
    """
    columns = [column for column in source.columns if column.name in reading.intake.watermark]
    if any(column.name not in opened.names or column.name in opened.missing for column in columns):
        return opened
    kinds = {column.name: kind_of(column.type) for column in columns}
    values = {column.name: converted(opened, column, source.options) for column in columns}
    with opened.reading(again=False):
        maxima = [F.max(value).cast("string").alias(f"m{place}") for place, value in enumerate(values.values())]
        highest = dict(zip(kinds, opened.frame().agg(*maxima).first(), strict=True))
    window = reading.window(source, kinds, highest, source.options.get("timezone", "UTC"))
    bounds = reading.bounds(window)
    condition = None if bounds is None else from_values(columns, values, bounds)
    return replace(opened, window=window, condition=condition)


def from_values(columns: list[DeliveredColumn], values: dict[str, Column], bounds: Values) -> Column:
    """Return the condition for rows of which one column has at least its value, or all columns are NULL."""
    conditions = [all_of(value.isNull() for value in values.values())]
    for column in columns:
        value = values[column.name]
        if column.name in bounds:
            conditions.append(value >= F.lit(bounds[column.name]).cast(spark_type(parse(column.type))))
        else:
            conditions.append(value.isNotNull())
    return any_of(conditions)
