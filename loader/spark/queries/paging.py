"""Paging by business key."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from architecture.domain.states.tables import TableSpec
from loader.domain.runs.refusals import Refusal
from metadata.domain.sql import quote_identifier


def after_key(frame: DataFrame, table: TableSpec, arguments: dict[str, Any]) -> DataFrame:
    """Return the rows whose business key follows ``after``; all rows without ``after``.

    Its values are text, as in answers. Raise Refusal BAD_KEY if a column cannot hold its value.
    """
    given = arguments.get("after")
    if not given:
        return frame
    columns = [column.name for column in table.of_purpose("business_key")]
    values = [F.lit(str(given[name])).try_cast(frame.schema[name].dataType) for name in columns]
    # Constants: the optimizer folds them, no data is read.
    held = frame.sparkSession.range(1).select(*(value.isNotNull() for value in values)).first()
    for name, holds in zip(columns, held or (), strict=True):
        if not holds:
            kind = frame.schema[name].dataType.simpleString()
            raise Refusal("BAD_KEY", f"{given[name]!r} is no value of {name}, which is {kind}", column=name)
    beyond, same = F.lit(False), F.lit(True)
    for name, value in zip(columns, values, strict=True):
        here = F.col(quote_identifier(name))
        beyond = beyond | (same & (here > value))
        same = same & (here == value)
    return frame.where(beyond)
