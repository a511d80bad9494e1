"""Tests of the columns that decide which rows a model has."""

import pytest

from metadata.domain.models import ModelProblem
from metadata.domain.models.dependencies import Readable, dependencies
from metadata.domain.models.dependency_scopes import ROWS, columns_of
from metadata.domain.models.row_inputs import decides_rows, row_inputs


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("SELECT id, upper(name) AS n FROM s.a", set()),
        ("SELECT id FROM s.a ORDER BY name", set()),
        ("SELECT id FROM s.a UNION ALL SELECT id FROM s.b", set()),
        ("SELECT b.id FROM s.a b WHERE b.flag = 'y'", {("s.a", "flag")}),
        ("SELECT id FROM s.a WHERE flag = 'y'", {("", "flag")}),
        ("SELECT a.id FROM s.a JOIN s.b ON a.k = b.j", {("s.a", "k"), ("s.b", "j")}),
        ("SELECT id FROM s.a JOIN s.b USING (k)", {("", "k")}),
        ("SELECT name, sum(x) AS t FROM s.a GROUP BY name HAVING max(y) > 1", {("", "name"), ("", "y")}),
        ("SELECT id FROM s.a ORDER BY name LIMIT 3", {("", "name")}),
        ("SELECT DISTINCT name FROM s.a", {("", "name")}),
        ("SELECT id FROM s.a UNION SELECT k FROM s.b", {("", "id"), ("", "k")}),
        (
            "SELECT id FROM s.a WHERE id IN (SELECT b.k FROM s.b WHERE b.email > 'x')",
            {("", "id"), ("s.b", "k")} | {("s.b", "email")},
        ),
        (
            "SELECT id, (SELECT max(b.v) FROM s.b WHERE b.k = a.id) AS m FROM s.a",
            {("s.b", "v"), ("s.b", "k")} | {("s.a", "id")},
        ),
        ("WITH c AS (SELECT id, flag AS f FROM s.a) SELECT id FROM c WHERE f = 'y'", {("", "f"), ("", "flag")}),
        (
            "SELECT id FROM (SELECT id, a.x + a.y AS z FROM s.a) AS q WHERE q.z > 1",
            {("", "z"), ("s.a", "x")} | {("s.a", "y")},
        ),
    ],
)
def test_row_inputs_are_exactly_the_columns_that_decide_rows(text: str, inputs: set[tuple[str, str]]) -> None:
    assert row_inputs(text) == inputs


_WINDOW = "WINDOW v AS (PARTITION BY city), w AS (v ORDER BY salary)"
_TABLES = {"s.a": Readable(("id", "city", "salary", "flag"))}


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("SELECT id, row_number() OVER (PARTITION BY city ORDER BY salary) AS n FROM s.a", set()),
        (f"SELECT id, row_number() OVER w AS n FROM s.a WHERE flag = 1 {_WINDOW}", {"flag"}),
        ("SELECT id FROM (SELECT id, rank() OVER (ORDER BY salary) AS n FROM s.a) WHERE n = 1", {"salary"}),
        (f"SELECT id FROM (SELECT id, rank() OVER w AS n FROM s.a {_WINDOW}) WHERE n = 1", {"city", "salary"}),
        (f"SELECT DISTINCT rank() OVER w AS n FROM s.a {_WINDOW}", {"city", "salary"}),
        ("SELECT id FROM s.a ORDER BY rank() OVER (ORDER BY salary) LIMIT 1", {"salary"}),
    ],
)
def test_columns_of_a_window_decide_rows_where_its_values_do(text: str, inputs: set[str]) -> None:
    """Check that planning and lineage agree; columns of a window that is only selected are inputs of that column."""
    in_lineage = columns_of(dependencies(text, _TABLES).rows)
    assert {name for dataset, name in in_lineage if dataset and name != ROWS} == inputs
    assert {name for name in _TABLES["s.a"].columns if decides_rows(text, ["s.a"], [name])} == inputs


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, flag FROM s.a ORDER BY 2 LIMIT 3",
        "SELECT flag, count(*) AS n FROM s.a GROUP BY 1",
        "SELECT flag, f, count(*) AS n FROM s.a GROUP BY ROLLUP (1, 2)",
        "SELECT id, row_number() OVER (ORDER BY flag) AS n FROM s.a ORDER BY 2 LIMIT 3",
        "SELECT id FROM s.a UNION ALL SELECT flag FROM s.a ORDER BY 1 LIMIT 3",
    ],
)
def test_selected_expression_named_by_its_number_decides_rows(text: str) -> None:
    assert decides_rows(text, ["s.a"], ["flag"])


def test_number_in_an_expression_of_a_grouping_names_no_column() -> None:
    text = "SELECT substr(flag, 2) AS x, max(g) AS y FROM s.a GROUP BY substr(flag, 2)"
    assert not decides_rows(text, ["s.a"], ["g"])


@pytest.mark.parametrize(
    ("text", "dataset", "column"),
    [
        ("SELECT id FROM s.a a WHERE a.flag = 1 AND EXISTS (SELECT 1 FROM s.b a WHERE a.k = 1)", "s.a", "flag"),
        ("SELECT id FROM s.a a WHERE a.flag = 1 AND EXISTS (SELECT 1 FROM s.b a WHERE a.k = 1)", "s.b", "k"),
        (
            "WITH q AS (SELECT id, f FROM s.a UNION ALL SELECT k, kind FROM s.b) SELECT id FROM q WHERE f = 1",
            "s.b",
            "kind",
        ),
        ("WITH q AS (SELECT * FROM s.a UNION ALL SELECT k, g FROM s.b) SELECT id FROM q WHERE g = 1", "s.a", "f"),
        ("SELECT id FROM s.a WHERE address.city = 'x'", "s.a", "address"),
        ("SELECT id FROM s.a t WHERE t.address.city = 'x'", "s.a", "address"),
        ("SELECT id FROM (SELECT id, s.flag AS f FROM s.a s) a WHERE a.f = 1", "s.a", "flag"),
    ],
)
def test_column_that_may_decide_rows_is_a_row_input(text: str, dataset: str, column: str) -> None:
    assert decides_rows(text, [dataset], [column])


def test_column_aliases_of_a_derived_table_make_every_column_a_row_input() -> None:
    assert decides_rows("WITH c (x) AS (SELECT id FROM s.a) SELECT x FROM c", ["s.a"], ["anything"])


def test_column_of_another_dataset_is_no_row_input() -> None:
    text = "SELECT a.id FROM s.a JOIN s.b ON a.k = b.j"
    assert decides_rows(text, ["s.b"], ["j"])
    assert not decides_rows(text, ["s.b"], ["k"])


def test_unreadable_model_has_every_column_as_row_input() -> None:
    with pytest.raises(ModelProblem):
        row_inputs("DROP TABLE s.a")
    assert decides_rows("DROP TABLE s.a", ["s.a"], ["x"])
