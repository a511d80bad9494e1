"""Writes of a rawcore table to PostgreSQL: by copy runs of the product, and by Spark's JDBC writer."""

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from pyspark.sql import SparkSession

from architecture.domain.tables import rawcore_table
from bench.intake.loads import Item
from loader.contract.manifest.copies import CopyManifest, CopyTarget
from loader.contract.manifest.sources import DatabaseSpec
from loader.contract.run_states import COPY
from loader.dialects.copied_columns import copied_columns, shape_of
from loader.domain.copies import content_query, qualified
from loader.domain.engines import engine_of
from loader.engine.maintenance.maintenance_runs import perform_run
from loader.engine.tables.tables import DeltaTable
from metadata.domain.copies import JDBC, LEAVE_OUT
from metadata.domain.sources.database_locations import DatabasePlace


@dataclass
class Copy:
    """Copy of an item's rawcore table in a database; ``key`` is the copy's stable key."""

    spark: SparkSession
    warehouse: str
    place: DatabasePlace
    item: Item
    key: str
    table: str
    mode: str
    former: dict[str, str] = field(default_factory=dict)

    def make(self) -> dict[str, Any]:
        """Perform a copy run and return its result. Raise RuntimeError with the error of a run that fails."""
        target = replace(self._target(), **self.former)
        state = self.item.dataset.state
        manifest = CopyManifest(f"copy {self.table}", state.key, state.qualified_name, (target,))
        ended = perform_run(
            self.spark, self.warehouse, COPY, manifest, lambda event, **facts: None, threading.Event(), "copies"
        )
        result: dict[str, Any] = ended["answer"]["copies"][self.key]
        if result["error"] is not None:
            raise RuntimeError(result["error"]["message"])
        self.former = {"former_table": target.table, "former_shape": target.shape}
        return result

    def _target(self) -> CopyTarget:
        state = self.item.dataset.state
        columns = copied_columns(rawcore_table(state), JDBC, sensitive=(), treatment=LEAVE_OUT)
        return CopyTarget(
            self.key,
            "bench",
            JDBC,
            self.table,
            self.mode,
            columns,
            shape_of(columns),
            owners=(state.qualified_name,),
            environment="bench",
            database=DatabaseSpec(self.place),
        )


def write_plainly(
    spark: SparkSession, warehouse: str, place: DatabasePlace, item: Item, table: str, **options: str
) -> None:
    """Write the rows of the rawcore table by Spark's JDBC writer, over a former table."""
    engine = engine_of(place)
    properties = {"driver": engine.driver, "user": place.user, **options}
    frame = DeltaTable(spark, warehouse, item.dataset.state.key).frame()
    frame.write.mode("overwrite").jdbc(engine.url(place), table, properties=properties)


def content_of(server: psycopg.Connection, table: str) -> tuple[int, str]:
    """Return number and checksum of a table's rows."""
    server.execute("SET TIME ZONE 'UTC'")
    count, checksum = server.execute(content_query(qualified(table))).fetchone() or (0, 0)
    return count, str(checksum)
