"""Changed keys: models over a table of which few rows changed.

Two models are computed whole and, in turns, by the changed keys of their input, of which one row in CHANGED has
changed: *rows* has a row for each row of the input, joined with another table, and a business key; *sums* is an
aggregate by ten times fewer keys.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.flights.digests import digest_of_model
from bench.history.dataset import Dataset, create_tables, described_model, run_load
from bench.history.plan import load_time
from bench.runner import Bound, Measure, Run, require
from loader.contract.manifest.loads import LoadManifest
from loader.domain.models import model_load
from loader.engine.historization.model_queries import read_model
from loader.engine.session import dataset_session
from loader.engine.tables import table_files
from loader.engine.tables.commits import commit, open_files
from loader.engine.tables.tables import DeltaTable
from metadata.domain.types import parse, spark_type

FULL, INCREMENTAL = "full build", "incremental load"
ORDERS_PER_CUSTOMER, FILES = 10, 4

# Column -> type, value by the row's number id.
_LINE = {
    "line_id": ("bigint", "id"),
    "customer_id": ("bigint", "pmod(xxhash64(id), {customers})"),
    "product": ("string", "concat('P', lpad(CAST(id % 5000 AS STRING), 5, '0'))"),
    "quantity": ("integer", "CAST(id * 13 % 20 + 1 AS INT)"),
    "price": ("decimal(12,2)", "CAST(id * 31 % 100000 AS DECIMAL(12,2)) / 100"),
    "discount": ("float", "CAST(id % 30 AS DOUBLE) / 100"),
    "note": ("string", "CASE WHEN id % 10 < 7 THEN sha2(CAST(id AS STRING), 224) END"),
    "ordered_at": ("timestamp", "timestamp_seconds(1704067200 + id % 31536000)"),
}
_CUSTOMER = {
    "customer_id": ("bigint", "id"),
    "name": ("string", "concat('Customer ', CAST(id AS STRING))"),
    "country": ("string", "element_at(array('DE', 'FR', 'IT', 'ES'), CAST(id % 4 + 1 AS INT))"),
}
_INPUT = "rawcore.rc_bench_line"
_MODELS = {
    "rows": (
        f"""SELECT l.line_id, l.customer_id, c.name AS customer, c.country, l.product, l.quantity, l.price,
  CAST(l.quantity * l.price * (1 - l.discount) AS DECIMAL(14,2)) AS amount, to_date(l.ordered_at) AS ordered_on
FROM {_INPUT} AS l
LEFT JOIN rawcore.rc_bench_customer AS c ON c.customer_id = l.customer_id""",
        "line_id",
        ("line_id",),
    ),
    "sums": (
        f"""SELECT customer_id, count(*) AS lines, sum(quantity) AS pieces, sum(quantity * price) AS amount,
  max(ordered_at) AS last_ordered_at
