"""Warehouse of tables and models for tests of models on Spark."""

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import current_table, tables_of
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.loads import LoadManifest
from loader.domain.models import model_load
from loader.engine.loads.load import LoadAttempt
from loader.engine.tables import steps
from loader.engine.tables.tables import DeltaTable
from metadata.domain.state import ColumnState, DatasetState
from metadata.domain.types import parse, spark_type
from tests.loader.harness import stable


@dataclass
class Warehouse:
    """Tables of a warehouse that models read and write, by name."""

    spark: object
    folder: Path
    states: dict[str, DatasetState] = field(default_factory=dict)
    runs: int = 0

    def table(self, name: str, columns: dict[str, str], rows: list[tuple]) -> None:
        """Write a table that models read, with these rows in place of others."""
        self._describe(name, columns, select="SELECT 1")
        schema = ", ".join(f"`{own}` {spark_type(parse(type_))}" for own, type_ in columns.items())
        frame = self.spark.createDataFrame(rows, schema)
        frame.write.format("delta").mode("overwrite").save(self._table(name).location)

    def append(self, name: str, rows: list[tuple]) -> None:
        frame = self.spark.createDataFrame(rows, self._table(name).schema())
        frame.write.format("delta").mode("append").save(self._table(name).location)

    def execute(self, name: str, statement: str) -> int:
        """Run a statement, in which ``{table}`` is the table of this name; return the table's version after it."""
        self.spark.sql(statement.format(table=self._table(name).sql_name))
        return self._table(name).version()

    def files(self, name: str) -> list[Path]:
        """Return the data files in the folder of a table."""
        return sorted(Path(self._table(name).location).rglob("*.parquet"))

    def drop(self, name: str) -> None:
        """Remove a table with its log."""
        table = self._table(name)
        shutil.rmtree(table.location)
        delta = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        delta.invalidateCache(self.spark._jsparkSession, self.spark._jvm.org.apache.hadoop.fs.Path(table.location))

    def model(self, name: str, columns: dict[str, str], select: str, reads: tuple[str, ...], **more) -> None:
        keys = more.pop("keys", ())
        self._describe(name, columns, select, keys, inputs=tuple(stable(read) for read in reads), **more)

    def load(self, name: str, at: str = "2024-01-01T00:00:00+00:00", *checks: CheckSpec, full: bool = False) -> dict:
        """Load a model by itself, with these checks; return the event that ends it."""
        self.runs += 1
        run = {"run_id": f"r{self.runs}", "load_timestamp": at}
        states = {state.key: state for state in self.states.values()}
        load = model_load(self.states[name], states, **run, sequence=self.runs, full=full)
        manifest = LoadManifest(**run, attempt=1, raw=(), rawcore=(), models=(replace(load, quality=checks),))
        events: list[dict] = []
        attempt = LoadAttempt(
            self.spark,
            str(self.folder),
            manifest,
            lambda kind, **fields: events.append(fields | {"event": kind}),
            Event(),
            "models",
        )
        attempt.run()
        return next(event for event in events if event["event"] == "dataset_finished")

    def rows(self, name: str) -> list[tuple]:
        return sorted(tuple(row) for row in self._table(name).frame().collect())

    def _describe(self, name: str, columns: dict[str, str], select: str, keys=(), **more) -> None:
        schema, _, own = name.partition(".")
        described = tuple(
            ColumnState(stable(name, column), column, type_, role="business_key" if column in keys else "attribute")
            for column, type_ in columns.items()
        )
        state = DatasetState(stable(name), schema, "bizcore", own, described, select=select, **more)
        if name not in self.states:
            assert steps.execute(self.spark, str(self.folder), plan_steps(tables_of(state), {}), _ignore)
        self.states[name] = state

    def _table(self, name: str) -> DeltaTable:
        return DeltaTable(self.spark, str(self.folder), current_table(self.states[name]).key)


def _ignore(event: str, **fields) -> None:
    """Take an event of a step."""
