"""Catalog of Spark's settings (``spark.sql.catalog.NAME``), read and written by Spark's statements only."""

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from architecture.domain.steps.statements import catalog_name
from loader.contract.manifest.publication import PublishedName as Name
from loader.contract.manifest.publication import PublishManifest
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog import TABLE, VIEW
from loader.domain.catalogs.catalog_setting import spark_catalog
from loader.domain.catalogs.publication import DIGEST, FUNCTION, MARK, Held
from loader.engine.catalogs.catalog import Catalog, is_unsupported, marked
from metadata.domain.sql import quote_identifier, quote_text

_MANAGED = "MANAGED"
_DETAILS = "# Detailed Table Information"
# Beginning of the statements of views and functions.
_REPLACING = "CREATE OR REPLACE "


class SparkCatalog(Catalog):
    """Catalog of Spark's settings, the current one of its session, so that statements name schemas and tables only."""

    remedy = "Start it, or correct its settings in ELEVATA_SPARK_CONF; then run manage.py publish"

    def __init__(self, session: SparkSession, warehouse: str, manifest: PublishManifest) -> None:
        super().__init__(session, warehouse, manifest)
        name = spark_catalog(manifest.address)
        if not session.sparkContext.getConf().contains(f"spark.sql.catalog.{name}"):
            raise Refusal(
                "UNKNOWN_CATALOG",
                f"Spark knows no catalog {name}",
                hint=f"Define spark.sql.catalog.{name} in the file that ELEVATA_SPARK_CONF names, or correct "
                "ELEVATA_CATALOG; then run manage.py publish.",
            )
        session.sql(f"USE {quote_identifier(name)}")

    def schemas(self) -> Iterable[str]:
        return [row[0].strip("`") for row in self.session.sql("SHOW SCHEMAS").collect()]

    def entries(self, schema: str, names: Collection[str] | None) -> Iterator[Held]:
        within = f"IN {quote_identifier(schema)}"
        views = {row.viewName.lower() for row in self._rows(f"SHOW VIEWS {within}")}
        tables = {row.tableName.lower() for row in self._rows(f"SHOW TABLES {within}")} | views
        for name in sorted(tables if names is None else tables & set(names)):
            entry, is_view = f"{schema}.{name}", name in views
            read = self._view if is_view else self._table
            yield self.readable(partial(read, entry), entry, VIEW if is_view else TABLE)
        functions = self._functions(schema)
        for name in sorted(functions if names is None else functions & set(names)):
            entry = f"{schema}.{name}"
            yield self.readable(partial(self._function, entry), entry, FUNCTION)

    def put(self, name: Name) -> None:
        """Define a name, in place of the entry in ``there``; fail if the catalog has another one by now."""
        entry = self.there.get((name.kind == FUNCTION, name.name.lower()))
        if entry is not None:
            self.drop(entry.name, entry.kind)
        self.session.sql(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(name.name.partition('.')[0])}")
        location = quote_text(self.location(name.key))
        table = f"CREATE TABLE {catalog_name(name.name)} USING delta LOCATION {location}"
        self.session.sql(name.statement.replace(_REPLACING, "CREATE ", 1) or table)

    def drop(self, name: str, kind: str) -> None:
        self.session.sql(f"DROP {kind.upper()} IF EXISTS {catalog_name(name)}")

    def _functions(self, schema: str) -> set[str]:
        """Return the names of the schema's own functions. The statement also lists those of the session."""
        rows = self._rows(f"SHOW USER FUNCTIONS IN {quote_identifier(schema)}")
        listed = (row[0].replace("`", "").split(".") for row in rows)
        return {parts[-1] for parts in listed if len(parts) > 1 and parts[-2].lower() == schema}

    def _rows(self, statement: str) -> list:
        """Return the rows of a statement; none if the catalog does not support it."""
        try:
            return self.session.sql(statement).collect()
        except AnalysisException as error:
            if is_unsupported(error):
                return []
            raise

    def _view(self, name: str) -> Held:
        rows = self._rows(f"SHOW TBLPROPERTIES {catalog_name(name)}")
        properties = {row.key: row.value for row in rows}
        return Held(
            name,
            VIEW,
            mark=properties.get(MARK, ""),
            digest=properties.get(DIGEST, ""),
            text=self._details(name).get("View Text"),
        )

    def _table(self, name: str) -> Held:
        details = self._details(name)
        is_delta = details.get("Provider", "").lower() == "delta" and details.get("Type") != _MANAGED
        return Held(name, TABLE, self.located(details["Location"]) if is_delta and details.get("Location") else "")

    def _function(self, name: str) -> Held:
        described = self._rows(f"DESCRIBE FUNCTION EXTENDED {catalog_name(name)}")
        mark, digest = marked("\n".join(row[0] for row in described), self.manifest.mark)
        return Held(name, FUNCTION, mark=mark, digest=digest)

    def _details(self, name: str) -> dict[str, str]:
        """Return the detailed information about a table or view; empty if the catalog returns none."""
        rows = self._rows(f"DESCRIBE TABLE EXTENDED {catalog_name(name)}")
        headings = [place for place, row in enumerate(rows) if row.col_name == _DETAILS]
        return {row.col_name: row.data_type for row in rows[headings[-1] :]} if headings else {}
