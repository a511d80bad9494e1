"""Property test: if only a sensitive column changes, no column that counts as harmless changes in any remaining row."""

from collections import Counter
from functools import cache

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.metadata.domain.models.test_dependencies import sensitive

# Values of the only sensitive column, ``salary``, in two states of the same tables.
STATES = ((1, 2, 3, 4, 5, 6), (6, 2, 1, 0, 5, 9))
PERSON = tuple(zip(range(1, 7), "abcabc", strict=True))

FURTHER_TABLES = {
    "letter": "('a', 'A'), ('b', 'B'), ('c', 'C')) v(ch, label)",
    "number": "(0, 'x'), (1, 'y'), (1, 'z'), (2, 'y')) v(i, label)",
    "ord": "(1, 1, 5), (2, 2, 6), (3, 2, 7)) v(no, person_id, amount)",
}


@cache
def database(state: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA s")
    connection.execute("CREATE TABLE s.person (id int, city text, name text, salary int)")
    rows = [(*row, f"n{row[0]}", salary) for row, salary in zip(PERSON, STATES[state], strict=True)]
    connection.executemany("INSERT INTO s.person VALUES (?, ?, ?, ?)", rows)
    for table, values in FURTHER_TABLES.items():
        connection.execute(f"CREATE TABLE s.{table} AS SELECT * FROM (VALUES {values}")
    return connection


def conditions(alias: str, *further: str) -> st.SearchStrategy[str]:
    return st.sampled_from(
        [
            f"{alias}.salary > 2",
            f"{alias}.salary % 3 = {alias}.id % 3",
            f"{alias}.city <> 'c'",
            f"{alias}.id > 1 OR {alias}.salary > 4",
            f"NOT {alias}.salary = 5 AND {alias}.id < 6",
            *further,
        ]
    )


WITHIN = conditions("q", "q.id = p.id AND q.salary > 2", "q.city = p.city AND q.salary > p.id", "q.salary = p.salary")
JOINS = {
    "": (),
    "JOIN s.letter a ON a.ch = p.city": ("a.label", "a.ch"),
    "JOIN s.letter a ON a.ch = chr(97 + p.salary % 3)": ("a.label", "a.ch"),
    "LEFT JOIN s.letter a ON a.ch = chr(97 + p.salary % 5)": ("a.label", "coalesce(a.ch, '-')"),
    "LEFT JOIN s.letter a ON a.ch = p.city AND p.salary > 3": ("a.label",),
    "JOIN s.number n ON n.i <= p.salary % 3": ("n.i", "n.label"),
    "CROSS JOIN s.number n": ("n.i", "n.label", "n.i + p.id", "n.i = p.salary % 3"),
    "LEFT JOIN s.number n ON n.i = p.salary": ("n.label",),
    "LEFT JOIN s.ord o ON o.person_id = p.id": ("o.amount", "o.no"),
    "LEFT JOIN (SELECT q.city AS c, count(*) AS k, 1 AS w FROM s.person q WHERE {q} GROUP BY q.city) g "
    "ON g.c = p.city": ("g.k", "g.w"),
    "LEFT JOIN (SELECT q.id AS c, 1 AS w FROM s.person q WHERE {q}) g ON g.c = p.id": ("g.w", "g.c"),
}
FIRST = ("p.city", "p.salary", "p.name", "CASE WHEN p.salary > 3 THEN 'y' ELSE p.city END", "1")
FURTHER = (
    "EXISTS (SELECT 1 FROM s.person q WHERE {w})",
    "(SELECT max(q.city) FROM s.person q WHERE {w})",
    "(SELECT count(*) FROM s.person q WHERE {w})",
    "p.id IN (SELECT q.id FROM s.person q WHERE {w})",
    "row_number() OVER (ORDER BY p.salary, p.id)",
    "count(*) OVER (PARTITION BY p.city)",
)


@st.composite
def selects(draw: st.DrawFn) -> str:
    """Return a SELECT whose column ``id`` is that of a row of ``s.person``, or of its group."""
    join = draw(st.sampled_from(list(JOINS)))
    own = st.sampled_from([*FIRST, *JOINS[join], *(FURTHER if draw(st.booleans()) else ())])
    values = [value.replace("{w}", draw(WITHIN)) for value in draw(st.lists(own, min_size=1, max_size=2))]
    across = [f"{each} = p.salary % 3" for each in ("n.i",) if each in JOINS[join]]
    where = draw(st.lists(conditions("p", *across), max_size=2))
    source = f"FROM s.person p {join.replace('{q}', draw(conditions('q')))}".strip()
    source += f" WHERE {' AND '.join(f'({each})' for each in where)}" if where else ""
    kind = draw(st.sampled_from(["plain", "group", "groups", "beneath", "union", "limit", "distinct"]))
    columns = ", ".join(f"{value} AS v{number}" for number, value in enumerate(values))
    if kind == "group":
        return f"SELECT p.city AS id, count(*) AS k, max(p.id) AS m {source} GROUP BY p.city"
    if kind == "groups":
        having = f" HAVING max(p.salary) > {draw(st.integers(0, 5))}" if draw(st.booleans()) else ""
        keys = draw(st.sampled_from(["p.salary % 2", "p.city", "p.city, p.salary % 2"]))
        return f"SELECT max(p.id) AS id, count(*) AS k, count(*) OVER () AS w {source} GROUP BY {keys}{having}"
    if kind == "distinct":
        return f"SELECT DISTINCT p.id AS id, {columns} {source}"
    text = f"SELECT p.id AS id, {columns} {source}"
    if kind == "beneath":
        compared = f"cast(x.v{len(values) - 1} AS string)"
        other = draw(st.sampled_from(["'1'", "'false'", "'a'", "cast(x.v0 AS string)", "cast(x.id AS string)"]))
        return f"SELECT x.id, x.v0 AS v0 FROM ({text}) x WHERE {compared} {draw(st.sampled_from('<>='))} {other}"
    if kind == "union":
        nulls = ", ".join("NULL" for _ in values)
        return f"{text} UNION ALL SELECT q.id, {nulls} FROM s.person q WHERE {draw(conditions('q'))}"
    return f"{text} ORDER BY p.salary, p.id LIMIT 4" if kind == "limit" and not JOINS[join] else text


def harmless(text: str, state: int) -> dict[object, Counter[tuple]]:
    """Return the values of the columns that do not count as sensitive, by the value of ``id``."""
    result = database(state).execute(text)
    names = [each[0].lower() for each in result.description]
    hidden = sensitive(text, {("s.person", "salary")})
    places = [place for place, name in enumerate(names) if name not in hidden]
    rows: dict[object, Counter[tuple]] = {}
    for row in result.fetchall():
        rows.setdefault(row[0], Counter())[tuple(row[place] for place in places)] += 1
    return rows if "id" not in hidden else {}


def check(text: str) -> None:
    before, after = harmless(text, 0), harmless(text, 1)
    for key in before.keys() & after.keys():
        assert before[key] == after[key], text


@given(selects())
@settings(max_examples=40, deadline=None)
@example("SELECT p.id AS id, a.label AS v0 FROM s.person p JOIN s.letter a ON a.ch = chr(97 + p.salary % 3)")
def test_a_column_that_changes_with_a_sensitive_one_is_sensitive(text: str) -> None:
    check(text)


@pytest.mark.nightly
@given(selects())
@settings(max_examples=2000, deadline=None)
def test_a_column_that_changes_with_a_sensitive_one_is_sensitive_in_many_selects(text: str) -> None:
    check(text)
