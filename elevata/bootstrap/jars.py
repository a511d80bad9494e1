"""Jars beside Spark's own, fetched once so that starting Spark needs no network, and the archive of classes.

They are Delta Lake's, Spark's readers of Avro files and Kafka topics, PostgreSQL's driver, the packages that the
installation names by coordinates, and Hadoop's S3 client where a location of the installation is on ``s3a://``. Spark's
own resolver resolves the dependencies into a temporary cache; the jars are copied to the virtual environment, except
those that Spark ships itself: Spark's version wins when both exist, so the others would only slow every start down.

The class data archive saves a third of every runner's start. It fits one JVM and one set of jars; any other JVM
ignores it.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from elevata.bootstrap.console import Problem, run
from elevata.bootstrap.environment import RUNTIME
from elevata.bootstrap.java import java_home
from elevata.bootstrap.places import DATABASE_DRIVERS, KAFKA_BROKER, OBJECT_STORE, PYTHON, SPARK_JARS, VENV
from elevata.bootstrap.stamps import digest, once
from elevata.core.installation import IS_INSTALLED
from elevata.core.properties import BadProperties, Property, parse_properties

ARCHIVE = SPARK_JARS / "classes.jsa"
SCALA = "2.13"
DELTA = "delta-spark"
SPARK = "pyspark"
S3_CLIENT = "org.apache.hadoop:hadoop-aws"
# Drivers of other databases come by ELEVATA_SPARK_PACKAGES; the tests read MariaDB.
POSTGRESQL_DRIVER = "org.postgresql:postgresql:42.7.8"
MARIADB_DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.5.6"
# The S3 server of the tests, and a package of which it needs this version or a newer one.
S3_SERVER = "org.gaul:s3proxy:4.1.0"
S3_SERVER_ANNOTATIONS = "com.fasterxml.jackson.core:jackson-annotations:2.22"
# The Kafka broker of the tests, and the writer of its log.
KAFKA_SERVER = "org.apache.kafka:kafka_2.13:4.1.1"
KAFKA_SERVER_LOG = "org.slf4j:slf4j-simple:1.7.36"
# Beside the jars: the coordinates that they were fetched for, one a line.
COORDINATES = "coordinates"
# Variables that name places of the warehouse and its sources.
_PLACES = ("ELEVATA_WAREHOUSE", "ELEVATA_SOURCE_ROOTS", "ELEVATA_COPY_ROOTS", "ELEVATA_BATCH_FOLDER")
# Line of the resolver about a description of a package (POM) that its host did not send.
_UNREAD = re.compile(r"Server access error at url \S+/(\S+)\.pom \((.*)\)")
_COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


def spark_jars() -> str:
    """Keep the jars that belong to the pinned versions of Spark and Delta, and the installation's packages."""
    wanted = list(dict.fromkeys([coordinate(), avro(), kafka(), POSTGRESQL_DRIVER, *packages(os.environ)]))
    options = resolver_options(os.environ)
    return once(
        "spark-jars", digest(*wanted, *options), lambda: fetch(wanted, SPARK_JARS, options), results=[SPARK_JARS]
    )


def packages(environment: Mapping[str, str]) -> list[str]:
    """Return the coordinates that an installation asks for. Raise Problem for one that is none."""
    listed = [environment.get("ELEVATA_SPARK_PACKAGES", "")]
    listed += [entry.value for entry in _own_settings(environment) if entry.name == "spark.jars.packages"]
    wanted = [name.strip() for text in listed for name in text.split(",") if name.strip()]
    for name in wanted:
        if not _COORDINATE.fullmatch(name):
            raise Problem(f"{name} is no package", "write group:artifact:version, with commas between packages")
    on_s3 = any("s3a://" in environment.get(name, "") for name in _PLACES)
    if on_s3 and not any(name.startswith(f"{S3_CLIENT}:") for name in wanted):
        wanted.append(s3_client())
    return list(dict.fromkeys(wanted))


def s3_client() -> str:
    """Return the coordinate of Hadoop's S3 client, of the version of the Hadoop in Spark."""
    (jar,) = (_spark_home() / "jars").glob("hadoop-client-api-*.jar")
    return f"{S3_CLIENT}:{jar.stem.removeprefix('hadoop-client-api-')}"


def resolver_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options of spark-submit by which it finds packages: repositories, or a file of Ivy's settings."""
    own = {entry.name: entry.value for entry in _own_settings(environment)}
    options = []
    if "spark.jars.repositories" in own:
        options += ["--repositories", own["spark.jars.repositories"]]
    if "spark.jars.ivySettings" in own:
        options += ["--conf", f"spark.jars.ivySettings={own['spark.jars.ivySettings']}"]
    return options


def _own_settings(environment: Mapping[str, str]) -> list[Property]:
    file = environment.get("ELEVATA_SPARK_CONF", "").strip()
    try:
        return parse_properties(Path(file).read_text(encoding="utf-8")) if file else []
    except (OSError, UnicodeDecodeError, BadProperties) as error:
        raise Problem(f"{file} cannot be read: {error}", "correct ELEVATA_SPARK_CONF") from None


def coordinate() -> str:
    """Return Delta's Maven coordinate from the pins: its jar is published per minor version of Spark."""
    pins = _pins()
    spark = ".".join(pins[SPARK].split(".")[:2])
    return f"io.delta:{DELTA}_{spark}_{SCALA}:{pins[DELTA]}"


def avro() -> str:
    """Return the Maven coordinate of Spark's reader of Avro files, of the pinned version of Spark."""
    return f"org.apache.spark:spark-avro_{SCALA}:{_pins()[SPARK]}"


