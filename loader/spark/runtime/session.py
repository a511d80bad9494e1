"""Spark session of a runner, and the separate sessions of its datasets.

One JVM serves a runner for its whole life. ``userMetadata`` is a session setting, so every dataset of a run
has its own session: parallel datasets in one session would write each other's commit metadata.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from loader.spark.runtime.java import remember_classes
from metadata.domain.locations import Roots

# Files are for the user that the runner runs as.
UMASK = 0o077
# A setting of the context, which nothing changes once it runs.
SOURCES = "spark.elevata.sources"
# Beside Delta's jars (``loader.spark.runtime.classes``).
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
    # Places below which sources may stand, and folders that stay closed: fields of ``locations.Roots`` as text.
    source_roots: tuple[str, ...] = ()
    closed_folders: tuple[str, ...] = ()


def settings_of(config: RunnerConfig) -> dict[str, str]:
    """Return Spark's settings for a runner."""
    cores = os.cpu_count() or 2
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        # SQL is parsed as it was checked: no ${…} is replaced before, and literals and quotes mean what they meant.
        "spark.sql.variable.substitute": "false",
        "spark.sql.ansi.doubleQuotedIdentifiers": "false",
        "spark.sql.parser.escapedStringLiterals": "false",
        "spark.sql.parser.quotedRegexColumnNames": "false",
        "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
        # Small tables are the common case: their cost is the number of tasks, not the bytes.
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.default.parallelism": str(max(2, cores)),
        "spark.databricks.delta.snapshotPartitions": "1",
        # A load compiles some hundred small plans; the default of 100 throws them out between two loads. Each
        # entry holds its source text: some ten thousand of them would fill a runner's memory.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Nobody looks at a runner's own pages: what they would show need not be kept.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "500",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.databricks.delta.properties.defaults.checkpointInterval": "20",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
        # Else PySpark asks Java some ten times, and looks through sys.path, each time a column is written down, to
        # name the line of Python in an error.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Datasets of one run share the cores fairly; reads for pages have a pool of their own.
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": config.driver_memory,
        SOURCES: json.dumps({"roots": list(config.source_roots), "closed": list(config.closed_folders)}),
        "spark.sql.warehouse.dir": config.warehouse + "/.catalog",
        # A history has three segments: a file of each is written at once, without sorting the rows before.
        "spark.sql.maxConcurrentOutputFileWriters": "4",
        "spark.sql.legacy.charVarcharAsString": "false",
        # Hadoop sets the mode of files itself, whatever the process's umask is.
        "spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}",
    }
    jars = sorted(Path(config.jars).glob("*.jar")) if config.jars else []
    if jars:
        settings["spark.jars"] = ",".join(str(jar) for jar in jars)
    if options := _java_options(config):
        settings["spark.driver.extraJavaOptions"] = options
    if config.master.startswith("local"):
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
    given = json.loads(spark.sparkContext.getConf().get(SOURCES, "{}"))
    return Roots.of(given.get("roots", ()), given.get("closed", ()), folder="/")


def start_session(config: RunnerConfig) -> SparkSession:
    """Start and return the runner's session; raise pyspark's errors if Java or the master is missing."""
    builder = SparkSession.builder.master(config.master).appName(f"elevata runner ({config.environment})")
    for name, value in settings_of(config).items():
        builder = builder.config(name, value)
    remember_classes()
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(config.log_level)
    return spark


def dataset_session(spark: SparkSession, *, user_metadata: str) -> SparkSession:
    """Return a separate session for one dataset of a run, with ``user_metadata`` in its commits."""
    session = spark.newSession()
    session.conf.set(USER_METADATA, user_metadata)
    return session


def commit_metadata(fields: Mapping[str, Any]) -> str:
    """Return the JSON value for a session's ``USER_METADATA``.

    Spark replaces ``${…}`` in setting values, whatever ``spark.sql.variable.substitute`` says, so ``$`` is
    written as its JSON escape.
    """
    return json.dumps(fields, sort_keys=True).replace("$", "\\u0024")
