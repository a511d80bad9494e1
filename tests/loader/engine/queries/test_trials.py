"""Trials of models: rows, cost and difference to the table, without a write."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from architecture.domain.tables import current_table
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.codec import to_json
from loader.contract.manifest.reads import Masking, QuerySource, ReadManifest
from loader.contract.refusals import Refusal
from loader.domain.models import model_query
from loader.engine.queries.reads import read
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import stable
from tests.loader.model_warehouse import Warehouse

pytestmark = pytest.mark.spark

ORDERS = {"id": "integer", "customer": "string", "price": "decimal(10,2)", "sold": "date"}
TOTALS = {"customer": "string", "orders": "bigint", "total": "decimal(20,2)"}
BY_CUSTOMER = "SELECT o.customer, count(*) AS orders, sum(o.price) AS total FROM sales.orders AS o GROUP BY o.customer"


def order(id_: int, customer: str | None = "ann", price: str = "1.00") -> tuple:
    return id_, customer, Decimal(price), date(2024, 1, 1)


@pytest.fixture
def warehouse(spark, tmp_path) -> Warehouse:
    made = Warehouse(spark, tmp_path / "warehouse")
    made.table("sales.orders", ORDERS, [order(1), order(2, price="2.50"), order(3, "bob")])
    return made


@pytest.fixture
def totals(warehouse: Warehouse) -> Warehouse:
    """Return the model, loaded from three orders."""
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), keys=("customer",))
    warehouse.load("mart.totals")
    return warehouse


def attempt(
    warehouse: Warehouse,
    select: str = BY_CUSTOMER,
    columns: dict[str, str] | None = None,
    *,
    masking: Masking | None = None,
    **arguments: object,
) -> dict:
    """Try a SELECT over the orders; ``key`` and ``compare`` refer to the model's table."""
    described = tuple(
        ColumnState(stable("trial", name), name, type_, role="attribute") for name, type_ in (columns or TOTALS).items()
    )
    model = DatasetState(
        "trial", "mart", "bizcore", "trial", described, select=select, inputs=(stable("sales.orders"),)
    )
    states = {state.key: state for state in warehouse.states.values()}
    query = model_query(model, states, run_id="trial", load_timestamp="2024-01-01T00:00:00+00:00")
    manifest = ReadManifest(
        "try_model",
        table=current_table(warehouse.states["mart.totals"]) if "mart.totals" in warehouse.states else None,
        arguments={"text": select, "query": query.sql, "limit": 50} | arguments,
        sources=tuple(QuerySource(view, table, masking=masking) for view, table in query.views),
    )
    return read(warehouse.spark, str(warehouse.folder), manifest, "trial")


def difference(warehouse: Warehouse, select: str = BY_CUSTOMER, columns: dict[str, str] | None = None, **more) -> dict:
    return attempt(warehouse, select, columns, compare=True, **more)["difference"]


@pytest.mark.core
def test_a_trial_has_rows_types_and_the_cost_of_the_plan(warehouse: Warehouse):
    answer = attempt(warehouse)

    assert sorted(answer["rows"]) == [["ann", 2, "3.50"], ["bob", 1, "1.00"]]
    assert answer["types"] == ["string", "bigint", "decimal(20,2)"]
    assert not answer["truncated"]
    assert answer["cost"]["bytes_read"] > 0
    assert answer["seconds"] >= 0


def test_trial_returns_at_most_the_limit_of_rows(warehouse: Warehouse):
    answer = attempt(warehouse, limit=1)

    assert (len(answer["rows"]), answer["truncated"]) == (1, True)


@pytest.mark.nightly
def test_trial_sample_reads_the_same_part_of_a_table_each_time(warehouse: Warehouse):
    warehouse.table("sales.orders", ORDERS, [order(number) for number in range(1000)])
    select, columns = "SELECT id FROM sales.orders", {"id": "integer"}

    some, again = (attempt(warehouse, select, columns, sample={"share": 0.1}, limit=1000) for _ in range(2))
    ten = attempt(warehouse, select, columns, sample={"rows": 10}, limit=1000)

    assert 50 < len(some["rows"]) < 150
    assert sorted(some["rows"]) == sorted(again["rows"])
    assert len(ten["rows"]) == 10


def test_masked_columns_have_no_value_within_the_select(warehouse: Warehouse):
    columns = current_table(warehouse.states["sales.orders"]).columns
    visible = [column.key for column in columns if column.name != "customer"]

    answer = attempt(warehouse, masking=Masking(tuple(visible), (), (), "secret"))

    assert answer["rows"] == [[None, 3, "4.50"]]


@pytest.mark.parametrize(
    ("select", "place"),
    [
        ("SELECT o.id\nFROM sales.orders AS o\nWHERE o.id > 1 / (o.id - o.id)", "line 3, column 14"),
        (
            "SELECT o.id\nFROM sales.orders AS o\nWHERE 1 / (o.id - o.id) > 2 OR 1 / (o.id - o.id) > 1",
            "line 3, column 7",
        ),
        ("SELECT\n  1 / (o.id - o.id) AS id\nFROM sales.orders AS o", "column id"),
    ],
    ids=["a part of the text", "a repeated part", "a column of the result"],
)
def test_an_error_of_spark_is_a_refusal_with_its_place_and_message(warehouse: Warehouse, select: str, place: str):
    with pytest.raises(Refusal) as refused:
        attempt(warehouse, select, {"id": "float"})

    assert refused.value.code == "SQL_FAILED"
    assert refused.value.message.startswith(f"{place}: Division by zero")


