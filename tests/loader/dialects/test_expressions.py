"""Translation of users' expressions: proven functions are equal on executed engines, all else is refused."""

import pytest

from loader.dialects.catalog import DIALECTS
from loader.dialects.expressions import PROVEN, translate_condition, translate_to, translate_value
from loader.dialects.refusals import NotRendered
from metadata.domain.types import parse
from tests.loader.dialects.engines import ENGINES, connection_to

TYPES = {"a": parse("string"), "n": parse("integer")}
RESULTS = {
    "coalesce(a, 'none')": [" Ab ", "none"],
    "nullif(a, ' Ab ')": [None, None],
    "nullif(a, ' Ab')": [" Ab ", None],
    "replace(a, 'b', 'c')": [" Ac ", None],
    "concat(a, '!')": [" Ab !", None],
    "a || '!'": [" Ab !", None],
    "CASE WHEN n > 1 AND a IS NOT NULL THEN 'x' ELSE 'y' END": ["x", "y"],
    "n IN (1, 2)": [True, None],
    "NOT (n <> 2)": [True, None],
    "coalesce(n, 1.5)": [2, 1.5],
    "{{ load_run_id }}": ["run", "run"],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("expression", RESULTS)
def test_translated_expressions_have_the_results_of_spark(engine, expression):
    connection, dialect = connection_to(engine), DIALECTS[engine]
    text = dialect.types["string"]
    rows = f"SELECT CAST(' Ab ' AS {text}) AS a, 2 AS n, 1 AS p UNION ALL SELECT NULL, NULL, 2"
    sql = translate_value(expression, dialect, TYPES, where="")[0].replace("{{ load_run_id }}", "run")
    assert [row[0] for row in connection.rows(f"SELECT {sql} FROM ({rows}) AS r ORDER BY r.p")] == RESULTS[expression]


def test_every_proven_function_is_compared():
    assert all(any(expression.startswith(f"{name}(") for expression in RESULTS) for name in PROVEN)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("expression", "line", "column"),
    [
        ("n / 2", 1, 1),
        ("cast(a AS integer)", 1, 1),
        ("a LIKE 'x%'", 1, 1),
        ("a > 'x'", 1, 1),
        ("n = '1'", 1, 1),
        ("coalesce(a,\n  initcap(a))", 2, 3),
        ("missing", 1, 1),
    ],
)
def test_unproven_expression_is_refused_with_its_place(name, expression, line, column):
    with pytest.raises(NotRendered) as refused:
        translate_value(expression, DIALECTS[name], TYPES, where="")
    assert (refused.value.line, refused.value.column) == (line, column)


@pytest.mark.parametrize("name", ["mssql", "fabric"])
def test_comparison_of_texts_is_refused_where_blanks_do_not_count(name):
    with pytest.raises(NotRendered, match="blanks"):
        translate_value("a = 'x'", DIALECTS[name], TYPES, where="")


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("expression", "target"),
    [
        ("coalesce(a, 'none')", "string(3)"),
        ("coalesce(a, '1')", "integer"),
        ("coalesce(n, 1)", "string"),
        ("coalesce(n, 1.5)", "integer"),
        ("coalesce(n, 1.25)", "decimal(12,1)"),
        ("coalesce(n, 1)", "decimal(8,0)"),
        ("coalesce(n, 3000000000)", "integer"),
        ("n = 1", "string"),
    ],
)
def test_expression_whose_cast_could_change_a_value_is_refused(name, expression, target):
    with pytest.raises(NotRendered):
        translate_to(expression, DIALECTS[name], TYPES, parse(target), where="s.d.c")


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("expression", "target"),
    [
        ("coalesce(a, 'none')", "string"),
        ("coalesce(n, 0)", "integer"),
        ("coalesce(n, 1.5)", "decimal(12,2)"),
        ("coalesce(n, 0.5)", "float"),
        ("NULL", "string(3)"),
        ("{{ load_timestamp }}", "timestamp"),
    ],
)
def test_expression_of_values_that_fit_is_cast(name, expression, target):
    assert translate_to(expression, DIALECTS[name], TYPES, parse(target), where="s.d.c").startswith("CAST(")


@pytest.mark.parametrize("name", DIALECTS)
def test_filter_that_is_no_condition_is_refused(name):
    with pytest.raises(NotRendered, match="no condition"):
        translate_condition("n", DIALECTS[name], TYPES, where="raw.d")


@pytest.mark.parametrize("name", ["mssql", "fabric"])
def test_boolean_column_is_refused_where_it_is_no_condition(name):
    with pytest.raises(NotRendered, match="no condition"):
        translate_condition("o", DIALECTS[name], {"o": parse("boolean")}, where="raw.d")
