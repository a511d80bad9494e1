"""Loads of models: rows, increments, and refusals before a commit."""

from datetime import date
from decimal import Decimal

import pytest

from loader.engine.tables import commits
from loader.engine.tables.commits import PUBLIC, CommitPath
from tests.loader.model_warehouse import Warehouse
from tests.loader.quality import check

pytestmark = pytest.mark.spark

AT = "2024-01-01T00:00:00+00:00"
ORDERS = {"id": "integer", "customer": "string", "price": "decimal(10,2)", "sold": "date"}
TOTALS = {"customer": "string", "orders": "bigint", "total": "decimal(20,2)"}
BY_CUSTOMER = """
SELECT o.customer, count(*) AS orders, sum(o.price) AS total
FROM sales.orders AS o GROUP BY o.customer
"""


@pytest.fixture
def warehouse(spark, tmp_path) -> Warehouse:
    made = Warehouse(spark, tmp_path / "warehouse")
    made.table("sales.orders", ORDERS, [])
    return made


def order(id_: int, customer: str = "ann", price: str = "1.00", sold: str = "2024-01-01") -> tuple:
    return id_, customer, Decimal(price), date.fromisoformat(sold)


def totals(warehouse: Warehouse) -> list[tuple[str, int, str]]:
    return [(customer, orders, str(total)) for customer, orders, total in warehouse.rows("mart.totals")]


@pytest.mark.core
def test_a_model_has_the_rows_of_its_select(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, price="2.50"), order(3, "bob")])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",))

    done = warehouse.load("mart.totals")

    assert (done["status"], done["counts"]) == ("succeeded", {"rows": 2})
    assert totals(warehouse) == [("ann", 2, "3.50"), ("bob", 1, "1.00")]


def test_a_model_whose_inputs_did_not_change_is_left_as_it_is(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1)])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",))
    first = warehouse.load("mart.totals")

    second = warehouse.load("mart.totals")

    assert second["unchanged_since"] == "r1"
    assert second["version_after"] == first["version_after"]


def test_a_model_is_computed_anew_if_an_input_or_its_select_changes(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1)])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",))
    warehouse.load("mart.totals")

    warehouse.append("sales.orders", [order(2)])
    warehouse.load("mart.totals")
    assert totals(warehouse) == [("ann", 2, "2.00")]

    doubled = BY_CUSTOMER.replace("sum(o.price)", "2 * sum(o.price)")
    warehouse.model("mart.totals", TOTALS, doubled, ("sales.orders",))
    warehouse.load("mart.totals")
    assert totals(warehouse) == [("ann", 2, "4.00")]


def test_a_select_with_the_time_of_the_load_is_computed_by_each_run(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1)])
    select = "SELECT id, {{ load_timestamp }} AS at FROM sales.orders"
    warehouse.model("mart.totals", {"id": "integer", "at": "timestamp"}, select, ("sales.orders",))
    warehouse.load("mart.totals", "2024-01-01T00:00:00+00:00")

    warehouse.load("mart.totals", "2024-01-02T00:00:00+00:00")

    assert [row[1].isoformat()[:10] for row in warehouse.rows("mart.totals")] == ["2024-01-02"]


