"""Loads of one PostgreSQL table: by the product, and by plain Spark."""

from typing import Any

import psycopg
from pyspark.sql import SparkSession

from bench.history.dataset import Dataset, create_tables, run_load
from bench.history.plan import load_time
from bench.processes.postgres import private_postgres
from bench.runner import Run, say
from loader.contract.manifest.loads import LoadManifest, RawcoreLoad
from loader.contract.manifest.sources import DatabaseSpec
from loader.domain.database_kinds import engine_of
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sources.database_locations import DatabasePlace, parse_database

KEY, WATERMARK, PARTITIONS = "id", "changed_at", 2
# Column -> type in PostgreSQL, type in the contract, value by the row's number n.
COLUMNS = {
    KEY: ("bigint PRIMARY KEY", "bigint", "n"),
    "name": ("varchar(60) NOT NULL", "string(60)", "'Name ' || md5(n::text)"),
    "city": ("varchar(40)", "string(40)", "'City ' || n % 500"),
    "note": ("text", "string", "CASE WHEN n % 10 < 7 THEN md5((n * 7)::text) END"),
    "quantity": ("integer", "integer", "CASE WHEN n % 20 > 0 THEN (n * 13 % 10000)::integer END"),
    "points": ("bigint", "bigint", "n * 7919 % 1000000000000"),
    "price": ("numeric(12,2)", "decimal(12,2)", "(n * 31 % 1000000000)::numeric / 100"),
    "rate": ("float8", "float", "n % 1000000 / 1000.0"),
    "active": ("boolean", "boolean", "n % 2 = 0"),
    "born_on": ("date", "date", "date '1950-01-01' + (n % 20000)::integer"),
    WATERMARK: ("timestamptz NOT NULL", "timestamp", "timestamptz '2020-01-01 00:00+00' + n * interval '1 second'"),
}


def filled_server(run: Run, rows: int) -> tuple[psycopg.Connection, DatabasePlace]:
    """Start a PostgreSQL with ``rows`` rows in the table ``item``; return a connection and its place.

    Both end with the run.
    """
    # The session holds this process to the cores of an engine; the server that starts after it inherits them.
    _ = run.spark
    url = run.enter(private_postgres(run.folder / "postgres"))
    place = parse_database(url.replace("postgres://", "postgresql://"))
    named = {"host": place.host, "port": place.port, "user": place.user, "dbname": place.name}
    server = run.enter(psycopg.connect(**named, autocommit=True))
    say(f"{rows:,} rows")
    fill(server, rows)
    return server, place


def fill(server: psycopg.Connection, rows: int) -> None:
    """Create the table ``item`` with this number of rows and an index on its watermark."""
    described = ", ".join(f"{name} {type_}" for name, (type_, _, _) in COLUMNS.items())
    values = ", ".join(value for _, _, value in COLUMNS.values())
    server.execute(f"CREATE TABLE item ({described})")
    server.execute(f"INSERT INTO item SELECT {values} FROM generate_series(1::bigint, {rows}) AS n")
    server.execute(f"CREATE INDEX ON item ({WATERMARK})")
    server.execute("ANALYZE item")


def change(server: psycopg.Connection, rows: int, changed: int) -> None:
    """Change this number of rows, spread over the table."""
    server.execute(
        f"UPDATE item SET quantity = coalesce(quantity, 0) + 1, {WATERMARK} = "
        f"(SELECT max({WATERMARK}) FROM item) + {KEY} * interval '1 microsecond' "
        f"WHERE {KEY} IN (SELECT n * {max(rows // changed, 1)} FROM generate_series(1, {changed}) AS n)"
    )


class Item:
    """The table as a source dataset with raw, rawcore and history; ``condition`` selects some of its rows."""

    def __init__(
        self, spark: SparkSession, warehouse: str, place: DatabasePlace, name: str, condition: str = ""
    ) -> None:
        self._spark, self._warehouse, self._place = spark, warehouse, place
        self.dataset = Dataset(name, {column: type_ for column, (_, type_, _) in COLUMNS.items()}, KEY)
        self._options = {"partition_column": KEY, "partitions": PARTITIONS}
        self._options |= {"filter": condition} if condition else {}
        self._loads = 0
        create_tables(spark, warehouse, (self.dataset,))

    def load_raw(self) -> dict[str, int]:
        """Read the table whole into raw; return the counts."""
        return self._run(intake={})

    def load(self) -> dict[str, int]:
        """Load the table from its mark on, into history and rawcore; return the counts of raw."""
        sequence = self._loads + 1
        rawcore = self.dataset.rawcore_load(sequence, {"input": "delta"}, incremental=True)
        return self._run(rawcore, intake={"watermark": [WATERMARK]})

    def versions(self) -> int:
        return DeltaTable(self._spark, self._warehouse, self.dataset.history.key).rows()

    def _run(self, *rawcore: RawcoreLoad, intake: dict[str, Any]) -> dict[str, int]:
        self._loads += 1
        source = {"options": self._options, "database": DatabaseSpec(self._place), "intake": intake}
        raw = self.dataset.raw_load("item", "table", **source)
        run_id = f"{self.dataset.name}-{self._loads}"
        manifest = LoadManifest(run_id, load_time(self._loads), 1, (raw,), rawcore)
        return run_load(self._spark, self._warehouse, manifest)[raw.dataset]["counts"]


def load_plainly(spark: SparkSession, place: DatabasePlace, rows: int, folder: str) -> None:
    """Read the table by Spark's JDBC reader in as many ranges, and write it to a Delta table."""
    engine = engine_of(place)
    properties = {"driver": engine.driver, "user": place.user, "fetchsize": "10000"}
    frame = spark.read.jdbc(
        engine.url(place),
        "item",
        column=KEY,
        lowerBound=1,
        upperBound=rows + 1,
        numPartitions=PARTITIONS,
        properties=properties,
    )
    frame.write.format("delta").mode("overwrite").save(folder)
