"""Catalogs behind Spark's interface of a metastore: the runner's own, in memory, and a Hive metastore.

Spark defines a name in the runner's own catalog, and its client of the metastore copies the definition. Only this
module connects to a metastore.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from architecture.domain.steps.report_steps import named
from architecture.domain.steps.statements import catalog_name, location_of
from loader.contract.manifest.publication import PublishedName as Name
from loader.contract.manifest.publication import PublishManifest
from loader.domain.catalogs.catalog import TABLE, VIEW
from loader.domain.catalogs.publication import DIGEST, FUNCTION, MARK, Held
from loader.engine.catalogs.catalog import Catalog, marked
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import jvm_of
from loader.engine.session import METASTORE
from loader.engine.tables.steps import make_room
from loader.engine.tables.tables import properties_of, publish
from metadata.domain.sql import quote_identifier

# Report an unavailable metastore after seconds; Hive's defaults wait for minutes.
_PATIENCE = {
    "hive.metastore.connect.retries": "1",
    "hive.metastore.client.connect.retry.delay": "1s",
    "hive.metastore.failure.retries": "1",
    "hive.metastore.client.socket.timeout": "60s",
}
_MANAGED = "MANAGED"
# Number of entries in one answer: others may have many in a published schema.
_AT_ONCE = 200
# Hive deletes the files of an external table with its entry if the table has this property.
_PURGE = "external.table.purge"
_clients: dict[str, Any] = {}


class _ExternalCatalog(Catalog):
    """Entries of Spark's ``ExternalCatalog``, called ``names``."""

    names: Any

    def schemas(self) -> Iterable[str]:
        return _texts(self.names.listDatabases())

    def entries(self, schema: str, names: Collection[str] | None) -> Iterator[Held]:
        tables = _texts(self.names.listTables(schema)) if names is None else names
        yield from self._tables(schema, tables)
        functions = _texts(self.names.listFunctions(schema, "*"))
        for name in functions if names is None else {name.lower() for name in functions} & set(names):
            yield self.readable(partial(self._function, schema, name), f"{schema}.{name}", FUNCTION)

    def _tables(self, schema: str, names: Collection[str]) -> Iterator[Held]:
        ordered = sorted(names)
        for start in range(0, len(ordered), _AT_ONCE):
            yield from self._some_tables(schema, ordered[start : start + _AT_ONCE])

    def _some_tables(self, schema: str, names: Sequence[str]) -> Iterator[Held]:
        try:
            tables = _items(self.names.getTablesByName(schema, self._seq(names)))
        except JAVA_ERRORS:
            # The client returns none if it cannot read one, such as a materialized view of Hive.
            self.must_answer()
            for name in names:
                if self.names.tableExists(schema, name):
                    yield self.readable(partial(self._table, schema, name), f"{schema}.{name}", TABLE)
            return
        for table in tables:
            name = table.identifier().table()
            yield self.readable(partial(self._entry, schema, table), f"{schema}.{name}", TABLE)

    def _table(self, schema: str, name: str) -> Held:
        return self._entry(schema, self.names.getTable(schema, name))

    def _function(self, schema: str, name: str) -> Held:
        resources = _items(self.names.getFunction(schema, name).resources())
        mark, digest = marked("".join(resource.uri() for resource in resources), self.manifest.mark)
        return Held(f"{schema}.{name}", FUNCTION, mark=mark, digest=digest)

    def drop(self, name: str, kind: str) -> None:
        schema, own = _parts(name)
        if kind == FUNCTION:
            self.names.dropFunction(schema, own)
        else:
            self.names.dropTable(schema, own, True, False)

    def _entry(self, schema: str, table: Any) -> Held:
        name, kind = f"{schema}.{table.identifier().table()}", table.tableType().name()
        properties = properties_of(table.properties())
        if kind == VIEW.upper():
            text = table.viewText().get() if table.viewText().isDefined() else None
            return Held(name, VIEW, mark=properties.get(MARK, ""), digest=properties.get(DIGEST, ""), text=text)
        uri, provider = table.storage().locationUri(), table.provider()
        is_delta = provider.isDefined() and provider.get().lower() == "delta" and kind != _MANAGED
        location = self.located(uri.get()) if is_delta and uri.isDefined() else ""
        purged = any(key.lower() == _PURGE and value.lower() == "true" for key, value in properties.items())
        return Held(name, TABLE, location, purged=purged)

    def _seq(self, texts: Sequence[str]) -> Any:
        return jvm_of(self.session).PythonUtils.toSeq(list(texts))