def kafka() -> str:
    """Return the Maven coordinate of Spark's reader of Kafka topics, of the pinned version of Spark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{_pins()[SPARK]}"


def _pins() -> dict[str, str]:
    lines = [line for line in RUNTIME.read_text().splitlines() if "==" in line and line[0] != "#"]
    return {name: version.strip() for name, version in (line.split("==", 1) for line in lines)}


def object_store() -> str:
    """Keep what the tests of object stores need: Delta's jars with the S3 client, and an S3 server."""
    return once("object-store", digest(coordinate(), s3_client(), S3_SERVER), _object_store, results=[OBJECT_STORE])


def _object_store() -> str:
    OBJECT_STORE.mkdir(parents=True, exist_ok=True)
    fetched = fetch([coordinate(), s3_client()], OBJECT_STORE / "spark-jars")
    fetch([S3_SERVER, S3_SERVER_ANNOTATIONS], OBJECT_STORE / "s3proxy", of_spark=False)
    return f"{fetched}, and {S3_SERVER}"


def kafka_server() -> str:
    """Keep the jars of the Kafka broker of the tests. Spark's client is older, so it has a class path of its own."""
    wanted = [KAFKA_SERVER, KAFKA_SERVER_LOG]
    stamp = digest(*wanted)
    return once("kafka-server", stamp, lambda: fetch(wanted, KAFKA_BROKER, of_spark=False), results=[KAFKA_BROKER])


def database_drivers() -> str:
    """Keep the jars with which the tests read MariaDB: Delta's and the driver."""
    wanted = [coordinate(), MARIADB_DRIVER]
    stamp = digest(*wanted)
    return once("database-drivers", stamp, lambda: fetch(wanted, DATABASE_DRIVERS), results=[DATABASE_DRIVERS])


def fetch(wanted: list[str], folder: Path, options: Iterable[str] = (), *, of_spark: bool = True) -> str:
    """Resolve the coordinates and keep their jars in ``folder``; those ``of_spark`` without what Spark ships."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="elevata-jars-", dir=folder.parent) as scratch:
        nothing = Path(scratch, "nothing.py")
        nothing.write_text("")
        output = run(
            [
                _spark_home() / "bin" / "spark-submit",
                *("--packages", ",".join(wanted)),
                *("--conf", f"spark.jars.ivy={scratch}/ivy"),
                *options,
                nothing,
            ],
            failure=f"the jars of {', '.join(wanted)} could not be fetched",
            env=_spark_environment(),
        )
        if not options:  # a package that one of several repositories does not give may come from another
            _check_dependencies(output)
        jars = sorted(Path(scratch, "ivy", "jars").glob("*.jar"))
        for name in wanted:
            group, artifact, version = name.split(":")
            if not any(jar.name == f"{group}_{artifact}-{version}.jar" for jar in jars):
                raise Problem(
                    f"there is no jar of {name}: it has none, or another package needs another version of it",
                    "correct ELEVATA_SPARK_PACKAGES",
                )
        new = beyond(jars, (_spark_home() / "jars").glob("*.jar")) if of_spark else jars
        _keep(new, wanted, folder)
    return f"{len(new)} jars of {', '.join(wanted)}"


def _check_dependencies(output: str) -> None:
    """Raise Problem if the connection broke while a package's dependencies were read.

    The resolver goes on without them and succeeds.
    """
    unread = _UNREAD.search(output)
    if unread:
        raise Problem(f"the dependencies of {unread[1]} could not be read: {unread[2]}", "run it again")


def beyond(resolved: Iterable[Path], shipped: Iterable[Path]) -> list[Path]:
    """Return the resolved jars whose artifact Spark does not ship in any version.

    The resolver writes ``<organisation>_<artifact>-<version>.jar``, Spark without the organisation.
    """
    own = {_artifact(jar.name) for jar in shipped}
    return [jar for jar in resolved if _artifact(jar.name.split("_", 1)[1]) not in own]


def _artifact(file_name: str) -> str:
    return re.sub(r"-\d[^-]*(-.*)?\.jar$", "", file_name)


def _spark_home() -> Path:
    """Return the folder of PySpark: in the environment of a checkout, or where this Python finds it."""
    if IS_INSTALLED and (spec := find_spec("pyspark")) and spec.origin:
        return Path(spec.origin).parent
    home = next(VENV.glob("lib*/python*/*-packages/pyspark"), None)
    if home is None:
        raise Problem("PySpark is not installed", "install the packages first")
    return home


def _spark_environment() -> dict[str, str]:
    """Return the process environment with Spark set to this virtual environment's."""
    environment = {
        "SPARK_HOME": str(_spark_home()),
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    home = java_home()
    return {**environment, "JAVA_HOME": home} if home else environment


def _keep(jars: list[Path], wanted: list[str], folder: Path) -> None:
    """Put the jars in place in one move, so that the set is never incomplete."""
    pending = folder.with_name(folder.name + ".new")
    shutil.rmtree(pending, ignore_errors=True)
    pending.mkdir(parents=True)
    for jar in jars:
        shutil.move(jar, pending)
    (pending / COORDINATES).write_text("\n".join(wanted) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    pending.rename(folder)


def class_archive() -> str:
    """Create the archive. A JVM that cannot is no failure, because everything works without, only slower."""
    jars = sorted(jar.name for jar in SPARK_JARS.glob("*.jar"))
    return once("spark-classes", digest(RUNTIME, java_home() or "", *jars), _make_archive)


def _make_archive() -> str:
    home = java_home()
    try:
        run(
            [PYTHON, "-m", "loader.engine.jvm_class_archive", SPARK_JARS],
            failure="no archive of Spark's classes",
            env={"JAVA_HOME": home} if home else {},
        )
    except Problem as problem:
        return f"left out: {problem}"
    return f"{ARCHIVE.stat().st_size / 2**20:.0f} MB of classes kept for quicker starts"
