"""Tables that a rawcore load writes."""

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from architecture.domain.states.tables import OPEN
from loader.domain.runs.manifest import RawcoreLoad
from loader.spark.historization.history import open_versions, segment_counts
from loader.spark.historization.versions import HistoryTable
from loader.spark.tables.commits import TableFiles, rows_in
from loader.spark.tables.tables import DeltaTable, RunCommit
from metadata.domain.sql import quote_identifier


@dataclass(frozen=True)
class Target:
    """Rawcore and, if it is historized, its history and event log.

    The leading table is committed first and decides which rows are new.
    """

    session: SparkSession
    load: RawcoreLoad
    rawcore: DeltaTable
    history: DeltaTable | None
    memory: DeltaTable | None

    @classmethod
    def of(cls, session: SparkSession, warehouse: str, load: RawcoreLoad) -> "Target":
        def table(spec) -> DeltaTable | None:
            return DeltaTable(session, warehouse, spec.key) if spec else None

        rawcore = DeltaTable(session, warehouse, load.table.key)
        return cls(session, load, rawcore, table(load.history), table(load.memory))

    @property
    def leading(self) -> DeltaTable:
        return self.history or self.rawcore

    @cached_property
    def versions(self) -> HistoryTable:
        """History table in the form that the engine writes."""
        assert self.history is not None
        return HistoryTable(self.session, self.history, self.load)

    @cached_property
    def signed(self) -> RunCommit | None:
        """Newest commit of a run, as of the start of the load."""
        return self.leading.newest_run_commit()

    @cached_property
    def rawcore_files(self) -> TableFiles:
        return TableFiles(self.session, self.rawcore)

    def rawcore_rows(self) -> int:
        """Return the number of rawcore rows from file statistics; count them only if these are missing."""
        known = rows_in(self.rawcore_files.all)
        return self.rawcore.rows() if known is None else known

    def segments(self) -> dict[str, int]:
        """Return the number of versions, and of open ones.

        They come from the newest run's commit if that is the table's newest, else they are counted.
        """
        assert self.history is not None
        assert self.load.history is not None
        signed = self.history.newest_run_commit()
        if signed is not None and signed.version == self.history.version() and signed.counts:
            return dict(signed.counts)
        if not self.versions.files.all:
            return {"versions": 0, "open": 0}
        counted = segment_counts(self.history, self.load.history)
        return {"versions": sum(counted.values()), "open": counted.get(OPEN, 0)}

    def current(self) -> DataFrame:
        """Return the rows that rawcore must hold: the open live versions, with rawcore's columns."""
        assert self.history is not None
        assert self.load.history is not None
        versions = open_versions(self.history, self.load.history)
        names = []
        for column in self.load.table.columns:
            there = self.load.history.column(column.purpose).name if column.purpose in _RENAMED else column.name
            names.append(f"{quote_identifier(there)} AS {quote_identifier(column.name)}")
        return versions.selectExpr(*names)


# What a profile may call otherwise in history than in rawcore.
_RENAMED = ("run_id", "loaded_at")