class EmbeddedCatalog(_ExternalCatalog):
    """Catalog of the runner's sessions, in memory."""

    shared = False
    remedy = "The runner's log has the details; the next load publishes its names again"

    def __init__(self, session: SparkSession, warehouse: str, manifest: PublishManifest) -> None:
        super().__init__(session, warehouse, manifest)
        self.names = session._jsparkSession.sessionState().catalog().externalCatalog()

    def put(self, name: Name) -> None:
        """Define a name by Spark's statements, after the tables that it reads."""
        schema = name.name.partition(".")[0]
        if name.kind != FUNCTION and self._has_other_kind(name):
            self.drop(name.name, name.kind)
        tables = ((name.name, name.key),) if name.kind == TABLE else name.reads
        for table, key in tables:
            location = location_of(key, self.warehouse)
            make_room(self.session, catalog_name(table), location)
            publish(self.session, named(key, table), location)
        if name.statement:
            self.session.sql(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(schema)}")
            self.session.sql(name.statement)

    def _has_other_kind(self, name: Name) -> bool:
        """Return True if the name is that of a view and must become that of a table, or vice versa."""
        schema, own = _parts(name.name)
        if not self.names.databaseExists(schema) or not self.names.tableExists(schema, own):
            return False
        return (self.names.getTable(schema, own).tableType().name() == VIEW.upper()) != (name.kind == VIEW)


class Metastore(_ExternalCatalog):
    """Hive metastore, shared with other programs."""

    remedy = (
        "Start the metastore, or correct ELEVATA_CATALOG, ELEVATA_METASTORE_VERSION and ELEVATA_METASTORE_JARS; then "
        "run manage.py publish"
    )

    def __init__(self, session: SparkSession, warehouse: str, manifest: PublishManifest) -> None:
        super().__init__(session, warehouse, manifest)
        self._own = EmbeddedCatalog(session, warehouse, manifest)
        self.names = _client(session)

    def put(self, name: Name) -> None:
        """Define a name in the runner's own catalog, and replace the metastore's entry with that definition."""
        schema, own = _parts(name.name)
        self._own.put(name)
        self.names.createDatabase(self._own.names.getDatabase(schema), True)
        entry = self.there.get((name.kind == FUNCTION, name.name.lower()))
        if entry is not None and entry.kind == name.kind == TABLE:
            # A drop could delete files, and would take the permissions that others gave.
            self.names.alterTable(self._own.names.getTable(schema, own))
            return
        if entry is not None:
            self.drop(name.name, entry.kind)
        if name.kind == FUNCTION:
            self.names.createFunction(schema, self._own.names.getFunction(schema, own))
        else:
            self.names.createTable(self._own.names.getTable(schema, own), False)


def _parts(name: str) -> tuple[str, str]:
    """Return schema and name as this interface has them: in lower case, which Spark's statements write them in."""
    schema, _, own = name.lower().partition(".")
    return schema, own


def _client(session: SparkSession) -> Any:
    """Return Spark's client of the metastore. It connects on first use, and the runner keeps it."""
    if "hive" not in _clients:
        jvm = jvm_of(session)
        options = jvm.org.apache.hadoop.conf.Configuration(session._jsc.hadoopConfiguration())
        for name, value in _PATIENCE.items():
            options.set(name, value)
        address = session.sparkContext.getConf().get(METASTORE, "")
        if address:
            options.set("hive.metastore.uris", address)
        spark_options = session.sparkContext._jsc.sc().conf()
        _clients["hive"] = jvm.org.apache.spark.sql.hive.HiveExternalCatalog(spark_options, options)
    return _clients["hive"]


def disconnect() -> None:
    """Discard the client of the metastore, so that the next publication creates a new one."""
    _clients.clear()


def _items(seq: Any) -> Iterable[Any]:
    return [seq.apply(place) for place in range(seq.length())]


def _texts(seq: Any) -> list[str]:
    return [str(item) for item in _items(seq)]
