"""Hive metastore server on a private PostgreSQL, with the schema that its own SchemaTool creates.

The server's distribution comes from Maven by its coordinates, resolved by the Ivy that Spark ships, once per
environment. It has all but Hadoop's classes, which Spark's jars have.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import psycopg
import pyspark

from elevata.bootstrap.java import java_home
from tests.services.postgres import start_postgres
from tests.services.process import Server, ServerProblem

VERSION = "4.0.1"
SERVER = "hive-standalone-metastore-server"
_FETCHED_WITHIN = 300.0
_SCHEMA_WITHIN = 120.0
# Spark's client of Hive 4: the client that Spark ships calls functions that this server has removed.
_CLIENT = ("hive-common", "hive-exec", "hive-metastore", "hive-serde")
_HIVE = "org.apache.hadoop.hive.metastore"
_DEPENDENCIES = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="elevata" module="test-servers"/>
  <dependencies>
    <dependency org="org.apache.hive" name="{SERVER}" rev="{VERSION}" transitive="false">
      <artifact name="{SERVER}" type="tar.gz" ext="tar.gz" m:classifier="bin"/>
    </dependency>
    <dependency org="org.apache.hadoop" name="hadoop-hdfs" rev="3.3.6" transitive="false"/>
    {"".join(f'<dependency org="org.apache.hive" name="{jar}" rev="{VERSION}" transitive="false"/>' for jar in _CLIENT)}
    <dependency org="commons-collections" name="commons-collections" rev="3.2.2" transitive="false"/>
  </dependencies>
</ivy-module>
"""
# Excluded jars: those whose versions must fit Spark's, and Spark's own copies of Hive.
_NOT_OF_HIVE = ("log4j-", "slf4j-")
_NOT_OF_SPARK = ("hive-", "spark-", "datanucleus-", "derby")
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"


class Metastore:
    """A running metastore server and its database."""

    def __init__(self, folder: Path) -> None:
        self._home, self._folder = _distribution(), folder
        self._database, self._url = start_postgres(folder / "postgres")
        try:
            self._configure(self._url)
            self._make_schema()
            self.server = Server(
                "Hive metastore",
                lambda port: [*self._java(f"{_HIVE}.HiveMetaStore", memory="512m"), "-p", str(port)],
                _answers,
                log=folder / "metastore.log",
                stop_signal=signal.SIGTERM,
            )
        except BaseException:
            self._database.stop()
            raise

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.server.port}"

    @property
    def client_jars(self) -> str:
        """Return the jars of Spark's metastore client as a Spark setting: Hive's own, and their dependencies."""
        beneath = [f"{_SPARK_JARS}/{name}.jar" for name in ("commons-*", "http*", "javax.servlet-api-*")]
        jars = [f"{self._home}/client/*.jar", *beneath, f"{self._home}/lib/*.jar"]
        return ",".join(f"file://{jar}" for jar in jars)

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables of an installation that publishes to this metastore."""
        return {
            "ELEVATA_CATALOG": self.uri,
            "ELEVATA_METASTORE_VERSION": VERSION,
            "ELEVATA_METASTORE_JARS": self.client_jars,
        }

    def stored(self) -> list[str]:
        """Return the names of all tables, views and functions in the server's database, sorted."""
        kinds = (("TBLS", "TBL_NAME"), ("FUNCS", "FUNC_NAME"))
        queries = (
            f'SELECT d."NAME" || \'.\' || n."{name}" FROM "{table}" n JOIN "DBS" d ON d."DB_ID" = n."DB_ID"'
            for table, name in kinds
        )
        with psycopg.connect(self._url) as connection:
            return sorted(row[0] for row in connection.execute(" UNION ALL ".join(queries)).fetchall())

    def execute(self, statement: str, *values: str) -> None:
        """Change the server's database, in place of a program that is no Spark."""
        with psycopg.connect(self._url) as connection:
            connection.execute(statement, values)

    def stop(self) -> None:
        self.server.stop()
        self._database.stop()

    def _configure(self, url: str) -> None:
        database = urlsplit(url)
        options = {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{database.hostname}:{database.port}{database.path}",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": database.username or "",
            "javax.jdo.option.ConnectionPassword": "unused",
            "metastore.warehouse.dir": str(self._folder / "hive"),
            "metastore.expression.proxy": f"{_HIVE}.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": f"{_HIVE}.events.EventCleanerTask",
        }
        rows = (
            f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in options.items()
        )
        (self._folder / "metastore-site.xml").write_text(f"<configuration>{''.join(rows)}</configuration>")

    def _make_schema(self) -> None:
        done = subprocess.run(
            [*self._java(f"{_HIVE}.tools.schematool.MetastoreSchemaTool"), "-initSchema", "-dbType", "postgres"],
            env=os.environ | {"METASTORE_HOME": str(self._home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SCHEMA_WITHIN,
        )
        if done.returncode != 0:
            raise ServerProblem(f"Hive's SchemaTool: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def _java(self, main: str, *, memory: str = "256m") -> list[str]:
        own = _jars(self._home / "lib", but=_NOT_OF_HIVE)
        classpath = os.pathsep.join([str(self._folder), *own, *_jars(_SPARK_JARS, but=_NOT_OF_SPARK)])
        return [_java(), f"-Xmx{memory}", "-cp", classpath, main]


def _jars(folder: Path, *, but: tuple[str, ...]) -> list[str]:
    return sorted(str(jar) for jar in folder.glob("*.jar") if not jar.name.startswith(but))


@contextmanager
def running_metastore() -> Iterator[Metastore]:
    """Yield a running metastore; stop it and remove its data at the end."""
    folder = Path(tempfile.mkdtemp(prefix="elevata-test-"))
    try:
        metastore = Metastore(folder)
        try:
            yield metastore
        finally:
            metastore.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _java() -> str:
    home = java_home()
    return str(Path(home, "bin", "java")) if home else "java"


def _distribution() -> Path:
    """Return the folder of the server's distribution; fetch it if this environment has none."""
    home = Path(sys.prefix, "test-servers", f"{SERVER}-{VERSION}")
    if not home.is_dir():
        home.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as folder:
            fetched = _fetch(Path(folder))
            if not home.is_dir():  # another session has created it meanwhile
                fetched.rename(home)
    return home


def _fetch(folder: Path) -> Path:
    described = folder / "ivy.xml"
    described.write_text(_DEPENDENCIES)
    done = subprocess.run(
        [_java(), "-cp", f"{_SPARK_JARS}/*", "org.apache.ivy.Main", "-ivy", str(described)]
        + ["-cache", str(folder / "cache"), "-types", "tar.gz", "jar", "-retrieve"]
        + [str(folder / "fetched" / "[artifact].[ext]")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_FETCHED_WITHIN,
    )
    archive = folder / "fetched" / f"{SERVER}.tar.gz"
    if done.returncode != 0 or not archive.is_file():
        raise ServerProblem(f"{SERVER}:{VERSION} could not be fetched from Maven:\n{done.stdout[-2000:]}")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (home,) = (folder / "unpacked").iterdir()
    (home / "client").mkdir()
    for jar in (folder / "fetched").glob("*.jar"):
        shutil.move(jar, home / ("client" if jar.stem in _CLIENT else "lib"))
    return home
