"""Tests of the columns of a SELECT: names, inputs, and refusals with their position."""

import pytest

from metadata.domain.models import ModelProblem, ReadColumn, describe_select, reads_of

ORDERS = [
    ReadColumn("id", "bigint", False),
    ReadColumn("customer", "string(20)", True),
    ReadColumn("amount", "decimal(10,2)", True),
    ReadColumn("at", "timestamp", False),
    ReadColumn("load_run_id", "string", False, True),
]
HISTORY = [*ORDERS[:2], ReadColumn("__valid_from", "timestamp", False), ReadColumn("__valid_to", "timestamp", True)]
DATASETS = {
    "rawcore.orders": ORDERS,
    "rawcore.customer": [ReadColumn("id", "bigint", False), ReadColumn("city", "string", False)],
    "rawcore.customer_hist": HISTORY,
    "versions(rawcore.customer_hist)": HISTORY,
}


def described(text: str):
    return {column.name: column for column in describe_select(text, DATASETS).columns}


def test_inputs_are_those_below_subqueries_and_common_table_expressions() -> None:
    text = """
    WITH sums AS (SELECT customer, sum(amount) AS total FROM rawcore.orders GROUP BY customer)
    SELECT c.city, s.total * 2 AS twice
    FROM (SELECT id, city FROM rawcore.customer) c JOIN sums s ON s.customer = c.city
    """
    columns = described(text)
    assert columns["twice"].inputs == (("rawcore.orders", "amount"),)
    assert columns["city"].inputs == (("rawcore.customer", "city"),)


def test_a_column_passes_through_subqueries_and_groups_but_not_through_a_union() -> None:
    assert described("SELECT customer FROM (SELECT * FROM rawcore.orders) GROUP BY customer")["customer"].passes
    assert described("SELECT customer FROM rawcore.orders")["customer"].type == "string(20)"
    united = described("SELECT customer FROM rawcore.orders UNION SELECT city FROM rawcore.customer")["customer"]
    assert (united.passes, united.type) == (False, "string")


def test_datasets_in_filters_and_joins_are_read() -> None:
    text = "SELECT id FROM rawcore.orders WHERE id IN (SELECT id FROM rawcore.customer)"
    assert describe_select(text, DATASETS).reads == ("rawcore.orders", "rawcore.customer") == reads_of(text)


def test_an_outer_join_makes_columns_nullable() -> None:
    text = "SELECT o.id, c.city FROM rawcore.orders o {} JOIN rawcore.customer c ON c.id = o.id"
    nullable = {
        side: [c.nullable for c in described(text.format(side)).values()] for side in ("LEFT", "RIGHT", "FULL", "")
    }
    assert nullable == {"LEFT": [False, True], "RIGHT": [True, False], "FULL": [True, True], "": [False, False]}


def test_a_later_outer_join_makes_a_column_of_using_nullable() -> None:
    joined = "rawcore.orders JOIN rawcore.customer USING (id)"
    assert not described(f"SELECT id FROM {joined} LEFT JOIN (SELECT 1 AS n) ON true")["id"].nullable
    assert described(f"SELECT id FROM {joined} RIGHT JOIN (SELECT 1 AS n) ON true")["id"].nullable
    assert described(f"SELECT id FROM {joined} FULL JOIN (SELECT 1 AS n) ON true")["id"].nullable
    assert described(f"SELECT id FROM (SELECT 1 AS n) LEFT JOIN ({joined}) ON true")["id"].nullable


def test_names_that_begin_like_current_date_are_ordinary_columns() -> None:
    text = "SELECT q.current_addr, current_addr AS current_id, q.current_date AS day FROM (SELECT city AS current_addr"
    inner = ", id AS `current_date` FROM rawcore.customer) q"
    assert list(described(text + inner)) == ["current_addr", "current_id", "day"]


def test_star_omits_technical_columns_that_remain_readable_by_name() -> None:
    assert list(described("SELECT * FROM rawcore.orders")) == ["id", "customer", "amount", "at"]
    assert "load_run_id" in described("SELECT o.load_run_id FROM (SELECT * FROM rawcore.orders) o")


