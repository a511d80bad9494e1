"""Selected rows of a table for a page (``loader.domain.queries.row_selection``), and pages by business key."""

from collections.abc import Callable, Collection, Iterable
from decimal import Decimal, InvalidOperation
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType

from architecture.domain.tables import TableSpec
from loader.contract.refusals import Refusal
from loader.domain.queries import row_selection
from loader.domain.queries.masking import must_not_choose_by
from loader.domain.queries.row_selection import WITHOUT_VALUE, RowSelection
from loader.engine.pyspark_types import row_of
from metadata.domain.sql import quote_identifier

_VALUES = ("business_key", "attribute", "foreign_key")
_AS_TEXT: dict[str, Callable[[Column, Column], Column]] = {
    row_selection.CONTAINS: F.contains,
    row_selection.STARTS: F.startswith,
}


def select_rows(
    frame: DataFrame,
    table: TableSpec,
    selection: RowSelection,
    masked: Collection[str],
    *,
    newest: bool = False,
    only_values: bool = False,
) -> DataFrame:
    """Return the selected rows, from ``offset`` on; with ``newest`` the last loaded come first.

    Masked columns are not searched, with ``only_values`` neither hashes and columns of loads. Rows of one sort value
    have a stable order. Raise Refusal for a column that the table lacks or that is masked, or a value that does not fit
    its column.
    """
    selection.check(frame.columns)
    # The table may have columns that the metadata no longer describes.
    must_not_choose_by(selection.columns, masked)
    technical = {column.name for column in table.columns if column.purpose not in _VALUES} if only_values else ()
    searched = [name for name in frame.columns if name not in technical]
    frame = find_text(frame, selection.find, searched, masked)
    if selection.column:
        frame = frame.where(_condition(frame, selection))
    order = []
    if selection.sort:
        own = F.col(quote_identifier(selection.sort))
        order.append(own.desc_nulls_last() if selection.descending else own.asc_nulls_last())
    if newest:
        order.append(F.col(quote_identifier(table.column("loaded_at").name)).desc_nulls_last())
    if order or selection.offset:
        # Rows of a view may share a key.
        keys = table.of_purpose("business_key", "started_at") if table.kind != "view" else ()
        columns = [F.col(quote_identifier(column.name)) for column in keys]
        frame = frame.orderBy(*order, *(columns or [F.xxhash64(*map(quote_identifier, frame.columns))]))
    return frame.offset(selection.offset) if selection.offset else frame


def find_text(frame: DataFrame, text: str, columns: Iterable[str], masked: Collection[str]) -> DataFrame:
    """Return the rows with a text in one of these columns, ignoring case; all rows without a text.

    Masked columns are not searched.
    """
    if not text:
        return frame
    names = [name for name in columns if name not in masked]
    return frame.where(reduce(or_, (_contains(_text(name), text) for name in names), F.lit(False)))


def _compared_type(type_: DataType, value: str) -> DataType:
    """Return the type in which a value is compared: a decimal keeps all digits of the value."""
    if not isinstance(type_, DecimalType):
        return type_
    try:
        exponent = Decimal(value).as_tuple().exponent
    except InvalidOperation:
        return type_
    digits = -exponent if isinstance(exponent, int) else 0
    return DecimalType(38, min(max(type_.scale, digits), 38 - (type_.precision - type_.scale)))


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
    type_ = _compared_type(frame.schema[selection.column].dataType, selection.value)
    value = F.lit(selection.value).try_cast(type_)
    if row_of(frame.sparkSession.range(1).select(value.isNull()).first())[0]:
        raise Refusal(
            "BAD_SELECTION",
            f"{selection.column} is of type {type_.simpleString()}, and {selection.value!r} is not",
            hint="Correct the value, or choose another comparison.",
            column=selection.column,
        )
    if comparison == row_selection.EQUALS:
        return own == value
    return own < value if comparison == row_selection.LESS else own > value


def business_key(table: TableSpec) -> list[str]:
    """Return the columns of the business key, quoted."""
    return [quote_identifier(column.name) for column in table.of_purpose("business_key")]


def after_key(frame: DataFrame, table: TableSpec, arguments: dict[str, Any]) -> DataFrame:
    """Return the rows whose business key follows ``after``; all rows without ``after``.

    The values of ``after`` are text, as in answers. Raise Refusal BAD_KEY if a column cannot hold its value.
    """
    after = arguments.get("after")
    if not after:
        return frame
    columns = [column.name for column in table.of_purpose("business_key")]
    values = [F.lit(str(after[name])).try_cast(frame.schema[name].dataType) for name in columns]
    # The optimizer evaluates these constants, so no data is read.
    checks = row_of(frame.sparkSession.range(1).select(*(value.isNotNull() for value in values)).first())
    for name, fits in zip(columns, checks or (), strict=True):
        if not fits:
            kind = frame.schema[name].dataType.simpleString()
            raise Refusal("BAD_KEY", f"{after[name]!r} is no value of {name}, which is {kind}", column=name)
    beyond, same = F.lit(False), F.lit(True)
    for name, value in zip(columns, values, strict=True):
        own = F.col(quote_identifier(name))
        beyond = beyond | (same & (own > value))
        same = same & (own == value)
    return frame.where(beyond)


def quoted_column(table: TableSpec, purpose: str) -> str:
    return quote_identifier(table.column(purpose).name)
