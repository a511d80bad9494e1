"""Shared context of a maintenance run: Spark session, progress callback, commit metadata."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from loader.spark.runtime.session import USER_METADATA, dataset_session
from loader.spark.tables.commits import TableFiles
from loader.spark.tables.tables import DeltaTable, RunCommit, run_signature


@dataclass
class House:
    """Context of one maintenance run; ``tables`` collects the Delta versions of its tables by name."""

    session: SparkSession
    warehouse: str
    run_id: str
    phase: Callable[[str], None]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, warehouse: str, run_id: str, phase: Callable[[str], None]) -> "House":
        return cls(dataset_session(spark, user_metadata=""), warehouse, run_id, phase)

    def sign(self, signature: str) -> None:
        """Set the commit metadata of the following commits."""
        self.session.conf.set(USER_METADATA, signature)

    def before(self, name: str, table: DeltaTable, **more: Any) -> None:
        self.tables[name] = {"version_before": table.version(), **more}

    def after(self, name: str, table: DeltaTable, **more: Any) -> None:
        self.tables[name] |= {"version_after": table.version(), **more}


def carried(
    signed: RunCommit | None,
    *,
    run_id: str,
    what: str,
    counts: dict[str, int] | None = None,
    notes: dict[str, str] | None = None,
) -> str:
    """Return commit metadata that repeat the newest run's time, number and notes."""
    return run_signature(
        run_id=run_id,
        at=signed.at if signed else "",
        sequence=signed.sequence if signed else 0,
        counts=counts or {},
        notes=(signed.notes if signed else {}) | (notes or {}),
        what=what,
    )


def file_count(table: DeltaTable) -> int:
    """Return the number of files of a table."""
    checksum = table.snapshot().checksumOpt()
    return checksum.get().numFiles() if checksum.isDefined() else len(TableFiles(table.spark, table).all)
