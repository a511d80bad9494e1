"""Engine of the product; the only module of the benchmark that uses the product's engine.

Two things are timed: the history step (``load``), which reads a snapshot with key and row hash, as every
other engine does; and the whole load (``whole``), from a source file to committed raw, rawcore and history,
as in a load run.
"""

import threading
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

from pyspark.sql import DataFrame, SparkSession

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import event_log_table, history_table, raw_table, rawcore_table, tables_of
from bench.data import ATTRIBUTES, BUSINESS_KEY, DELIVERED, KEY, ROW_HASH
from bench.engines.engine import Engine
from bench.plan import load_time
from loader.domain.historization.load_guards import DeleteGuard
from loader.domain.manifest import (
    CompactManifest,
    DeliveredColumn,
    HashComponent,
    LoadManifest,
    RawcoreLoad,
    RawLoad,
    SourceSpec,
    StageColumn,
    StageInput,
)
from loader.domain.run_states import COMPACT
from loader.spark.compaction import is_crowded
from loader.spark.datasets import Task, historize
from loader.spark.historization.batches import SnapshotBatch
from loader.spark.historization.history import Target
from loader.spark.historization.stage import with_hashes
from loader.spark.load import SUCCEEDED, LoadAttempt
from loader.spark.maintenance_runs import govern
from loader.spark.tables import commits, steps
from loader.spark.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState

_TYPES = {BUSINESS_KEY: "string", **ATTRIBUTES}


def _stable(*parts: str) -> str:
    return str(uuid5(NAMESPACE_DNS, "/".join(("bench", *parts))))


class Dataset:
    """One source and its three tables, as metadata would describe them."""

    def __init__(self, name: str) -> None:
        columns = tuple(
            ColumnState(
                # The same keys in every dataset: then all of them hash a row alike.
                _stable("column", column),
                column,
                type_,
                role="business_key" if column == BUSINESS_KEY else "attribute",
            )
            for column, type_ in _TYPES.items()
        )
        self.name = name
        self.raw_state = DatasetState(_stable("raw", name), "raw", "raw", f"raw_bench_{name}", columns)
        self.state = DatasetState(
            _stable("rawcore", name),
            "rawcore",
            "rawcore",
            f"rc_bench_{name}",
            columns,
            historize=True,
            history_key=_stable("hist", name),
        )
        self.raw = raw_table(self.raw_state)
        self.history = history_table(self.state)
        self.tables = (*tables_of(self.raw_state), *tables_of(self.state))

    def rawcore_load(self, sequence: int, policy: dict) -> RawcoreLoad:
        columns = tuple(StageColumn(name, type_, quote_identifier(name)) for name, type_ in _TYPES.items())
        return RawcoreLoad(
            dataset=self.state.key,
            name=self.state.qualified_name,
            table=rawcore_table(self.state),
            history=self.history,
            inputs=(StageInput(self.raw, columns),),
            entity_key=tuple(HashComponent(c.key, c.name) for c in self.state.business_key),
            row_hash=tuple(HashComponent(c.key, c.name) for c in self.state.attributes),
            event_log=event_log_table(self.state),
            policy=policy,
            sequence=sequence,
            delivery_checked=True,
            depends_on=(self.raw.key,),
        )

    def raw_load(self, source: str) -> RawLoad:
        delivered = tuple(
            DeliveredColumn(_stable("delivered", name), name, type_, business_key=name == BUSINESS_KEY)
            for name, type_ in _TYPES.items()
        )
        return RawLoad(
            self.raw.key,
            self.raw.qualified_name,
            self.raw,
            SourceSpec(f"bench.{self.name}", source, "parquet", delivered),
            tuple((name, name) for name in DELIVERED),
        )


def hashed(rows: DataFrame) -> DataFrame:
    """Return the rows with the product's key and row hash."""
    load = Dataset("any").rawcore_load(0, {})
    frame = with_hashes(rows, load)
    names = {load.table.column("entity_key").name: KEY, load.table.column("row_hash").name: ROW_HASH}
    return frame.withColumnsRenamed(names)


def _as_stage(snapshot: DataFrame, load: RawcoreLoad) -> DataFrame:
    names = {KEY: load.table.column("entity_key").name, ROW_HASH: load.table.column("row_hash").name}
    return snapshot.withColumnsRenamed(names)


class Ours(Engine):
    """Engine with one dataset; a load's number determines its run id, date and sequence number."""

    name = "ours"
    # The default of ELEVATA_SMALL_TABLE_ROWS.
    small_rows = 50_000

    def __init__(self, spark: SparkSession, folder: Path, datasets: tuple[str, ...] = ("item",)) -> None:
        super().__init__(spark, folder)
        self.warehouse = str(self.tables)
        self.datasets = tuple(Dataset(name) for name in datasets)

    def prepare(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        if before is None:
            wanted = tuple(table for dataset in self.datasets for table in dataset.tables)
            planned = plan_steps(wanted, {})
            if not steps.execute(self.spark, self.warehouse, planned, lambda event, **fields: None):
                raise RuntimeError("the tables could not be created")

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
                done = govern(
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
        frames = [self._history(dataset) for dataset in self.datasets]
        united = frames[0]
        for frame in frames[1:]:
            united = united.unionByName(frame)
        return united

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
        raw = tuple(dataset.raw_load(source.replace("{}", dataset.name)) for dataset in self.datasets)
        rawcore = tuple(dataset.rawcore_load(load + 1, {}) for dataset in self.datasets)
        events: list[dict] = []
        attempt = LoadAttempt(
            self.spark,
            self.warehouse,
            self._manifest(raw, rawcore, load),
            lambda event, **fields: events.append(fields),
            threading.Event(),
            f"load-{load}",
        )
        if attempt.run() != SUCCEEDED:
            errors = [fields["error"] for fields in events if fields.get("error")]
            raise RuntimeError(errors[0]["message"] if errors else "the load run failed")

    def _manifest(self, raw: tuple[RawLoad, ...], rawcore: tuple[RawcoreLoad, ...], load: int) -> LoadManifest:
        return LoadManifest(f"run-{load}", load_time(load), 1, raw, rawcore, small_rows=self.small_rows)


class OursPublic(Ours):
    """Engine that commits by Delta's public interfaces."""

    name = "ours_public"

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        commits.use(commits.CommitPath(commits.PUBLIC, "the benchmark measures it"))


class OursSmallTables(Ours):
    """Engine with many small datasets in one load run."""

    def __init__(self, spark: SparkSession, folder: Path, names: list[str]) -> None:
        super().__init__(spark, folder, tuple(names))