FROM {_INPUT}
GROUP BY customer_id""",
        "customer_id",
        (),
    ),
}


@dataclass
class Orders:
    """Warehouse with a table of order lines and one of customers, and the models over them."""

    spark: SparkSession
    warehouse: str
    rows: int
    loads: int = 0

    def __post_init__(self) -> None:
        line = Dataset("line", {name: type_ for name, (type_, _) in _LINE.items()}, "line_id")
        customer = Dataset("customer", {name: type_ for name, (type_, _) in _CUSTOMER.items()}, "customer_id")
        self.line = line.state
        self.models = {
            name: described_model(
                f"mart.{name}", select, (line.state, customer.state), key, increment=_increment(column)
            )
            for name, (select, column, key) in _MODELS.items()
        }
        states = (line.state, customer.state, *self.models.values())
        self.states = {state.key: state for state in states}
        create_tables(self.spark, self.warehouse, (line, customer), self.models.values())
        customers = self.rows // ORDERS_PER_CUSTOMER
        self._fill(line, self.rows, {name: sql.format(customers=customers) for name, (_, sql) in _LINE.items()})
        self._fill(customer, customers, {name: sql for name, (_, sql) in _CUSTOMER.items()})

    def change(self, one_in: int, number: int) -> int:
        """Change one row in this many, spread over the table, as a load of rawcore does; return how many.

        Other rows change with each number.
        """
        session = dataset_session(self.spark, user_metadata="")
        table = DeltaTable(session, self.warehouse, self.line.key)
        files = open_files(session, table)
        rows = files.frame(placed=True).where(f"line_id % {one_in} = {number % one_in}").repartition(2).persist()
        changed = {"quantity": F.expr("quantity + 1"), "row_hash": F.expr("sha2(row_hash, 256)")}
        commit(
            files,
            None,
            add=rows.withColumns(changed).drop(table_files.PLACE),
            gone=rows.select(table_files.PLACE),
            gone_from=files.all,
        )
        count = rows.count()
        rows.unpersist()
        return count

    def load(self, name: str, *, full: bool) -> dict[str, int]:
        """Load a model; return its counts."""
        self.loads += 1
        run = {"run_id": f"run-{self.loads}", "load_timestamp": load_time(self.loads)}
        load = model_load(self.models[name], self.states, **run, sequence=self.loads, full=full)
        manifest = LoadManifest(**run, attempt=1, raw=(), rawcore=(), models=(load,))
        return run_load(self.spark, self.warehouse, manifest)[self.models[name].key]["counts"]

    def check(self, name: str) -> None:
        """Raise BenchProblem unless the model's table has the rows of its SELECT."""
        model = self.models[name]
        load = model_load(model, self.states, run_id="", load_timestamp=load_time(0), sequence=0)
        wanted = digest_of_model(read_model(self.spark, self.warehouse, load.query, load.name))
        digest = digest_of_model(DeltaTable(self.spark, self.warehouse, model.key).frame())
        require(digest, wanted, name)

    def _fill(self, dataset: Dataset, rows: int, values: dict[str, str]) -> None:
        table = DeltaTable(self.spark, self.warehouse, dataset.state.key)
        numbers = self.spark.range(0, rows, numPartitions=FILES)
        self._hashed(numbers.selectExpr(*(f"{sql} AS {name}" for name, sql in values.items())), dataset).write.format(
            "delta"
        ).mode("append").save(table.location)

    def _hashed(self, rows: DataFrame, dataset: Dataset) -> DataFrame:
        """Return the rows as rawcore has them, with invented hashes."""
        spec = next(table for table in dataset.tables if table.key == dataset.state.key)
        key = dataset.key[0]
        technical = {
            "entity_key": f"sha2(CAST({key} AS STRING), 256)",
            "row_hash": f"sha2(concat(CAST({key} AS STRING), '-'), 256)",
            "run_id": "'fill'",
            "loaded_at": "TIMESTAMP '2024-01-01 00:00:00'",
        }
        return rows.selectExpr(*(
            f"CAST({technical.get(column.purpose, column.name)} AS {spark_type(parse(column.type))}) AS {column.name}"
            for column in spec.columns
        ))  # fmt: skip


def _increment(column: str) -> dict[str, Any]:
    return {"by": "changed_keys", "input": _INPUT, "columns": {column: column}}


def take(run: Run) -> dict[str, Any]:
    orders = Orders(run.spark, run.warehouse, run.options.rows)
    counts: dict[str, dict[str, int]] = {}
    changed = 0
    for number in run.rounds():
        for name in orders.models:
            run.timed(f"{FULL}, {name}", lambda name=name: orders.load(name, full=True))
        changed = orders.change(run.options.changed, number)
        for name in orders.models:
            side = f"{INCREMENTAL}, {name}"
            counts[name] = run.timed(side, lambda name=name: orders.load(name, full=False))
            require("keys" in counts[name], True, f"{name} is computed by keys: {counts[name]}")
            orders.check(name)
    return {"changed": changed, "counts": counts}


MEASURE = Measure(
    take,
    sizes={"rows": 5_000_000, "changed": 1000},
    rounds=3,
    bounds=tuple(
        Bound(f"{name}: {INCREMENTAL} / {FULL}", f"{INCREMENTAL}, {name}", f"{FULL}, {name}", 0.1) for name in _MODELS
    ),
)
