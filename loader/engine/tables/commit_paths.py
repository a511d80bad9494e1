"""Choice of the commit path, by looking up the classes and methods that the direct path calls, with their parameters.

Some thirty lookups take milliseconds, while a trial commit takes seconds in a cold JVM.
"""

import logging
from typing import Any

from pyspark.sql import SparkSession

from elevata.core.installation import user_command
from loader.contract.refusals import Refusal
from loader.engine.java_errors import JAVA_ERRORS, first_line
from loader.engine.pyspark_types import gateway_of, jvm_of
from loader.engine.tables.commits import DIRECT, PUBLIC, CommitPath

log = logging.getLogger(__name__)

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
        return CommitPath(DIRECT, "this version of Delta supports them")
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
