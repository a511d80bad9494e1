"""Tables that a rawcore load writes, and the times that it writes into their rows."""

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN, TableSpec
from loader.contract.manifest.loads import RawcoreLoad
from loader.engine.historization.former_keys import FormerKeys
from loader.engine.historization.versions import HistoryTable
from loader.engine.tables.commits import open_files
from loader.engine.tables.run_commits import RunCommit
from loader.engine.tables.table_files import TableFiles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

# Purposes whose columns may have other names in the history than in rawcore.
_RENAMED = ("run_id", "loaded_at")


@dataclass(frozen=True)
class Stamp:
    """Run id and times that a run writes into every row it changes; both times are ISO 8601.

    ``at`` dates the run's data. ``loaded_at`` is the clock time of the dataset's load, determined once so that every
    Spark job of the run writes the same value.
    """

    run_id: str
    at: str
    loaded_at: str

    def timestamp(self) -> Column:
        return F.lit(self.at).cast("timestamp")

    def loaded(self) -> Column:
        return F.lit(self.loaded_at).cast("timestamp")


def open_versions(history: DeltaTable, table: TableSpec) -> DataFrame:
    """Return the open versions; the partitions of other versions are not read."""
    return history.frame().where(F.col(quote_identifier(table.column("segment").name)) == OPEN)


def segment_counts(history: DeltaTable, table: TableSpec) -> dict[str, int]:
    """Return the number of rows per segment. Only the partition column is read."""
    segment = quote_identifier(table.column("segment").name)
    return {row[0]: row[1] for row in history.frame().groupBy(segment).count().collect()}


@dataclass(frozen=True)
class Target:
    """Rawcore and, if it is historized, its history and event log.

    The leading table is committed first and decides which rows are new.
    """

    session: SparkSession
    warehouse: str
    load: RawcoreLoad
    rawcore: DeltaTable
    history: DeltaTable | None
    event_log: DeltaTable | None

    @classmethod
    def of(cls, session: SparkSession, warehouse: str, load: RawcoreLoad) -> "Target":
        def table(spec) -> DeltaTable | None:
            return DeltaTable(session, warehouse, spec.key) if spec else None

        rawcore = DeltaTable(session, warehouse, load.table.key)
        return cls(session, warehouse, load, rawcore, table(load.history), table(load.event_log))

    @property
    def leading(self) -> DeltaTable:
        return self.history or self.rawcore

    @cached_property
    def versions(self) -> HistoryTable:
        """Return the leading table with its columns by purpose."""
        return HistoryTable(self.session, self.leading, self.load, self.former_keys)

    @cached_property
    def former_keys(self) -> FormerKeys:
        """Return the stored keys that are hashed in another way than now."""
        return FormerKeys(self.session, self.warehouse, {self.load.leading.key: self.last_run})

    @cached_property
    def last_run(self) -> RunCommit | None:
        """Return the newest commit of a run, as of the start of the load."""
        return self.leading.newest_run_commit()

    @cached_property
    def rawcore_files(self) -> TableFiles:
        key = tuple(column.name for column in self.load.table.of_purpose("entity_key"))
        return open_files(self.session, self.rawcore, key)

    def rawcore_rows(self) -> int:
        """Return the number of rawcore rows from file statistics; count them only if these are missing."""
        rows = self.rawcore_files.rows()
        return self.rawcore.rows() if rows is None else rows

    def version_counts(self) -> dict[str, int]:
        """Return the number of versions, and of open ones.

        They are read from the newest commit's metadata if a run made it, else counted.
        """
        assert self.history is not None
        assert self.load.history is not None
        last_run = self.history.newest_run_commit()
        if last_run is not None and last_run.version == self.history.version() and last_run.counts:
            return dict(last_run.counts)
        if not self.versions.files.all:
            return {"versions": 0, "open": 0}
        counted = segment_counts(self.history, self.load.history)
        return {"versions": sum(counted.values()), "open": counted.get(OPEN, 0)}

    def open_rows(self) -> DataFrame:
        """Return the current rows at the start of the load: the open versions, or rawcore's rows without a history."""
        if self.history is None:
            return self.rawcore_files.frame(self.rawcore_files.all)
        return self.versions.frame(OPEN)

    def current(self) -> DataFrame:
        """Return the rows that rawcore must have: the open versions, with rawcore's columns."""
        assert self.history is not None
        assert self.load.history is not None
        versions = open_versions(self.history, self.load.history)
        names = []
        for column in self.load.table.columns:
            name = self.load.history.column(column.purpose).name if column.purpose in _RENAMED else column.name
            names.append(f"{quote_identifier(name)} AS {quote_identifier(column.name)}")
        return versions.selectExpr(*names)
