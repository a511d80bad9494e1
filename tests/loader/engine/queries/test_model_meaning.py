"""Columns of tables that were unknown when a model was saved change none of its results on Spark."""

import re

import pytest

from architecture.domain.views import query_of_model
from elevata.core.errors import MetadataError
from metadata.domain.models import ReadColumn, check_meaning, describe_select
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import stable

pytestmark = pytest.mark.spark

COLUMNS = {
    "s.emp": ("id", "salary", "bonus", "dept_id"),
    "s.dept": ("did", "size"),
}
# Rows are few, and constants of the query: Spark computes most results without a job.
ROWS = {
    "s.emp": [(1, 100, 10, 1), (2, 200, 20, 1), (3, 300, 30, 2), (4, 300, 5, None)],
    "s.dept": [(1, 7), (2, 8), (5, 9)],
}
# Values of columns that are added: other in each row, so that they change every result that they take part in.
ADDED = (91, -92, 93, 1)

BY_DAY = (
    "SELECT id, salary AS base, base + bonus AS total FROM s.emp",
    "SELECT e.id FROM s.emp e WHERE EXISTS (SELECT 1 FROM s.dept d WHERE did = dept_id)",
    "SELECT DISTINCT * FROM s.emp",
    "SELECT * FROM s.dept UNION SELECT dept_id, bonus FROM s.emp",
    "SELECT -salary AS base FROM s.emp ORDER BY base LIMIT 2",
    "SELECT dept_id AS k, sum(salary) AS total FROM s.emp GROUP BY k HAVING total > 250",
    "SELECT id, size FROM s.emp JOIN (SELECT did AS dept_id, size FROM s.dept) d USING (dept_id)",
    "SELECT count(*) AS n FROM s.emp",
)
BY_NIGHT = (
    "SELECT *, salary + bonus AS total FROM s.emp",
    "SELECT * EXCEPT (bonus), bonus AS extra FROM s.emp",
    "SELECT e.*, d.size FROM s.emp e JOIN s.dept d ON d.did = e.dept_id",
    "SELECT salary AS base, base * 2 AS twice, twice + base AS sum3 FROM s.emp WHERE salary > 100",
    "SELECT -salary AS base FROM s.emp ORDER BY base + 1 LIMIT 1",
    "SELECT -salary AS base, id FROM s.emp ORDER BY 1, 2 LIMIT 1",
    "SELECT *, -salary AS base FROM s.emp ORDER BY base, id LIMIT 1",
    "SELECT dept_id AS k, count(*) AS n FROM s.emp GROUP BY ALL",
    "SELECT dept_id AS k, count(*) AS n FROM s.emp GROUP BY 1 HAVING n > 1",
    "SELECT salary + 1 AS s, count(*) AS n FROM s.emp GROUP BY salary + 1 HAVING count(*) > 1 ORDER BY s",
    "SELECT dept_id, max(salary) AS top, top + 1 AS next FROM s.emp GROUP BY dept_id",
    "SELECT dept_id, count(*) AS n FROM s.emp GROUP BY ROLLUP (dept_id)",
    "SELECT id, (SELECT max(size) FROM s.dept WHERE did = dept_id) AS size FROM s.emp",
    "SELECT id, (SELECT max(size) FROM s.dept WHERE did = dept_id) AS z, z + 1 AS r FROM s.emp",
    "SELECT id FROM s.emp WHERE dept_id IN (SELECT did FROM s.dept WHERE size > id)",
    "SELECT id FROM s.emp e WHERE NOT EXISTS (SELECT * FROM s.dept WHERE did = e.dept_id)",
    "SELECT e.id, l.m FROM s.emp e JOIN LATERAL (SELECT max(size) AS m FROM s.dept WHERE did = dept_id) l",
    "WITH c AS (SELECT salary AS base, id FROM s.emp) SELECT base, id FROM c WHERE base > 100",
    "WITH c AS (SELECT *, salary * 2 AS twice FROM s.emp) SELECT twice, count(*) AS n FROM c GROUP BY twice",
    "WITH c AS (SELECT * FROM s.emp) SELECT id, base FROM c JOIN (SELECT did AS base FROM s.dept) d ON base = dept_id",
    "SELECT id AS x, size FROM s.emp, s.dept WHERE did = dept_id",
    "SELECT id, did FROM s.emp FULL JOIN s.dept ON did = dept_id",
    "SELECT id FROM s.emp LEFT SEMI JOIN s.dept ON did = dept_id",
    "SELECT id FROM s.emp LEFT ANTI JOIN s.dept ON did = dept_id AND size > 7",
    "SELECT a.id, b.id AS other FROM s.emp a JOIN s.emp b USING (dept_id) WHERE a.id < b.id",
    "SELECT salary FROM s.emp EXCEPT SELECT did FROM s.dept",
    "SELECT dept_id FROM s.emp INTERSECT SELECT did FROM s.dept",
    "SELECT * FROM (SELECT did, size FROM s.dept) UNION ALL SELECT * FROM (SELECT id, bonus FROM s.emp)",
    "SELECT did AS id FROM s.dept UNION ALL SELECT id FROM s.emp ORDER BY id LIMIT 3",
    "SELECT k, v FROM (SELECT did, size FROM s.dept) d (k, v)",
    "SELECT id, row_number() OVER (PARTITION BY dept_id ORDER BY b, id) AS r FROM (SELECT *, -salary AS b FROM s.emp)",
    "SELECT id, sum(salary) OVER w AS running FROM s.emp WINDOW w AS (PARTITION BY dept_id ORDER BY id)",
    "SELECT dept_id, sum(salary) FILTER (WHERE bonus > 5) AS paid FROM s.emp GROUP BY dept_id",
    "SELECT id, word FROM s.emp LATERAL VIEW explode(array(salary, bonus)) w AS word",
    "SELECT DISTINCT dept_id AS d FROM s.emp ORDER BY d",
    "SELECT DISTINCT dept_id FROM s.emp e ORDER BY dept_id DESC LIMIT 1",
    "SELECT DISTINCT id FROM (SELECT * FROM s.emp)",
    "SELECT CASE WHEN salary > 200 THEN 'high' ELSE 'low' END AS level, level || '!' AS loud FROM s.emp",
    "SELECT e.id AS current_id, d.size AS current_size FROM s.emp e LEFT JOIN s.dept d ON d.did = e.dept_id",
)
NIGHTLY = [pytest.param(text, marks=pytest.mark.nightly) for text in BY_NIGHT]


