"""Copies of a rawcore table to PostgreSQL, a DuckDB file and a Delta folder, beside plain writes of the same rows."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import psycopg

from architecture.domain.tables import rawcore_table
from bench.intake.loads import Item, change, filled_server
from bench.problem import BenchProblem
from bench.runner import Bound, Measure, Run, require
from loader.contract.manifest.copies import CopyManifest, CopyTarget
from loader.contract.manifest.sources import DatabaseSpec
from loader.contract.run_states import COPY
from loader.dialects.copied_columns import copied_columns, shape_of
from loader.domain.copies import content_query, qualified
from loader.domain.database_kinds import engine_of
from loader.engine.maintenance.maintenance_runs import perform_run
from loader.engine.tables.tables import DeltaTable
from metadata.domain.copies import CHANGES, DELTA, DUCKDB, JDBC, LEAVE_OUT, REPLACE
from metadata.domain.sources.database_locations import DatabasePlace

PLAIN, LARGE_BATCHES = "plain Spark", "plain Spark, large batches"
PLAIN_DUCKDB, PLAIN_DELTA = "plain Spark and DuckDB", "plain Spark to Delta"
WHOLE, CHANGED, TO_DUCKDB, TO_DELTA = "copy", "copy by changes", "copy to DuckDB", "copy to Delta"
# Options of the second plain write, which the copy has, too.
_BATCHES = {"batchsize": "10000", "reWriteBatchedInserts": "true"}


def take(run: Run) -> dict[str, Any]:
    rows, changed = run.options.rows, run.options.changed
    server, place = filled_server(run, rows)
    item = Item(run.spark, run.warehouse, place, "item")
    item.load()
    database, folder = {"database": DatabaseSpec(place)}, run.folder / "copies"
    copies = {
        WHOLE: Copy(run, item, 1, JDBC, "mart.whole", **database),
        CHANGED: Copy(run, item, 2, JDBC, "mart.by_changes", mode=CHANGES, **database),
        TO_DUCKDB: Copy(run, item, 3, DUCKDB, "mart.item", location=str(folder / "item.duckdb")),
        TO_DELTA: Copy(run, item, 4, DELTA, "mart.item", location=str(folder / "delta")),
    }
    folder.mkdir()
    for copy in copies.values():
        copy.make()
    for _ in run.rounds():
        change(server, rows, changed)
        item.load()
        for side, write in _plain_writes(run, item, place).items():
            run.timed(side, write)
        results = {side: run.timed(side, copy.make) for side, copy in copies.items()}
        require({result["row_count"] for result in results.values()}, {rows}, "rows of the copies")
        require(results[CHANGED]["changed"], changed, "changed keys")
        require(_content_of(server, "mart.by_changes"), _content_of(server, "mart.whole"), "rows of both copies")
    return {}


@dataclass
class Copy:
    """Copy of an item's rawcore table in a target, with what its last run stored."""

    run: Run
    item: Item
    number: int
    kind: str
    table: str
    mode: str = REPLACE
    location: str = ""
    database: DatabaseSpec | None = None
    _former: dict[str, str] = field(default_factory=dict)

    def make(self) -> dict[str, Any]:
        """Perform a copy run and return its result. Raise BenchProblem with the error of a run that fails."""
        target, state = self._target(), self.item.dataset.state
        manifest = CopyManifest(f"copy {self.number}", state.key, state.qualified_name, (target,))
        ended = perform_run(
            self.run.spark, self.run.warehouse, COPY, manifest, lambda event, **facts: None, threading.Event(), "copies"
        )
        result: dict[str, Any] = ended["answer"]["copies"][target.key]
        if result["error"] is not None:
            raise BenchProblem(result["error"]["message"])
        self._former = {"former_table": target.table, "former_shape": target.shape}
        return result

    def _target(self) -> CopyTarget:
        state = self.item.dataset.state
        columns = copied_columns(rawcore_table(state), self.kind, sensitive=(), treatment=LEAVE_OUT)
        target = CopyTarget(
            f"00000000-0000-4000-8000-{self.number:012}",
            "bench",
            self.kind,
            self.table,
            self.mode,
            columns,
            shape_of(columns),
            owners=(state.qualified_name,),
            environment="bench",
            database=self.database,
            location=self.location,
        )
        return replace(target, **self._former)


def _plain_writes(run: Run, item: Item, place: DatabasePlace) -> dict[str, Callable[[], None]]:
    """Return, by side, a write of the rawcore table's rows over those of a former one."""
    frame = DeltaTable(run.spark, run.warehouse, item.dataset.state.key).frame()
    engine, parquet = engine_of(place), str(run.folder / "parquet")
    properties = {"driver": engine.driver, "user": place.user}

    def to_duckdb() -> None:
        frame.write.mode("overwrite").parquet(parquet)
        file = run.folder / "plain.duckdb"
        file.unlink(missing_ok=True)
        with duckdb.connect(str(file)) as connection:
            connection.execute(f"CREATE TABLE item AS SELECT * FROM read_parquet('{parquet}/*.parquet')")

    def to_postgres(table: str, **options: str) -> None:
        frame.write.mode("overwrite").jdbc(engine.url(place), table, properties=properties | options)

    return {
        PLAIN: lambda: to_postgres("plain"),
        LARGE_BATCHES: lambda: to_postgres("large_batches", **_BATCHES),
        PLAIN_DUCKDB: to_duckdb,
        PLAIN_DELTA: lambda: frame.write.format("delta").mode("overwrite").save(str(run.folder / "plain")),
    }


def _content_of(server: psycopg.Connection, table: str) -> tuple[int, str]:
    """Return number and checksum of a table's rows."""
    server.execute("SET TIME ZONE 'UTC'")
    count, checksum = server.execute(content_query(qualified(table))).fetchone() or (0, 0)
    return count, str(checksum)


MEASURE = Measure(
    take,
    sizes={"rows": 1_000_000, "changed": 1_000},
    rounds=5,
    bounds=(
        Bound("copy / plain Spark", WHOLE, PLAIN, 1.3),
        Bound("copy / plain Spark, large batches", WHOLE, LARGE_BATCHES, 1.3),
        Bound("copy by changes / plain Spark", CHANGED, PLAIN, 0.05),
        Bound("copy to DuckDB / plain Spark and DuckDB", TO_DUCKDB, PLAIN_DUCKDB, 1.3),
        Bound("copy to Delta / plain Spark to Delta", TO_DELTA, PLAIN_DELTA, 1.3),
    ),
)
