"""Source snapshots for all engines, and the expected history.

They are made in a separate process that ends before anything is timed.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.engines.ours import hashed
from bench.history.data import BUSINESS_KEY, COMPARED, DELIVERED, EXPRESSIONS, KEY, ROW_HASH, digest_of
from bench.history.plan import Plan, Step, coprime, load_time

FILES = 4


class Snapshots:
    """Writer of Parquet snapshots in its folder: ``<variant>/load-<n>``, also in the form of the source."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def make(self, *, plan: dict, variant: str, load: int, changed_only: bool = False) -> dict:
        """Write one load's snapshot with key and row hash (``keyed``) and in the source's form (``source``)."""
        rows = self._rows(_plan(plan), load)
        if changed_only:
            rows = rows.where(f"since = {load}")
        keyed = hashed(rows.selectExpr(*(f"{EXPRESSIONS[name]} AS {name}" for name in DELIVERED)))
        paths = {kind: self.folder / variant / f"load-{load}" / kind for kind in ("keyed", "source")}
        keyed.select(KEY, *DELIVERED, ROW_HASH).write.parquet(str(paths["keyed"]))
        self.spark.read.parquet(str(paths["keyed"])).select(*DELIVERED).write.parquet(str(paths["source"]))
        return {kind: str(path) for kind, path in paths.items()}

    def expect(self, *, plan: dict, snapshots: list[str]) -> dict:
        """Return the digest of the correct history after loading these keyed snapshots in order."""
        return digest_of(self.expected(_plan(plan), snapshots))

    def expected(self, plan: Plan, snapshots: list[str]) -> DataFrame:
        """Return the expected history: a version lasts until the row's next change or its deletion."""
        versions = None
        for load, path in enumerate(snapshots):
            started = self.spark.read.parquet(path).where(f"{load} = 0 OR modified_at = TIMESTAMP '{load_time(load)}'")
            started = started.selectExpr(KEY, *DELIVERED, f"TIMESTAMP '{load_time(load)}' AS valid_from")
            versions = started if versions is None else versions.unionByName(started)
        gone = " ".join(
            f"WHEN cast(substr({BUSINESS_KEY}, 2) AS bigint) < {plan.gone(load)} THEN TIMESTAMP '{load_time(load)}'"
            for load in range(1, len(snapshots))
        )
        deleted = f"CASE {gone} END" if gone else "CAST(NULL AS timestamp)"
        following = f"lead(valid_from) OVER (PARTITION BY {KEY} ORDER BY valid_from)"
        return versions.selectExpr("*", f"coalesce({following}, {deleted}) AS valid_to").select(*COMPARED)

    def _rows(self, plan: Plan, load: int) -> DataFrame:
        """Return row numbers in shuffled order, each with the load that set its values."""
        oldest, live = plan.gone(load), plan.live(load)
        numbers = self.spark.range(0, live, numPartitions=FILES).selectExpr(
            f"{oldest} + (id * {coprime(live, plan.seed)}) % {live} AS id"
        )
        return numbers.selectExpr("id", f"{plan.since_sql(load)} AS since")


def _plan(described: dict) -> Plan:
    steps = tuple(Step(**step) for step in described["steps"])
    return Plan(described["rows"], steps, described["seed"])
