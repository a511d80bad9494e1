"""Difference between stage and the stored rows: one join by entity key, compared by row hash.

The result has one of two forms, for two ways of writing (``loader.engine.historization.history``):

* *whole*, for small tables: every row with its change and its stored row. The write needs only this frame: no
  table is read a second time.
* *changes only*, for large tables: the rows that differ, and the places of their stored rows. Only key, hash and
  place of stored rows are joined; ``recalled`` then reads the other columns of the few changed rows.

The rows are checkpointed, not cached: Spark recomputes a cached frame when a table that it reads is written, and
after the history commit no row would differ any more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.domain.historization import history as rules
from loader.engine.compared_texts import compared, types_by_name
from loader.engine.expressions import any_of
from loader.engine.row_limits import BROADCAST_UP_TO_ROWS, REWRITE_UP_TO_ROWS
from loader.engine.session import forget
from loader.engine.tables.table_files import PLACE
from metadata.domain.sql import quote_identifier

CHANGE = "__change"
OLD = "__old"
KNOWN_HASH, IS_TOMBSTONE = "__known_hash", "__is_tombstone"
_IS_DELETED = "__is_deleted"

# Changes besides those of ``loader.domain.historization.history``: an untracked column differs; the batch does not have
# the stored row, and absence means nothing.
UPDATED, UNTOUCHED = "updated", "untouched"
# Changes that open a version, and changes of a stored one.
OPENING = (rules.NEW, rules.REAPPEARED, rules.CHANGED)
ALTERED = (rules.CHANGED, rules.DELETED, rules.REAPPEARED, UPDATED)
_CHANGES = (rules.NEW, rules.REAPPEARED, rules.CHANGED, rules.DELETED, rules.UNCHANGED, UPDATED, UNTOUCHED)


@dataclass(frozen=True)
class Comparison:
    """Settings of a comparison of stage with the stored rows.

    ``whole``: see the module docstring. ``one_task``: both sides are small. ``absent_is_deleted``: a stored key that is
    missing in stage is deleted. ``untracked``: columns that are updated in place. ``refreshed``: the stored
    hashes were recomputed, so every stored row is written.
    """

    whole: bool
    one_task: bool = False
    absent_is_deleted: bool = True
    untracked: tuple[str, ...] = ()
    refreshed: bool = False


@dataclass
class Difference:
    """Result of a comparison: counts per change, and the rows, which are checkpointed until ``release``.

    ``frame`` has stage's columns (NULL except the entity key for a deleted key), ``__change``, ``__known_hash`` and
    the struct ``__old``: the stored row if ``whole``, otherwise its place. ``key`` is the name of the entity key.
    """

    frame: DataFrame
    comparison: Comparison
    key: str
    counts: dict[str, int]

    def __getitem__(self, change: str) -> int:
        return self.counts.get(change, 0)

    @property
    def whole(self) -> bool:
        return self.comparison.whole

    @property
    def opens(self) -> int:
        return sum(self[change] for change in OPENING)

    @property
    def touches(self) -> bool:
        """Return True if a stored version changes."""
        return any(self[change] for change in ALTERED) or self.comparison.refreshed

    def in_few_files(self, rows: DataFrame) -> DataFrame:
        """Return the rows coalesced to one file if the whole difference is small."""
        return rows.coalesce(1) if sum(self.counts.values()) <= REWRITE_UP_TO_ROWS else rows

    def where(self, *changes: str) -> DataFrame:
        return self.frame.where(F.col(CHANGE).isin(*changes))

    def recalled(
        self,
        known: DataFrame,
        *changes: str,
        given: Mapping[str, Callable[[str], Column]] = MappingProxyType({}),
        needed: Sequence[str] = (),
    ) -> DataFrame:
        """Return the rows with these changes and the whole stored row in ``__old``; read ``known`` if needed.

        ``given`` are functions that compute columns of ``known`` from the result's entity key and known hash and
        from other stored columns, so that they need not be read; each gets the name of the struct with the stored
        columns. ``needed`` are stage columns to return besides the entity key, the change and the known hash.
        """
        rows = self.where(*changes)
        if self.whole:
            return rows
        names = (self.key, CHANGE, KNOWN_HASH, *needed)
        wanted = rows.select(
            F.col(f"{OLD}.{PLACE}").alias("__there"),
            *(quote_identifier(name) for name in names),
        )
        if sum(self[change] for change in changes) <= BROADCAST_UP_TO_ROWS:
            wanted = F.broadcast(wanted)  # Spark does not know the number of rows
        own = [name for name in known.columns if name != PLACE]
        read = F.struct(*(F.col(quote_identifier(name)) for name in own if name not in given))
        stored = known.select(PLACE, read.alias("__held"))
        joined = stored.join(wanted, F.col(PLACE) == F.col("__there"), "inner")
        old = F.struct(
            *(
                (given[name]("__held") if name in given else F.col(f"__held.{quote_identifier(name)}")).alias(name)
                for name in own
            )
        )
        return joined.select(*(quote_identifier(name) for name in names), old.alias(OLD))

    def release(self) -> None:
        forget(self.frame)


def compare(
    stage: DataFrame,
    known: DataFrame | None,
    table: TableSpec,
    comparison: Comparison,
    deleted: DataFrame | None = None,
) -> Difference:
    """Compare stage with the stored rows of ``table``, which may have ``__known_hash`` and ``__is_tombstone``.

    ``deleted`` has the entity keys that the batch deletes explicitly, none of them in stage. Those without a stored
    row have no effect.
    """
    if comparison.one_task:
        stage, known = stage.coalesce(1), known.coalesce(1) if known is not None else None
    if known is None:
        rows = _all_new(stage)
    else:
        if deleted is not None:
            gone = deleted.withColumn(_IS_DELETED, F.lit(True))
            stage = stage.withColumn(_IS_DELETED, F.lit(False)).unionByName(gone, allowMissingColumns=True)
            stage = stage.coalesce(1) if comparison.one_task else stage
        rows = _join(stage, known, table, comparison)
    counted = Observation()
    rows = rows.observe(counted, *(F.count_if(F.col(CHANGE) == change).alias(change) for change in _CHANGES))
    if not comparison.whole:
        rows = rows.where(~F.col(CHANGE).isin(rules.UNCHANGED, UNTOUCHED))
        if known is not None:
            rows = _hashes_as_text(rows, *_hashes(table), KNOWN_HASH)  # after the filter, for fewer rows
    # A block that grows in an executor's memory until it is moved to disk can take all of a small heap.
    level = StorageLevel.MEMORY_AND_DISK if comparison.one_task else StorageLevel.DISK_ONLY
    rows = rows.localCheckpoint(eager=True, storageLevel=level)
    key = table.column("entity_key").name
    return Difference(rows, comparison, key, {change: count or 0 for change, count in counted.get.items()})


def _hashes(table: TableSpec) -> tuple[str, str]:
    return table.column("entity_key").name, table.column("row_hash").name


def _hashes_as_bytes(frame: DataFrame, *hashes: str) -> DataFrame:
    """Convert hashes from hexadecimal text to bytes, which halves most of the shuffled data."""
    return frame.withColumns({name: F.unhex(F.col(quote_identifier(name))) for name in hashes})


def _hashes_as_text(frame: DataFrame, *hashes: str) -> DataFrame:
    """Convert hashes from bytes back to lower-case hexadecimal text."""
    return frame.withColumns({name: F.lower(F.hex(F.col(quote_identifier(name)))) for name in hashes})


def _all_new(stage: DataFrame) -> DataFrame:
    no_hash = F.lit(None).cast("string").alias(KNOWN_HASH)
    no_row = F.lit(None).cast(f"STRUCT<{PLACE}: BIGINT>").alias(OLD)
    return stage.select("*", F.lit(rules.NEW).alias(CHANGE), no_hash, no_row)


def _join(stage: DataFrame, known: DataFrame, table: TableSpec, comparison: Comparison) -> DataFrame:
    key = quote_identifier(table.column("entity_key").name)
    if not (comparison.absent_is_deleted or comparison.whole):
        # A delta needs only the stored rows of its keys.
        keys = stage.select(F.col(key).alias("__wanted"))
        known = known.join(keys, F.col(key) == F.col("__wanted"), "left_semi")
    narrow = _stored_side(known, table, comparison)
    columns = [name for name in stage.columns if name != _IS_DELETED]
    if not comparison.whole:
        stage, narrow = _hashes_as_bytes(stage, *_hashes(table)), _hashes_as_bytes(narrow, "__key", "__hash")
    if not comparison.one_task:
        narrow = narrow.hint("shuffle_hash")
    joined = stage.alias("s").join(
        narrow,
        F.col(f"s.{key}") == F.col("__key"),
        "full_outer" if comparison.absent_is_deleted or comparison.whole else "left",
    )
    first_texts = _keys_by_value(table)

    def stage_column(name: str) -> Column:
        quoted = quote_identifier(name)
        if quoted == key:
            return F.coalesce(F.col(f"s.{key}"), F.col("__key")).alias(name)
        if name in first_texts:  # the first text of a key stays
            return F.coalesce(F.col(f"{OLD}.{quoted}"), F.col(f"s.{quoted}")).alias(name)
        return F.col(f"s.{quoted}")

    stage_columns = [stage_column(name) for name in columns]
    has_deleted = _IS_DELETED in stage.columns
    if has_deleted:
        joined = joined.where(~(F.coalesce(F.col(f"s.{_IS_DELETED}"), F.lit(False)) & F.col("__key").isNull()))
    change = _change(table, comparison, has_deleted).alias(CHANGE)
    return joined.select(*stage_columns, change, F.col("__hash").alias(KNOWN_HASH), F.col(OLD))


def _stored_side(known: DataFrame, table: TableSpec, comparison: Comparison) -> DataFrame:
    row_hash = KNOWN_HASH if KNOWN_HASH in known.columns else table.column("row_hash").name
    if comparison.whole:
        old = [name for name in known.columns if name not in (KNOWN_HASH, IS_TOMBSTONE)]
    else:
        old = list(dict.fromkeys([PLACE, *comparison.untracked, *_keys_by_value(table)]))
    return known.select(
        F.col(quote_identifier(table.column("entity_key").name)).alias("__key"),
        F.col(quote_identifier(row_hash)).alias("__hash"),
        (F.col(IS_TOMBSTONE) if IS_TOMBSTONE in known.columns else F.lit(False)).alias("__tombstone"),
        F.struct(*(F.col(quote_identifier(name)) for name in old)).alias(OLD),
    )


def _keys_by_value(table: TableSpec) -> list[str]:
    """Return the names of business-key columns whose values may be written in several ways."""
    types = types_by_name(table)
    return [column.name for column in table.of_purpose("business_key") if column.name in types]


def _change(table: TableSpec, comparison: Comparison, has_deleted: bool) -> Column:
    key = quote_identifier(table.column("entity_key").name)
    row_hash = quote_identifier(table.column("row_hash").name)
    absent = F.lit(rules.DELETED if comparison.absent_is_deleted else UNTOUCHED)
    change = F.when(F.col("__key").isNull(), rules.NEW).when(
        F.col(f"s.{key}").isNull(), F.when(F.col("__tombstone"), UNTOUCHED).otherwise(absent)
    )
    if has_deleted:
        of_deleted = F.when(F.col("__tombstone"), UNTOUCHED).otherwise(rules.DELETED)
        change = change.when(F.col(f"s.{_IS_DELETED}"), of_deleted)
    change = change.when(F.col("__tombstone"), rules.REAPPEARED)
    change = change.when(F.col(f"s.{row_hash}") != F.col("__hash"), rules.CHANGED)
    if comparison.untracked:
        quoted = [quote_identifier(name) for name in comparison.untracked]
        types = types_by_name(table)
        pairs = zip(comparison.untracked, quoted, strict=True)
        differs = any_of(
            ~compared(F.col(f"s.{quoted_name}"), types.get(name, "")).eqNullSafe(
                compared(F.col(f"{OLD}.{quoted_name}"), types.get(name, ""))
            )
            for name, quoted_name in pairs
        )
        change = change.when(differs, UPDATED)
    return change.otherwise(rules.UNCHANGED)
