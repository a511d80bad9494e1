"""Connections of the runner to source databases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from loader.contract.manifest.sources import DatabaseSpec, SourceSpec
from loader.domain.sources.databases import DescribedColumn, Engine, TableOptions
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import jvm_of

_NO_PARTITION = -1  # for a connection of the runner, which reads no partition
_VALIDATION_SECONDS = 5


@dataclass(frozen=True)
class DatabaseReader:
    """Connection of the runner, and the settings of Spark's own connections."""

    spark: SparkSession
    source: SourceSpec
    engine: Engine
    options: TableOptions
    connection: Any
    settings: dict[str, str] = field(repr=False)

    def first(self, query: str) -> tuple[str | None, ...]:
        """Return the first row of a query as text."""
        statement = self.connection.createStatement()
        try:
            rows = statement.executeQuery(query)
            rows.next()
            return tuple(rows.getString(place + 1) for place in range(rows.getMetaData().getColumnCount()))
        finally:
            statement.close()

    def describe(self, relation: str) -> list[DescribedColumn]:
        statement = self.connection.createStatement()
        try:
            metadata = statement.executeQuery(self.engine.description(relation)).getMetaData()
            return [
                DescribedColumn(
                    metadata.getColumnLabel(place),
                    metadata.getColumnTypeName(place).lower(),
                    metadata.getPrecision(place),
                    metadata.getScale(place),
                )
                for place in range(1, metadata.getColumnCount() + 1)
            ]
        finally:
            statement.close()

    def predicates(self, relation: str, columns: list[DescribedColumn]) -> list[str]:
        """Return a condition for each partition."""
        wanted = self.options.partition_column
        if not wanted:
            return ["1 = 1"]
        column = next((column for column in columns if column.name == wanted), None)
        if column is None:
            raise self.engine.not_divisible(wanted, "there is no such column")
        low, high = self.first(self.engine.bounds(relation, self.options))
        count = self.options.partitions or self.spark.sparkContext.defaultParallelism
        return self.engine.predicates(column, low, high, count)

    def frame(self, statement: str, predicates: list[str]) -> DataFrame:
        return self.spark.read.jdbc(
            self.engine.url(database_of(self.source).place),
            f"({statement}) delivery",
            predicates=predicates,
            properties=self.settings,
        )


def connect(
    spark: SparkSession, source: SourceSpec, database: DatabaseSpec, engine: Engine, options: TableOptions
) -> DatabaseReader:
    settings = engine.properties(options) | {"driver": engine.driver, "fetchsize": str(options.fetch_size)}
    if database.place.user:
        settings["user"] = database.place.user
    if database.password:
        settings["password"] = database.password
    connection = open_connection(spark, engine.url(database.place), settings)
    reader = DatabaseReader(spark, source, engine, options, connection, settings)
    try:
        connection.setAutoCommit(False)
        statement = connection.createStatement()
        statement.execute(engine.session(options))
        statement.close()
        snapshot = reader.first(engine.snapshot())[0] or "" if engine.has_snapshots else ""
    except BaseException:
        close_quietly(connection.close)
        raise
    return replace(reader, settings=settings | {"sessionInitStatement": engine.session(options, snapshot)})


def open_connection(spark: SparkSession, url: str, settings: Mapping[str, str]) -> Any:
    """Return a connection of Java by Spark's own factory, which knows the drivers of the session's jars."""
    java = jvm_of(spark).org.apache.spark
    jdbc_options = java.api.python.PythonUtils.toScalaMap({**settings, "url": url, "dbtable": "(SELECT 1) t"})
    factory = java.sql.jdbc.JdbcDialects.get(url).createConnectionFactory(
        java.sql.execution.datasources.jdbc.JDBCOptions(jdbc_options)
    )
    return factory.apply(_NO_PARTITION)


def database_of(source: SourceSpec) -> DatabaseSpec:
    assert source.database is not None, f"{source.name} is no table of a database"
    return source.database


def is_open(connection: Any) -> bool:
    try:
        return connection.isValid(_VALIDATION_SECONDS)
    except JAVA_ERRORS:
        return False


def close_quietly(close: Callable[[], None]) -> None:
    """Close a connection that may be lost; its transaction ends either way."""
    try:
        close()
    except JAVA_ERRORS:
        return
