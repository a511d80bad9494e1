"""Check of a delivery's business keys: one row per key, of which identical repetitions are left out.

Rows of one key that differ refuse the delivery, unless the source's options order them. Rows compare by typed values.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from elevata.core.words import counted
from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.compared_texts import compared
from loader.engine.pyspark_types import row_of
from loader.engine.row_limits import ONE_TASK_UP_TO_ROWS
from loader.engine.sources.checks.places import SAMPLES
from loader.engine.sources.checks.row_faults import converted
from loader.engine.sources.opened import Opened
from metadata.domain.sources.option_kinds import LATEST
from metadata.domain.types import parse

CONFLICTING_ROWS = "CONFLICTING_ROWS"
_RANK = "__rank"
# Condition of a key with different rows (``_rows_per_key``).
_ROWS_DIFFER = "low <> high"


@dataclass(frozen=True)
class KeyedRows:
    """Rows of a delivery with one row per key, and the rows that were left out.

    ``duplicates``: rows dropped because they equal the kept row. ``superseded``: rows dropped by the options
    deduplicate and order_by. ``conflicting``: all rows of keys with different rows; they are not in ``frame``.
    ``conflict``: the refusal that names these keys. Both are None if there are none.
    """

    frame: DataFrame
    duplicates: int = 0
    superseded: int = 0
    conflicting: DataFrame | None = None
    conflict: Refusal | None = None


@dataclass(frozen=True)
class _KeyCounts:
    """Numbers of keys, of keys with different rows, and of the rows of these."""

    keys: int
    conflicting_keys: int
    conflicting_rows: int


def check_keys(opened: Opened, frame: DataFrame, source: SourceSpec, rows: int) -> KeyedRows:
    """Return one row per business key.

    All rows stay without a key in the contract, in a feed, where a key has many rows, and if the source guarantees the
    key, as a database does its primary key.
    """
    if not source.one_row_per_key or opened.key_is_unique:
        return KeyedRows(frame)
    keys = {
        f"k{index}": _compared(opened, column, source)
        for index, column in enumerate(column for column in source.columns if column.business_key)
    }
    if not keys or rows < 2 or _has_distinct_keys(frame, list(keys.values()), rows):
        return KeyedRows(frame)
    chosen, superseded = frame, 0
    if opened.options.deduplicate is not None:
        chosen = _rows_by_deduplication(opened, frame, source, list(keys.values()))
        superseded = rows - chosen.count()
    return _one_row_per_key(opened, chosen, source, keys, rows - superseded, superseded)


def _rows_by_deduplication(opened: Opened, frame: DataFrame, source: SourceSpec, keys: list[Column]) -> DataFrame:
    """Return the last rows of each key by the option order_by, or the first, as the option deduplicate says.

    Rows of a key that are equal in that order all stay.

    Raise Refusal BAD_OPTION for a column that the contract lacks.
    """
    declared = {column.name: column for column in source.columns}
    missing = [name for name in opened.options.order if name not in declared]
    if missing:
        raise Refusal(
            "BAD_OPTION",
            f"{source.name}: its option order_by names {missing[0]}, which is no column of the contract",
            hint="Name columns of the source.",
        )
    values = [converted(opened, declared[name], source.options) for name in opened.options.order]
    latest = opened.options.deduplicate == LATEST
    ordered = [value.desc_nulls_last() if latest else value.asc_nulls_last() for value in values]
    rank = F.rank().over(Window.partitionBy(*keys).orderBy(*ordered))
    return frame.withColumn(_RANK, rank).where(F.col(_RANK) == 1).drop(_RANK)


def _one_row_per_key(
    opened: Opened, frame: DataFrame, source: SourceSpec, keys: dict[str, Column], rows: int, superseded: int
) -> KeyedRows:
    """Return one of the equal rows of each key, without the keys whose rows differ.

    ``rows`` is the number of rows of ``frame``.
    """
    per_key = _rows_per_key(opened, frame, source, keys)
    counts = _key_counts(per_key)
    duplicates = (rows - counts.conflicting_rows) - (counts.keys - counts.conflicting_keys)
    if not duplicates and not counts.conflicting_keys:
        return KeyedRows(frame, superseded=superseded)
    with_keys, conflicting, conflict = frame.withColumns(keys), None, None
    if counts.conflicting_keys:
        conflicting_keys = per_key.where(_ROWS_DIFFER)
        conflicting = with_keys.join(conflicting_keys, list(keys), "left_semi").drop(*keys)
        with_keys = with_keys.join(conflicting_keys, list(keys), "left_anti")
        conflict = _conflicting_rows(opened, source, conflicting_keys, list(keys), counts.conflicting_keys)
    kept = with_keys.dropDuplicates(list(keys)).drop(*keys)
    return KeyedRows(kept, duplicates, superseded, conflicting, conflict)


def _rows_per_key(opened: Opened, frame: DataFrame, source: SourceSpec, keys: dict[str, Column]) -> DataFrame:
    """Return each key with its number of rows ``n``, and the lowest and highest hash of their values."""
    # A hash leaves NULL out, so each value is followed by its position: ("a", NULL) is not (NULL, "a").
    parts = []
    for position, column in enumerate(source.columns):
        parts += [_compared(opened, column, source), F.lit(position)]
    row_hash = F.xxhash64(*parts)
    return frame.groupBy(*(key.alias(name) for name, key in keys.items())).agg(
        F.count(F.lit(1)).alias("n"), F.min(row_hash).alias("low"), F.max(row_hash).alias("high")
    )


def _compared(opened: Opened, column: DeliveredColumn, source: SourceSpec) -> Column:
    """Return a column's values as they are compared."""
    return compared(converted(opened, column, source.options), parse(column.type).name)


def _key_counts(per_key: DataFrame) -> _KeyCounts:
    differ = F.expr(_ROWS_DIFFER)
    conflicting_rows = F.coalesce(F.sum(F.when(differ, F.col("n"))), F.lit(0))
    return _KeyCounts(*row_of(per_key.agg(F.count(F.lit(1)), F.count_if(differ), conflicting_rows).first()))


def _has_distinct_keys(frame: DataFrame, keys: list[Column], rows: int) -> bool:
    """Return True if the key hashes of all rows are distinct, which proves that no key repeats.

    False proves nothing: different keys may share a hash.
    """
    hashes = frame.select(F.xxhash64(*keys).alias("hash"))
    if rows <= ONE_TASK_UP_TO_ROWS:
        hashes = hashes.coalesce(1)
    else:
        hashes = hashes.repartition(frame.sparkSession.sparkContext.defaultParallelism, "hash")
    return hashes.distinct().count() == rows


def _conflicting_rows(
    opened: Opened, source: SourceSpec, conflicting_keys: DataFrame, keys: list[str], count: int
) -> Refusal:
    """Return the refusal for keys with different rows."""
    names = [column.name for column in source.columns if column.business_key]
    rows = (
        conflicting_keys.orderBy(*keys)
        .limit(SAMPLES)
        .select("n", *(F.col(key).cast("string") for key in keys))
        .collect()
    )
    samples = tuple(
        ", ".join(f"{name}={value}" for name, value in zip(names, row[1:], strict=True)) + f" ({row['n']} rows)"
        for row in rows
    )
    return Refusal(
        CONFLICTING_ROWS,
        f"{opened.shown}: {counted(count, 'key has', 'keys have')} rows that differ",
        file=opened.first_shown,
        column=names[0],
        count=count,
        samples=samples,
        hint="A delivery holds one row per business key; identical rows count as one. The source's options deduplicate "
        "and order_by say which of several rows is kept.",
    )
