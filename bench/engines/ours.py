"""Engine of the product.

Two things are timed: the history step (``load``), which reads a snapshot with key and row hash, as every
other engine does; and the whole load (``whole``), from a source file to committed raw, rawcore and history,
as in a load run.
"""

import threading
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.engines.engine import Engine
from bench.history.data import ATTRIBUTES, BUSINESS_KEY, DELIVERED, KEY, ROW_HASH
from bench.history.dataset import Dataset, create_tables, run_load
from bench.history.plan import load_time
from loader.contract.manifest.loads import LoadManifest, RawcoreLoad, RawLoad
from loader.contract.manifest.maintenance import CompactManifest
from loader.contract.run_states import COMPACT
from loader.domain.historization.load_guards import DeleteGuard
from loader.engine.historization.batches import SnapshotBatch
from loader.engine.historization.stage import with_hashes
from loader.engine.historization.targets import Target
from loader.engine.loads.dataset_load import Task
from loader.engine.loads.load import SUCCEEDED
from loader.engine.loads.rawcore_loads import historize
from loader.engine.maintenance.maintenance_runs import perform_run
from loader.engine.tables import commits
from loader.engine.tables.fragmentation import is_crowded
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

_TYPES = {BUSINESS_KEY: "string", **ATTRIBUTES}


def _dataset(name: str) -> Dataset:
    return Dataset(name, _TYPES, BUSINESS_KEY)


def hashed(rows: DataFrame) -> DataFrame:
    """Return the rows with the product's key and row hash."""
    load = _dataset("any").rawcore_load(0)
    frame = with_hashes(rows, load)
    names = {load.table.column("entity_key").name: KEY, load.table.column("row_hash").name: ROW_HASH}
    return frame.withColumnsRenamed(names)


def _as_stage(snapshot: DataFrame, load: RawcoreLoad) -> DataFrame:
    names = {KEY: load.table.column("entity_key").name, ROW_HASH: load.table.column("row_hash").name}
    return snapshot.withColumnsRenamed(names)


class Ours(Engine):
    """Engine with one dataset; a load's number determines its run id, date and sequence number."""

    # The default of ELEVATA_SMALL_TABLE_ROWS.
    small_rows = 50_000

    def __init__(self, spark: SparkSession, folder: Path, datasets: tuple[str, ...] = ("item",)) -> None:
        super().__init__(spark, folder)
        self.warehouse = str(self.tables)
        self.datasets = tuple(_dataset(name) for name in datasets)

    def prepare(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        if before is None:
            create_tables(self.spark, self.warehouse, self.datasets)

    def load(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        self._historize(load, snapshot, {})

    def delta(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        """Run the history step for a source that delivers changed rows only."""
        self._historize(load, snapshot, {"input": "delta"})

    def _historize(self, load: int, snapshot: str, policy: dict) -> None:
        (dataset,) = self.datasets
        rawcore_load = dataset.rawcore_load(load + 1, policy)
        manifest = self._manifest((), (rawcore_load,), load)
        task = Task(self.spark, self.warehouse, manifest, lambda phase: None)
        session = task.session(rawcore_load.sequence)
        target = Target.of(session, self.warehouse, rawcore_load)
        batch = SnapshotBatch(session, rawcore_load, target, task.stamp)
        try:
            batch.take(_as_stage(session.read.parquet(snapshot), rawcore_load), guard=DeleteGuard())
            historize(task, session, batch, target)
        finally:
            batch.release()

    def whole(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        """Run one load over every dataset from the file ``snapshot``, in which ``{}`` is the dataset's name."""
        self._attempt(load, snapshot)

    def keep_house(self) -> None:
        """Compact tables that need it, as the worker does after a load."""
        for dataset in self.datasets:
            tables = [DeltaTable(self.spark, self.warehouse, table.key) for table in dataset.tables]
            if any(is_crowded(table) for table in tables):
                manifest = CompactManifest("compact", dataset.state.key, dataset.state.qualified_name, dataset.tables)
                done = perform_run(
                    self.spark, self.warehouse, COMPACT, manifest, lambda *_, **__: None, threading.Event(), "compact"
                )
                if done["status"] != SUCCEEDED:
                    raise RuntimeError("the tables could not be compacted")

    def complete(self, *, label: str, load: int, source: str) -> None:
        """Add raw and rawcore to a saved history by repeating its newest run."""
        self.restore(label=label)
        self._attempt(load, source)
        self.save(label=f"{label}-whole")

    def history(self) -> DataFrame:
        return reduce(DataFrame.unionByName, map(self._history, self.datasets))

    def _history(self, dataset: Dataset) -> DataFrame:
        table = DeltaTable(self.spark, self.warehouse, dataset.history.key)
        names = {"entity_key": KEY, "started_at": "valid_from", "ended_at": "valid_to"}
        own = [f"{quote_identifier(dataset.history.column(p).name)} AS {name}" for p, name in names.items()]
        return table.frame().selectExpr(*own, *DELIVERED)

    def files(self) -> dict:
        """Return the number of files in the tables' newest versions, and of all files in the warehouse."""
        live = 0
        for dataset in self.datasets:
            for table in dataset.tables:
                location = DeltaTable(self.spark, self.warehouse, table.key).sql_name
                live += self.spark.sql(f"DESCRIBE DETAIL {location}").first()["numFiles"]
        return {"live_files": live} | self.size()

    def _attempt(self, load: int, source: str) -> None:
        raw = tuple(dataset.raw_load(source.replace("{}", dataset.name), "parquet") for dataset in self.datasets)
        rawcore = tuple(dataset.rawcore_load(load + 1) for dataset in self.datasets)
        run_load(self.spark, self.warehouse, self._manifest(raw, rawcore, load))

    def _manifest(self, raw: tuple[RawLoad, ...], rawcore: tuple[RawcoreLoad, ...], load: int) -> LoadManifest:
        return LoadManifest(f"run-{load}", load_time(load), 1, raw, rawcore, small_rows=self.small_rows)


class OursPublic(Ours):
    """Engine that commits by Delta's public interfaces."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        commits.use(commits.CommitPath(commits.PUBLIC, "the benchmark measures it"))


class OursSmallTables(Ours):
    """Engine with many small datasets in one load run."""

    def __init__(self, spark: SparkSession, folder: Path, names: list[str]) -> None:
        super().__init__(spark, folder, tuple(names))
