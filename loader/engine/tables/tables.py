"""Delta tables of the warehouse: location, content, newest run commit.

A table's folder is named by its stable key, and its Delta log is authoritative. Its identity is in table properties:
``elevata.key``, ``elevata.name`` and, per column, ``elevata.column.<stable key>`` with Delta's physical column name,
which no rename changes. ``elevata.dropped`` is true for a table that was removed from the catalog while its files
remain.
"""

import json
import logging
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from architecture.domain.steps.features import COLUMN_MAPPING, protocol_properties
from architecture.domain.steps.statements import COLUMN, DROPPED, KEY, NAME
from architecture.domain.tables import ObservedColumn, ObservedTable, TableSpec
from loader.contract.refusals import Refusal
from loader.engine.pyspark_types import jvm_of
from loader.engine.tables.checksums import checksum_of, contradiction, list_of
from loader.engine.tables.run_commits import ForeignChange, RunCommit, is_ours, run_commit_of
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import from_spark

log = logging.getLogger(__name__)

_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
# Version of a reader protocol without a list of features that has column mapping.
_MAPPING_PROTOCOL = 2
# Number of commits read one by one before DESCRIBE HISTORY is asked whether an older one is that of a run.
_COMMITS_TO_SEARCH = 50

# Maximum number of commits that a checksum is compared with.
_COMMITS_TO_COMPARE = 20

# Snapshots whose checksums this process has verified: version and identity, by location.
_verified: dict[str, tuple[int, int]] = {}


class ContradictedChecksum(ValueError):
    """The log of a table of another owner contradicts its checksum file, which Delta would read."""