def test_expression_keeps_its_placeholders() -> None:
    text = "SELECT coalesce(at, {{load_timestamp}}) AS seen FROM rawcore.orders"
    assert described(text)["seen"].expression == "COALESCE(at, {{ load_timestamp }})"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "bad_select", "line 1, column 1: the query is empty"),
        ("SELECT", "bad_select", "line 1, column 1: the SELECT list is empty"),
        ("SELECT id FROM", "bad_select", "line 1, column 11: this cannot be read as SQL near 'FROM'"),
        ("SELECT id,\n  price FROM rawcore.orders", "unknown_column", "line 2, column 3: the datasets in FROM have no"),
        ("SELECT ids FROM rawcore.orders", "unknown_column", "did you mean id?"),
        ("SELECT o.id FROM rawcore.orders", "unknown_column", "line 1, column 8: o is not in FROM, which has orders"),
        ("SELECT id FROM rawcore.nothing", "unknown_dataset", "line 1, column 16: rawcore.nothing is no described"),
        ("SELECT id FROM orders", "unknown_dataset", "orders is no dataset: name it with its schema"),
        ("SELECT id FROM as_of(rawcore.orders, DATE '2020-01-01')", "unknown_dataset", "rawcore.orders is no history"),
        (
            "SELECT id FROM rawcore.orders o JOIN rawcore.customer c ON true",
            "unknown_column",
            "line 1, column 8: id is ambiguous: o.id, c.id",
        ),
        ("SELECT id FROM rawcore.orders o, rawcore.customer o", "bad_select", "o is used twice in FROM"),
        ("SELECT * FROM rawcore.orders JOIN rawcore.customer ON true", "bad_select", "two columns are named id"),
        ("SELECT id + 1 FROM rawcore.orders", "bad_select", "line 1, column 8: this column has no name"),
        (
            "SELECT id, sum(amount) AS s FROM rawcore.orders",
            "bad_select",
            "id is neither grouped nor within an aggregate",
        ),
        ("SELECT sum(sum(id)) AS s FROM rawcore.orders", "bad_select", "sum cannot stand within sum"),
        (
            "SELECT id FROM rawcore.orders WHERE sum(id) > 1",
            "bad_select",
            "sum aggregates rows: it is not allowed here",
        ),
        ("SELECT id FROM rawcore.orders WHERE amount", "bad_select", "a condition is a boolean, not decimal(10,2)"),
        ("SELECT id FROM rawcore.orders WHERE at = amount", "bad_select", "timestamp cannot be compared with decimal"),
        ("SELECT at * 2 AS x FROM rawcore.orders", "bad_select", "timestamp * integer is not possible"),
        ("SELECT upper() AS x", "bad_select", "upper takes 1 argument, not 0"),
        ("SELECT year(id) AS x FROM rawcore.orders", "bad_select", "argument 1 of year must be a date or timestamp"),
        ("SELECT CASE WHEN true THEN at ELSE id END AS x FROM rawcore.orders", "bad_select", "bigint does not fit"),
        ("SELECT CAST(at AS MAP<INT, INT>) AS x FROM rawcore.orders", "bad_select", ""),
        ("SELECT amount / 0 AS x FROM rawcore.orders", "bad_select", "line 1, column 17: this divides by zero"),
        ("SELECT amount % 0 AS x FROM rawcore.orders", "bad_select", "this divides by zero"),
        ("SELECT rand() AS x", "bad_select", "line 1, column 8: rand is not allowed in a model"),
        ("SELECT current_timestamp() AS x", "bad_select", "{{ load_timestamp }} does not"),
        (
            "SELECT DISTINCT customer AS c FROM rawcore.orders ORDER BY customer",
            "bad_select",
            "line 1, column 60: customer is no result: with DISTINCT",
        ),
        ("SELECT DISTINCT id + 1 AS n FROM rawcore.orders ORDER BY id + 1", "bad_select", "id is no result"),
        ("SELECT DISTINCT id AS n FROM rawcore.orders o ORDER BY o.id", "bad_select", "id is no result"),
        ("SELECT id FROM rawcore.orders ORDER BY 2", "bad_select", "line 1, column"),
        ("SELECT id FROM rawcore.orders ORDER BY 0", "bad_select", "there is no result number 0"),
        (
            "SELECT id AS x, customer AS x, upper(x) AS y FROM rawcore.orders",
            "bad_select",
            "x is ambiguous: two results have this name",
        ),
        (
            "SELECT id AS z, (SELECT max(c.city) FROM rawcore.customer c WHERE c.id = z) AS y FROM rawcore.orders",
            "unknown_column",
            "no column z",
        ),
        (
            "SELECT id * 2 AS twice, sum(twice) AS total FROM rawcore.orders GROUP BY id",
            "bad_select",
            "twice is a result: sum takes its expression instead",
        ),
        (
            "SELECT id FROM rawcore.orders JOIN rawcore.customer USING (id) JOIN rawcore.customer c ON true",
            "unknown_column",
            "id is ambiguous: orders.id, customer.id, c.id",
        ),
        (
            "SELECT DISTINCT * FROM rawcore.orders WHERE load_run_id = '1'",
            "bad_select",
            "* would compare load_run_id, too",
        ),
        ("SELECT current_date AS x", "bad_select", "{{ load_timestamp }} does not"),
        ("SELECT CAST('now' AS TIMESTAMP) AS x", "bad_select", "{{ load_timestamp }} does not"),
        ("SELECT first(id) AS x FROM rawcore.orders", "bad_select", "first depends on the order of rows"),
        ("SELECT any_value(id) AS x FROM rawcore.orders", "bad_select", "depends on the order of rows"),
        ("SELECT row_number() OVER (PARTITION BY id) AS x FROM rawcore.orders", "bad_select", "needs ORDER BY in OVER"),
        ("SELECT id FROM rawcore.orders LIMIT 3", "bad_select", "LIMIT without ORDER BY"),
        ("SELECT collect_list(id) AS x FROM rawcore.orders", "bad_select", "has no order"),
        ("SELECT split(customer, ',') AS x FROM rawcore.orders", "unknown_type", "which no column can be"),
        ("SELECT NULL AS x", "unknown_type", "x has no type"),
        ("SELECT at - at AS x FROM rawcore.orders", "unknown_type", "x is interval"),
        ("SELECT id FROM rawcore.orders UNION SELECT id, city FROM rawcore.customer", "bad_select", "2 columns"),
        (
            "SELECT at FROM rawcore.orders UNION SELECT id FROM rawcore.customer",
            "bad_select",
            "id is bigint, at before",
        ),
        ("SELECT id FROM rawcore.orders NATURAL JOIN rawcore.customer", "bad_select", "NATURAL JOIN is not allowed"),
        ("SELECT o.id FROM rawcore.orders o JOIN rawcore.customer c", "bad_select", "a join needs ON or USING"),
        (
            "SELECT o.id FROM rawcore.orders o, as_of(rawcore.customer_hist, o.at) h",
            "bad_select",
            "line 1, column 65: as_of a column needs a join with ON",
        ),
        ("SELECT id FROM rawcore.orders; DROP TABLE x", "bad_select", "a second statement"),
        ("INSERT INTO x SELECT 1", "bad_select", "only one SELECT"),
        ("SELECT reflect('java.lang.System', 'exit') AS x", "bad_select", "the function reflect is not allowed"),
        ("SELECT * FROM range(3)", "bad_select", "the function range is not allowed"),
        ("SELECT '{{ load_timestamp }}' AS x", "bad_select", "it cannot be inside quotes"),
        ("SELECT {{ today }} AS x", "bad_select", "{{ today }} is not known"),
        ("WITH RECURSIVE c AS (SELECT 1 AS n) SELECT n FROM c", "bad_select", "WITH RECURSIVE"),
        (f"SELECT {'(' * 3000}1{')' * 3000} AS x", "bad_select", "nested too deeply"),
    ],
)
def test_invalid_select_is_refused_with_code_and_place(text: str, code: str, message: str) -> None:
    with pytest.raises(ModelProblem) as refused:
        describe_select(text, DATASETS)
    assert message in refused.value.message
    assert (refused.value.code, refused.value.field) == (code, "select")


