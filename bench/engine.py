"""Interface of every engine of a benchmark.

An engine keeps all it writes below its own folder. A history is saved under a label when it has the
wanted depth, and put back before every load that is counted.
"""

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.data import digest_of
from bench.folders import link_copy, size_of
from bench.meter import measure, peak_bytes


class Engine:
    """Subclasses give ``load`` and ``history``; ``prepare`` if something comes before, untimed."""

    name = ""
    # What is known to be wrong with its history, for the report; only said where the history is wrong.
    shortcoming = ""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.tables = folder / "tables"
        self.saved = folder / "saved"
        self.tables.mkdir(parents=True, exist_ok=True)

    def prepare(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        """Do the work of an orchestrator before the history step."""

    def load(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        """One history step, the timed part. ``before`` is the snapshot of the load before, None for the first."""
        raise NotImplementedError

    def keep_house(self) -> None:
        """Do the engine's own maintenance between two loads; not timed."""

    def history(self) -> DataFrame:
        """The history as it stands, with the columns of ``bench.data.COMPARED``."""
        raise NotImplementedError

    # --- what a worker is asked to do ---------------------------------------------------------

    def run(self, *, restore: str | None = None, how: str = "load", **load) -> dict:
        """Put the history back if asked, prepare, and measure one load. ``how`` names the method that loads."""
        if restore is not None:
            self.restore(label=restore)
        self.prepare(**load)
        with measure(self.spark) as measured:
            getattr(self, how)(**load)
        return {
            "seconds": measured.seconds,
            "cpu_seconds": measured.cpu_seconds,
            "bytes_read": measured.bytes_read,
        }

    def digest(self) -> dict:
        return digest_of(self.history()) | {"shortcoming": self.shortcoming}

    def save(self, *, label: str) -> None:
        link_copy(self.tables, self.saved / label)

    def restore(self, *, label: str) -> None:
        """Put the saved tables back; what the JVM remembers of their logs no longer holds."""
        link_copy(self.saved / label, self.tables)
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.spark.catalog.clearCache()

    def size(self) -> dict:
        """Files and bytes of the tables' folder, and the peak memory of this process and its JVM."""
        files, size = size_of(self.tables)
        return {"files": files, "bytes": size, "peak_bytes": peak_bytes(os.getpid())}