def test_a_comparison_counts_rows_by_key_and_changed_values_by_column(totals: Warehouse):
    totals.table("sales.orders", ORDERS, [order(1), order(2, price="7.00"), order(4, "cid"), order(5, None)])

    comparison = difference(totals, key=["customer"])

    assert comparison["rows"] == {"added": 2, "changed": 1, "gone": 1, "same": 0}
    assert comparison["changed"] == {"total": 1}
    assert comparison["samples"] == {
        "columns": ["customer", "orders", "total"],
        "added": [[None, 1, "1.00"], ["cid", 1, "1.00"]],
        "changed": [{"before": ["ann", 2, "3.50"], "after": ["ann", 2, "8.00"]}],
        "gone": [["bob", 1, "1.00"]],
    }


def test_trial_of_the_unchanged_select_finds_no_difference(totals: Warehouse):
    comparison = difference(totals, key=["customer"])

    assert comparison["rows"] == {"added": 0, "changed": 0, "gone": 0, "same": 2}
    assert comparison["samples"]["changed"] == []


def test_a_comparison_names_added_gone_and_retyped_columns(totals: Warehouse):
    select = "SELECT customer, count(*) AS orders, max(price) AS dearest FROM sales.orders GROUP BY customer"
    columns = {"customer": "string", "orders": "integer", "dearest": "decimal(10,2)"}

    comparison = difference(totals, select, columns, key=["customer"])

    assert comparison["columns"] == {
        "added": [{"name": "dearest", "type": "decimal(10,2)"}],
        "gone": [{"name": "total", "type": "decimal(20,2)"}],
        "retyped": [{"name": "orders", "before": "bigint", "after": "int"}],
        "left_out": [],
    }
    assert comparison["rows"]["same"] == 2


@pytest.mark.nightly
def test_comparison_without_a_key_counts_equal_rows(warehouse: Warehouse):
    select, columns = "SELECT customer FROM sales.orders", {"customer": "string"}
    warehouse.model("mart.totals", columns, select, ("sales.orders",))
    warehouse.load("mart.totals")
    warehouse.table("sales.orders", ORDERS, [order(1), order(2), order(3), order(4, None)])

    comparison = difference(warehouse, select, columns)

    assert comparison["rows"] == {"added": 2, "changed": 0, "gone": 1, "same": 2}
    assert comparison["samples"]["added"] == [[None], ["ann"]]
    assert comparison["samples"]["gone"] == [["bob"]]


@pytest.mark.nightly
def test_keys_that_occur_twice_in_the_select_are_counted(totals: Warehouse):
    select = "SELECT customer, CAST(1 AS BIGINT) AS orders, price AS total FROM sales.orders"

    comparison = difference(totals, select, key=["customer"])

    assert comparison["repeated_keys"] == 1


@pytest.mark.nightly
def test_columns_that_are_left_out_have_no_values_in_the_difference(totals: Warehouse):
    totals.table("sales.orders", ORDERS, [order(1), order(2, price="7.00"), order(3, "bob")])

    comparison = difference(totals, key=["customer"], left_out=["total"])

    assert comparison["rows"]["same"] == 2
    assert (comparison["columns"]["left_out"], comparison["samples"]["columns"]) == (["total"], ["customer", "orders"])


def test_comparison_without_a_stored_table_counts_every_row_as_added(warehouse: Warehouse):
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), keys=("customer",))
    state = warehouse.states["mart.totals"]
    warehouse.states["mart.totals"] = replace(state, key=stable("elsewhere"))

    comparison = difference(warehouse, key=["customer"])

    assert comparison["table_version"] is None
    assert comparison["rows"] == {"added": 2, "changed": 0, "gone": 0, "same": 0}


def test_checks_of_a_trial_have_results_and_failing_rows(warehouse: Warehouse):
    select = "SELECT o.customer, o.id AS orders, o.price AS total FROM sales.orders AS o"
    specs = [
        CheckSpec("key", "key is unique", "unique", "stop", {"columns": ["customer"]}),
        CheckSpec("cheap", "cheap", "range", "warn", {"columns": ["total"], "maximum": "2"}),
        CheckSpec("many", "many", "row_count", "warn", {"minimum": "4"}),
        CheckSpec("none", "none", "query", "warn", {"sql": "SELECT"}, query="SELECT * FROM `own`", own_view="own"),
        CheckSpec("gone", "gone", "not_null", "warn", {"columns": ["former"]}),
    ]
    specs[3] = replace(specs[3], views=(("own", current_table(warehouse.states["sales.orders"])),))
    answer = attempt(
        warehouse,
        select,
        {"customer": "string", "orders": "integer", "total": "decimal(10,2)"},
        checks=[to_json(spec) for spec in specs],
        left_out_checks={"masked": "why"},
        shown_key=["orders"],
        checked_at="2024-01-01T00:00:00+00:00",
    )
    checked = {item["result"]["key"]: item for item in answer["checked"]}
    outcomes = {key: (item["result"]["outcome"], len(item["rows"])) for key, item in checked.items()}
    assert outcomes == {
        "key": ("stopped", 2),
        "cheap": ("warned", 1),
        "many": ("warned", 0),
        "none": ("warned", 0),
        "gone": ("broken", 0),
    }
    assert checked["cheap"]["rows"] == [["ann", 2, "2.50"]]
    assert checked["cheap"]["result"]["samples"] == ["orders=2, total=2.50"]
    assert answer["left_out_checks"] == {"masked": "why"}
