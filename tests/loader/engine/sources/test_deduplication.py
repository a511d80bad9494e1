"""Deduplication of ordered rows of one business key: the latest or first is kept, the others are counted."""

import pytest

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from tests.fixtures.spark import held_in_memory

pytestmark = pytest.mark.spark

CONTRACT = (
    DeliveredColumn("k-id", "id", "string", nullable=False, business_key=True),
    DeliveredColumn("k-v", "v", "string"),
    DeliveredColumn("k-n", "n", "integer"),
    DeliveredColumn("k-at", "at", "date"),
)
# Number 10 is later than 9: values are ordered by their types, not as text.
ROWS = "id,v,n,at\na,old,9,2024-01-01\na,new,10,2024-01-01\nb,once,1,\nc,null,,2024-01-01\nc,one,1,2024-01-01\n"


def read(spark, path, **options):
    delivery = read_delivery(spark, SourceSpec("src", str(path), "csv", CONTRACT, options))
    rows = sorted((row["id"], row["v"]) for row in delivery.frame.collect())
    delivery.release()
    assert held_in_memory(spark) == []
    return rows, delivery


@pytest.mark.core
@pytest.mark.parametrize(
    ("deduplicate", "expected"),
    [("latest", [("a", "new"), ("b", "once"), ("c", "one")]), ("first", [("a", "old"), ("b", "once"), ("c", "one")])],
)
def test_deduplication_keeps_the_latest_or_first_row_of_each_key(spark, put, deduplicate, expected):
    rows, delivery = read(spark, put("a.csv", ROWS), deduplicate=deduplicate, order_by="at, n")
    assert rows == expected
    assert (delivery.rows, delivery.superseded, delivery.duplicates) == (5, 2, 0)


def test_identical_rows_count_as_duplicates(spark, put):
    rows, delivery = read(
        spark, put("a.csv", "id,v,n,at\na,x,1,\na,y,2,\na,y,2,\n"), deduplicate="latest", order_by="n"
    )
    assert (rows, delivery.superseded, delivery.duplicates) == ([("a", "y")], 1, 1)


@pytest.mark.parametrize(
    "options", [{}, {"deduplicate": "latest", "order_by": "n"}, {"deduplicate": "first", "order_by": "n"}]
)
def test_conflicting_rows_with_equal_order_values_are_refused(spark, put, options):
    with pytest.raises(Refusal) as refused:
        read(spark, put("a.csv", "id,v,n,at\na,x,1,\na,y,1,\n"), **options)
    assert refused.value.code == "CONFLICTING_ROWS"


def test_an_order_by_an_unknown_column_is_refused(spark, put):
    with pytest.raises(Refusal, match="order_by names gone") as refused:
        read(spark, put("a.csv", ROWS), deduplicate="latest", order_by="gone")
    assert refused.value.code == "BAD_OPTION"
