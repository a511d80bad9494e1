"""Order of snapshot rows and changes of one key, as the log has them.

A snapshot row (operation ``r`` of Debezium) has the position or time at which it was read. A transaction that was open
then has written its changes before, and commits after: its changes follow the snapshot row in the partition with lower
numbers. They are newer, since the snapshot does not show them. So a snapshot row of the same load goes below the
changes that follow it, and such a change goes above a snapshot row of an earlier load. All other events keep their
numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from metadata.domain.sources.formats import OP, SEQUENCE

READ_ROW = "read"  # condition that a row is one of a snapshot
# Numbers above that of a snapshot row that changes of its transaction may take.
_ROOM = 1 << 10
_TOP, _BASE = "\ue000top", "\ue000base"


@dataclass(frozen=True)
class EarlierRows:
    """Rows of a feed in raw: the frame has its business key, ``_op`` and ``_sequence``, by their delivered names.

    ``newest_read`` is the highest number of a snapshot row among them.
    """

    newest_read: int
    frame: DataFrame


@dataclass(frozen=True)
class Numbers:
    """Highest number of a snapshot row and lowest number of a change in a delivery; None if there is none."""

    newest_read: int | None = None
    oldest_change: int | None = None

    def has_conflict(self, newest_read: int | None) -> bool:
        """Return True if a change has a number that is not above a snapshot row's."""
        return newest_read is not None and self.oldest_change is not None and self.oldest_change <= newest_read


def in_log_order(
    rows: DataFrame, names: tuple[str, ...], keys: Iterable[str], numbers: Numbers, earlier: EarlierRows | None
) -> DataFrame:
    """Return the rows of a topic with their numbers in order of the log; ``d0`` … have the columns ``names``."""
    places = {name: f"d{place}" for place, name in enumerate(names)}
    key_names = [name for name in keys if name in places]
    if SEQUENCE not in places or not key_names:
        return rows
    of_keys = {name: places[name] for name in key_names}
    number = F.col(places[SEQUENCE]).cast("bigint")
    if earlier is not None and numbers.has_conflict(earlier.newest_read):
        rows = _after_earlier(rows, of_keys, number, places[SEQUENCE], earlier)
    if numbers.has_conflict(numbers.newest_read):
        key = [F.col("partition"), *map(F.col, of_keys.values())]
        rows = rows.withColumn(places[SEQUENCE], _before_changes(number, key).cast("string"))
    return rows


def _before_changes(number: Column, key: list[Column]) -> Column:
    """Return the number of each row, that of a snapshot row below those of the changes that follow it."""
    in_order = Window.partitionBy(*key).orderBy("offset")
    following = in_order.rowsBetween(1, Window.unboundedFollowing)
    from_here = in_order.rowsBetween(0, Window.unboundedFollowing)
    lowest = F.min(F.when(~F.col(READ_ROW), number)).over(following)
    reads = F.count_if(F.col(READ_ROW)).over(from_here)
    return F.when(F.col(READ_ROW), F.least(number, lowest - reads)).otherwise(number)


def _after_earlier(
    rows: DataFrame, of_keys: dict[str, str], number: Column, name: str, earlier: EarlierRows
) -> DataFrame:
    """Return the rows, each change above the snapshot row that an earlier load read of its key."""
    stored = F.col(SEQUENCE).try_cast("bigint")
    is_read = (F.col(OP) == "I") & (stored <= earlier.newest_read)
    keys = [F.col(f"`{key}`").cast("string").alias(f"\ue000{place}") for key, place in of_keys.items()]
    tops = (
        earlier.frame.select(*keys, stored.alias(_TOP), F.when(is_read, stored).alias(_BASE))
        .where(F.col(_TOP) <= earlier.newest_read + _ROOM)
        .groupBy(*(f"\ue000{place}" for place in of_keys.values()))
        .agg(F.max(_TOP).alias(_TOP), F.max(_BASE).alias(_BASE))
    )
    same = [F.col(place) == F.col(f"\ue000{place}") for place in of_keys.values()]
    joined = rows.join(tops.where(F.col(_BASE).isNotNull()), same, "left")
    is_lower = F.coalesce(~F.col(READ_ROW) & (number < F.col(_BASE)), F.lit(False))
    of_key = Window.partitionBy(*map(F.col, of_keys.values()), is_lower).orderBy(number)
    raised = F.when(is_lower, F.col(_TOP) + F.dense_rank().over(of_key)).otherwise(number)
    return joined.withColumn(name, raised.cast("string")).select(*rows.columns)
