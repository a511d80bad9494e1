"""Settings of the runner's Spark session: the product's defaults, and reserved settings.

An installation's own settings (``ELEVATA_SPARK_CONF``) override the defaults. A reserved setting, on which the
product depends, has a fixed value or is set in another way; the file may not contain it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elevata.core.properties import Property

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
INITIAL_PARTITIONS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
# Of a cluster: 16 of some 64 MB let a core compare ten million rows.
INITIAL_PARTITIONS_OF_CORE = 16
PARALLELISM = "spark.default.parallelism"
# Only set-up, which fetches the jars (``elevata.bootstrap.jars``), reads these; the session does not get them.
OF_SET_UP = ("spark.jars.packages", "spark.jars.repositories", "spark.jars.ivySettings")

# A value ``{{ secret NAME }}``, for Hadoop's settings only, is the secret of that name (``elevata.core.secrets``).
SECRET_PREFIX = "ELEVATA_SPARK_SECRET_"
HADOOP = "spark.hadoop."
_REFERENCE = re.compile(r"\{\{\s*secret\s+([A-Za-z0-9_]*)\s*\}\}")
_CREDENTIAL = re.compile(
    r"^spark\.hadoop\..*(?:access[.]?key|secret[.]?key|session[.]token|account[.]?key|client[.]secret|password)", re.I
)


@dataclass(frozen=True)
class Promise:
    """Reserved setting: its fixed value, if the product sets one, and the reason."""

    reason: str
    value: str | None = None


_SQL = "statements are checked as they are written, and Spark must read them in the same way"
_VALUES = "values, hashes and histories depend on it"
_JARS = "the runner loads the jars that set-up fetched, so that Spark and Delta fit each other; name further ones in "
_JARS += "ELEVATA_SPARK_PACKAGES or spark.jars.packages"
_CODE = "code in the runner would see every row, with every user's permissions"

PROMISES: Mapping[str, Promise] = {
    "spark.sql.extensions": Promise(
        "tables are Delta tables, whose rules are this extension", "io.delta.sql.DeltaSparkSessionExtension"
    ),
    "spark.sql.catalog.spark_catalog": Promise(
        "names of tables lead to Delta's catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ),
    "spark.sql.catalogImplementation": Promise("names are published in a catalog of the runner's own", "in-memory"),
    "spark.sql.session.timeZone": Promise(f"timestamps are UTC; {_VALUES}", "UTC"),
    "spark.sql.ansi.enabled": Promise(f"a value that does not fit is an error, never NULL; {_VALUES}", "true"),
    "spark.sql.storeAssignmentPolicy": Promise(f"a value that does not fit is refused; {_VALUES}", "ANSI"),
    "spark.sql.caseSensitive": Promise("names that differ in case only are the same name", "false"),
    "spark.sql.parquet.outputTimestampType": Promise(
        "other readers find no year after 2262 in nanoseconds, Spark's default", "TIMESTAMP_MICROS"
    ),
    "spark.sql.variable.substitute": Promise(f"no ${{…}} is replaced: {_SQL}", "false"),
    "spark.sql.ansi.doubleQuotedIdentifiers": Promise(_SQL, "false"),
    "spark.sql.parser.escapedStringLiterals": Promise(_SQL, "false"),
    "spark.sql.parser.quotedRegexColumnNames": Promise(_SQL, "false"),
    "spark.sql.legacy.consecutiveStringLiterals.enabled": Promise(_SQL, "false"),
    "spark.sql.legacy.charVarcharAsString": Promise(f"text longer than its column is refused; {_VALUES}", "false"),
    "spark.scheduler.mode": Promise("reads of pages have a pool beside loads", "FAIR"),
    "spark.hadoop.fs.permissions.umask-mode": Promise("files are for the user that the runner runs as"),
    "spark.sql.warehouse.dir": Promise("set ELEVATA_WAREHOUSE"),
    "spark.databricks.delta.commitInfo.enabled": Promise("each run finds its commits by what they say", "true"),
    "spark.databricks.delta.commitInfo.userMetadata": Promise("each run writes its own"),
    "spark.databricks.delta.write.txnAppId": Promise("each run gives its commits their number"),
    "spark.databricks.delta.write.txnVersion": Promise("each run gives its commits their number"),
    "spark.databricks.delta.retentionDurationCheck.enabled": Promise(
        "files that an undo or a reader still needs are never removed", "true"
    ),
    "spark.databricks.delta.deltaLog.minorCompaction.useForReads": Promise(
        "commits are read themselves: compacted copies of other writers may have files that were removed", "false"
    ),
    "spark.master": Promise("set SPARK_MASTER"),
    "spark.submit.deployMode": Promise("the driver is the runner, a child process of the worker"),
    "spark.app.name": Promise("the product names its application"),
    "spark.driver.memory": Promise("set ELEVATA_DRIVER_MEMORY"),
    "spark.driver.extraJavaOptions": Promise("set ELEVATA_DRIVER_JAVA_OPTIONS"),
    "spark.driver.defaultJavaOptions": Promise("set ELEVATA_DRIVER_JAVA_OPTIONS"),
    "spark.jars": Promise(_JARS),
    "spark.submit.pyFiles": Promise(_CODE),
    "spark.driver.extraClassPath": Promise(_JARS),
    "spark.executor.extraClassPath": Promise(_JARS),
    "spark.driver.userClassPathFirst": Promise(_JARS),
    "spark.executor.userClassPathFirst": Promise(_JARS),
    "spark.extraListeners": Promise(_CODE),
    "spark.sql.queryExecutionListeners": Promise(_CODE),
    "spark.sql.streaming.streamingQueryListeners": Promise(_CODE),
    "spark.plugins": Promise(_CODE),
}
# Prefixes of further reserved settings.
_PREFIXES: Mapping[str, Promise] = {
    "spark.sql.legacy.": Promise(f"it changes what SQL means; {_VALUES}"),
    "spark.elevata.": Promise("these are the runner's own"),
}


@dataclass(frozen=True)
class Problem:
    """Refused property of the file, with the reason."""

    property: Property
    reason: str


def problems_of(properties: Iterable[Property]) -> list[Problem]:
    """Return the refused properties, in their order."""
    return [Problem(entry, reason) for entry in properties if (reason := _problem(entry))]


def _problem(entry: Property) -> str:
    promise = PROMISES.get(entry.name) or next(
        (promise for prefix, promise in _PREFIXES.items() if entry.name.startswith(prefix)), None
    )
    if promise is not None:
        only = f" (it is {promise.value})" if promise.value is not None else ""
        return f"cannot be given here{only}: {promise.reason}"
    if not entry.name.startswith("spark."):
        return "is no setting of Spark: their names begin with spark. (Hadoop's with spark.hadoop.)"
    if not entry.value:
        return "has no value"
    return _secret_problem(entry)


def _secret_problem(entry: Property) -> str:
    name = secret_of(entry.value)
    if name is None:
        if "{{" in entry.value:
            return f"has a {{{{ … }}}} that is not {{{{ secret {SECRET_PREFIX}… }}}}"
        if _CREDENTIAL.match(entry.name):
            return f"is a secret: write {{{{ secret {SECRET_PREFIX}… }}}} and set the variable, or its _FILE"
        return ""
    if not entry.name.startswith(HADOOP):
        return f"cannot be a secret by reference: only settings that begin with {HADOOP} can"
    if not name.startswith(SECRET_PREFIX) or name == SECRET_PREFIX:
        return f"names the variable {name or '(none)'}: secrets of Spark's settings begin with {SECRET_PREFIX}"
    return ""


def secret_of(value: str) -> str | None:
    """Return the variable that a value refers to, or None for a plain value."""
    match = _REFERENCE.fullmatch(value)
    return match.group(1) if match else None


def is_cluster(master: str) -> bool:
    """Return True if the master's executors are processes of their own."""
    return re.match(r"local(\[|$)", master) is None


def settings_of(*, master: str, cores: int, own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a master; an installation's ``own`` settings override the defaults."""
    fixed = {name: promise.value for name, promise in PROMISES.items() if promise.value is not None}
    own_settings = {name: value for name, value in own.items() if name not in OF_SET_UP}
    return {**_DEFAULTS, **({} if is_cluster(master) else _settings_by_cores(cores)), **own_settings, **fixed}


# Most tables are small, and their loads take a time that depends on the number of tasks, not bytes. On a cluster, the
# runner determines the number of cores after executors have registered.
def _settings_by_cores(cores: int) -> dict[str, str]:
    return {
        SHUFFLE_PARTITIONS: str(max(2, cores)),
        PARALLELISM: str(max(2, cores)),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
    }


_DEFAULTS: Mapping[str, str] = {
    "spark.databricks.delta.snapshotPartitions": "1",
    # A load compiles some hundred small plans, and the default of 100 would evict them between two loads. Some ten
    # thousand entries would fill a runner's memory, since each has its source text.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # The runner has no Spark UI, so its data need not be kept.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "20",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    # Otherwise PySpark calls Java some ten times, and searches sys.path, for every column expression, to show the
    # Python line in errors.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A history has three segments, whose files are written at the same time, without sorting the rows first.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
}
