"""Unit tests of models: comparison of rows, values of files, and rows as SQL."""

import pytest

from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Node
from loader.domain.model_test_values import rows_sql, value_of
from loader.domain.model_tests import ModelTest, ModelTestOutcome, outcome
from metadata.domain.types import parse
from metadata.services.exchange.yaml_files import parse_yaml

BOB, ANN = ("bob", "1"), ("ann", "2")


def compare_rows(expected: list, actual: list, *, ordered: bool = False, key: tuple = ("name",)) -> ModelTestOutcome:
    test = ModelTest("a", "mart.a", "", (), "", ("name", "orders"), key, ordered)
    return outcome(test, expected, actual)


def test_equal_rows_in_any_order_pass():
    assert compare_rows([ANN, BOB], [BOB, ANN]).passed


def test_a_row_that_occurs_once_too_often_is_unexpected():
    comparison = compare_rows([BOB], [BOB, BOB], key=())
    assert (comparison.message, comparison.unexpected) == ("1 unexpected", (BOB,))


def test_rows_of_one_key_are_shown_as_changed():
    comparison = compare_rows([ANN, BOB], [("ann", None), ("cid", "1")])
    assert comparison.message == "1 missing, 1 unexpected, 1 changed"
    assert comparison.table.splitlines() == [
        "   name  orders",
        "   ----  --------",
        "-  bob   1",
        "+  cid   1",
        "~  ann   2 → NULL",
    ]


def test_row_order_is_compared_if_the_select_orders_rows():
    comparison = compare_rows([ANN, BOB], [BOB, ANN], ordered=True)
    assert (comparison.passed, comparison.message) == (False, "rows are in another order from row 1 on")


def node(value: str) -> Node:
    return parse_yaml(f"v: {value}", "tests.yaml").value["v"]


@pytest.mark.parametrize(
    ("written", "type_", "text"),
    [
        ("7", "integer", "7"),
        ("1.50", "decimal(10,2)", "1.50"),
        ("12", "decimal(10,2)", "12"),
        ("0.5", "float", "0.5"),
        ("true", "boolean", "true"),
        ("2024-02-29", "date", "2024-02-29"),
        ("2024-01-01T10:00:00", "timestamp", "2024-01-01T10:00:00+00:00"),
        ("'2024-01-01 10:00:00+02:00'", "timestamp", "2024-01-01T10:00:00+02:00"),
        ("'07'", "string", "07"),
        ("'10:30'", "time", "10:30"),
        ("FF00", "binary", "ff00"),
        ("null", "integer", None),
    ],
)
def test_a_value_is_read_by_the_type_of_its_column(written, type_, text):
    assert value_of(node(written), parse(type_), "v") == text


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("1.5", "integer"),
        ("2147483648", "integer"),
        ("1.234", "decimal(10,2)"),
        ("123", "decimal(4,2)"),
        ("7", "string"),
        ("abcd", "string(3)"),
        ("yes it is", "boolean"),
        ("2024-02-30", "date"),
        ("soon", "timestamp"),
        ("'25:00'", "time"),
        ("xyz", "binary"),
        ("[1]", "integer"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_refused_with_its_line(written, type_):
    with pytest.raises(MetadataError) as refused:
        value_of(node(written), parse(type_), "v")
    assert refused.value.one_line().startswith("tests.yaml:1:4: v: ")


def test_rows_sql_casts_literals_to_their_types():
    sql = rows_sql([("id", "integer"), ("o'k", "string")], [["1", "it's"], ["2", None]])
    assert sql == (
        "SELECT CAST(c0 AS INT) AS `id`, CAST(c1 AS STRING) AS `o'k` FROM VALUES ('1', 'it\\'s'), ('2', NULL) "
        "AS given(c0, c1)"
    )


def test_rows_sql_of_no_rows_is_an_empty_query():
    assert rows_sql([("id", "integer")], []) == "SELECT CAST(NULL AS INT) AS `id` WHERE FALSE"
