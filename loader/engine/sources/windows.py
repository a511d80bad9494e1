"""Windows of Delta tables and typed files: the rows from the mark on, selected by a filter.

``loader.domain.sources.marks`` has the rules. Tables of databases select their rows by SQL
(``loader.domain.sources.databases``), endpoints by a parameter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.domain.sources.mark_limits import Split, Value
from loader.domain.sources.marks import Reading, Values, kind_of, text_of, values_of
from loader.engine.expressions import all_of, any_of
from loader.engine.pyspark_types import row_of
from loader.engine.sources.checks.row_faults import converted
from loader.engine.sources.opened import Opened
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
        highest = dict(zip(kinds, row_of(opened.frame().agg(*maxima).first()), strict=True))
        measure = FrameMeasure(opened.frame, values, source)
        window = reading.window(source, kinds, highest, source.options.get("timezone", "UTC"), measure)
    bounds = reading.bounds(window)
    condition = None if bounds is None else from_values(columns, values, bounds)
    return replace(opened, window=window, condition=condition)


@dataclass(frozen=True)
class FrameMeasure:
    """Measure of the watermark columns in a frame. ``values`` are their expressions."""

    frame: Callable[[], DataFrame]
    values: Mapping[str, Column]
    source: SourceSpec

    def lowest(self, name: str) -> Value | None:
        return self._value(name, row_of(self.frame().agg(F.min(self.values[name]).cast("string")).first())[0])

    def split(self, name: str, limit: Value) -> Split:
        value, kept = self.values[name], self._is_kept(name, limit)
        totals = (F.max(F.when(kept, value)).cast("string"), F.count(F.when(~kept, 1)), F.count(value))
        highest, ahead, rows = row_of(self.frame().agg(*totals).first())
        return Split(self._value(name, highest), ahead, rows)

    def _is_kept(self, name: str, limit: Value) -> Column:
        type_ = next(column.type for column in self.source.columns if column.name == name)
        return self.values[name] <= F.lit(text_of(limit)).cast(spark_type(parse(type_)))

    def _value(self, name: str, text: str | None) -> Value | None:
        type_ = next(column.type for column in self.source.columns if column.name == name)
        return values_of(self.source.name, {name: text}, {name: kind_of(type_)}).get(name)


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
