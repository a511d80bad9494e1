"""Base class of all engines of a benchmark.

An engine writes only below its own folder. A history of the required depth is saved under a label, and
restored before every counted load.
"""

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.history.data import DELIVERED, KEY, digest_of
from bench.history.folders import link_copy, size_of
from bench.processes.meter import metered, peak_bytes


class Engine:
    """Engine base class: subclasses implement ``load``, and ``prepare`` for untimed work."""

    # Columns of its table ``history`` with the ends of a version's interval.
    interval = ("valid_from", "valid_to")
    # Known defects of its history, for the report; only mentioned if the history is wrong.
    shortcoming = ""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.tables = folder / "tables"
        self.saved = folder / "saved"
        self.tables.mkdir(parents=True, exist_ok=True)

    def prepare(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        """Do an orchestrator's work before the history step, untimed."""

    def load(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        """Run one history step (timed). ``before`` is the previous load's snapshot, None for the first."""
        raise NotImplementedError

    def keep_house(self) -> None:
        """Run the engine's own maintenance between two loads, untimed."""

    def history(self) -> DataFrame:
        """Return the current history with the columns of ``bench.history.data.COMPARED``."""
        return self.versions("history")

    def versions(self, name: str) -> DataFrame:
        """Return the versions in a Delta table of the engine."""
        started, ended = self.interval
        table = self.spark.read.format("delta").load(str(self.tables / name))
        return table.selectExpr(KEY, f"{started} AS valid_from", f"{ended} AS valid_to", *DELIVERED)

    # --- requests to a worker -----------------------------------------------------------------

    def run(self, *, restore: str | None = None, how: str = "load", **load) -> dict:
        """Restore the history if requested, prepare, and measure one load with the method ``how``."""
        if restore is not None:
            self.restore(label=restore)
        self.prepare(**load)
        with metered(self.spark) as measured:
            getattr(self, how)(**load)
        return {"seconds": measured.seconds, "cpu_seconds": measured.cpu_seconds}

    def digest(self) -> dict:
        return digest_of(self.history()) | {"shortcoming": self.shortcoming}

    def save(self, *, label: str) -> None:
        link_copy(self.tables, self.saved / label)

    def restore(self, *, label: str) -> None:
        """Restore the saved tables and clear the JVM's caches of their logs."""
        link_copy(self.saved / label, self.tables)
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.spark.catalog.clearCache()

    def size(self) -> dict:
        """Return files and bytes of the tables' folder, and the peak memory of this process and its JVM."""
        files, size = size_of(self.tables)
        return {"files": files, "bytes": size, "peak_bytes": peak_bytes(os.getpid())}
