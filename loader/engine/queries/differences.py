"""Difference between two sets of rows, such as a table and a SELECT: added, changed and gone rows, and changed columns.

With a key, both sides are joined once and compared value by value; NULL equals NULL. Without one, rows are counted:
a row that occurs twice before and three times after is two same rows and an added one. Values that are written
differently are the same (``loader.engine.compared_texts``).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.engine.compared_texts import compared
from loader.engine.expressions import all_of
from loader.engine.queries.answer_values import as_values, json_value
from loader.engine.session import persisted
from metadata.domain.sql import quote_identifier

SAMPLES = 20
ADDED, CHANGED, GONE, SAME = "added", "changed", "gone", "same"
_KINDS = (ADDED, CHANGED, GONE, SAME)
_STATUS, _ROWS, _PLACE = "__status", "__rows", "__place"


# Receives names of columns and all rows that differ: kind, values before, values after. Returns fields of the result.
Export = Callable[[Sequence[str], DataFrame], dict[str, Any]]


@dataclass(frozen=True)
class _Pair:
    """Column of both sides; its values are called ``o<place>`` before and ``n<place>`` after."""

    place: int
    before: T.StructField
    after: T.StructField
    type_name: str = ""

    @property
    def name(self) -> str:
        return self.after.name

    @property
    def is_retyped(self) -> bool:
        return self.before.dataType != self.after.dataType

    @property
    def old(self) -> Column:
        return F.col(f"o{self.place}")

    @property
    def new(self) -> Column:
        return F.col(f"n{self.place}")

    def select_old(self) -> Column:
        return self._comparable(self.before).alias(f"o{self.place}")

    def select_new(self) -> Column:
        return self._comparable(self.after).alias(f"n{self.place}")

    def same(self) -> Column:
        """Return the condition that both values are the same, whatever the way in which they are written."""
        return self.compared(self.new).eqNullSafe(self.compared(self.old))

    def compared(self, value: Column) -> Column:
        return compared(value, self.type_name)

    def _comparable(self, field: T.StructField) -> Column:
        """Return the column in a type that both sides have: numbers as they are, other changed types as text."""
        column = F.col(quote_identifier(field.name))
        types = (self.before.dataType, self.after.dataType)
        is_same = not self.is_retyped or all(isinstance(type_, T.NumericType) for type_ in types)
        return column if is_same else column.cast("string")


def compare(
    before: DataFrame,
    after: DataFrame,
    key: Sequence[str],
    *,
    left_out: Collection[str] = (),
    samples: int = SAMPLES,
    types: Mapping[str, str] = MappingProxyType({}),
    export: Export | None = None,
) -> dict[str, Any]:
    """Return the difference as JSON values: counts, changed columns, and samples of rows that differ.

    Args:
        before: rows of the table, or of its earlier state.
        after: rows of the SELECT, or of the later state.
        key: names of the key's columns; empty, or with a column that one side lacks, compares whole rows.
        left_out: names of columns in lower case whose values are not compared.
        samples: number of rows of each kind.
        types: types of columns that are compared by value.
        export: called with all rows that differ if the samples are not all of them.
    """
    pairs = _pairs(before, after, left_out, types)
    by_name = {pair.name.lower(): pair for pair in pairs}
    has_key = bool(key) and all(name.lower() in by_name for name in key)
    keys = [by_name[name.lower()] for name in key] if has_key else []
    ordered = keys + [pair for pair in pairs if pair not in keys]
    kept = persisted(after, StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        comparison, differing = (
            _by_key(before, kept, keys, ordered, samples) if keys else _by_rows(before, kept, ordered, samples)
        )
        if export is not None and is_cut(comparison):
            comparison |= export([pair.name for pair in ordered], differing)
    finally:
        kept.unpersist()
    return {
        "key": [pair.name for pair in keys],
        "columns": _columns(before, after, pairs) | {"left_out": [n for n in after.columns if n.lower() in left_out]},
        **comparison,
    }


def is_cut(difference: dict[str, Any]) -> bool:
    """Return True if the samples of a difference are not all rows that differ."""
    return any(difference["rows"][kind] > len(difference["samples"][kind]) for kind in (ADDED, CHANGED, GONE))


def _pairs(before: DataFrame, after: DataFrame, left_out: Collection[str], types: Mapping[str, str]) -> list[_Pair]:
    old = {field.name.lower(): field for field in before.schema.fields}
    names = [field for field in after.schema.fields if field.name.lower() in old and field.name.lower() not in left_out]
    by_value = {name.lower(): type_name for name, type_name in types.items()}
    return [
        _Pair(place, old[field.name.lower()], field, by_value.get(field.name.lower(), ""))
        for place, field in enumerate(names)
    ]


def _columns(before: DataFrame, after: DataFrame, pairs: Sequence[_Pair]) -> dict[str, Any]:
    old, new = ({field.name.lower(): field for field in frame.schema.fields} for frame in (before, after))
    return {
        ADDED: [_described(field) for name, field in new.items() if name not in old],
        GONE: [_described(field) for name, field in old.items() if name not in new],
        "retyped": [
            {"name": pair.name, "before": _type(pair.before), "after": _type(pair.after)}
            for pair in pairs
            if pair.is_retyped
        ],
    }


def _described(field: T.StructField) -> dict[str, str]:
    return {"name": field.name, "type": _type(field)}


def _type(field: T.StructField) -> str:
    return field.dataType.simpleString()


def _by_key(
    before: DataFrame, after: DataFrame, keys: Sequence[_Pair], pairs: Sequence[_Pair], samples: int
) -> tuple[dict[str, Any], DataFrame]:
    """Compare rows joined by key; return the difference and all rows that differ."""
    old = before.select(F.lit(True).alias("o"), *(pair.select_old() for pair in pairs))
    new = after.select(F.lit(True).alias("n"), *(pair.select_new() for pair in pairs))
    joined = new.join(old, all_of(pair.same() for pair in keys), "full_outer")
    values = [pair for pair in pairs if pair not in keys]
    differs = reduce(or_, (_differ(pair) for pair in values), F.lit(False))
    status = (
        F.when(F.col("o").isNull(), ADDED)
        .when(F.col("n").isNull(), GONE)
        .when(differs, CHANGED)
        .otherwise(SAME)
        .alias(_STATUS)
    )
    compared = joined.select("*", status)
    counted = compared.groupBy(_STATUS).agg(
        F.count(F.lit(1)).alias(_ROWS), *(F.count_if(_differ(pair)).alias(f"d{pair.place}") for pair in values)
    )
    counts = {row[_STATUS]: row for row in counted.collect()}
    changed = counts.get(CHANGED)
    key_values = (pair.compared(F.col(quote_identifier(pair.after.name))).alias(f"k{pair.place}") for pair in keys)
    groups = after.select(*key_values).groupBy(*(f"k{pair.place}" for pair in keys)).agg(F.count(F.lit(1)).alias(_ROWS))
    order = [F.coalesce(pair.new, pair.old) for pair in keys]
    differing = compared.where(F.col(_STATUS) != SAME).orderBy(_STATUS, *order).select(_STATUS, *_sides(pairs))
    comparison = {
        "rows": {kind: counts[kind][_ROWS] if kind in counts else 0 for kind in _KINDS},
        "repeated_keys": groups.where(F.col(_ROWS) > 1).count(),
        "changed": {
            pair.name: changed[f"d{pair.place}"] for pair in values if changed is not None and changed[f"d{pair.place}"]
        },
        "samples": _samples(compared, keys, pairs, counts.keys(), samples),
    }
    return comparison, differing


def _sides(pairs: Sequence[_Pair]) -> list[str]:
    return [f"{side}{pair.place}" for side in "on" for pair in pairs]


def _differ(pair: _Pair) -> Column:
    return ~pair.same()


def _samples(
    compared: DataFrame, keys: Sequence[_Pair], pairs: Sequence[_Pair], kinds: Collection[str], most: int
) -> dict[str, Any]:
    """Return up to ``most`` rows of each kind with the least keys, with their values before and after."""
    samples: dict[str, list] = {ADDED: [], CHANGED: [], GONE: []}
    if set(kinds) - {SAME}:
        order = [F.coalesce(pair.new, pair.old) for pair in keys]
        place = F.row_number().over(Window.partitionBy(_STATUS).orderBy(*order)).alias(_PLACE)
        numbered = compared.where(F.col(_STATUS) != SAME).select("*", place).where(F.col(_PLACE) <= most)
        for row in as_values(numbered.orderBy(_STATUS, _PLACE).select(_STATUS, *_sides(pairs))).collect():
            kind, values = row[0], [json_value(value) for value in row[1:]]
            before, after = values[: len(pairs)], values[len(pairs) :]
            samples[kind].append({ADDED: after, GONE: before, CHANGED: {"before": before, "after": after}}[kind])
    return {"columns": [pair.name for pair in pairs], **samples}


def _by_rows(
    before: DataFrame, after: DataFrame, pairs: Sequence[_Pair], most: int
) -> tuple[dict[str, Any], DataFrame]:
    """Compare whole rows by their number; return the difference and all rows that differ."""
    columns = [f"n{pair.place}" for pair in pairs]
    counts = _counts(before, after, pairs)
    apart = F.col("n") - F.col("o")
    (totals,) = counts.agg(
        F.sum(F.greatest(apart, F.lit(0))).alias(ADDED),
        F.sum(F.greatest(-apart, F.lit(0))).alias(GONE),
        F.sum(F.least("o", "n")).alias(SAME),
    ).collect()
    samples: dict[str, list] = {ADDED: [], CHANGED: [], GONE: []}
    for kind, condition in ((ADDED, apart > 0), (GONE, apart < 0)):
        if totals[kind]:
            rows = as_values(counts.where(condition).orderBy(*columns).limit(most).select(*columns)).collect()
            samples[kind] = [[json_value(value) for value in row] for row in rows]
    comparison = {
        "rows": {kind: 0 if kind == CHANGED else totals[kind] or 0 for kind in _KINDS},
        "repeated_keys": 0,
        "changed": {},
        "samples": {"columns": [pair.name for pair in pairs], **samples},
    }
    return comparison, _each_row(counts, apart, pairs)


def _counts(before: DataFrame, after: DataFrame, pairs: Sequence[_Pair]) -> DataFrame:
    """Return each row once, as the side that has more of it writes it, with its number of rows on both sides."""
    old = before.select(F.lit(1).alias("o"), F.lit(0).alias("n"), *(pair.select_old() for pair in pairs))
    new = after.select(F.lit(0).alias("o"), F.lit(1).alias("n"), *(pair.select_new() for pair in pairs))
    by_value = [pair for pair in pairs if pair.type_name]
    rows = new.union(old).select("*", *(pair.compared(pair.new).alias(f"c{pair.place}") for pair in by_value))
    texts = [
        F.min(F.when(F.col(side) > 0, pair.new)).alias(f"{side}_{pair.place}") for pair in by_value for side in "on"
    ]
    groups = [f"{'c' if pair.type_name else 'n'}{pair.place}" for pair in pairs]
    counts = rows.groupBy(*groups).agg(F.sum("o").alias("o"), F.sum("n").alias("n"), *texts)

    def written(pair: _Pair) -> Column:
        old, new = (F.col(f"{side}_{pair.place}") for side in "on")
        return F.when(F.col("n") > F.col("o"), new).otherwise(F.coalesce(old, new)).alias(f"n{pair.place}")

    return counts.select("o", "n", *(written(pair) if pair.type_name else f"n{pair.place}" for pair in pairs))


def _each_row(counts: DataFrame, apart: Column, pairs: Sequence[_Pair]) -> DataFrame:
    """Return the rows that one side has more often, as often as it has more of them."""
    status = F.when(apart > 0, ADDED).otherwise(GONE).alias(_STATUS)
    sides = [
        F.when(apart > 0 if side == "n" else apart < 0, pair.new).alias(f"{side}{pair.place}")
        for side in "on"
        for pair in pairs
    ]
    times = F.explode(F.array_repeat(F.lit(1), F.abs(apart).cast("integer"))).alias(_ROWS)
    rows = counts.where(apart != 0).select(status, *sides, times)
    return rows.orderBy(_STATUS, *_sides(pairs)).select(_STATUS, *_sides(pairs))
