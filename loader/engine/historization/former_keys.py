"""Entity keys of a uuid, a time or json that were hashed in another way than now.

Encoding v1 hashed the text in which a key was delivered first, and a column's type may have changed since. A stored key
is never hashed anew: other tables and systems refer to it. A row with its value, however that is written, gets the
stored key; only values without one get the key of now. Once a load has found no other key in a table, its commits note
how the keys are hashed, and later loads do not look any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN, TableSpec
from loader.contract.manifest.loads import HashComponent, RawcoreLoad
from loader.engine.compared_texts import hash_parts, types_by_name
from loader.engine.hashing import digest
from loader.engine.session import forget
from loader.engine.tables.commits import open_files
from loader.engine.tables.run_commits import RunCommit
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

# Note of a commit: the columns of the business key that are hashed by their value, with their types; or that some keys
# are hashed in another way.
KEYS, MIXED = "keys", "mixed"
_VALUE, _STORED, _LIVE, _NTH = "__value_key", "__stored_key", "__is_live", "__nth"
_BROADCAST_UP_TO_ROWS = 1_000_000


@dataclass
class FormerKeys:
    """Stored keys of a dataset, and of the parents that it refers to, that are hashed in another way than now.

    ``newest`` are newest commits of runs that are known, by the key of the table.
    """

    session: SparkSession
    warehouse: str
    newest: Mapping[str, RunCommit | None] = field(default_factory=dict)
    _frames: dict[str, DataFrame | None] = field(default_factory=dict)
    _checkpoints: list[DataFrame] = field(default_factory=list)

    def of(self, table: TableSpec, *others: TableSpec | None) -> DataFrame | None:
        """Return pairs of the key of now and the stored key; None if all stored keys are those of now.

        ``table`` is a dataset's leading table, ``others`` have its keys, too (an event log).
        """
        if table.key not in self._frames:
            self._frames[table.key] = self._find([table, *(other for other in others if other is not None)])
        return self._frames[table.key]

    def note(self, load: RawcoreLoad) -> dict[str, str]:
        """Return the note on how the keys of a load's tables are hashed; empty without a value of these types."""
        if self.of(load.leading, load.event_log) is not None:
            return {KEYS: MIXED}
        now = _by_value(load.leading)
        return {KEYS: now} if now else {}

    def kept(self, rows: DataFrame, column: str, table: TableSpec, *others: TableSpec | None) -> DataFrame:
        """Return the rows with the stored keys in a column that has the keys of now of a table."""
        former = self.of(table, *others)
        if former is None:
            return rows
        name, names = quote_identifier(column), rows.columns
        joined = rows.join(former, F.col(name) == F.col(_VALUE), "left")
        stored = joined.withColumn(column, F.coalesce(F.col(_STORED), F.col(name)))
        return stored.select(*map(quote_identifier, names))

    def kept_in(self, rows: DataFrame, load: RawcoreLoad) -> DataFrame:
        """Return hashed rows of a load with the stored entity and foreign keys."""
        if load.entity_key:
            rows = self.kept(rows, load.table.column("entity_key").name, load.leading, load.event_log)
        return self.kept_foreign_keys(rows, load)

    def kept_foreign_keys(self, rows: DataFrame, load: RawcoreLoad) -> DataFrame:
        for key in load.foreign_keys:
            if key.keys is not None and key.column in rows.columns:
                rows = self.kept(rows, key.column, key.keys)
        return rows

    def release(self) -> None:
        for frame in self._checkpoints:
            forget(frame)
        self._checkpoints.clear()
        self._frames.clear()

    def _find(self, tables: list[TableSpec]) -> DataFrame | None:
        looked_at = tables if _by_value(tables[0]) else tables[:1]
        if not any(self.may_have_some(table) for table in looked_at):
            return None
        stored = [self._stored(table) for table in tables]
        rows = stored[0] if len(stored) == 1 else stored[0].unionByName(stored[1])
        per_key = rows.groupBy(_VALUE, _STORED).agg(F.max(_LIVE).alias(_LIVE))
        first = Window.partitionBy(_VALUE).orderBy(F.desc(_LIVE), F.col(_STORED) != F.col(_VALUE), _STORED)
        chosen = per_key.withColumn(_NTH, F.row_number().over(first)).where(F.col(_NTH) == 1)
        former = chosen.where(F.col(_STORED) != F.col(_VALUE)).select(_VALUE, _STORED)
        former = former.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        self._checkpoints.append(former)
        count = former.count()
        if not count:
            return None
        return F.broadcast(former) if count <= _BROADCAST_UP_TO_ROWS else former

    def may_have_some(self, spec: TableSpec) -> bool:
        """Return True if a table has rows, and its newest run did not note that their keys are hashed as now."""
        table = DeltaTable(self.session, self.warehouse, spec.key)
        if not spec.of_purpose("business_key") or not table.exists():
            return False
        last_run = self.newest[spec.key] if spec.key in self.newest else table.newest_run_commit()
        noted = last_run.notes.get(KEYS, "") if last_run else ""
        return noted != _by_value(spec) and bool(open_files(self.session, table).all)

    def _stored(self, spec: TableSpec) -> DataFrame:
        """Return the keys of a table's rows. Closed versions have the keys of others, unless files delivered them."""
        frame = DeltaTable(self.session, self.warehouse, spec.key).frame()
        live = F.lit(spec.kind != "event_log")
        if spec.kind == "history":
            live = F.col(quote_identifier(spec.column("segment").name)) == OPEN
        types = {field.name: field.dataType for field in frame.schema.fields}
        components = [HashComponent(column.key, column.name) for column in spec.of_purpose("business_key")]
        value = digest(hash_parts(components, types, types_by_name(spec)))
        entity_key = F.col(quote_identifier(spec.column("entity_key").name))
        return frame.select(value.alias(_VALUE), entity_key.alias(_STORED), live.alias(_LIVE))


def _by_value(table: TableSpec) -> str:
    """Return the columns of the business key that are hashed by their value, as text for commit metadata."""
    types = types_by_name(table)
    keys = (column for column in table.of_purpose("business_key") if column.name in types)
    return " ".join(sorted(f"{column.key}:{types[column.name]}" for column in keys))


def tables_with_keys(load: RawcoreLoad) -> list[TableSpec]:
    """Return the leading tables of a load and of its parents, whose keys may be hashed in another way than now."""
    return [load.leading, *(key.keys for key in load.foreign_keys if key.keys is not None)]
