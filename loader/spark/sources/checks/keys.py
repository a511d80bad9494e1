"""Check of a delivery's business keys: one row per key, of which identical repetitions are left out.

Rows of one key that differ refuse the delivery, unless the source's options order them. Rows compare by typed values.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from elevata.core.words import counted
from loader.domain.manifest.sources import SourceSpec
from loader.domain.refusals import Refusal
from loader.spark.historization.difference import ONE_TASK_UP_TO_ROWS
from loader.spark.sources.checks.places import SAMPLES
from loader.spark.sources.checks.row_faults import converted
from loader.spark.sources.opened import Opened
from metadata.domain.sources.option_kinds import LATEST

CONFLICTING_ROWS = "CONFLICTING_ROWS"
_PLACE_IN_ORDER = "__place_in_order"


@dataclass(frozen=True)
class KeyedRows:
    """Rows of a delivery with one row per key, and the numbers of rows left out.

    ``duplicates`` were identical to the row that stays, ``superseded`` come before or after it by the source's order.
    ``conflicting`` are the rows of keys whose rows differ, which are missing in ``frame``, and ``conflict`` the refusal
    that names them; None if there are none.
    """

    frame: DataFrame
    duplicates: int = 0
    superseded: int = 0
    conflicting: DataFrame | None = None
    conflict: Refusal | None = None


def check_keys(opened: Opened, frame: DataFrame, source: SourceSpec, rows: int) -> KeyedRows:
    """Return the rows without repeated keys.

    Without a key in the contract, and in a feed, where a key has many rows, all rows stay. A database guarantees its
    primary key.
    """
    if not source.one_row_per_key or opened.key_is_unique:
        return KeyedRows(frame)
    keys = {
        f"k{place}": converted(opened, column, source.options)
        for place, column in enumerate(column for column in source.columns if column.business_key)
    }
    if not keys or rows < 2 or _hashes_differ(frame, list(keys.values()), rows):
        return KeyedRows(frame)
    chosen, superseded = frame, 0
    if opened.options.deduplicate is not None:
        chosen = _first_in_order(opened, frame, source, list(keys.values()))
        superseded = rows - chosen.count()
    return _one_row_per_key(opened, chosen, source, keys, rows - superseded, superseded)


def _first_in_order(opened: Opened, frame: DataFrame, source: SourceSpec, keys: list[Column]) -> DataFrame:
    """Return the rows of each key that come last, or first, by the source's order; several if they are equal in it.

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
    place = F.rank().over(Window.partitionBy(*keys).orderBy(*ordered))
    return frame.withColumn(_PLACE_IN_ORDER, place).where(F.col(_PLACE_IN_ORDER) == 1).drop(_PLACE_IN_ORDER)


def _one_row_per_key(
    opened: Opened, frame: DataFrame, source: SourceSpec, keys: dict[str, Column], rows: int, superseded: int
) -> KeyedRows:
    """Return the frame without repeated identical rows, and without the rows of keys whose rows differ."""
    grouping = [key.alias(name) for name, key in keys.items()]
    # A hash leaves NULL out, so each value is followed by its position: ("a", NULL) is not (NULL, "a").
    parts = []
    for place, column in enumerate(source.columns):
        parts += [converted(opened, column, source.options), F.lit(place)]
    per_key = frame.groupBy(*grouping).agg(
        F.count(F.lit(1)).alias("n"), F.min(F.xxhash64(*parts)).alias("low"), F.max(F.xxhash64(*parts)).alias("high")
    )
    differs = F.col("low") != F.col("high")
    different = per_key.where(differs)
    of_all, conflicts, of_conflicts = per_key.agg(
        F.count(F.lit(1)), F.count_if(differs), F.coalesce(F.sum(F.when(differs, F.col("n"))), F.lit(0))
    ).first()
    duplicates = (rows - of_conflicts) - (of_all - conflicts)
    if not duplicates and not conflicts:
        return KeyedRows(frame, superseded=superseded)
    named, conflicting, conflict = frame.withColumns(keys), None, None
    if conflicts:
        refused = different.select(*keys)
        conflicting = named.join(refused, list(keys), "left_semi").drop(*keys)
        named = named.join(refused, list(keys), "left_anti")
        conflict = _conflicting_rows(opened, source, different, list(keys), conflicts)
    distinct = named.dropDuplicates(list(keys)).drop(*keys)
    return KeyedRows(distinct, duplicates, superseded, conflicting, conflict)


def _hashes_differ(frame: DataFrame, keys: list[Column], rows: int) -> bool:
    """Return True if every row's key has a different hash, so that no key is repeated.

    Equal hashes prove nothing: the keys may still differ.
    """
    hashes = frame.select(F.xxhash64(*keys).alias("hash"))
    if rows <= ONE_TASK_UP_TO_ROWS:
        hashes = hashes.coalesce(1)
    else:
        hashes = hashes.repartition(frame.sparkSession.sparkContext.defaultParallelism, "hash")
    return hashes.distinct().count() == rows


def _conflicting_rows(opened: Opened, source: SourceSpec, different: DataFrame, keys: list[str], count: int) -> Refusal:
    names = [column.name for column in source.columns if column.business_key]
    rows = different.orderBy(*keys).limit(SAMPLES).select("n", *(F.col(key).cast("string") for key in keys)).collect()
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
