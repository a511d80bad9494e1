"""Selected rows of a table for a page (``loader.domain.queries.row_selection``)."""

from collections.abc import Callable, Collection
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.domain.queries import row_selection
from loader.domain.queries.row_selection import WITHOUT_VALUE, RowSelection
from loader.domain.refusals import Refusal
from metadata.domain.sql import quote_identifier

_AS_TEXT: dict[str, Callable[[Column, Column], Column]] = {
    row_selection.CONTAINS: F.contains,
    row_selection.STARTS: F.startswith,
}


def select_rows(frame: DataFrame, table: TableSpec, selection: RowSelection, masked: Collection[str]) -> DataFrame:
    """Return the selected rows, from ``offset`` on. ``masked`` columns are not searched.

    Rows of one sort value are ordered by business key. Raise Refusal for a column that the table lacks, or a value
    that does not fit its column.
    """
    selection.check(frame.columns)
    if selection.find:
        names = [name for name in frame.columns if name not in masked]
        frame = frame.where(reduce(or_, (_contains(_text(name), selection.find) for name in names), F.lit(False)))
    if selection.column:
        frame = frame.where(_condition(frame, selection))
    if selection.sort:
        own = F.col(quote_identifier(selection.sort))
        keys = [quote_identifier(column.name) for column in table.of_purpose("business_key", "started_at")]
        frame = frame.orderBy(own.desc_nulls_last() if selection.descending else own.asc_nulls_last(), *keys)
    return frame.offset(selection.offset) if selection.offset else frame


def _text(name: str) -> Column:
    return F.col(quote_identifier(name)).cast("string")


def _contains(text: Column, value: str) -> Column:
    return F.contains(F.lower(text), F.lower(F.lit(value)))


def _condition(frame: DataFrame, selection: RowSelection) -> Column:
    own, comparison = F.col(quote_identifier(selection.column)), selection.comparison
    if comparison in WITHOUT_VALUE:
        return own.isNull() if comparison == row_selection.NULL else own.isNotNull()
    if comparison in _AS_TEXT:
        return _AS_TEXT[comparison](F.lower(_text(selection.column)), F.lower(F.lit(selection.value)))
    type_ = frame.schema[selection.column].dataType
    value = F.lit(selection.value).try_cast(type_)
    if frame.sparkSession.range(1).select(value.isNull()).first()[0]:
        raise Refusal(
            "BAD_SELECTION",
            f"{selection.column} is of type {type_.simpleString()}, and {selection.value!r} is not",
            hint="Correct the value, or choose another comparison.",
            column=selection.column,
        )
    if comparison == row_selection.EQUALS:
        return own == value
    return own < value if comparison == row_selection.LESS else own > value