def test_increment_by_key_keeps_rows_of_absent_keys(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob"), order(3, "cid")])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), keys=("customer",), increment={"by": "key"})
    warehouse.load("mart.totals")
    warehouse.table("sales.orders", ORDERS, [order(1, price="7.00"), order(2, "bob"), order(4, "dan")])

    done = warehouse.load("mart.totals")

    assert done["counts"] == {"rows": 4, "new": 1, "changed": 1}
    assert totals(warehouse) == [("ann", 1, "7.00"), ("bob", 1, "1.00"), ("cid", 1, "1.00"), ("dan", 1, "1.00")]


@pytest.mark.nightly
def test_increment_by_window_replaces_only_rows_of_the_last_days(warehouse):
    days = {"sold": "date", "orders": "bigint"}
    select = "SELECT sold, count(*) AS orders FROM sales.orders GROUP BY sold"
    warehouse.table("sales.orders", ORDERS, [order(1, sold="2024-01-01"), order(2, sold="2024-01-09")])
    warehouse.model(
        "mart.totals", days, select, ("sales.orders",), increment={"by": "window", "column": "sold", "days": 3}
    )
    warehouse.load("mart.totals", "2024-01-10T12:00:00+00:00")
    warehouse.table("sales.orders", ORDERS, [order(3, sold="2024-01-09"), order(4, sold="2024-01-09")])

    warehouse.load("mart.totals", "2024-01-10T18:00:00+00:00")

    assert [(str(day), orders) for day, orders in warehouse.rows("mart.totals")] == [
        ("2024-01-01", 1),
        ("2024-01-09", 2),
    ]


def test_increment_by_window_includes_every_day_after_a_pause(warehouse):
    days = {"sold": "date", "orders": "bigint"}
    select = "SELECT sold, count(*) AS orders FROM sales.orders GROUP BY sold"
    warehouse.table("sales.orders", ORDERS, [order(1, sold="2024-01-09")])
    warehouse.model(
        "mart.totals", days, select, ("sales.orders",), increment={"by": "window", "column": "sold", "days": 3}
    )
    warehouse.load("mart.totals", "2024-01-10T00:00:00+00:00")
    warehouse.append("sales.orders", [order(2, sold="2024-01-12"), order(3, sold="2024-01-30")])

    warehouse.load("mart.totals", "2024-01-30T00:00:00+00:00")

    assert [str(day) for day, _ in warehouse.rows("mart.totals")] == ["2024-01-09", "2024-01-12", "2024-01-30"]


@pytest.mark.nightly
def test_increment_by_window_without_a_key_keeps_rows_outside_with_public_commits(warehouse, monkeypatch):
    monkeypatch.setattr(commits, "_path", CommitPath(PUBLIC, "this test"))
    warehouse.table("sales.orders", ORDERS, [order(1, sold="2024-01-01"), order(2, sold="2024-01-09")])
    select, recent = "SELECT id, sold FROM sales.orders", {"by": "window", "column": "sold", "days": 3}
    warehouse.model("mart.days", {"id": "integer", "sold": "date"}, select, ("sales.orders",), increment=recent)
    warehouse.load("mart.days", "2024-01-10T00:00:00+00:00")
    warehouse.table("sales.orders", ORDERS, [order(3, sold="2024-01-09")])

    warehouse.load("mart.days", "2024-01-10T06:00:00+00:00")

    assert [id_ for id_, _ in warehouse.rows("mart.days")] == [1, 3]


@pytest.mark.nightly
def test_increment_by_window_stores_a_row_that_moves_into_the_window_once(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1, sold="2024-01-01"), order(2, sold="2024-01-01")])
    select = "SELECT id, sold FROM sales.orders"
    recent = {"by": "window", "column": "sold", "days": 3}
    warehouse.model(
        "mart.days", {"id": "integer", "sold": "date"}, select, ("sales.orders",), keys=("id",), increment=recent
    )
    warehouse.load("mart.days", "2024-01-29T00:00:00+00:00")
    warehouse.table("sales.orders", ORDERS, [order(1, sold="2024-01-29"), order(2, sold="2024-01-01")])

    warehouse.load("mart.days", "2024-01-30T00:00:00+00:00")

    assert [(id_, str(day)) for id_, day in warehouse.rows("mart.days")] == [(1, "2024-01-29"), (2, "2024-01-01")]


GONE = "Computed anew as a whole: the rows of sales.orders at the last load are no longer kept."
CHANGED = {"by": "changed_keys", "input": "sales.orders", "columns": {"customer": "customer"}}


def test_increment_by_changed_keys_computes_only_keys_with_changed_rows(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob")])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), increment=CHANGED)
    warehouse.load("mart.totals")
    warehouse.append("sales.orders", [order(3, "bob", "2.00"), order(4, "cid")])

    done = warehouse.load("mart.totals")

    assert done["counts"]["keys"] == 2
    assert totals(warehouse) == [("ann", 1, "1.00"), ("bob", 2, "3.00"), ("cid", 1, "1.00")]


@pytest.mark.nightly
def test_increment_by_changed_keys_includes_rows_deleted_by_deletion_vectors(warehouse):
    orders = [order(1), order(2, "bob"), order(3, "cid"), order(4, "dan")]
    warehouse.table("sales.orders", ORDERS, orders)
    warehouse.execute("sales.orders", "DELETE FROM {table} WHERE id = 4")
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), increment=CHANGED)
    warehouse.load("mart.totals")
    warehouse.execute("sales.orders", "UPDATE {table} SET price = 9 WHERE id = 2")
    warehouse.execute("sales.orders", "DELETE FROM {table} WHERE id = 3")

    done = warehouse.load("mart.totals")

    assert done["counts"]["keys"] == 2
    assert totals(warehouse) == [("ann", 1, "1.00"), ("bob", 1, "9.00")]


