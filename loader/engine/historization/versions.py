"""History table with columns addressed by purpose, independent of their configured names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from architecture.domain.tables import CLOSED, DELETED, OPEN, ColumnSpec, TableSpec
from loader.contract.manifest.loads import HashComponent, RawcoreLoad
from loader.domain.historization import history as rules
from loader.domain.historization.fold import Column as FoldColumn
from loader.domain.historization.sql_arrays import struct
from loader.engine.compared_texts import hash_parts, types_by_name
from loader.engine.expressions import any_of
from loader.engine.hashing import digest
from loader.engine.historization.former_keys import FormerKeys
from loader.engine.tables.commits import commit, open_files
from loader.engine.tables.table_files import PLACE, TableFiles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.history.history_columns import open_end
from metadata.domain.history.history_policy import TOMBSTONE, HistoryPolicy
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import parse, spark_type

ACTION, PUT, REMOVE = "__action", "put", "remove"
# Column with the business key as a struct, independent of configured names.
PACKED = "__business_key"
KEY, VERSION = "__key", "__version"
LIVE = "live"
_STATES = (rules.NEW, rules.CHANGED, rules.DELETED, LIVE)


def quoted(column: ColumnSpec) -> str:
    return quote_identifier(column.name)


def packed_key(spec: TableSpec) -> Column:
    """Return the business key of rows of a table or a delivery as one struct."""
    parts = (F.col(quoted(column)).alias(f"k{i}") for i, column in enumerate(spec.of_purpose("business_key")))
    return F.struct(*parts).alias(PACKED)


@dataclass(frozen=True)
class HistoryTable:
    """Leading table of a load, with the load that writes it: its history, or rawcore for an upsert of dated rows.

    Without a history, only what concerns keys, hashes and types has a meaning.
    """

    session: SparkSession
    table: DeltaTable
    load: RawcoreLoad
    former_keys: FormerKeys

    @property
    def spec(self) -> TableSpec:
        return self.load.leading

    @cached_property
    def policy(self) -> HistoryPolicy:
        return HistoryPolicy.from_dict(self.load.policy)

    @property
    def tombstones(self) -> bool:
        return self.policy.deletes == TOMBSTONE

    def name(self, purpose: str) -> str:
        """Return the quoted name of the column with this purpose."""
        return quoted(self.spec.column(purpose))

    @property
    def time_column(self) -> ColumnSpec:
        """Return the column of a version's start, or of an event's time if there are no versions."""
        if self.load.history is None and self.load.event_log is not None:
            return self.load.event_log.column("event_at")
        return self.spec.column("started_at")

    @property
    def time_type(self) -> str:
        """Return the Spark type of a version's start and end."""
        return spark_type(parse(self.time_column.type))

    @property
    def business_key(self) -> tuple[ColumnSpec, ...]:
        return self.spec.of_purpose("business_key")

    def unpacked_key(self) -> list[Column]:
        """Return the business-key columns of the packed struct under their own names."""
        return [F.col(f"{PACKED}.k{i}").alias(column.name) for i, column in enumerate(self.business_key)]

    @cached_property
    def types(self) -> dict[str, DataType]:
        """Return the types of all stored columns, including retired ones that are no longer described."""
        return {field.name: field.dataType for field in self.table.schema().fields}

    @property
    def physical(self) -> tuple[str, ...]:
        return tuple(self.types)

    @cached_property
    def files(self) -> TableFiles:
        """Return the files of the table as of the start of the load."""
        return open_files(self.session, self.table, (self.spec.column("history_key").name,))

    def files_of(self, *segments: str) -> list[Any]:
        return self.files.where(self.spec.column("segment").name, *segments)

    @property
    def open_until(self) -> Column:
        """Return the value in the end column of an open version."""
        end = open_end(self.policy, self.spec.column("ended_at").type)
        return F.lit(end).cast(self.time_type)

    def frame(self, *segments: str, placed: bool = False) -> DataFrame:
        """Return the versions, or those of the given segments; files of other segments are not read."""
        return self.files.frame(self.files_of(*segments) if segments else None, placed=placed)

    def label(self, state: Column) -> Column:
        """Return the label that the history policy configures for a state."""
        labels = {name: self.policy.label(name) for name in _STATES}
        if all(name == label for name, label in labels.items()):
            return state
        result = state
        for name, label in labels.items():
            result = F.when(state == name, label).otherwise(result)
        return result

    def segment(self, state: Column, is_open: Column) -> Column:
        """Return the segment of a version: open, deleted (the last version of a deleted key) or closed."""
        deleted = state == rules.DELETED
        if self.tombstones:
            return F.when(is_open & deleted, DELETED).when(is_open, OPEN).otherwise(CLOSED)
        return F.when(is_open, OPEN).when(deleted, DELETED).otherwise(CLOSED)

    def history_key(self, entity_key: Column, start: Column) -> Column:
        key, started = self.spec.column("entity_key"), self.spec.column("started_at")
        types = self.types
        return digest([(key.key, entity_key, types[key.name]), (started.key, start, types[started.name])])

    def hashed(self, components: tuple[HashComponent, ...], frame: DataFrame, prefix: str = "") -> Column:
        """Return the digest of a version's values. Components without a column in the table are left out."""
        own = {part.column: F.col(prefix + quote_identifier(part.column)) for part in components}
        parts = [part for part in components if part.column in self.types]
        return digest(hash_parts(parts, self.types, types_by_name(self.spec), own))

    def with_derived(self, frame: DataFrame) -> DataFrame:
        """Return the versions with the row hash and foreign keys computed from their values."""
        columns = {self.spec.column("row_hash").name: self.hashed(self.load.row_hash, frame)}
        for key in self.load.foreign_keys:
            absent = any_of(F.col(quote_identifier(part.column)).isNull() for part in key.components)
            columns[key.column] = F.when(~absent, self.hashed(key.components, frame))
        for name, value in columns.items():
            frame = frame.withColumn(name, value)
        return self.former_keys.kept_foreign_keys(frame, self.load)

    def rows(self, versions: DataFrame, values: Mapping[str, Column], extra: tuple[str, ...] = ()) -> DataFrame:
        """Return ``versions`` with every column of the table: from ``values`` by purpose, else by name, else NULL."""
        by_name = {column.name: values[column.purpose] for column in self.spec.columns if column.purpose in values}
        names, schema = set(versions.columns), self.types
        columns = []
        for name in self.physical:
            if name in by_name:
                column = by_name[name]
            elif name in names:
                column = F.col(quote_identifier(name))
            else:
                column = F.lit(None)
            columns.append(column.cast(schema[name]).alias(name))
        return versions.select(*columns, *extra)

    def with_values(self, versions: DataFrame, columns: Sequence[FoldColumn]) -> DataFrame:
        """Return the rows of ``differing`` with the key and data columns, and the columns computed from them."""
        rows = versions.select(
            F.col(KEY).alias(self.spec.column("entity_key").name),
            *self.unpacked_key(),
            ACTION,
            VERSION,
            *(F.col(f"{VERSION}.v.c{i}").alias(column.name) for i, column in enumerate(columns)),
        )
        return self.with_derived(rows)

    # --- writing ----------------------------------------------------------------------------------

    def write(self, rows: DataFrame, sequence: int, *, touches: bool, small: bool, segments: set[str]) -> None:
        """Add and remove versions, matched by key and start, in one commit.

        ``rows`` has the table's columns and ``__action``. ``touches``: a stored version in one of ``segments``
        changes or is removed. ``small``: the whole table is rewritten.
        """
        puts = rows.where(F.col(ACTION) == PUT).drop(ACTION)
        commit_to = (self.files, self.spec.key, sequence)
        if not touches:
            commit(*commit_to, add=puts.coalesce(1) if small else puts)
            return
        key = [quote_identifier(self.spec.column(purpose).name) for purpose in ("entity_key", "started_at")]
        keys = rows.select(*(F.col(name).alias(f"__k{i}") for i, name in enumerate(key)))
        same = (F.col(key[0]) == F.col("__k0")) & (F.col(key[1]) == F.col("__k1"))
        if small:
            others = self.frame().coalesce(1).join(keys.coalesce(1), same, "left_anti")
            commit(*commit_to, add=others.unionByName(puts.coalesce(1)).coalesce(1), remove=self.files.all)
        else:
            files = self.files_of(*sorted(segments))
            stored = self.files.frame(files, placed=True).select(*key, PLACE)
            removed = stored.join(keys, same, "left_semi").select(PLACE)
            commit(*commit_to, add=puts, gone=removed, gone_from=files)


def differing(result: DataFrame) -> DataFrame:
    """Return the versions to put and to remove, from the arrays ``old`` and ``new`` of each key.

    Rows have the key, the packed business key, ``__action``, and the version as the struct ``__version``.
    """
    is_put, is_removed = "NOT exists(old, o -> o <=> n)", "NOT exists(new, n -> n.start = o.start)"
    puts = f"transform(filter(new, n -> {is_put}), n -> {struct(action=quote_text(PUT), version='n')})"
    removes = f"transform(filter(old, o -> {is_removed}), o -> {struct(action=quote_text(REMOVE), version='o')})"
    each = F.explode(F.expr(f"concat({puts}, {removes})")).alias("__each")
    action, version = F.col("__each.action").alias(ACTION), F.col("__each.version").alias(VERSION)
    return result.select(KEY, PACKED, each).select(KEY, PACKED, action, version)
