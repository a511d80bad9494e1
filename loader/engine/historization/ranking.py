"""Ranking of inputs that deliver the same key: the best source's row is used, or each column's best value.

Only input that is complete can be ranked (``metadata.domain.history.history_policy``). Rows of one key in one source
are never chosen from: if they differ, they stay, and the batch is refused as any other (history rule 1).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

from loader.engine.compared_texts import compared
from loader.engine.expressions import united
from metadata.domain.sql import quote_identifier

OUTRANKED = "outranked"
_RANK, _CONFLICT, _KEY = "__rank", "__conflict", "__key"


def best_rows(
    frames: Sequence[tuple[int, DataFrame]],
    keys: Sequence[str],
    *,
    by_column: bool,
    counted: Observation,
    types: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """Return one row for each key of several sources.

    Args:
        frames: rank of each source, 0 being the best, and its rows; all have the same columns.
        keys: names of the business key's columns.
        by_column: take a value that the best source lacks from the next source that has one.
        types: types of the columns that are compared by value.
        counted: receives the number of rows that are left out, as ``outranked``, once the result is computed.
    """
    ranked = [frame.withColumn(_RANK, F.lit(rank)) for rank, frame in frames]
    rows = united(ranked, DataFrame.unionByName)
    names = [name for name in rows.columns if name != _RANK]
    rows = rows.withColumns(
        {f"{_KEY}{i}": compared(F.col(quote_identifier(name)), types.get(name, "")) for i, name in enumerate(keys)}
    )
    key = [f"{_KEY}{i}" for i, _ in enumerate(keys)]
    best = F.col(_RANK) == F.min(_RANK).over(Window.partitionBy(*key))
    if by_column:
        rows = rows.withColumn(_CONFLICT, _rows_differ(names, [*key, _RANK], types))
        values = {name: _best_value(name, key) for name in names if name not in keys}
        best = best | F.col(_CONFLICT)
        own = [quote_identifier(name) for name in keys]
        rows = rows.select(*own, best.alias("__best"), *(value.alias(name) for name, value in values.items()))
    else:
        rows = rows.withColumn("__best", best)
    rows = rows.observe(counted, F.count_if(~F.col("__best")).alias(OUTRANKED))
    return rows.where(F.col("__best")).select(*map(quote_identifier, names))


def _rows_differ(names: Sequence[str], source_key: list[str], types: Mapping[str, str]) -> Column:
    """Return the condition that a source has several rows of the key that are not equal."""
    # A hash leaves NULL out, so each value is followed by its position.
    columns = [compared(F.col(quote_identifier(name)), types.get(name, "")) for name in names]
    parts = [part for place, column in enumerate(columns) for part in (column, F.lit(place))]
    content, window = F.xxhash64(*parts), Window.partitionBy(*source_key)
    return F.min(content).over(window) != F.max(content).over(window)


def _best_value(name: str, key: list[str]) -> Column:
    """Return a column's own value, or else the first one of the sources after it."""
    after = Window.partitionBy(*key).orderBy(_RANK).rangeBetween(1, Window.unboundedFollowing)
    column = F.col(quote_identifier(name))
    return F.coalesce(column, F.first(column, ignorenulls=True).over(after))
