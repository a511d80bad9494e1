"""Tests of the columns that a model's columns depend on, by values and by the choice of rows."""

import pytest

from metadata.domain.models.dependencies import Readable, dependencies
from metadata.domain.models.dependency_scopes import ROWS, VARYING, Choice, Dependency, columns_of
from metadata.domain.models.statement import ModelProblem
from metadata.domain.sensitivity import Condition, propagate_with_choices

DATASETS = {
    "s.person": Readable(("id", "city", "name", "salary"), (frozenset({"id"}),)),
    "s.letter": Readable(("ch", "label"), (frozenset({"ch"}),)),
    "s.number": Readable(("i", "label")),
    "s.ord": Readable(("no", "person_id", "amount"), (frozenset({"no"}),)),
}
SENSITIVE = {("s.person", "name"), ("s.person", "salary")}


def sensitive(text: str, columns: set[tuple[str, str]] = SENSITIVE) -> set[str]:
    """Return the columns of a SELECT that are sensitive if these columns are."""
    result = dependencies(text, DATASETS)
    values = {name: [each for each in own if not isinstance(each, Choice)] for name, own in result.columns.items()}
    choices = {
        name: [_condition(each) for each in own if isinstance(each, Choice)] for name, own in result.columns.items()
    }
    reached = propagate_with_choices(columns, values, choices, list(values))
    return {name for name in result.columns if name in reached}