class DeltaTable:
    """Table identified by its location. Opening is cheap; the log is read on access."""

    def __init__(self, spark: SparkSession, warehouse: str, key: str):
        self.spark = spark
        self.key = key
        self.location = f"{warehouse.rstrip('/')}/{key}"
        self._open()

    def _open(self) -> None:
        self._log = self._class.forTable(self.spark._jsparkSession, self.location)

    @property
    def _class(self) -> Any:
        return jvm_of(self.spark).org.apache.spark.sql.delta.DeltaLog

    @property
    def sql_name(self) -> str:
        return f"delta.{quote_identifier(self.location)}"

    def snapshot(self, *, is_own: bool = True) -> Any:
        """Return the newest snapshot as a JVM object, with its checksum verified against the log.

        Of a table of the warehouse, a wrong checksum file is removed. Raise ContradictedChecksum for one of others.
        """
        # Delta reads files in the thread's active session, and a thread without earlier statements has none.
        jvm_of(self.spark).org.apache.spark.sql.SparkSession.setActiveSession(self.spark._jsparkSession)
        snapshot = self._update()
        identity = jvm_of(self.spark).java.lang.System.identityHashCode
        if snapshot.version() >= 0 and _verified.get(self.location) != (snapshot.version(), identity(snapshot)):
            snapshot = self._verified(snapshot, is_own)
            _verified[self.location] = (snapshot.version(), identity(snapshot))
        return snapshot

    def snapshot_of(self, version: int) -> Any:
        """Return the snapshot of an earlier version as a JVM object."""
        none = getattr(jvm_of(self.spark), "scala.Option").empty()
        return self._log.getSnapshotAt(version, none, none, False)

    def _update(self) -> Any:
        none = getattr(jvm_of(self.spark), "scala.Option").empty()
        return self._log.update(False, none, none)

    def _verified(self, snapshot: Any, is_own: bool) -> Any:
        """Return the snapshot, or one read without its checksum file, which is removed, if the log contradicts it.

        Delta computes the checksum of the next version from this one, so an error would persist.
        """
        version, checksum = snapshot.version(), snapshot.checksumOpt()
        if not checksum.isDefined():
            return snapshot
        oldest = max(snapshot.logSegment().checkpointProvider().version() + 1, version - _COMMITS_TO_COMPARE + 1)
        commits = []
        for number in range(version, min(oldest, version) - 1, -1):
            actions = self.commit(number)
            if actions is None:
                break
            commits.append(actions)
        wrong = contradiction(checksum_of(checksum.get()), commits, needs_id=is_own)
        if not wrong:
            return snapshot
        if not is_own:
            raise ContradictedChecksum(f"contradicts the checksum of version {version}: {wrong}")
        log.warning("%s: the checksum of version %s is not used and removed: %s", self.location, version, wrong)
        self._remove_checksum(version)
        return self._update()

    def _remove_checksum(self, version: int) -> None:
        path = jvm_of(self.spark).org.apache.hadoop.fs.Path(f"{self.location}/_delta_log/{version:020d}.crc")
        path.getFileSystem(self.spark._jsc.hadoopConfiguration()).delete(path, False)
        self._class.invalidateCache(self.spark._jsparkSession, path.getParent().getParent())
        self._open()

    def exists(self) -> bool:
        return self.version() >= 0

    def version(self) -> int:
        """Return the newest version in the log, -1 without a table."""
        return self.snapshot().version()

    def frame(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.location)

    def frame_as_of(self, version: int) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.location)

    def rows(self) -> int:
        """Return the number of rows in the table."""
        return self.frame().count()

    def committed_sequence(self, app_id: str, snapshot: Any = None) -> int:
        """Return the newest ``txnVersion`` committed under this application id, -1 for none.

        ``snapshot`` is a result of ``self.snapshot()``, by default the newest.
        """
        snapshot = self.snapshot() if snapshot is None else snapshot
        if snapshot.version() < 0:
            return -1
        # The checksum file lists the transactions; the snapshot would replay the log to return them.
        checksum = snapshot.checksumOpt()
        transactions = checksum.get().setTransactions() if checksum.isDefined() else checksum
        if transactions.isDefined():
            listed = {txn.appId(): txn.version() for txn in list_of(transactions.get())}
            return listed.get(app_id, -1)
        transaction = snapshot.transactions().get(app_id)
        return transaction.get() if transaction.isDefined() else -1

    def observe(self) -> ObservedTable | None:
        """Return structure and version of the table from the log; None without a table.

        Raise Refusal FOREIGN_TABLE for the table of another key.
        """
        snapshot = self.snapshot()
        if snapshot.version() < 0:
            return None
        metadata = metadata_of(snapshot)
        properties = metadata.properties
        if properties.get(KEY, self.key) != self.key:
            raise Refusal(
                "FOREIGN_TABLE",
                f"the table in {self.location} is a copy of the table {properties[KEY]}, {properties.get(NAME, '')}",
                hint="Put the folder of the right table back from a backup, then run again.",
            )
        keys = {physical: name.removeprefix(COLUMN) for name, physical in properties.items() if name.startswith(COLUMN)}
        return ObservedTable(
            key=properties.get(KEY, self.key),
            qualified_name=properties.get(NAME, ""),
            columns=tuple(observed_column(field, keys) for field in metadata.fields),
            version=snapshot.version(),
            partition_by=metadata.partition_by,
            properties=protocol_properties(reader_features(snapshot))
            | {name: value for name, value in properties.items() if not name.startswith("elevata.")},
            dropped=properties.get(DROPPED) == "true",
        )

    def schema(self) -> StructType:
        """Return the columns from the log, without a query."""
        return StructType.fromJson({"type": "struct", "fields": metadata_of(self.snapshot()).fields})

    def physical_names(self) -> dict[str, str]:
        """Return Delta's physical name of every column, by its present name."""
        fields = metadata_of(self.snapshot()).fields
        return {field["name"]: field["metadata"].get(PHYSICAL_NAME, field["name"]) for field in fields}

    def stored_keys(self) -> list[str]:
        """Return the stable keys of columns in the table's properties, also those of dropped columns."""
        properties = metadata_of(self.snapshot()).properties
        return [name.removeprefix(COLUMN) for name in properties if name.startswith(COLUMN)]

    def keys_without_column(self, physical_name: str) -> list[str]:
        """Return the stable keys whose column had this physical name and was dropped; empty if it still exists."""
        if physical_name in self.physical_names().values():
            return []
        properties = metadata_of(self.snapshot()).properties
        stored = {name: value for name, value in properties.items() if name.startswith(COLUMN)}
        return [name.removeprefix(COLUMN) for name, value in stored.items() if value == physical_name]

    def newest_run_commit(self, version: int | None = None) -> RunCommit | None:
        """Return the newest run commit that no later RESTORE undid, up to a version; None if there is none."""
        newest, foreign = self._newest_content(version)
        return newest and replace(newest, foreign=tuple(change.described for change in foreign))

    def foreign_changes(self) -> list[ForeignChange]:
        """Return the changes of other writers since the newest run commit, newest first."""
        return self._newest_content()[1]

    def _newest_content(self, version: int | None = None) -> tuple[RunCommit | None, list[ForeignChange]]:
        """Return the newest run commit in the content of a version, and later foreign changes, newest first.

        ``version`` is the newest by default.
        A RESTORE is a foreign change if it undid a commit of a run or an execution. A RESTORE to the version before it
        undid none, so it is judged by its rows, as other commits are.
        """
        version, searched = self.version() if version is None else version, 0
        foreign: list[ForeignChange] = []
        while version >= 0 and (searched != _COMMITS_TO_SEARCH or self._has_run_commit(version)):
            info, searched = self._commit_info(version), searched + 1
            run_commit = run_commit_of(info.get("userMetadata"), version)
            if run_commit is not None:
                return run_commit, foreign
            before = self._restored_version(info) if info.get("operation") == "RESTORE" else version - 1
            changes = self._undoes_commits(version, before) if before < version - 1 else self._changes_rows(version)
            if changes and not is_ours(info.get("userMetadata")):
                foreign.append(ForeignChange(info.get("operation", "a commit"), version))
            version = before
        return None, foreign

    def _restored_version(self, info: dict[str, Any]) -> int:
        """Return the version that a RESTORE goes back to."""
        parameters = info["operationParameters"]
        if parameters.get("version") is not None:
            return int(parameters["version"])
        jvm = jvm_of(self.spark)
        instant = jvm.java.sql.Timestamp.valueOf(parameters["timestamp"])
        none = getattr(jvm, "scala.Option").empty()
        return self._log.history().getActiveCommitAtTime(instant, none, True, True, True).version()

    def _has_run_commit(self, newest: int) -> bool:
        """Return True if the log has a commit of a run up to this version."""
        return any(run_commit.version <= newest for run_commit in self.run_commits())

    def run_commits(self) -> list[RunCommit]:
        """Return all run commits that the log still has, newest first."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.sql_name}").select("version", "userMetadata").collect()
        commits = [run_commit_of(row.userMetadata, row.version) for row in history]
        return sorted(
            (commit for commit in commits if commit is not None), key=lambda commit: commit.version, reverse=True
        )

    def commit(self, version: int) -> list[dict] | None:
        """Return the actions of one commit; None if the log no longer has it."""
        lines = self._commit_lines(version)
        return None if lines is None else [json.loads(line) for line in lines]

    def _undoes_commits(self, version: int, before: int) -> bool:
        """Return True if a RESTORE in ``version`` to ``before`` undid a commit of a run or an execution."""
        undone = range(version - 1, before, -1)
        return any(is_ours(self._commit_info(number).get("userMetadata")) for number in undone)

    def _changes_rows(self, version: int) -> bool:
        parts = (action.get("add") or action.get("remove") for action in self.commit(version) or ())
        return any(part["dataChange"] for part in parts if part)

    def _commit_info(self, version: int) -> dict[str, Any]:
        for line in self._commit_lines(version) or ():
            if line.startswith('{"commitInfo"'):
                return json.loads(line)["commitInfo"]
        return {}

    def _commit_lines(self, version: int) -> list[str] | None:
        """Return the lines of one commit, which only a line feed ends: values may have other line separators."""
        jvm = jvm_of(self.spark)
        path = jvm.org.apache.hadoop.fs.Path(f"{self.location}/_delta_log/{version:020d}.json")
        file_system = path.getFileSystem(self.spark._jsc.hadoopConfiguration())
        if not file_system.exists(path):
            return None
        stream = file_system.open(path)
        try:
            text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return [line for line in text.split("\n") if line]


def publish(spark: SparkSession, table: TableSpec, location: str) -> None:
    """Create the table's name in the session's own catalog, unless it exists."""
    name = f"{quote_identifier(table.schema)}.{quote_identifier(table.name)}"
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(table.schema)}")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION {quote_text(location)}")


def observed_column(field: dict, keys: dict[str, str]) -> ObservedColumn:
    described = field["metadata"].get(_VARCHAR) or field["type"]
    return ObservedColumn(
        name=field["name"],
        type=str(from_spark(described if isinstance(described, str) else described["type"])),
        nullable=field["nullable"],
        key=keys.get(field["metadata"].get(PHYSICAL_NAME, field["name"])),
    )


@dataclass(frozen=True)
class Metadata:
    """Metadata of a table in its log: properties, fields of the schema as JSON, names of partition columns."""

    properties: dict[str, str]
    fields: list[dict[str, Any]]
    partition_by: tuple[str, ...]


def metadata_of(snapshot: Any) -> Metadata:
    """Return a snapshot's metadata, read by one call into the JVM."""
    metadata = json.loads(snapshot.metadata().json())["metaData"]
    fields = json.loads(metadata["schemaString"])["fields"]
    return Metadata(metadata["configuration"], fields, tuple(metadata["partitionColumns"]))


def reader_features(snapshot: Any) -> list[str]:
    """Return the features of a table's protocol that a reader must support."""
    protocol = json.loads(snapshot.protocol().json())["protocol"]
    by_version = [COLUMN_MAPPING] if protocol["minReaderVersion"] == _MAPPING_PROTOCOL else []
    return protocol.get("readerFeatures", by_version)


def properties_of(scala_map) -> dict[str, str]:
    """Return a Scala map of texts as a dict."""
    pairs = scala_map.iterator()
    properties = {}
    while pairs.hasNext():
        pair = pairs.next()
        properties[pair._1()] = pair._2()
    return properties
