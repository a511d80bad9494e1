"""Spark session of a runner: its settings, its sessions for datasets, cached frames.

One JVM serves a runner for its whole life. ``userMetadata`` is a session setting, so every dataset of a run
has its own session: parallel datasets in one session would write each other's commit metadata.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.java_gateway import JavaClass, JavaPackage, JVMView, is_instance_of
from pyspark import SparkConf, SparkContext, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.contract.refusals import Refusal
from loader.domain import spark_settings
from loader.engine.java_errors import JAVA_ERRORS, thrown_by
from metadata.domain.sources.locations import Roots

# Files are for the user that the runner runs as.
UMASK = 0o077
# A setting of the context, which is constant once it runs.
SOURCES = "spark.elevata.sources"
# Addresses of a Hive metastore that names are published in; empty: those that Hive's own settings name.
METASTORE = "spark.elevata.metastore"
# Beside Delta's jars (``loader.engine.jvm_class_archive``).
CLASS_ARCHIVE = "classes.jsa"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class RunnerConfig:
    """Settings of the Spark session, all given by the worker."""

    warehouse: str
    master: str = "local[*]"
    jars: str = ""
    driver_memory: str = "1g"
    java_options: str = ""
    environment: str = "dev"
    log_level: str = "ERROR"
    # Answers reads and checks of histories, and nothing else.
    reads_only: bool = False
    # ELEVATA_COMMITS: auto, direct or public (``loader.engine.tables.commits``).
    commits: str = "auto"
    # Permitted folders of sources, and closed folders: fields of ``locations.Roots`` as text.
    source_roots: tuple[str, ...] = ()
    closed_folders: tuple[str, ...] = ()
    # Permitted hosts of databases, Kafka clusters and APIs, with or without a port.
    source_hosts: tuple[str, ...] = ()
    # Folder in which pages of APIs land, and the number of runs of a dataset whose pages stay.
    landing: str = ""
    landing_runs: int = 3
    # The installation's own settings, where each stands (file and line), and Hadoop's secret ones.
    conf: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Shared catalog: addresses of its metastore, and the version and jars of the client ("" for Spark's own).
    metastore: str = ""
    metastore_version: str = ""
    metastore_jars: str = ""


def settings_of(config: RunnerConfig) -> dict[str, str]:
    """Return Spark's settings for a runner."""
    settings = spark_settings.settings_of(master=config.master, cores=os.cpu_count() or 2, own=config.conf) | {
        "spark.driver.memory": config.driver_memory,
        SOURCES: json.dumps(
            {
                "roots": list(config.source_roots),
                "closed": list(config.closed_folders),
                "hosts": list(config.source_hosts),
                "landing": config.landing,
                "landing_runs": config.landing_runs,
            }
        ),
        "spark.sql.warehouse.dir": config.warehouse + "/.catalog",
        # Hadoop sets the mode of files itself, whatever the process's umask is.
        "spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}",
    }
    jars = sorted(Path(config.jars).glob("*.jar")) if config.jars else []
    if jars:
        settings["spark.jars"] = ",".join(str(jar) for jar in jars)
    if config.metastore:
        settings[METASTORE] = config.metastore
    if config.metastore_version:
        settings["spark.sql.hive.metastore.version"] = config.metastore_version
    if config.metastore_jars:
        settings["spark.sql.hive.metastore.jars"] = "path"
        settings["spark.sql.hive.metastore.jars.path"] = config.metastore_jars
    if options := _java_options(config):
        settings["spark.driver.extraJavaOptions"] = options
    if not spark_settings.is_cluster(config.master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _java_options(config: RunnerConfig) -> str:
    """Return the configured Java options, and the class archive if set-up has created one."""
    archive = Path(config.jars, CLASS_ARCHIVE)
    own = config.java_options.split()
    if config.jars and archive.is_file() and not any(option.startswith("-XX:ArchiveClasses") for option in own):
        own.append(f"-XX:SharedArchiveFile={archive}")
    return " ".join(own)


def source_roots(spark: SparkSession) -> Roots:
    """Return the folders that sources may be read from, as configured at the runner's start."""
    given = _permitted(spark)
    return Roots.of(given.get("roots", ()), given.get("closed", ()), folder="/")


def source_hosts(spark: SparkSession) -> tuple[str, ...]:
    """Return the permitted hosts of databases, Kafka clusters and APIs, as configured at the runner's start."""
    return tuple(_permitted(spark).get("hosts", ()))


def source_landing(spark: SparkSession) -> tuple[Path, int]:
    """Return the folder in which pages of APIs land, and the number of runs of a dataset whose pages stay."""
    given = _permitted(spark)
    return Path(given["landing"]), given["landing_runs"]


def _permitted(spark: SparkSession) -> dict[str, Any]:
    # Not ``getConf``, which copies every setting by a call of its own.
    return json.loads(spark.sparkContext._jsc.sc().conf().get(SOURCES, "{}"))


def start_session(config: RunnerConfig) -> SparkSession:
    """Start and return the runner's session; raise pyspark's errors if Java or the master is missing."""
    conf = SparkConf(loadDefaults=False).setAll(list(settings_of(config).items()))
    purpose = "reads" if config.reads_only else "runner"
    conf.setMaster(config.master).setAppName(f"elevata {purpose} ({config.environment})")
    if not spark_settings.is_cluster(config.master):
        # Tasks need the runner's packages, which another python3 on PATH lacks.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    remember_classes()
    SparkContext._ensure_initialized(conf=conf)
    _check_settings(config)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    # py4j looks its own class up here, to be remembered: a Hive client that cannot connect leaves its thread with a
    # class loader that does not find it, and then no exception of Java could be read.
    is_instance_of(SparkContext._gateway, spark._jsparkSession, "java.lang.Object")
    _set_secrets(spark, config.secrets)
    spark.sparkContext.setLogLevel(config.log_level)
    return spark


def _check_settings(config: RunnerConfig) -> None:
    """Raise Refusal SPARK_SETTING for a value of the installation's own that Spark cannot read."""
    java = SparkContext._jvm
    assert java is not None
    for declared in ("internal.config.package$", "sql.internal.SQLConf$", "sql.internal.StaticSQLConf$"):
        java.java.lang.Class.forName(f"org.apache.spark.{declared}")
    for name, value in config.conf.items():
        if "${" in value:  # replaced by Spark when it is read
            continue
        entry = java.org.apache.spark.internal.config.ConfigEntry.findEntry(name)
        if entry is None:  # Hadoop's, a catalog's, or one that Spark reads without declaring it
            continue
        try:
            entry.valueConverter().apply(value)
        except JAVA_ERRORS as error:
            because = thrown_by(error)[-1].message
            raise Refusal(
                "SPARK_SETTING",
                f"{config.places.get(name, 'settings')}: {name}: Spark refuses {value!r}: {because}",
                hint="Correct the setting; the runner is started again by the next request.",
            ) from error


def _set_secrets(spark: SparkSession, secrets: Mapping[str, str]) -> None:
    """Give Hadoop its secrets, which executors get with its configuration.

    As settings of Spark they would be arguments of the JVM's command line, which every user of the machine sees.
    """
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in secrets.items():
        configuration.set(name.removeprefix(spark_settings.HADOOP), value)


def fit_shuffles(session: SparkSession) -> SparkSession:
    """Fit the number of shuffle partitions to a cluster's cores, unless the settings give the number.

    Executors register, come and go while the context lives, so the number is asked for with each request. A shuffle
    begins with many partitions, which Spark joins up to 64 MB each: an executor then holds a part of a large table
    that does not depend on the table's size.
    """
    context = session.sparkContext
    is_cluster = spark_settings.is_cluster(context.master or "")
    if is_cluster and not context._conf.contains(spark_settings.SHUFFLE_PARTITIONS):
        cores = max(2, context.defaultParallelism)
        session.conf.set(spark_settings.SHUFFLE_PARTITIONS, str(cores))
        session.conf.set(spark_settings.INITIAL_PARTITIONS, str(cores * spark_settings.INITIAL_PARTITIONS_OF_CORE))
    return session


def dataset_session(spark: SparkSession, *, user_metadata: str) -> SparkSession:
    """Return a separate session for one dataset of a run, with ``user_metadata`` in its commits."""
    session = fit_shuffles(spark.newSession())
    session.conf.set(USER_METADATA, user_metadata)
    return session


def persisted(frame: DataFrame, level: StorageLevel) -> DataFrame:
    """Return the frame with rows persisted for it alone; the caller unpersists it.

    All sessions of a context share Spark's cache, which has one entry for equal plans: a dataset would read the rows
    that another one persisted, and lose them when that one ends. The condition makes the plan a different one. It
    holds for every row, and Spark removes it before it reads.
    """
    return frame.where(F.lit(str(uuid4())).isNotNull()).persist(level)


def forget(checkpointed: DataFrame) -> None:
    """Release the storage of a local checkpoint."""
    checkpointed._jdf.queryExecution().logical().rdd().unpersist(False)


def commit_metadata(fields: Mapping[str, Any]) -> str:
    """Return the JSON value for a session's ``USER_METADATA``.

    Spark replaces ``${…}`` in setting values, whatever ``spark.sql.variable.substitute`` says, so ``$`` is
    written as its JSON escape.
    """
    return json.dumps(fields, sort_keys=True).replace("$", "\\u0024")


def remember_classes() -> None:
    """Make py4j resolve each part of a class name once instead of at every use.

    Java searches every jar before it reports that ``org.apache`` is no class, as often for PySpark's own code as
    for ours; this took a sixth of a small load's CPU time. A package never becomes a class.
    """
    for owner in (JVMView, JavaPackage):
        if not hasattr(owner.__getattr__, "__wrapped__"):
            owner.__getattr__ = _remembering(owner.__getattr__)


def _remembering(look_up: Any) -> Any:
    @wraps(look_up)
    def remembered(parent: Any, name: str) -> Any:
        member = look_up(parent, name)
        if isinstance(member, (JavaPackage, JavaClass)):
            parent.__dict__[name] = member  # __getattr__ is not called for what an object has
        return member

    return remembered
