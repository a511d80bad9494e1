"""Loads of one PostgreSQL table: by the product, and by plain Spark."""

import threading
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import psycopg
from pyspark.sql import SparkSession

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import event_log_table, history_table, raw_table, rawcore_table, tables_of
from bench.plan import load_time
from loader.domain.engines import engine_of
from loader.domain.manifest import (
    DatabaseSpec,
    DeliveredColumn,
    HashComponent,
    LoadManifest,
    RawcoreLoad,
    RawLoad,
    SourceSpec,
    StageColumn,
    StageInput,
)
from loader.spark.load import SUCCEEDED, LoadAttempt
from loader.spark.tables import steps
from loader.spark.tables.tables import DeltaTable
from metadata.domain.sources.locations import DatabasePlace
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState

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
    WATERMARK: ("timestamptz NOT NULL", "timestamp", "timestamptz '2024-01-01 00:00+00' + n * interval '1 second'"),
}


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


def _stable(*parts: str) -> str:
    return str(uuid5(NAMESPACE_DNS, "/".join(("bench intake", *parts))))


class Item:
    """The table as a source dataset with raw, rawcore and history; ``condition`` selects some of its rows."""

    def __init__(
        self, spark: SparkSession, warehouse: str, place: DatabasePlace, name: str, condition: str = ""
    ) -> None:
        self.spark, self.warehouse, self.place, self.name = spark, warehouse, place, name
        columns = tuple(
            ColumnState(_stable(column), column, type_, role="business_key" if column == KEY else "attribute")
            for column, (_, type_, _) in COLUMNS.items()
        )
        self._raw = DatasetState(_stable("raw", name), "raw", "raw", f"raw_bench_{name}", columns)
        self._rawcore = DatasetState(
            _stable("rawcore", name),
            "rawcore",
            "rawcore",
            f"rc_bench_{name}",
            columns,
            historize=True,
            history_key=_stable("history", name),
            history_policy={"input": "delta"},
        )
        self._options = {"partition_column": KEY, "partitions": PARTITIONS}
        self._options |= {"filter": condition} if condition else {}
        self._loads = 0
        wanted = (*tables_of(self._raw), *tables_of(self._rawcore))
        if not steps.execute(spark, warehouse, plan_steps(wanted, {}), lambda event, **fields: None):
            raise RuntimeError("the tables could not be created")

    def load_raw(self) -> dict[str, int]:
        """Read the table whole into raw; return the counts."""
        return self._attempt(self._manifest(intake={}, rawcore=()))

    def load(self) -> dict[str, int]:
        """Load the table from its mark on, into history and rawcore; return the counts of raw."""
        return self._attempt(self._manifest(intake={"watermark": [WATERMARK]}, rawcore=(self._rawcore_load(),)))

    def versions(self) -> int:
        return DeltaTable(self.spark, self.warehouse, history_table(self._rawcore).key).rows()

    def _manifest(self, *, intake: dict, rawcore: tuple[RawcoreLoad, ...]) -> LoadManifest:
        self._loads += 1
        raw = raw_table(self._raw)
        delivered = tuple(
            DeliveredColumn(_stable("delivered", name), name, type_, business_key=name == KEY)
            for name, (_, type_, _) in COLUMNS.items()
        )
        source = SourceSpec(
            "bench.item", "item", "table", delivered, self._options, database=DatabaseSpec(self.place), intake=intake
        )
        columns = tuple((name, name) for name in COLUMNS)
        load = RawLoad(raw.key, raw.qualified_name, raw, source, columns)
        return LoadManifest(f"{self.name}-{self._loads}", load_time(self._loads), 1, (load,), rawcore)

    def _rawcore_load(self) -> RawcoreLoad:
        raw, state = raw_table(self._raw), self._rawcore
        columns = tuple(StageColumn(name, type_, quote_identifier(name)) for name, (_, type_, _) in COLUMNS.items())
        return RawcoreLoad(
            dataset=state.key,
            name=state.qualified_name,
            table=rawcore_table(state),
            history=history_table(state),
            inputs=(StageInput(raw, columns, incremental=True),),
            entity_key=tuple(HashComponent(c.key, c.name) for c in state.business_key),
            row_hash=tuple(HashComponent(c.key, c.name) for c in state.attributes),
            event_log=event_log_table(state),
            policy=state.history_policy,
            sequence=self._loads + 1,
            delivery_checked=True,
            depends_on=(raw.key,),
        )

    def _attempt(self, manifest: LoadManifest) -> dict[str, int]:
        events: list[dict[str, Any]] = []
        attempt = LoadAttempt(
            self.spark,
            self.warehouse,
            manifest,
            lambda event, **fields: events.append(fields | {"event": event}),
            threading.Event(),
            manifest.run_id,
        )
        if attempt.run() != SUCCEEDED:
            errors = [fields["error"] for fields in events if fields.get("error")]
            raise RuntimeError(errors[0]["message"] if errors else "the load run failed")
        ended = (e for e in events if e["event"] == "dataset_finished" and e["dataset"] == manifest.raw[0].dataset)
        return next(ended)["counts"]


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
