"""Check of read-only queries: permitted SQL, replaced names, error positions, lineage of masked columns."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.queries.masked_lineage import masked_results
from loader.domain.queries.select_statements import check_query, position_in_text

PUBLISHED = ("raw.raw_a", "rawcore.rc_a", "rawcore.rc_b", "rawcore.rc_a_hist")
COLUMNS = {"rawcore.rc_a": ["id", "email", "city"], "rawcore.rc_b": ["id", "label"]}
MASKED = {"rawcore.rc_a": ["email"]}


def refusal(text: str) -> Refusal:
    with pytest.raises(Refusal) as refused:
        check_query(text, PUBLISHED)
    return refused.value


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select * from rawcore.rc_a;",
        "FROM rawcore.rc_a SELECT id",
        "WITH c AS (SELECT * FROM rawcore.rc_a) SELECT count(*) FROM c JOIN rawcore.rc_b USING (id)",
        "WITH c (x, y) AS (SELECT id, city FROM rawcore.rc_a) SELECT x FROM c",
        "(SELECT id FROM rawcore.rc_a) UNION ALL (SELECT id FROM rawcore.rc_b) ORDER BY 1 LIMIT 3",
        "SELECT * FROM (VALUES (1), (2)) AS t(a)",
        "SELECT sum(id) FILTER (WHERE id > 1) OVER (PARTITION BY city ORDER BY id) FROM rawcore.rc_a",
        "SELECT x FROM rawcore.rc_a LATERAL VIEW explode(split(city, ' ')) t AS x",
        "SELECT id FROM rawcore.rc_a WHERE EXISTS (SELECT 1 FROM rawcore.rc_b WHERE rc_b.id = rc_a.id)",
        "SELECT CAST(id AS DECIMAL(10, 2)), 'reflect(' || city FROM `RawCore`.`rc_a`",
        "SELECT id -- reflect('java.lang.System')\nFROM rawcore.rc_a /* ; DROP TABLE x */",
        "SELECT city, count(*) FROM rawcore.rc_a GROUP BY ROLLUP (city) HAVING count(*) > 1",
        "SELECT * EXCEPT (email) FROM rawcore.rc_a",
        "SELECT 1.10BD, 2.5D, 3L, .5, 1e5 FROM rawcore.rc_a",
    ],
)
def test_a_select_over_published_names_may_run(text: str):
    check_query(text, PUBLISHED)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "SQL_INVALID", "line 1, column 1: the query is empty"),
        ("SELECT id FROM rawcore.rc_a; DROP TABLE x", "SQL_REFUSED", "line 1, column 28: a second statement"),
        ("DROP TABLE rawcore.rc_a", "SQL_REFUSED", "line 1, column 1: only one SELECT"),
        ("INSERT INTO rawcore.rc_a SELECT 1", "SQL_REFUSED", "only one SELECT"),
        ("WITH c AS (SELECT 1) INSERT INTO rawcore.rc_a SELECT * FROM c", "SQL_REFUSED", "only one SELECT"),
        ("EXPLAIN SELECT 1", "SQL_REFUSED", "only one SELECT"),
        ("SET spark.sql.ansi.enabled=false", "SQL_REFUSED", "only one SELECT"),
        ("SELECT id\nFROM delta.`/etc`", "UNKNOWN_NAME", "line 2, column 6: delta./etc is no published"),
        ("SELECT * FROM parquet.`/etc`", "UNKNOWN_NAME", "parquet./etc is no published table"),
        ("SELECT * FROM `/etc/passwd`", "UNKNOWN_NAME", "/etc/passwd is no published table"),
        ("SELECT * FROM spark_catalog.rawcore.rc_a", "UNKNOWN_NAME", "spark_catalog.rawcore.rc_a is no published"),
        ("SELECT * FROM __published_0", "UNKNOWN_NAME", "__published_0 is no published"),
        ("SELECT * FROM c WHERE 1 IN (WITH c AS (SELECT 1 a) SELECT a FROM c)", "UNKNOWN_NAME", "column 15: c is no"),
        ("WITH b AS (SELECT * FROM c), c AS (SELECT 1 a) SELECT * FROM b", "UNKNOWN_NAME", "column 26: c is no"),
        ("WITH c AS (SELECT * FROM c) SELECT * FROM c", "UNKNOWN_NAME", "column 26: c is no"),
        ("SELECT repeat(a, 400000000) FROM rawcore.rc_a", "SQL_REFUSED", "line 1, column 15: repeat makes a text"),
        ("SELECT * FROM range(10)", "SQL_REFUSED", "the function range is not allowed"),
        ("SELECT * FROM explode(array(1))", "SQL_REFUSED", "not allowed"),
        ("SELECT * FROM read_files('/etc')", "SQL_REFUSED", "the function read_files is not allowed"),
        ("SELECT * FROM IDENTIFIER('rawcore.rc_a')", "SQL_REFUSED", "the function IDENTIFIER is not allowed"),
        ("SELECT reflect('java.lang.System', 'exit')", "SQL_REFUSED", "line 1, column 8: the function reflect"),
        ("SELECT `reflect`('java.lang.System', 'exit')", "SQL_REFUSED", "the function reflect"),
        ("SELECT `in`('a')", "SQL_REFUSED", "the function in is not allowed"),
        ("SELECT java_method('a', 'b')", "SQL_REFUSED", "the function java_method"),
        ("SELECT system.builtin.lower('a')", "SQL_REFUSED", "the function lower is not allowed"),
        ("SELECT input_file_name() FROM rawcore.rc_a", "SQL_REFUSED", "the function input_file_name"),
        ("WITH reflect(a) AS (SELECT 1) SELECT reflect('x') FROM reflect", "SQL_REFUSED", "the function reflect"),
        ("SELECT TRANSFORM(id) USING 'cat' FROM rawcore.rc_a", "SQL_REFUSED", "not allowed"),
        ("SELECT a USING 'cat'", "SQL_INVALID", "cannot be read as SQL"),
        ("SELECT '${spark.app.id}'", "SQL_REFUSED", "line 1, column 9: ${ is not allowed"),
        ("SELECT :x", "SQL_REFUSED", "not allowed"),
        ("SELECT ?", "SQL_REFUSED", "a parameter is not allowed"),
        (r"SELECT r'\' , reflect('a', 'b') --'", "SQL_REFUSED", "column 8: a raw literal"),
        ("SELECT id FROM rawcore.rc_a |> WHERE id = 1", "SQL_REFUSED", "|> is not allowed"),
        ("SELECT id FROM rawcore.rc_a VERSION AS OF 3", "SQL_REFUSED", "version of a table is not allowed"),
        ("SELECT id FROM rawcore.rc_a TABLESAMPLE (5 ROWS)", "SQL_REFUSED", "not allowed"),
        ("SELECT id FROM rawcore.rc_a WHERE (", "SQL_INVALID", "line 1, column 35: this cannot be read as SQL"),
        ("SELECT 'a", "SQL_INVALID", "a quotation mark or a comment is not closed"),
        ("SELECT 1 /* open", "SQL_INVALID", ""),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "SQL_REFUSED", "nested too deeply"),
        ("SELECT '" + "x" * 20_000 + "'", "SQL_REFUSED", "longer than 20000 characters"),
    ],
)
def test_query_outside_the_permitted_sql_is_refused_with_the_reason(text: str, code: str, message: str):
    refused = refusal(text)
    assert refused.code == code
    assert message in refused.message


def test_unknown_name_is_refused_with_a_similar_one_as_hint():
    assert refusal("SELECT * FROM rc_a").hint == "did you mean rawcore.rc_a?"
    assert refusal("SELECT * FROM rawcore.rc_ab").hint.startswith("did you mean rawcore.rc_")


def test_published_names_are_replaced_and_comments_blanked():
    checked = check_query(
        "SELECT rc_a.id, rawcore.rc_a.city, 'rawcore.rc_a' -- rawcore.rc_a\nFROM rawcore.rc_a JOIN rawcore.rc_b b",
        PUBLISHED,
    )
    assert checked.query == (
        "SELECT rc_a.id, `rc_a`.city, 'rawcore.rc_a'" + " " * 16 + "\n"
        "FROM `__published_0` AS `rc_a` JOIN `__published_1` b"
    )
    assert checked.tables == ("rawcore.rc_a", "rawcore.rc_b")


def test_typed_literals_are_unchanged():
    text = "SELECT 1.10BD, /* five */ 5L FROM rawcore.rc_a AS a"
    assert check_query(text, PUBLISHED).query == "SELECT 1.10BD,            5L FROM `__published_0` AS a"


def test_position_in_the_checked_query_maps_to_the_written_text():
    text = "SELECT 1,\n x FROM rawcore.rc_a WHERE y = 1"
    checked = check_query(text, PUBLISHED)
    for word, written in (("x FROM", "x FROM"), ("`__published_0`", "rawcore"), ("y =", "y =")):
        position = position_in_text(text, checked.query.index(word), checked.replaced)
        assert position == f"line 2, column {text.splitlines()[1].index(written) + 1}"


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("SELECT id FROM rawcore.rc_a", False),
        ("SELECT count(*) FROM rawcore.rc_a", False),
        ("SELECT id FROM rawcore.rc_a WHERE EMAIL = 'x'", True),
        ("SELECT id FROM rawcore.rc_a ORDER BY upper(email)", True),
        ("SELECT a.id FROM rawcore.rc_a a JOIN rawcore.rc_a b USING (email)", True),
        ("SELECT id FROM rawcore.rc_a NATURAL JOIN rawcore.rc_b", True),
        ("SELECT y FROM rawcore.rc_a AS t(x, y, z)", True),
        ("SELECT id FROM (SELECT * FROM rawcore.rc_a)", True),
    ],
)
def test_use_of_a_column_is_detected_with_or_without_its_name(text: str, uses: bool):
    assert check_query(text, PUBLISHED).uses("email") is uses


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("SELECT id, email FROM rawcore.rc_a", {1}),
        ("SELECT * FROM rawcore.rc_a", {1}),
        ("SELECT id, upper(left(email, 3)) || city AS e FROM rawcore.rc_a", {1}),
        ("SELECT count(email), count(*) FROM rawcore.rc_a", {0}),
        ("WITH c AS (SELECT id AS k, email AS m FROM rawcore.rc_a) SELECT m, k FROM c", {0}),
        ("SELECT b.label, a.email FROM rawcore.rc_b b JOIN rawcore.rc_a a ON a.id = b.id", {1}),
        ("SELECT label FROM rawcore.rc_b UNION SELECT email FROM rawcore.rc_a", {0}),
        ("SELECT label AS email FROM rawcore.rc_b", set()),
        ("SELECT id, (SELECT max(email) FROM rawcore.rc_a) FROM rawcore.rc_b", {1}),
        ("SELECT x.e FROM (SELECT email AS e FROM (SELECT * FROM rawcore.rc_a)) x", {0}),
        ("SELECT CASE WHEN email LIKE 'a%' THEN 1 END, id FROM rawcore.rc_a", {0}),
    ],
)
def test_results_that_read_a_masked_column_are_known_by_lineage(text: str, masked: set[int]):
    assert masked_results(check_query(text, PUBLISHED), COLUMNS, MASKED) == masked


LINEAGE = (
    ("SELECT id, e FROM rawcore.rc_a LATERAL VIEW explode(split(email, '@')) t AS e", {1}),
    ("SELECT id, e FROM rawcore.rc_a LATERAL VIEW explode(split(city, ' ')) t AS e", set()),
    ("SELECT y, x FROM rawcore.rc_a AS t(x, y, z)", {0}),
    ("SELECT struct(*) AS s, id FROM rawcore.rc_a", {0}),
    ("SELECT struct(*) AS s FROM rawcore.rc_b", set()),
    ("SELECT * FROM rawcore.rc_a PIVOT (max(email) FOR id IN (1 AS one, 2 AS two))", {1, 2}),
    ("SELECT *, upper(email) AS u FROM rawcore.rc_a", {1, 3}),
)


def test_results_of_lateral_views_pivots_aliases_and_stars_are_known_by_lineage():
    for text, masked in LINEAGE:
        assert masked_results(check_query(text, PUBLISHED), COLUMNS, MASKED) == masked, text


def test_lineage_follows_each_column_of_a_chain_of_queries_once():
    steps = [f"c{n} AS (SELECT id + n AS id, id - n AS n FROM c{n - 1})" for n in range(1, 25)]
    first = "c0 AS (SELECT id, length(city) AS n FROM rawcore.rc_a)"
    text = f"WITH {', '.join([first, *steps])} SELECT c.id, c.n, a.email FROM c24 c CROSS JOIN rawcore.rc_a a"
    assert masked_results(check_query(text, PUBLISHED), COLUMNS, MASKED) == {2}


def test_lineage_follows_each_lateral_view_once():
    views = [f"LATERAL VIEW explode(array(e{n - 1}, e{n - 1})) t{n} AS e{n}" for n in range(1, 25)]
    first = "LATERAL VIEW explode(array(id)) t0 AS e0"
    text = f"SELECT e24, email FROM rawcore.rc_a {' '.join([first, *views])}"
    assert masked_results(check_query(text, PUBLISHED), COLUMNS, MASKED) == {1}