@pytest.fixture(scope="module")
def rows_of(spark):
    """Return a function for the rows of a model over tables with further columns, described or not."""

    def rows(text: str, columns: list[str], further: dict[str, list[str]], *, is_described: bool) -> list[tuple]:
        states: dict[str, DatasetState] = {}
        for name, own in COLUMNS.items():
            extra = further.get(name, [])
            described_columns = [*own, *extra] if is_described else own
            states[stable(name)] = _state(name, described_columns)
            values = ", ".join(
                str((*row, *(number * (place + 1) for place in range(len(extra))))).replace("None", "CAST(NULL AS INT)")
                for row, number in zip(ROWS[name], ADDED, strict=False)
            )
            names = ", ".join(map(quote_identifier, (*own, *extra)))
            spark.sql(f"SELECT * FROM VALUES {values} AS v ({names})").createOrReplaceTempView(_view(name))
        model = _state("m.model", columns, select=text, inputs=tuple(states))
        sql = query_of_model(model, states, lambda table: _view(table.qualified_name)).sql
        return sorted(map(tuple, spark.sql(sql).collect()), key=str)

    return rows


def _state(name: str, columns, **more) -> DatasetState:
    schema, _, own = name.partition(".")
    described = tuple(ColumnState(stable(name, column), column, "string", role="attribute") for column in columns)
    return DatasetState(stable(name), schema, "bizcore", own, described, **{"select": "SELECT 1", **more})


def _view(name: str) -> str:
    return f"meaning_{name.replace('.', '_')}"


def _described(further: dict[str, list[str]]) -> dict[str, list[ReadColumn]]:
    return {
        name: [ReadColumn(each, "integer", True) for each in (*own, *further.get(name, []))]
        for name, own in COLUMNS.items()
    }


def _names(text: str, dataset: str) -> list[str]:
    """Return the names in a SELECT, and a new one, that are no columns of a dataset."""
    words = dict.fromkeys(re.findall(r"[a-z_][a-z_0-9]*", text))
    return [word for word in (*words, "all", "new") if word not in COLUMNS[dataset]]


@pytest.mark.parametrize("text", [*BY_DAY, *NIGHTLY])
def test_undescribed_table_columns_change_no_model_result(rows_of, text) -> None:
    columns = [column.name for column in describe_select(text, _described({})).columns]
    everywhere = {name: _names(text, name) for name in COLUMNS}
    assert rows_of(text, columns, everywhere, is_described=False) == rows_of(text, columns, {}, is_described=False)


@pytest.mark.parametrize("text", [*BY_DAY, *NIGHTLY])
def test_accepted_added_columns_change_no_model_result(rows_of, text) -> None:
    before = _described({})
    columns = [column.name for column in describe_select(text, before).columns]
    expected = rows_of(text, columns, {}, is_described=True)
    for dataset in COLUMNS:
        for name in _names(text, dataset):
            further = {dataset: [name]}
            try:
                check_meaning(text, before, _described(further))
            except MetadataError:
                continue
            assert rows_of(text, columns, further, is_described=True) == expected, f"{dataset}.{name}"
