"""Shared context of a maintenance run: Spark session, progress callback, commit metadata."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from loader.engine.session import USER_METADATA, dataset_session
from loader.engine.tables.run_commits import RunCommit, run_metadata
from loader.engine.tables.tables import DeltaTable


@dataclass
class MaintenanceContext:
    """Context of one maintenance run.

    ``tables`` collects the Delta versions of its tables by name, ``copies`` the results of copies by key.
    """

    session: SparkSession
    warehouse: str
    run_id: str
    phase: Callable[[str], None]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    copies: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, warehouse: str, run_id: str, phase: Callable[[str], None]) -> "MaintenanceContext":
        return cls(dataset_session(spark, user_metadata=""), warehouse, run_id, phase)

    def set_metadata(self, metadata: str) -> None:
        """Set the commit metadata of the following commits."""
        self.session.conf.set(USER_METADATA, metadata)

    def before(self, name: str, table: DeltaTable, **more: Any) -> None:
        self.tables[name] = {"version_before": table.version(), **more}

    def after(self, name: str, table: DeltaTable, **more: Any) -> None:
        self.tables[name] |= {"version_after": table.version(), **more}


def carried(
    last_run: RunCommit | None,
    *,
    run_id: str,
    what: str,
    counts: dict[str, int] | None = None,
    notes: dict[str, str] | None = None,
) -> str:
    """Return commit metadata with the time, sequence and notes of the newest run."""
    return run_metadata(
        run_id=run_id,
        at=last_run.at if last_run else "",
        sequence=last_run.sequence if last_run else 0,
        counts=counts or {},
        notes=(last_run.notes if last_run else {}) | (notes or {}),
        what=what,
    )