@pytest.mark.nightly
def test_increment_by_changed_keys_computes_keys_changed_by_a_restore_of_the_input(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob"), order(3, "cid")])
    version = warehouse.execute("sales.orders", "DELETE FROM {table} WHERE id = 2")
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), increment=CHANGED)
    warehouse.load("mart.totals")
    warehouse.execute("sales.orders", f"RESTORE {{table}} TO VERSION AS OF {version - 1}")

    done = warehouse.load("mart.totals")

    assert done["counts"]["keys"] == 1
    assert totals(warehouse) == [("ann", 1, "1.00"), ("bob", 1, "1.00"), ("cid", 1, "1.00")]


@pytest.mark.nightly
def test_increment_by_changed_keys_accepts_a_new_column_of_the_input(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob")])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), increment=CHANGED)
    warehouse.load("mart.totals")
    warehouse.execute("sales.orders", "ALTER TABLE {table} ADD COLUMN note STRING")
    warehouse.execute("sales.orders", "INSERT OVERWRITE {table} SELECT *, 'new' FROM VALUES (1, 'ann', 2, NULL)")

    done = warehouse.load("mart.totals")

    assert (done["status"], done["warnings"]) == ("succeeded", [])
    assert totals(warehouse) == [("ann", 1, "2.00")]


@pytest.mark.nightly
def test_increment_by_changed_keys_deletes_keys_without_rows(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob")])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), increment=CHANGED)
    warehouse.load("mart.totals")
    warehouse.table("sales.orders", ORDERS, [order(1)])

    done = warehouse.load("mart.totals")

    assert done["counts"]["keys"] == 1
    assert totals(warehouse) == [("ann", 1, "1.00")]


@pytest.mark.nightly
def test_increment_by_changed_keys_computes_all_rows_if_former_input_files_are_missing(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob")])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), increment=CHANGED)
    warehouse.load("mart.totals")
    former = warehouse.files("sales.orders")
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob", "7.00")])
    for file in former:
        file.unlink()

    done = warehouse.load("mart.totals")

    assert done["warnings"] == [GONE]
    assert totals(warehouse) == [("ann", 1, "1.00"), ("bob", 1, "7.00")]


@pytest.mark.nightly
@pytest.mark.parametrize("later_commits", [0, 3], ids=["lower version", "higher version"])
def test_increment_by_changed_keys_computes_all_rows_if_the_input_was_recreated(warehouse, later_commits):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob")])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), increment=CHANGED)
    warehouse.load("mart.totals")
    warehouse.drop("sales.orders")
    warehouse.table("sales.orders", ORDERS, [order(1, price="5.00")])
    for _ in range(later_commits):
        warehouse.append("sales.orders", [order(3, "cid")])

    done = warehouse.load("mart.totals")

    assert done["warnings"] == [GONE]
    assert totals(warehouse)[0] == ("ann", 1, "5.00")


@pytest.mark.nightly
def test_increment_by_changed_keys_computes_all_rows_if_another_input_changed(warehouse):
    rates = {"customer": "string", "rate": "integer"}
    select = """
    SELECT o.customer, count(*) AS orders, sum(o.price * r.rate) AS total
    FROM sales.orders AS o JOIN sales.rates AS r ON r.customer = o.customer GROUP BY o.customer
    """
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob")])
    warehouse.table("sales.rates", rates, [("ann", 1), ("bob", 1)])
    warehouse.model("mart.totals", TOTALS, select, ("sales.orders", "sales.rates"), increment=CHANGED)
    warehouse.load("mart.totals")
    warehouse.append("sales.orders", [order(3)])
    warehouse.table("sales.rates", rates, [("ann", 1), ("bob", 5)])

    done = warehouse.load("mart.totals")

    assert done["warnings"] == ["Computed anew as a whole: sales.rates changed, too."]
    assert totals(warehouse) == [("ann", 2, "2.00"), ("bob", 1, "5.00")]


def test_a_join_that_multiplies_a_declared_key_is_refused_before_the_commit(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2)])
    select = "SELECT customer, id AS orders, price AS total FROM sales.orders"
    columns = {"customer": "string", "orders": "bigint", "total": "decimal(20,2)"}
    warehouse.model("mart.totals", columns, select, ("sales.orders",), keys=("customer",))

    failed = warehouse.load("mart.totals")

    assert (failed["status"], failed["error"]["code"]) == ("failed", "KEY_REPEATED")
    assert failed["error"]["samples"] == ["ann"]
    assert warehouse.rows("mart.totals") == []


def test_an_expression_that_divides_by_zero_leaves_the_last_rows(warehouse):
    select = "SELECT customer, count(*) AS orders, sum(1 / price) AS total FROM sales.orders GROUP BY customer"
    columns = {"customer": "string", "orders": "bigint", "total": "decimal(38,14)"}
    warehouse.table("sales.orders", ORDERS, [order(1)])
    warehouse.model("mart.totals", columns, select, ("sales.orders",))
    warehouse.load("mart.totals")
    warehouse.append("sales.orders", [order(2, price="0.00")])

    failed = warehouse.load("mart.totals")

    assert failed["error"]["code"] == "MODEL_FAILED"
    assert failed["error"]["message"] == "mart.totals: DIVIDE_BY_ZERO, at 1 / price"
    assert [row[:2] for row in warehouse.rows("mart.totals")] == [("ann", 1)]


def test_failed_select_is_not_reported_as_a_check_failure(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1, price="0.00")])
    select = "SELECT id, 1 / price AS share FROM sales.orders"
    warehouse.model("mart.shares", {"id": "integer", "share": "decimal(38,14)"}, select, ("sales.orders",))

    failed = warehouse.load("mart.shares", AT, check("not_null", "stop", columns=["share"]))

    assert failed["error"]["message"] == "mart.shares: DIVIDE_BY_ZERO, at 1 / price"