# SELECTs that Spark's analysis refuses, with parts of the messages; o and c are the datasets.
REFUSED_BY_SPARK = """
SELECT id FROM o HAVING id > 1 | HAVING needs GROUP BY
SELECT id FROM o WHERE rank() OVER (ORDER BY id) = 1 | rank OVER is not allowed in WHERE
SELECT sum(rank() OVER (ORDER BY id)) AS s FROM o | rank OVER is not allowed in sum
SELECT count(DISTINCT id) OVER () AS n FROM o | cannot have DISTINCT
SELECT rank() OVER (ORDER BY id ROWS 1 PRECEDING) AS r FROM o | takes no frame
SELECT median(id) OVER (ORDER BY id) AS r FROM o | neither ORDER BY nor a frame
SELECT max(id) OVER (RANGE 1 PRECEDING) AS r FROM o | RANGE with a distance needs ORDER BY
SELECT id * 2 AS d, rank() OVER (ORDER BY d) AS r FROM o | d is a result: a window takes
SELECT id FROM o ORDER BY id LIMIT -1 | LIMIT takes a whole number
SELECT id FROM o ORDER BY id LIMIT id | LIMIT takes a whole number
SELECT id FROM o ORDER BY id IN (SELECT id FROM c) | takes no IN or EXISTS
SELECT DISTINCT id FROM o GROUP BY id ORDER BY count(*) | results by their names, not count
SELECT id, grouping(id) AS g FROM o GROUP BY id | grouping takes columns of ROLLUP
SELECT * EXCEPT (id, id) FROM o | id is left out twice
SELECT a FROM VALUES (1, 2), (3) AS v (a, b) | VALUES has rows of 2 and of 1 values
WITH a AS (SELECT 1 AS x), a AS (SELECT 2 AS x) SELECT x FROM a | WITH has a twice
""".strip().splitlines()


@pytest.mark.parametrize("line", REFUSED_BY_SPARK)
def test_a_select_that_spark_refuses_is_refused(line: str) -> None:
    text, message = line.split(" | ")
    text = text.replace("FROM o", "FROM rawcore.orders").replace("FROM c", "FROM rawcore.customer")
    with pytest.raises(ModelProblem) as refused:
        describe_select(text, DATASETS)
    assert message in refused.value.message
