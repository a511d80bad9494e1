"""Tests of creating and changing systems, source datasets and their columns."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.types import parse
from metadata.models import SourceDataset
from metadata.services import source_contracts, sources
from tests.factories import SourceColumnFactory, SystemFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"short_name": "a b"}, "short_name"),
        ({"short_name": "x" * 21}, "short_name"),
        ({"kind": "ftp"}, "kind"),
        ({"location": "{{ home }}/x"}, "location"),
        ({"tags": "one"}, "tags"),
    ],
)
def test_invalid_system_is_refused_with_its_field(values: dict, field: str) -> None:
    with pytest.raises(MetadataError) as refused:
        sources.create_system(**{"name": "A", "short_name": "a", **values})
    assert refused.value.field == field


def test_short_names_that_differ_only_by_case_are_refused() -> None:
    SystemFactory(short_name="air")
    with pytest.raises(MetadataError, match="taken"):
        sources.create_system(name="Other", short_name="AIR")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": " "}, "name"),
        ({"location": ""}, "location"),
        ({"format": "pdf"}, "format"),
        ({"options": {"delimiter": ";;"}}, "options.delimiter"),
        ({"options": {"header": "yes"}}, "options.header"),
        ({"options": {"sep": ";"}}, "options.sep"),
        ({"format": "parquet", "options": {"encoding": "utf-8"}}, "options.encoding"),
        ({"format": "jsonl", "options": {"encoding": "latin-1"}}, "options.encoding"),
        ({"history_policy": {"input": "full"}}, "history_policy.input"),
    ],
)
def test_invalid_source_dataset_is_refused_with_its_field(values: dict, field: str) -> None:
    with pytest.raises(MetadataError) as refused:
        sources.create_source_dataset(**{"system": SystemFactory(), "name": "orders", "location": "o.csv", **values})
    assert refused.value.field == field


def test_source_format_must_match_the_system_kind() -> None:
    files, cluster = SystemFactory(), SystemFactory(kind="kafka", location="kafka://broker.example.org")
    with pytest.raises(MetadataError, match="'kafka' is no format of a system of kind files"):
        sources.create_source_dataset(system=files, name="orders", location="orders", format="kafka")
    with pytest.raises(MetadataError, match="possible are kafka"):
        sources.create_source_dataset(system=cluster, name="orders", location="orders")


def test_system_kind_cannot_change_if_its_datasets_have_other_formats() -> None:
    system = SystemFactory(location="")
    sources.create_source_dataset(system=system, name="orders", location="orders.csv")
    cluster = {"kind": "kafka", "location": "kafka://broker.example.org"}
    with pytest.raises(MetadataError, match="orders has the format csv, which a system of kind kafka") as refused:
        sources.update_system(system=system, expected_version=system.version, **cluster)
    assert (refused.value.code, refused.value.field) == ("in_use", "kind")


def test_the_query_of_a_table_is_checked_when_it_is_saved() -> None:
    system = SystemFactory(kind="jdbc", location="postgresql://reader@db/erp")
    arguments = {"system": system, "name": "orders", "format": "table", "location": "sales.orders"}
    with pytest.raises(MetadataError) as refused:
        sources.create_source_dataset(**arguments, options={"query": "DELETE FROM orders"})
    assert (refused.value.code, refused.value.field) == ("sql_refused", "options.query")
    sources.create_source_dataset(**arguments, options={"query": "SELECT id FROM orders"})


def test_a_short_name_follows_from_the_name() -> None:
    row = sources.create_source_dataset(system=SystemFactory(), name="Sales Orders (EU)", location="o.csv")
    assert row.short_name == "sales_orders_eu"


def test_a_policy_is_kept_in_its_normal_form() -> None:
    policy = {"input": "snapshot", "deletes": "close", "time": "load"}
    row = sources.create_source_dataset(system=SystemFactory(), name="a", location="a.csv", history_policy=policy)
    assert row.history_policy == {}


def test_source_columns_that_differ_only_by_case_are_refused() -> None:
    dataset = SourceColumnFactory(name="id").dataset
    with pytest.raises(MetadataError, match="differs from it only by case"):
        sources.create_source_column(source_dataset=dataset, name="ID", type="string")


@pytest.mark.parametrize(
    ("second", "message"), [("ID", "'id', differs from it only by case"), ("id", "'id', has this name")]
)
def test_columns_of_an_import_with_one_name_are_refused_together(second: str, message: str) -> None:
    columns = [source_contracts.ImportedColumn(name, parse("string")) for name in ("id", second)]
    with pytest.raises(MetadataError, match=message) as refused:
        source_contracts.import_source_dataset(system=SystemFactory(), name="orders", location="o.csv", columns=columns)
    assert refused.value.where.endswith(f".orders.{second}")
    assert not SourceDataset.objects.exists()


def test_second_column_with_the_same_business_key_position_is_refused() -> None:
    dataset = SourceColumnFactory(key_ordinal=1).dataset
    with pytest.raises(MetadataError, match="this place in the business key"):
        sources.create_source_column(source_dataset=dataset, name="other", type="string", key_ordinal=1)


def test_column_with_a_reused_name_gets_another_key() -> None:
    column = SourceColumnFactory(name="a")
    sources.update_source_column(source_column=column, expected_version=1, name="b")
    again = sources.create_source_column(source_dataset=column.dataset, name="a", type="string")
    assert again.key != column.key
