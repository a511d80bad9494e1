"""Raw tables that keep the deliveries of all runs.

Each run is recorded in the Delta log as a transaction identifier, so an attempt that is repeated replaces its own rows.
The commit metadata name the newest delivery, which stage reads, also in a load of rawcore alone. So the table says by
itself if it has several deliveries, whatever the metadata say of its next load.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.contract.manifest.loads import RawLoad
from loader.engine.tables.commits import open_files
from loader.engine.tables.table_files import PLACE, TableFiles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier, quote_text

# Notes of a raw commit: run id of the newest delivery in the table, and its number of rows. A table with only one
# delivery has no such notes.
DELIVERY, ROWS = "delivery", "delivery_rows"
_RUN = "elevata.delivery "
_RAW = "raw"


@dataclass(frozen=True)
class OwnDelivery:
    """Delivery of a run for a raw table that keeps those of other runs; ``tries``: commits of it in the table."""

    run_id: str
    column: str
    table: TableFiles
    tries: int

    @classmethod
    def of(cls, session: SparkSession, raw: DeltaTable, load: RawLoad, run_id: str) -> "OwnDelivery":
        column = load.table.column("run_id").name
        files = open_files(session, raw, (column,))
        # The version before its transactions: a commit in between then is a conflict.
        tries = raw.committed_sequence(_RUN + run_id) if files.version >= 0 else -1
        return cls(run_id, column, files, max(tries, 0))

    @property
    def is_repeated(self) -> bool:
        return self.tries > 0

    def notes(self, rows: int) -> dict[str, str]:
        """Return the notes of the run's commit, which has this number of rows."""
        return {DELIVERY: self.run_id, ROWS: str(rows)}

    @property
    def recorded(self) -> dict[str, int]:
        """Return the transaction identifier of the run's commit."""
        return {_RUN + self.run_id: self.tries + 1}

    def replaced_rows(self) -> DataFrame | None:
        """Return the places of the rows that an earlier attempt of the run wrote."""
        if not self.is_repeated or not self.table.all:
            return None
        return self.table.frame(placed=True).where(F.col(quote_identifier(self.column)) == self.run_id).select(PLACE)


@dataclass(frozen=True)
class StoredDelivery:
    """Delivery in a raw table: its run, the newest time of its rows, their number, and the size of their files."""

    run_id: str
    loaded_at: datetime
    rows: int
    bytes: int


def stored_deliveries(table: DeltaTable, spec: TableSpec) -> list[StoredDelivery]:
    """Return the deliveries in a raw table, newest first. Two columns are read."""
    run_id, loaded_at = (F.col(quote_identifier(spec.column(purpose).name)) for purpose in ("run_id", "loaded_at"))
    file = F.struct("_metadata.file_path", "_metadata.file_size").alias("file")
    by_file = table.frame().groupBy(run_id.alias("run"), file)
    parts = by_file.agg(F.unix_micros(F.max(loaded_at)).alias("at"), F.count(F.lit(1)).alias("rows"))
    size = F.sum("file.file_size")
    rows = parts.groupBy("run").agg(F.max("at"), F.sum("rows"), size).collect()
    stored = [StoredDelivery(run, datetime.fromtimestamp(at / 1e6, UTC), rows, size) for run, at, rows, size in rows]
    return sorted(stored, key=lambda delivery: delivery.loaded_at, reverse=True)


def remove_deliveries(table: DeltaTable, spec: TableSpec, run_ids: Collection[str]) -> None:
    """Delete the rows of these runs in one commit."""
    names = ", ".join(map(quote_text, sorted(run_ids)))
    run_id = quote_identifier(spec.column("run_id").name)
    table.spark.sql(f"DELETE FROM {table.sql_name} WHERE {run_id} IN ({names})")


def delivered_rows(table: DeltaTable) -> int | None:
    """Return the number of rows of the newest delivery in a table that may keep several, None for any other table."""
    commit = table.newest_run_commit()
    rows = commit.notes.get(ROWS) if commit is not None else None
    return int(rows) if rows is not None else None


def of_delivery(frame: DataFrame, spec: TableSpec, run_id: str | None) -> DataFrame:
    """Return the rows of one delivery in the frame of a raw table, all rows for None."""
    return frame if run_id is None else frame.where(F.col(quote_identifier(spec.column("run_id").name)) == run_id)


def newest_delivery(table: DeltaTable, spec: TableSpec, version: int) -> str | None:
    """Return the run id of the newest delivery in a version of a raw table.

    None if all its rows are of one delivery, or it is no raw table.
    """
    commit = table.newest_run_commit(version) if spec.kind == _RAW else None
    return commit.notes.get(DELIVERY) if commit is not None else None


def stored_rows(table: DeltaTable, load: RawLoad) -> DataFrame | None:
    """Return the rows of a raw table's newest delivery, with the names of the source; None without a table."""
    if not table.exists():
        return None
    version = table.version()
    rows = of_delivery(table.frame_as_of(version), load.table, newest_delivery(table, load.table, version))
    return rows.select(*(F.col(quote_identifier(raw_name)).alias(name) for raw_name, name in load.columns))
