"""Commits of rows to Delta tables, by one of two paths with the same result.

*direct* builds the commit from Delta's own classes (``direct_commits``). It is faster, but these classes are not a
public interface. *public* appends, overwrites or merges (``public_commits``). The runner chooses the path at its start.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from elevata.core.installation import user_command
from loader.domain.refusals import Refusal
from loader.spark.pyspark_types import gateway_of, jvm_of
from loader.spark.session import first_line
from loader.spark.sources.files import JAVA_ERRORS
from loader.spark.tables.direct_commits import DirectFiles
from loader.spark.tables.public_commits import PublicFiles
from loader.spark.tables.table_files import Changes, TableFiles
from loader.spark.tables.tables import DeltaTable

AUTO, DIRECT, PUBLIC = "auto", "direct", "public"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommitPath:
    """Path of the commits of this process, and the reason for it."""

    name: str
    reason: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


# A runner is one process with one installation of Delta.
_path = CommitPath(DIRECT, "no path was chosen")


def use(path: CommitPath) -> None:
    """Commit by this path from now on."""
    global _path
    _path = path


def path_in_use() -> CommitPath:
    return _path


def open_files(session: SparkSession, table: DeltaTable, key: tuple[str, ...] = ()) -> TableFiles:
    """Return a table's content at its present version.

    ``key`` are the columns that identify the rows of placed frames.
    """
    if _path.name == PUBLIC:
        return PublicFiles(session, table, key)
    return DirectFiles(session, table)


def commit(
    files: TableFiles,
    app_id: str | None,
    sequence: int = 0,
    *,
    add: DataFrame | None = None,
    written: Sequence[str] = (),
    remove: list[Any] | None = None,
    gone: DataFrame | None = None,
    gone_from: list[Any] | None = None,
    last: Callable[[], None] | None = None,
    recorded: Mapping[str, int] | None = None,
) -> bool:
    """Commit added rows, the removal of the files ``remove``, and of rows at the places ``gone`` in ``gone_from``.

    Return False without a write if the table already has ``sequence`` of the application ``app_id``. Without
    ``app_id`` the commit has no sequence. ``last`` is called after all rows are computed and before the commit; its
    exception leaves the table unchanged. ``recorded`` are further application ids with their versions, that of the
    run first. ``written`` are ``add`` actions, as JSON, of files that are in the table's folder already; only the
    direct path commits them. Raise TableMoved if the table has changed since ``files`` was read.
    """
    return files.commit(Changes(app_id, sequence, add, written, remove, gone, gone_from, last, recorded or {}))


# Choice of the path, by looking up the classes and methods that the direct path calls, with their parameters. Some
# thirty lookups take milliseconds, while a trial commit takes seconds in a cold JVM.

_DELTA = "org.apache.spark.sql.delta"
_BITMAP = f"{_DELTA}.deletionvectors.RoaringBitmapArray"
_OPTION, _SEQ = "scala.Option", "scala.collection.immutable.Seq"
_CONSTRUCTOR = "<init>"
_CALLS: tuple[tuple[str, str, tuple[str, ...] | None], ...] = (
    (f"{_DELTA}.DeltaLog", "startTransaction", (_OPTION, _OPTION)),
    (f"{_DELTA}.DeltaLog", "createDataFrame", (f"{_DELTA}.SnapshotDescriptor", _SEQ, "boolean", _OPTION)),
    (f"{_DELTA}.DeltaLog", "fileFormat", (f"{_DELTA}.actions.Protocol", f"{_DELTA}.actions.Metadata")),
    (f"{_DELTA}.Snapshot", "allFiles", ()),
    (f"{_DELTA}.Snapshot", "checksumOpt", ()),
    (f"{_DELTA}.VersionChecksum", "allFiles", ()),
    (f"{_DELTA}.OptimisticTransaction", "readWholeTable", ()),
    (f"{_DELTA}.OptimisticTransaction", "readTxn", ()),
    (f"{_DELTA}.OptimisticTransaction", "writeFiles", ("org.apache.spark.sql.Dataset",)),
    (f"{_DELTA}.OptimisticTransaction", "commit", (_SEQ, f"{_DELTA}.DeltaOperations$Operation")),
    (f"{_DELTA}.DeltaOperations$Write", _CONSTRUCTOR, ("org.apache.spark.sql.SaveMode", *([_OPTION] * 8))),
    (f"{_DELTA}.actions.SetTransaction", _CONSTRUCTOR, ("java.lang.String", "long", _OPTION)),
    (f"{_DELTA}.actions.Action", "fromJson", ("java.lang.String",)),
    (f"{_DELTA}.actions.AddFile", "json", ()),
    (f"{_DELTA}.actions.AddFile", "path", ()),
    (f"{_DELTA}.actions.AddFile", "partitionValues", ()),
    (f"{_DELTA}.actions.AddFile", "deletionVector", ()),
    (f"{_DELTA}.actions.AddFile", "numLogicalRecords", ()),
    (f"{_DELTA}.actions.AddFile", "numPhysicalRecords", ()),
    (f"{_DELTA}.actions.AddFile", "removeWithTimestamp", ("long", "boolean")),
    (f"{_DELTA}.actions.AddFile", "removeRows", (f"{_DELTA}.actions.DeletionVectorDescriptor", "boolean", "boolean")),
    (f"{_DELTA}.actions.DeletionVectorDescriptor", "serializeToBase64", ()),
    (f"{_DELTA}.actions.DeletionVectorDescriptor", "cardinality", ()),
    (f"{_DELTA}.actions.DeletionVectorDescriptor$", "inlineInLog", ("[B", "long")),
    (f"{_DELTA}.actions.Protocol$", "forTableFeature", (f"{_DELTA}.TableFeature",)),
    (f"{_DELTA}.actions.Protocol", "merge", (_SEQ,)),
    (f"{_DELTA}.DeletionVectorsTableFeature$", "MODULE$", None),
    (f"{_DELTA}.DeltaLog", "newDeltaHadoopConf", ()),
    (f"{_DELTA}.storage.dv.DeletionVectorStore$", "createInstance", ("org.apache.hadoop.conf.Configuration",)),
    (
        f"{_DELTA}.deletionvectors.StoredBitmap$",
        "create",
        (f"{_DELTA}.actions.DeletionVectorDescriptor", "org.apache.hadoop.fs.Path"),
    ),
    (f"{_DELTA}.deletionvectors.StoredBitmap", "load", (f"{_DELTA}.storage.dv.DeletionVectorStore",)),
    (_BITMAP, _CONSTRUCTOR, ()),
    (_BITMAP, "addRange", ("scala.collection.immutable.Range",)),
    (_BITMAP, "copy", ()),
    (_BITMAP, "runOptimize", ()),
    (_BITMAP, "diff", (_BITMAP,)),
    (_BITMAP, "merge", (_BITMAP,)),
    (_BITMAP, "serializeAsByteArray", ("scala.Enumeration$Value",)),
    (f"{_DELTA}.deletionvectors.RoaringBitmapArrayFormat$", "Portable", ()),
    (f"{_DELTA}.commands.DeletionVectorResult", "filePath", ()),
    (f"{_DELTA}.commands.DeletionVectorResult", "deletionVector", ()),
    (
        f"{_DELTA}.commands.DeletionVectorBitmapGenerator$",
        "buildDeletionVectors",
        ("org.apache.spark.sql.SparkSession", "org.apache.spark.sql.Dataset", f"{_DELTA}.DeltaLog", "int"),
    ),
)


def choose_path(spark: SparkSession, setting: str) -> CommitPath:
    """Return the path for the setting ``ELEVATA_COMMITS``. Raise Refusal if it is ``direct`` and cannot be used."""
    if setting == PUBLIC:
        return CommitPath(PUBLIC, "ELEVATA_COMMITS is public")
    missing = missing_call(spark)
    if not missing:
        return CommitPath(DIRECT, "Delta has every class and method that direct commits call")
    if setting == DIRECT:
        raise Refusal(
            "NO_DIRECT_COMMITS",
            f"ELEVATA_COMMITS is direct, and this Delta cannot be used so: {missing}",
            hint="Set ELEVATA_COMMITS to auto or public, or install the pinned version of Delta "
            f"({user_command('setup')}).",
        )
    log.warning("commits to tables take the public path, which is slower: %s", missing)
    return CommitPath(PUBLIC, f"direct commits cannot be used: {missing}")


def missing_call(spark: SparkSession) -> str:
    """Return the first class, method or field that the direct path needs and Delta lacks; empty if there is none."""
    for owner, member, parameters in _CALLS:
        try:
            java_class = class_of(spark, owner)
            if parameters is None:
                java_class.getField(member)
            elif member == _CONSTRUCTOR:
                java_class.getConstructor(_types(spark, parameters))
            else:
                java_class.getMethod(member, _types(spark, parameters))
        except JAVA_ERRORS as error:
            log.debug("%s", first_line(error))
            return f"there is no {owner}.{member}" + ("" if parameters is None else f"({', '.join(parameters)})")
    return ""


def _types(spark: SparkSession, names: tuple[str, ...]) -> Any:
    """Return a Java array of classes."""
    types = gateway_of(spark).new_array(jvm_of(spark).java.lang.Class, len(names))
    for place, name in enumerate(names):
        types[place] = class_of(spark, name)
    return types


def class_of(spark: SparkSession, name: str) -> Any:
    """Return a Java class or primitive type by its name, from the jars that the runner loaded."""
    jvm = jvm_of(spark)
    primitives = {"boolean": jvm.java.lang.Boolean, "int": jvm.java.lang.Integer, "long": jvm.java.lang.Long}
    if name in primitives:
        return primitives[name].TYPE
    return jvm.py4j.reflection.ReflectionUtil.classForName(name)
