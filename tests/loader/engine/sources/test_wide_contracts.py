"""Contracts of two thousand columns: Spark walks expressions and plans by recursion."""

import csv

import pytest
from pyspark.sql import functions as F

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.expressions import all_of, any_of, total, united
from loader.engine.sources.deliveries import read_delivery
from tests.loader.harness import Dataset

pytestmark = pytest.mark.spark

WIDTH = 2000
NAMES = [f"c{place:04d}" for place in range(WIDTH)]


def contract(**facts):
    key = DeliveredColumn("k-id", "id", "integer", nullable=False, business_key=True)
    return (key, *(DeliveredColumn(f"k-{name}", name, "string", **facts) for name in NAMES))


@pytest.fixture
def wide(tmp_path):
    """Return a function that writes a CSV with a key and two thousand columns.

    ``last`` is the last field of the last row.
    """

    def write(last="z"):
        path = tmp_path / "wide.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["id", *NAMES])
            rows.writerow([1, *NAMES])
            rows.writerow([2, *NAMES[:-1], last])
        return str(path)

    return write


def test_folds_and_unions_of_hundreds_of_expressions_run_on_spark(spark):
    frame = spark.range(0, 3, 1, numPartitions=1)
    conditions = [F.col("id") == place for place in range(600)]
    rows = frame.select(
        any_of(conditions).alias("any"), all_of(conditions).alias("all"), total([F.col("id")] * 600).alias("total")
    ).collect()
    assert [tuple(row) for row in rows] == [(True, False, 600 * place) for place in range(3)]
    assert united([frame] * 400).count() == 1200


@pytest.mark.nightly
def test_csv_of_two_thousand_columns_is_read_and_checked(spark, wide):
    delivery = read_delivery(spark, SourceSpec("wide", wide(), "csv", contract(nullable=False), {}))
    assert (delivery.rows, len(delivery.frame.columns)) == (2, WIDTH + 1)
    delivery.release()


@pytest.mark.nightly
def test_a_value_missing_in_the_last_of_two_thousand_columns_is_named_with_its_line(spark, wide):
    with pytest.raises(Refusal) as caught:
        read_delivery(spark, SourceSpec("wide", wide(last=""), "csv", contract(nullable=False), {}))
    refusal = caught.value
    assert (refusal.code, refusal.row, refusal.column) == ("NULL_VALUE", 3, NAMES[-1])


@pytest.mark.nightly
def test_two_thousand_columns_are_loaded_compared_and_historized(spark, tmp_path):
    dataset = Dataset(spark, tmp_path, columns={"id": "integer"} | dict.fromkeys(NAMES, "string"))
    first = [{"id": place} | dict.fromkeys(NAMES, "a") for place in (1, 2)]
    assert dataset.load(first, at="2026-01-01T00:00:00+00:00")[0] == "succeeded"
    second = [first[0], first[1] | {NAMES[-1]: "b"}]
    status, event = dataset.load(second, at="2026-01-02T00:00:00+00:00")
    assert status == "succeeded", event
    assert (event["counts"]["changed"], event["counts"]["unchanged"]) == (1, 1)
