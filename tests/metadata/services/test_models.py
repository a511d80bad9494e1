"""Tests of models: columns and lineage derived from a SELECT, and updates after changes upstream."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from elevata.core.errors import MetadataError
from metadata.models import ColumnInput, TargetColumn, TargetDataset
from metadata.selectors import dependents
from metadata.services import lifecycle
from metadata.services.datasets import targets
from tests.factories import ReferenceFactory, TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db

SELECT = "SELECT id, customer, amount * 2 AS twice FROM rawcore.orders"


@pytest.fixture
def orders() -> TargetDataset:
    dataset = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=dataset, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    TargetColumnFactory(dataset=dataset, name="customer", description="Who ordered", pii=True)
    TargetColumnFactory(dataset=dataset, name="amount", data_type="decimal", precision=10, scale=2)
    return dataset


@pytest.fixture
def bizcore():
    return TargetSchemaFactory(name="bizcore")


def model(schema, name: str = "sales", select: str = SELECT, **given) -> TargetDataset:
    return targets.create_target_dataset(schema=schema, name=name, select=select, **given)


def change(dataset: TargetDataset, **changes) -> TargetDataset:
    stored = TargetDataset.objects.get(pk=dataset.pk)
    return targets.update_target_dataset(dataset=stored, expected_version=stored.version, **changes)


def columns(dataset: TargetDataset) -> dict[str, str]:
    rows = TargetColumn.objects.filter(dataset=dataset, active=True).order_by("ordinal")
    return {row.name: str(row.type) for row in rows}


def column(dataset: TargetDataset, name: str) -> TargetColumn:
    return TargetColumn.objects.get(dataset=dataset, name=name)


def lineage(dataset: TargetDataset) -> dict[str, tuple[str, list[str]]]:
    """Return the expression and the inputs of each column in use."""
    rows = TargetColumn.objects.filter(dataset=dataset, active=True).order_by("ordinal")
    return {row.name: (row.expression, [item.upstream_column.name for item in row.inputs.all()]) for row in rows}


def select_of(dataset: TargetDataset) -> str:
    return TargetDataset.objects.get(pk=dataset.pk).select


# --- columns and lineage of a SELECT -----------------------------------------------------------


def test_columns_follow_from_the_select(orders, bizcore) -> None:
    assert columns(model(bizcore)) == {"id": "bigint", "customer": "string", "twice": "decimal(12,2)"}


def test_only_keys_of_a_loaded_table_are_never_null_in_a_model(orders, bizcore) -> None:
    """Check nullability: rows loaded before a column was added, and not delivered again, have no value of it."""
    targets.create_target_column(dataset=orders, name="changed", type="timestamp", nullable=False)
    known = "coalesce(customer, '?') AS known"
    first = model(bizcore, "first", f"SELECT id, changed, {known}, orders_key AS k FROM rawcore.orders")
    second = model(bizcore, "second", "SELECT id, changed, known, k FROM bizcore.first")
    for each in (first, second):
        nullable = dict(TargetColumn.objects.filter(dataset=each).values_list("name", "nullable"))
        assert nullable == {"id": False, "changed": True, "known": False, "k": False}


def test_inputs_are_the_datasets_and_columns_read(orders, bizcore) -> None:
    sales = model(bizcore)
    assert [item.upstream for item in sales.inputs.all()] == [orders]
    assert [item.upstream_column.name for item in column(sales, "twice").inputs.all()] == ["amount"]


def test_a_passed_column_inherits_description_and_classification(orders, bizcore) -> None:
    customer = column(model(bizcore), "customer")
    assert (customer.description, customer.pii) == ("Who ordered", True)


def test_edited_description_survives_a_changed_select(orders, bizcore) -> None:
    sales = model(bizcore)
    row = column(sales, "customer")
    targets.update_target_column(column=row, expected_version=row.version, description="Buyer")
    change(sales, select=f"{SELECT} WHERE id > 1")
    assert column(sales, "customer").description == "Buyer"


def test_business_key_of_a_model_survives_a_changed_select(orders, bizcore) -> None:
    sales = model(bizcore, business_key=["id"])
    assert column(sales, "id").role == "business_key"
    change(sales, select=f"{SELECT} WHERE id > 1")
    assert column(sales, "id").role == "business_key"


def test_column_with_a_changed_alias_keeps_its_key_and_former_name(orders, bizcore) -> None:
    sales = model(bizcore)
    key = column(sales, "twice").key
    change(sales, select=SELECT.replace("AS twice", "AS double_amount"))
    renamed = column(sales, "double_amount")
    assert (renamed.key, renamed.former_names) == (key, ["twice"])


def test_column_removed_from_the_select_is_retired_and_restored_with_its_key(orders, bizcore) -> None:
    sales = model(bizcore)
    key = column(sales, "twice").key
    change(sales, select="SELECT id, customer FROM rawcore.orders")
    assert not column(sales, "twice").active
    change(sales, select=SELECT)
    assert (column(sales, "twice").key, column(sales, "twice").active) == (key, True)


def test_columns_swap_their_names(orders, bizcore) -> None:
    sales = model(bizcore, select="SELECT id AS a, amount AS b FROM rawcore.orders")
    change(sales, select="SELECT amount AS a, id AS b FROM rawcore.orders")
    assert columns(sales) == {"a": "decimal(10,2)", "b": "bigint"}


def test_star_select_has_the_described_columns_of_its_dataset(orders, bizcore) -> None:
    sales = model(bizcore, select="SELECT * FROM rawcore.orders")
    assert list(columns(sales)) == ["id", "customer", "amount"]
    assert select_of(sales) == "SELECT * FROM rawcore.orders"


def test_technical_columns_are_read_by_name(orders, bizcore) -> None:
    sales = model(bizcore, select="SELECT orders_key AS order_key, loaded_at AS at FROM rawcore.orders")
    assert columns(sales) == {"order_key": "string", "at": "timestamp"}


def test_a_history_is_read_at_a_moment(orders, bizcore) -> None:
    change(orders, historize=True)
    text = "SELECT id, amount, __valid_from AS since FROM as_of(rawcore.orders_hist, {{ load_timestamp }})"
    sales = model(bizcore, select=text)
    assert columns(sales) == {"id": "bigint", "amount": "decimal(10,2)", "since": "timestamp"}
    assert [item.upstream_column.dataset for item in column(sales, "amount").inputs.all()] == [orders]


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT nothing FROM rawcore.orders", "line 1, column 8: the datasets in FROM have no column nothing"),
        ("SELECT id\nFROM rawcore.order", "line 2, column 6: there is no dataset rawcore.order"),
        ("SELECT id FROM raw.raw_orders", "raw.raw_orders is raw"),
        ("SELECT 1 / 0 AS x", "line 1, column 12: this divides by zero"),
        ("DELETE FROM rawcore.orders", "only one SELECT"),
        ("SELECT id, id FROM rawcore.orders", "two columns are named id"),
        ("SELECT id AS row_hash FROM rawcore.orders", "row_hash"),
        ("SELECT id FROM bizcore.sales", "reads itself: bizcore.sales → bizcore.sales"),
    ],
)
def test_invalid_select_is_refused_with_its_place(orders, bizcore, select, message) -> None:
    TargetDatasetFactory(schema=TargetSchemaFactory(name="raw"), name="raw_orders")
    with pytest.raises(MetadataError) as refused:
        model(bizcore, select=select)
    assert message in refused.value.message


def test_a_cycle_is_refused_with_its_path(orders, bizcore) -> None:
    first = model(bizcore, "first")
    model(bizcore, "second", "SELECT id FROM bizcore.first")
    with pytest.raises(MetadataError, match="bizcore.first → bizcore.second → bizcore.first"):
        change(first, select="SELECT id FROM bizcore.second")


def test_only_bizcore_and_serving_have_models(orders) -> None:
    with pytest.raises(MetadataError, match="layer rawcore has no models"):
        model(orders.schema)


@pytest.mark.parametrize(
    "given", [{"filter": "id > 1"}, {"materialization": "view", "increment": {"by": "key"}}, {"take_columns": True}]
)
def test_model_refuses_filter_take_columns_and_the_increment_of_a_view(orders, bizcore, given) -> None:
    with pytest.raises(MetadataError):
        model(bizcore, **given)


def test_view_refuses_load_placeholders(orders, bizcore) -> None:
    with pytest.raises(MetadataError, match="a view has no load"):
        model(bizcore, select="SELECT {{ load_timestamp }} AS at", materialization="view")


@pytest.mark.parametrize("field", ["type", "nullable", "expression"])
def test_columns_of_a_model_are_not_changed_by_hand(orders, bizcore, field) -> None:
    row = column(model(bizcore), "customer")
    values = {"type": "string(3)", "nullable": False, "expression": "upper(customer)"}
    with pytest.raises(MetadataError, match="follows from the SELECT"):
        targets.update_target_column(column=row, expected_version=row.version, **{field: values[field]})


def test_columns_of_a_model_are_not_added_renamed_or_retired_by_hand(orders, bizcore) -> None:
    sales = model(bizcore)
    row = column(sales, "customer")
    for work in (
        lambda: targets.create_target_column(dataset=sales, name="more", type="string"),
        lambda: lifecycle.rename_column(column=row, name="buyer", expected_version=row.version),
        lambda: lifecycle.retire_column(column=row, expected_version=row.version),
        lambda: targets.set_dataset_inputs(dataset=sales, expected_version=sales.version, inputs=[]),
    ):
        with pytest.raises(MetadataError, match="follows from the SELECT"):
            work()


def test_key_column_of_a_model_cannot_be_removed_without_another_key(orders, bizcore) -> None:
    sales = model(bizcore, business_key=["id"])
    with pytest.raises(MetadataError, match="in the business key"):
        change(sales, select="SELECT customer FROM rawcore.orders")
    change(sales, select="SELECT customer FROM rawcore.orders", business_key=[])


@pytest.mark.parametrize(
    ("increment", "message"),
    [
        ({"by": "key"}, "needs a business key"),
        ({"by": "window", "column": "customer", "days": 3}, "must be a date or a timestamp"),
        ({"by": "changed_keys", "input": "rawcore.other", "columns": {"id": "id"}}, "does not read rawcore.other"),
        ({"by": "magic"}, "must be one of"),
    ],
)
def test_increment_that_does_not_fit_the_model_is_refused(orders, bizcore, increment, message) -> None:
    with pytest.raises(MetadataError, match=message):
        model(bizcore, increment=increment)


def test_changed_keys_increment_refuses_a_select_with_rows_of_other_keys(orders, bizcore) -> None:
    by_keys = {"by": "changed_keys", "input": "rawcore.orders", "columns": {"id": "id"}}
    select = "SELECT o.id, p.amount FROM rawcore.orders o JOIN rawcore.orders p ON p.id = o.id"
    with pytest.raises(MetadataError, match="reads rawcore.orders more than once"):
        model(bizcore, select=select, increment=by_keys)


def test_changed_keys_increment_refuses_a_view_as_input(orders, bizcore) -> None:
    model(bizcore, "v", "SELECT id FROM rawcore.orders", materialization="view")
    by_keys = {"by": "changed_keys", "input": "bizcore.v", "columns": {"id": "id"}}
    with pytest.raises(MetadataError, match="bizcore.v is a view; loads compare tables"):
        model(bizcore, select="SELECT id FROM bizcore.v", increment=by_keys)


def test_historized_model_requires_a_business_key(orders, bizcore) -> None:
    with pytest.raises(MetadataError, match="needs a business key"):
        model(bizcore, historize=True)
    sales = model(bizcore, historize=True, business_key=["id"])
    assert sales.history.name == "sales_hist"


# --- changes upstream ---------------------------------------------------------------------------------


def test_a_rename_upstream_is_written_into_the_select(orders, bizcore) -> None:
    sales = model(bizcore, business_key=["id"])
    row = column(orders, "amount")
    lifecycle.rename_column(column=row, name="net amount", expected_version=row.version)
    assert select_of(sales) == SELECT.replace("amount *", "`net amount` *")
    assert columns(sales) == {"id": "bigint", "customer": "string", "twice": "decimal(12,2)"}


def test_a_rename_flows_through_all_columns_to_the_next_model(orders, bizcore) -> None:
    star = model(bizcore, "everything", "SELECT * FROM rawcore.orders")
    last = model(
        bizcore, "last", "SELECT e.amount + 1 AS more FROM bizcore.everything e JOIN rawcore.orders USING (id)"
    )
    row = column(orders, "amount")
    lifecycle.rename_column(column=row, name="net", expected_version=row.version)
    assert column(star, "net").former_names == ["amount"]
    assert "e.`net` + 1" in select_of(last)


def test_dataset_rename_upstream_is_written_into_the_select(orders, bizcore) -> None:
    sales = model(bizcore, select="SELECT orders.orders_key AS k, orders.id FROM rawcore.orders")
    lifecycle.rename_dataset(dataset=orders, name="purchases", expected_version=orders.version)
    assert select_of(sales) == ("SELECT orders.`purchases_key` AS k, orders.id FROM `rawcore`.`purchases` AS `orders`")


def test_an_increment_follows_the_names_of_its_input(orders, bizcore) -> None:
    by_keys = {"by": "changed_keys", "input": "rawcore.orders", "columns": {"id": "id"}}
    sales = model(bizcore, increment=by_keys)
    lifecycle.rename_dataset(dataset=orders, name="purchases", expected_version=orders.version)
    row = column(orders, "id")
    lifecycle.rename_column(column=row, name="number", expected_version=row.version)
    sales.refresh_from_db()
    assert sales.increment == by_keys | {"input": "rawcore.purchases", "columns": {"number": "id"}}


def test_types_follow_a_type_upstream(orders, bizcore) -> None:
    sales = model(bizcore)
    last = model(bizcore, "last", "SELECT max(twice) AS most FROM bizcore.sales")
    row = column(orders, "amount")
    targets.update_target_column(column=row, expected_version=row.version, type="decimal(14,2)")
    assert (columns(sales)["twice"], columns(last)["most"]) == ("decimal(16,2)", "decimal(16,2)")


def test_a_column_that_models_read_is_not_retired(orders, bizcore) -> None:
    model(bizcore)
    row = column(orders, "amount")
    with pytest.raises(MetadataError) as refused:
        lifecycle.retire_column(column=row, expected_version=row.version)
    assert refused.value.code == "in_use"
    assert "bizcore.sales" in refused.value.message
    assert "line 1, column 22: the datasets in FROM have no column amount" in refused.value.message


def test_model_column_read_by_another_model_cannot_be_removed(orders, bizcore) -> None:
    sales = model(bizcore)
    model(bizcore, "last", "SELECT twice FROM bizcore.sales")
    with pytest.raises(MetadataError, match=r"bizcore\.last"):
        change(sales, select="SELECT id FROM rawcore.orders")


def test_a_dataset_that_models_read_is_not_retired(orders, bizcore) -> None:
    model(bizcore)
    with pytest.raises(MetadataError, match="rawcore.orders is retired"):
        lifecycle.retire_dataset(dataset=orders, expected_version=orders.version)


def test_new_column_upstream_is_added_to_star_models(orders, bizcore) -> None:
    sales = model(bizcore, select="SELECT * FROM rawcore.orders")
    targets.create_target_column(dataset=orders, name="note", type="string")
    assert list(columns(sales)) == ["id", "customer", "amount", "note"]


def test_new_column_that_changes_the_meaning_of_a_model_is_refused(orders, bizcore) -> None:
    sales = model(bizcore, select="SELECT amount AS base, base + 1 AS total FROM rawcore.orders")
    with pytest.raises(MetadataError, match="bizcore.sales.*base is the result base") as refused:
        targets.create_target_column(dataset=orders, name="base", type="integer")
    assert refused.value.code == "in_use"
    change(sales, select="SELECT amount AS base, amount + 1 AS total FROM rawcore.orders")
    targets.create_target_column(dataset=orders, name="base", type="integer")
    assert columns(sales)["base"] == "decimal(10,2)"


def test_lineage_of_hashes_changes_only_when_its_model_is_stored(orders, bizcore) -> None:
    """Check that a change upstream does not update models with hashes, even if their hashes have no lineage."""
    select = "SELECT orders_key, row_hash AS hash, upper(orders_key) AS k, customer FROM rawcore.orders"
    new, old = model(bizcore, "new", select), model(bizcore, "old", select)
    hashes = old.columns.exclude(name="customer")
    ColumnInput.objects.filter(column__in=hashes).delete()
    hashes.exclude(name="k").update(expression="")
    before = lineage(new), lineage(old)
    versions = list(TargetColumn.objects.filter(dataset__in=(new, old)).values_list("pk", "version"))
    targets.create_target_column(dataset=orders, name="note", type="string")
    assert (lineage(new), lineage(old)) == before
    assert list(TargetColumn.objects.filter(dataset__in=(new, old)).values_list("pk", "version")) == versions
    for each in (new, old):
        change(each, select=f"{select} WHERE id > 1")
    assert lineage(old) == lineage(new)
    assert lineage(old)["hash"] == ("row_hash", ["id", "customer", "amount", "note"])
    id_ = column(orders, "id")
    lifecycle.rename_column(column=id_, name="number", expected_version=id_.version)
    assert lineage(old)["orders_key"] == ("orders_key", ["number"])


def test_lineage_of_a_history_key_and_of_dates_has_the_time_column(orders, bizcore) -> None:
    TargetColumnFactory(dataset=orders, name="changed", data_type="timestamp", nullable=False)
    policy = {"input": "effective", "time": "changed"}
    change(orders, historize=True, history_policy=policy)
    selected = "orders_hist_key AS k, version_started_at AS start, closed_by_run_id AS run"
    versions = model(bizcore, "versions", f"SELECT {selected} FROM rawcore.orders_hist")
    assert lineage(versions) == {
        "k": ("orders_hist_key", ["id", "changed"]),
        "start": ("version_started_at", ["changed"]),
        "run": ("", []),
    }
    since = model(bizcore, "since", "SELECT id, __valid_from AS since FROM current(rawcore.orders_hist)")
    assert lineage(since)["since"] == ("__valid_from", ["changed"])


def test_new_column_is_refused_if_it_changes_the_rows_of_an_indirect_model(orders, bizcore) -> None:
    model(bizcore, select="SELECT * FROM rawcore.orders")
    model(bizcore, "last", "SELECT DISTINCT * FROM bizcore.sales")
    with pytest.raises(MetadataError, match=r"bizcore\.last.*would change the rows \(note\)"):
        targets.create_target_column(dataset=orders, name="note", type="string")


def test_dataset_rename_keeps_a_result_named_like_its_old_key(orders, bizcore) -> None:
    sales = model(bizcore, select="SELECT id AS orders_key, count(*) AS n FROM rawcore.orders GROUP BY id")
    lifecycle.rename_dataset(dataset=orders, name="purchases", expected_version=orders.version)
    assert list(columns(sales)) == ["orders_key", "n"]


def test_column_whose_name_would_then_mean_a_result_cannot_be_retired(orders, bizcore) -> None:
    model(bizcore, select="SELECT id AS amount, amount * 2 AS twice FROM rawcore.orders")
    row = column(orders, "amount")
    with pytest.raises(MetadataError, match="would become the result amount"):
        lifecycle.retire_column(column=row, expected_version=row.version)


def test_models_of_one_name_in_two_schemas_need_an_alias(orders, bizcore) -> None:
    serving = TargetSchemaFactory(name="serving")
    model(bizcore)
    model(serving, "sales")
    select = "SELECT sales.id FROM bizcore.sales JOIN serving.sales ON true"
    with pytest.raises(MetadataError, match="sales is used twice in FROM: give one of them an alias"):
        model(serving, "both", select)
    assert columns(model(serving, "both", select.replace("serving.sales", "serving.sales AS other")))


def test_new_model_is_stored_with_a_limited_number_of_queries(orders, bizcore, django_assert_max_num_queries) -> None:
    with django_assert_max_num_queries(130):
        sales = model(bizcore)
    ReferenceFactory(child=sales, parent=orders, role_name="order")
    assert [row.name for row in sales.columns.all()] == ["id", "customer", "twice"]


def test_number_of_queries_of_following_is_the_same_for_any_number_of_inputs(orders, bizcore) -> None:
    def queries_of_a_rename(number: int) -> int:
        names = [f"{number}_{place}" for place in range(number)]
        read = [TargetDatasetFactory(schema=orders.schema, name=f"read_{name}") for name in names]
        for dataset in read:
            TargetColumnFactory(dataset=dataset, name="id", data_type="bigint", nullable=False, key_ordinal=1)
            TargetColumnFactory(dataset=dataset, name="note")
        joins = "".join(f" JOIN {dataset} AS d{place} ON d{place}.id = o.id" for place, dataset in enumerate(read))
        model(bizcore, f"sales_{number}", f"SELECT o.id, d0.note FROM rawcore.orders AS o{joins}")
        note = column(read[0], "note")
        with CaptureQueriesContext(connection) as queries:
            lifecycle.rename_column(column=note, expected_version=note.version, name="remark")
        return len(queries)

    assert queries_of_a_rename(4) == queries_of_a_rename(1)


# --- dependents, before a decision --------------------------------------------------------------


def effects(rows) -> list[tuple[str, str]]:
    return [(each.effect, f"{each.dataset} {each.what}") for each in rows if each.dataset.select]


def test_dependents_are_the_models_that_follow_or_refuse(orders, bizcore) -> None:
    model(bizcore)
    model(bizcore, "everything", "SELECT * FROM rawcore.orders")
    amount = column(orders, "amount")
    renamed = list(dependents.of_column_rename(amount, "net"))
    assert effects(renamed) == [("follows", "bizcore.everything columns"), ("follows", "bizcore.sales SELECT")]
    assert renamed[-1].after == SELECT.replace("amount *", "`net` *")
    assert effects(dependents.of_column_retirement(amount)) == [
        ("follows", "bizcore.everything columns"),
        ("refuses", "bizcore.sales SELECT"),
    ]
    assert ("follows", "bizcore.sales SELECT") in effects(dependents.of_dataset_rename(orders, "purchases"))
    assert ("refuses", "bizcore.sales SELECT") in effects(dependents.of_dataset_retirement(orders))