def _condition(choice: Choice) -> Condition:
    plain: list[Dependency] = [each for each in choice.among if not isinstance(each, Choice)]
    rows = frozenset(each for each in plain if each[1] == ROWS and each != VARYING)
    within = frozenset(_condition(each) for each in choice.among if isinstance(each, Choice))
    return Condition(frozenset(plain) - rows, rows, within)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        # Rows that are joined by or compared with a sensitive column.
        ("SELECT p.id, a.ch FROM s.person p JOIN s.letter a ON a.ch = substr(p.name, 1, 1)", {"ch"}),
        ("SELECT p.id, a.label FROM s.person p JOIN s.letter a ON a.ch = substr(p.name, 1, 1)", {"label"}),
        ("SELECT p.id, n.i FROM s.person p JOIN s.number n ON n.i <= p.salary", {"id", "i"}),
        ("SELECT p.id FROM s.ord o JOIN s.person p ON p.id = o.person_id AND o.amount <= p.salary", {"id"}),
        (
            "SELECT p.id FROM s.number n JOIN s.person p ON p.id = n.i "
            "JOIN s.letter a ON a.ch = concat(p.name, n.label)",
            {"id"},
        ),
        ("SELECT p.id, n.i FROM s.person p, s.number n WHERE n.i = p.salary", {"id", "i"}),
        ("SELECT n.i FROM s.number n WHERE EXISTS (SELECT 1 FROM s.person p WHERE p.salary = n.i)", {"i"}),
        ("SELECT n.label FROM s.number n WHERE n.i IN (SELECT salary FROM s.person)", {"label"}),
        ("SELECT n.i FROM s.number n SEMI JOIN s.person p ON p.salary = n.i", {"i"}),
        ("SELECT i FROM (SELECT p.salary, n.i FROM s.person p CROSS JOIN s.number n) x WHERE i = salary", {"i"}),
        ("SELECT i FROM (SELECT p.salary = n.i AS b, n.i FROM s.person p CROSS JOIN s.number n) x WHERE b", {"i"}),
        (
            "SELECT i FROM (SELECT p.salary = v.i AS b, v.i FROM s.person p CROSS JOIN (VALUES (1), (2)) v(i)) x "
            "WHERE b",
            {"i"},
        ),
        (
            "SELECT p.id, b.label FROM s.person p JOIN s.letter a ON a.ch = substr(p.name, 1, 1) "
            "JOIN s.letter b ON b.ch = a.label",
            {"label"},
        ),
        # Subqueries of expressions, aggregates, windows, limits.
        (
            "SELECT o.no, EXISTS (SELECT 1 FROM s.person p WHERE p.id = o.person_id AND p.salary > 9) AS x "
            "FROM s.ord o",
            {"x"},
        ),
        ("SELECT o.no, o.person_id IN (SELECT id FROM s.person WHERE name LIKE 'A%') AS x FROM s.ord o", {"x"}),
        (
            "SELECT p.id, (SELECT max(a.ch) FROM s.letter a WHERE a.ch = substr(p.name, 1, 1)) AS x FROM s.person p",
            {"x"},
        ),
        ("SELECT p.id, CASE WHEN p.salary > 9 THEN 'y' ELSE 'n' END AS x FROM s.person p", {"x"}),
        ("SELECT city, count(*) AS x FROM s.person WHERE salary > 9 GROUP BY city", {"x"}),
        ("SELECT city, count(*) FILTER (WHERE salary > 9) AS x FROM s.person GROUP BY city", {"x"}),
        ("SELECT max(id) AS x, count(*) AS y FROM s.person GROUP BY salary", {"x", "y"}),
        ("SELECT city, count(*) OVER () AS x FROM s.person GROUP BY city HAVING max(salary) > 9", {"x"}),
        ("SELECT id, count(*) OVER (PARTITION BY city) AS x FROM s.person WHERE salary > 9", {"x"}),
        ("SELECT id, row_number() OVER w AS x FROM s.person WINDOW w AS (ORDER BY salary)", {"x"}),
        ("SELECT o.no, (SELECT id FROM s.person ORDER BY salary LIMIT 1) AS x FROM s.ord o", {"x"}),
        (
            "SELECT i FROM (SELECT n.i, p.salary FROM s.person p CROSS JOIN s.number n) x "
            "ORDER BY abs(i - salary) LIMIT 1",
            {"i"},
        ),
        ("SELECT n.i FROM s.number n CROSS JOIN s.person p GROUP BY n.i HAVING max(p.salary) = n.i", {"i"}),
        # Repeated rows, outer joins and set operations.
        ("SELECT p.id FROM s.person p LATERAL VIEW explode(sequence(1, p.salary)) t AS x", {"id"}),
        ("SELECT p.id, q.city FROM s.person p LEFT JOIN s.person q ON q.id = p.id AND q.salary > 9", {"city"}),
        (
            "SELECT p.id, q.x FROM s.person p LEFT JOIN (SELECT id, 1 AS x FROM s.person WHERE salary > 9) q "
            "ON q.id = p.id",
            {"id", "x"},
        ),
        ("SELECT id, 'a' AS x FROM s.person WHERE salary > 9 UNION ALL SELECT id, 'b' FROM s.person", {"id", "x"}),
        ("WITH r AS (SELECT id FROM s.person WHERE salary > 9) SELECT count(*) AS x FROM r", {"x"}),
    ],
)
def test_columns_that_depend_on_a_sensitive_column_are_sensitive(text: str, columns: set[str]) -> None:
    assert sensitive(text) == columns


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, city FROM s.person WHERE salary > 9 AND city = 'x'",
        "SELECT id FROM s.person WHERE name IS NOT NULL ORDER BY salary DESC LIMIT 3",
        "SELECT o.no, o.amount, p.city FROM s.ord o JOIN s.person p ON p.id = o.person_id WHERE p.salary > 9",
        "SELECT city, count(*) AS n FROM s.person GROUP BY city",
        "SELECT p.id, p.city FROM s.person p LEFT JOIN s.letter a ON a.ch = substr(p.name, 1, 1)",
        "SELECT id, city FROM s.person UNION SELECT no, 'x' FROM s.ord",
        "SELECT p.id, n.i FROM s.person p CROSS JOIN s.number n",
        "SELECT p.id, a.label FROM s.person p JOIN s.letter a ON a.ch = p.city",
    ],
)
def test_rows_that_a_condition_leaves_out_make_no_column_sensitive(text: str) -> None:
    assert sensitive(text) == set()


def test_a_join_by_two_sensitive_columns_reveals_the_rest_of_both_rows() -> None:
    text = "SELECT n.label FROM s.number n JOIN s.person p ON p.salary = n.i"
    assert sensitive(text, SENSITIVE | {("s.number", "i")}) == {"label"}


def test_dependencies_of_deeply_repeated_queries_are_resolved_quickly() -> None:
    text = "SELECT id, salary FROM s.person"
    for _ in range(30):
        text = f"SELECT id, max(salary) AS salary FROM ({text}) x WHERE id > 1 AND salary > 2 GROUP BY id"
    text = f"SELECT city, (SELECT max(salary) FROM ({text}) y) AS salary FROM s.person GROUP BY city"
    assert ("s.person", "salary") in columns_of(dependencies(text, DATASETS).columns["salary"])


def nested(queries: int) -> str:
    """Return nested grouped queries."""
    text = "SELECT max(salary) FROM s.person"
    for _ in range(queries):
        text = f"SELECT max(({text})) FROM s.number n GROUP BY n.i"
    return f"SELECT ({text}) AS salary"


def test_dependencies_refuse_queries_nested_too_deeply() -> None:
    assert sensitive(nested(8)) == {"salary"}
    with pytest.raises(ModelProblem, match="nested too deeply"):
        dependencies(nested(25), DATASETS)