@pytest.mark.parametrize(
    "increment",
    [
        {"by": "key"},
        {"by": "window", "column": "sold", "days": 3},
        {"by": "changed_keys", "input": "sales.orders", "columns": {"id": "id"}},
    ],
    ids=lambda increment: increment["by"],
)
def test_checks_of_the_table_count_the_rows_that_an_increment_leaves(warehouse, increment):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, sold="2023-01-01")])
    columns, select = {"id": "integer", "sold": "date"}, "SELECT id, sold FROM sales.orders"
    warehouse.model("mart.days", columns, select, ("sales.orders",), keys=("id",), increment=increment)
    warehouse.load("mart.days")
    warehouse.append("sales.orders", [order(3)])

    done = warehouse.load("mart.days", AT, check("row_count", "stop", minimum="3", maximum="3"))

    assert (done["status"], done["counts"]["rows"]) == ("succeeded", 3)


def test_full_computes_all_rows_of_a_model_with_an_increment(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob")])
    warehouse.model("mart.totals", TOTALS, BY_CUSTOMER, ("sales.orders",), keys=("customer",), increment={"by": "key"})
    warehouse.load("mart.totals")
    warehouse.table("sales.orders", ORDERS, [order(1)])

    warehouse.load("mart.totals", full=True)

    assert totals(warehouse) == [("ann", 1, "1.00")]


def test_a_model_reads_views_over_tables(warehouse):
    warehouse.table("sales.orders", ORDERS, [order(1), order(2, "bob")])
    warehouse.model(
        "mart.anns",
        {"id": "integer"},
        "SELECT id FROM sales.orders WHERE customer = 'ann'",
        ("sales.orders",),
        materialization="view",
    )
    warehouse.model("mart.totals", {"n": "bigint"}, "SELECT count(*) AS n FROM mart.anns", ("mart.anns",))

    warehouse.load("mart.totals")

    assert warehouse.rows("mart.totals") == [(1,)]
