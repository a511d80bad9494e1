"""Queries of TPC-H and TPC-DS as models: each is accepted, and has the rows that DuckDB computes.

DuckDB makes the tables and has the queries. They are converted to Spark's SQL; LIMIT is left out on both sides, because
rows with equal places may be chosen in another way.
"""

from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from math import isclose
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from architecture.domain.views import query_of_model
from metadata.domain.models import ReadColumn, describe_select
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import stable

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

SCALE = 0.01
QUERIES = {"tpch": range(1, 23), "tpcds": range(1, 100)}
_TYPES = {"INTEGER": "integer", "BIGINT": "bigint", "VARCHAR": "string", "DATE": "date", "DOUBLE": "float"}
# Spark computes averages and quotients of decimals with fewer digits than DuckDB, which computes them as doubles.
_TOLERANCE = 1e-4


class Benchmark:
    """Tables and queries of a benchmark in DuckDB, with the tables as views of Spark."""

    def __init__(self, name: str, spark: Any, folder: Path) -> None:
        (extension,) = Path(import_module(f"duckdb_extension_{name}").__file__ or "").parent.rglob("*.duckdb_extension")
        self.name, self.spark = name, spark
        self.own = duckdb.connect(config={"memory_limit": "500MB", "threads": 1})
        self.own.execute(f"LOAD '{extension}'")
        self.own.execute(f"CALL {'dbgen' if name == 'tpch' else 'dsdgen'}(sf={SCALE})")
        self.queries = dict(self.own.execute(f"SELECT query_nr, query FROM {name}_queries()").fetchall())
        self.columns: dict[str, list[ReadColumn]] = {}
        listed = "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ordinal_position"
        for table, column, type_ in self.own.execute(listed).fetchall():
            own = type_.lower() if type_.startswith("DECIMAL") else _TYPES[type_]
            self.columns.setdefault(f"{name}.{table}", []).append(ReadColumn(column, own, True))
        for dataset in self.columns:
            table = dataset.partition(".")[2]
            path = folder / f"{table}.parquet"
            self.own.execute(f"COPY {table} TO '{path}' (FORMAT parquet)")
            spark.read.parquet(str(path)).createOrReplaceTempView(self.view(dataset))

    def view(self, dataset: str) -> str:
        return dataset.replace(".", "_")

    def query(self, number: int) -> exp.Expression:
        """Return a query with a name for each column and without its last LIMIT."""
        tree = sqlglot.parse_one(self.queries[number].strip().rstrip(";"), read="duckdb")
        tree.set("limit", None)
        top = tree
        while isinstance(top, exp.SetOperation | exp.Subquery):
            top = top.this
        names: set[str] = set()
        for place, each in enumerate(top.expressions, start=1):
            plain = each.unnest()
            if plain.is_star:
                continue
            name = plain.alias_or_name.lower() if isinstance(plain, exp.Alias | exp.Column) else ""
            if not name or name in names:
                plain, name = exp.alias_(plain.unalias(), f"column_{place}"), f"column_{place}"
            each.replace(plain)
            names.add(name)
        return tree

    def model(self, number: int) -> str:
        """Return the query as the SELECT of a model: datasets with their schema, in Spark's SQL."""
        tree = self.query(number)
        derived = {each.alias.lower() for each in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            if not table.db and table.name.lower() not in derived:
                if not table.alias:
                    table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
                table.set("db", exp.to_identifier(self.name))
        return tree.sql("spark")

    def expected(self, number: int) -> list[tuple]:
        return self.own.execute(self.query(number).sql("duckdb")).fetchall()

    def rows(self, select: str) -> list[tuple]:
        """Return the rows of a model on Spark, compiled as in a load."""
        states = {stable(name): _state(name, columns) for name, columns in self.columns.items()}
        model = _state("mart.model", describe_select(select, self.columns).columns, select, tuple(states))
        sql = query_of_model(model, states, lambda table: self.view(table.qualified_name)).sql
        return [tuple(row) for row in self.spark.sql(sql).collect()]


def _state(name: str, columns: Any, select: str = "SELECT 1", inputs: tuple[str, ...] = ()) -> DatasetState:
    schema, _, own = name.partition(".")
    described = tuple(
        ColumnState(stable(name, column.name), column.name, column.type, role="attribute") for column in columns
    )
    return DatasetState(stable(name), schema, "bizcore", own, described, select=select, inputs=inputs)


def _plain(value: Any) -> Any:
    """Return a value in the form that is compared: numbers as floats, times of midnight as dates."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.date() if not (value.hour or value.minute or value.second) else value
    return value.rstrip() if isinstance(value, str) else value


def _sorted(rows: list[tuple]) -> list[tuple]:
    """Return rows in an order in which numbers that differ by rounding have the same place.

    Texts come first, then numbers by three digits, and by ten where these are equal: neither engine orders its rows.
    """

    def key(row: tuple, digits: int) -> tuple:
        return tuple(f"{value:.{digits - 1}e}" if isinstance(value, float) else str(value) for value in row)

    texts_first = [tuple(_plain(value) for value in row) for row in rows]
    return sorted(
        texts_first,
        key=lambda row: (key(tuple(v for v in row if not isinstance(v, float)), 3), key(row, 3), key(row, 10)),
    )


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return isclose(left, right, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return left == right or (isinstance(left, date) and str(left) == str(right))


def differences(rows: list[tuple], expected: list[tuple]) -> list[tuple]:
    """Return pairs of rows that differ, and the numbers of rows if these do."""
    if len(rows) != len(expected):
        return [(len(rows), len(expected))]
    pairs = zip(_sorted(rows), _sorted(expected), strict=True)
    return [pair for pair in pairs if not all(map(_same, *pair))]


@pytest.fixture(scope="module")
def benchmarks(spark, tmp_path_factory) -> dict[str, Benchmark]:
    return {name: Benchmark(name, spark, tmp_path_factory.mktemp(name)) for name in QUERIES}


@pytest.mark.parametrize(("name", "number"), [(name, each) for name, numbers in QUERIES.items() for each in numbers])
def test_a_query_of_a_benchmark_has_the_rows_of_duckdb(benchmarks, name, number) -> None:
    benchmark = benchmarks[name]
    assert differences(benchmark.rows(benchmark.model(number)), benchmark.expected(number)) == []
