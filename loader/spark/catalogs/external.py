"""Publication of names in a Hive metastore, through Spark's own client.

The runner's session keeps its in-memory catalog, so that no load, step or dry run depends on the metastore. A name
is defined there first, and its definition is copied into the metastore. Only this module connects to it.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from architecture.domain.steps.report_steps import named
from architecture.domain.steps.statements import catalog_name, location_of
from loader.domain.catalog import TABLE, VIEW
from loader.domain.manifest import PublishedName as Name
from loader.domain.manifest import PublishManifest
from loader.domain.publication import (
    DIGEST,
    EXTRA,
    FAILED,
    FUNCTION,
    LASTING,
    MARK,
    Finding,
    Held,
    as_answer,
    compare,
)
from loader.domain.refusals import Refusal
from loader.spark.session import METASTORE, dataset_session, first_line, thrown_by
from loader.spark.sources.files import JAVA_ERRORS
from loader.spark.tables.steps import make_room
from loader.spark.tables.tables import properties_of, publish
from metadata.domain.sql import quote_identifier

# A metastore that is down is reported after seconds, not after Hive's default of minutes.
_PATIENCE = {
    "hive.metastore.connect.retries": "1",
    "hive.metastore.client.connect.retry.delay": "1s",
    "hive.metastore.failure.retries": "1",
    "hive.metastore.client.socket.timeout": "60s",
}
_MANAGED = "MANAGED"
_publishing = threading.Lock()
_connected: dict[str, Any] = {}


def publish_names(spark: SparkSession, warehouse: str, manifest: PublishManifest) -> dict[str, Any]:
    """Compare the catalog with the names; unless it is a check, settle every difference that can be settled.

    The answer has the differences that a check found, else those that are left when the catalog is read again.
    Raise Refusal CATALOG_DOWN.
    """
    with _publishing:
        session = dataset_session(spark, user_metadata="")
        with _reachable(manifest.address):
            catalog = _Metastore(session, warehouse, manifest)
            findings = catalog.findings()
            if not manifest.check and findings:
                kept = {(one.kind, one.name): one for one in map(catalog.settled, findings) if one is not None}
                findings = [kept.get((one.kind, one.name), one) for one in catalog.findings()]
        return as_answer(findings, len(manifest.names))


@contextmanager
def _reachable(address: str) -> Iterator[None]:
    try:
        yield
    except JAVA_ERRORS as failure:
        _connected.clear()  # the next request makes a client of its own
        raise Refusal(
            "CATALOG_DOWN",
            f"the catalog {address} does not answer as expected: {_innermost(failure)}",
            hint="The tables themselves are as they were written. Start the metastore, or correct ELEVATA_CATALOG, "
            "ELEVATA_METASTORE_VERSION and ELEVATA_METASTORE_JARS; then run manage.py publish.",
        ) from failure


def _innermost(failure: Exception) -> str:
    """Return the first cause of a failure: Hive wraps what its server says several times."""
    thrown = [one for one in thrown_by(failure) if one.message.strip()]
    if not thrown:
        return first_line(failure)
    return f"{thrown[-1].name.rpartition('.')[2]}: {thrown[-1].message.strip().splitlines()[0][:500]}"


class _Metastore:
    """The metastore's entries in the schemas of a publication."""

    def __init__(self, session: SparkSession, warehouse: str, manifest: PublishManifest) -> None:
        self._session, self._jvm, self._manifest = session, session._jvm, manifest
        self._given = warehouse
        self._warehouse = self._qualified(warehouse)
        self._names = {(name.kind == FUNCTION, name.name): name for name in manifest.names}
        self._memory = session._jsparkSession.sessionState().catalog().externalCatalog()
        self._hive = _client(session)
        self._schemas = set(_texts(self._hive.listDatabases()))

    def findings(self) -> list[Finding]:
        locations = {name.key: self._location(name.key) for name in self._manifest.names if name.key}
        held = [entry for schema in sorted(self._asked & self._schemas) for entry in self._entries(schema)]
        own = {"warehouse": self._warehouse, "mark": self._manifest.mark, "locations": locations}
        return list(compare(self._manifest.names, held, whole=self._manifest.whole, **own))

    @property
    def _asked(self) -> set[str]:
        """Schemas as Hive has them: in lower case."""
        return {schema.lower() for schema in self._manifest.schemas}

    def settled(self, finding: Finding) -> Finding | None:
        """Settle a difference; return None if it is, else what is left."""
        if finding.problem in LASTING:
            return finding
        try:
            if finding.problem == EXTRA:
                self._drop(finding.name, finding.kind)
            else:
                self._put(self._names[(finding.kind == FUNCTION, finding.name)])
        except Refusal as refusal:
            return Finding(finding.name, finding.kind, FAILED, refusal.one_line())
        except JAVA_ERRORS as failure:
            return Finding(finding.name, finding.kind, FAILED, _innermost(failure))
        return None

    # Entries.

    def _entries(self, schema: str) -> Iterator[Held]:
        names = self._hive.listTables(schema)
        for table in _items(self._hive.getTablesByName(schema, names)):
            yield self._held(schema, table)
        for name in _texts(self._hive.listFunctions(schema, "*")):
            text = self._function_text(schema, name)
            mark, digest = _marked(text, self._manifest.mark)
            yield Held(f"{schema}.{name}", FUNCTION, mark=mark, digest=digest)

    def _held(self, schema: str, table: Any) -> Held:
        name, kind = f"{schema}.{table.identifier().table()}", table.tableType().name()
        properties = properties_of(table.properties())
        if kind == VIEW.upper():
            return Held(name, VIEW, mark=properties.get(MARK, ""), digest=properties.get(DIGEST, ""))
        uri, provider = table.storage().locationUri(), table.provider()
        is_delta = provider.isDefined() and provider.get().lower() == "delta" and kind != _MANAGED
        location = self._qualified(uri.get()) if is_delta and uri.isDefined() else ""
        return Held(name, TABLE, location)

    def _function_text(self, schema: str, name: str) -> str:
        resources = _items(self._hive.getFunction(schema, name).resources())
        return "".join(resource.uri() for resource in resources)

    def _location(self, key: str) -> str:
        return self._qualified(location_of(key, self._given))

    def _qualified(self, location: Any) -> str:
        """Return a location with the scheme and authority of its file system, as both sides write it."""
        path = self._jvm.org.apache.hadoop.fs.Path(location)
        return path.getFileSystem(self._session._jsc.hadoopConfiguration()).makeQualified(path).toString()

    # Changes.

    def _drop(self, name: str, kind: str) -> None:
        schema, _, own = name.partition(".")
        if kind == FUNCTION:
            self._hive.dropFunction(schema, own)
        else:
            self._hive.dropTable(schema, own, True, False)

    def _put(self, name: Name) -> None:
        """Define a name in the session's own catalog, and copy the definition in place of an entry of ours."""
        schema, _, own = name.name.partition(".")
        self._define(name)
        if schema.lower() not in self._schemas:
            self._hive.createDatabase(self._memory.getDatabase(schema), True)
            self._schemas.add(schema.lower())
        if name.kind == FUNCTION:
            if self._hive.functionExists(schema, own):
                self._hive.dropFunction(schema, own)
            self._hive.createFunction(schema, self._memory.getFunction(schema, own))
            return
        if self._hive.tableExists(schema, own):
            self._hive.dropTable(schema, own, True, False)
        self._hive.createTable(self._memory.getTable(schema, own), False)

    def _define(self, name: Name) -> None:
        tables = ((name.name, name.key),) if name.kind == TABLE else name.reads
        for table, key in tables:
            self._publish_table(table, key)
        if name.statement:
            schema = quote_identifier(name.name.partition(".")[0])
            self._session.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            self._session.sql(name.statement)

    def _publish_table(self, qualified_name: str, key: str) -> None:
        location = location_of(key, self._given)
        make_room(self._session, catalog_name(qualified_name), location)
        publish(self._session, named(key, qualified_name), location)


def _marked(text: str, mark: str) -> tuple[str, str]:
    """Return the mark and the digest in a function's text; both empty where it is not of this warehouse."""
    _, found, rest = text.partition(f"({mark} ")
    return (mark, rest.partition(")")[0]) if found else ("", "")


def _client(session: SparkSession) -> Any:
    """Return Spark's client of the metastore, which connects on first use and serves the runner from then on."""
    if "hive" not in _connected:
        jvm = session._jvm
        options = jvm.org.apache.hadoop.conf.Configuration(session._jsc.hadoopConfiguration())
        for name, value in _PATIENCE.items():
            options.set(name, value)
        address = session.sparkContext.getConf().get(METASTORE, "")
        if address:
            options.set("hive.metastore.uris", address)
        spark_options = session.sparkContext._jsc.sc().conf()
        _connected["hive"] = jvm.org.apache.spark.sql.hive.HiveExternalCatalog(spark_options, options)
    return _connected["hive"]


def _items(seq: Any) -> Iterable[Any]:
    return [seq.apply(place) for place in range(seq.length())]


def _texts(seq: Any) -> list[str]:
    return [str(item) for item in _items(seq)]
