"""Delta tables of other writers as sources: one version, the types of the table, errors by business key."""

import pytest

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from tests.loader.engine.sources.deliveries import KEY

pytestmark = pytest.mark.spark

CONTRACT = (KEY, DeliveredColumn("k-n", "n", "integer"), DeliveredColumn("k-city", "place.city", "string"))
ROWS = "SELECT 'a' id, 1L n, named_struct('city', 'Oslo') place UNION ALL SELECT 'b', 2L, NULL"


def table(spark, path, query=ROWS):
    spark.sql(query).write.format("delta").mode("append").save(str(path))
    return str(path)


def read(spark, location):
    return read_delivery(spark, SourceSpec("lake.t", location, "delta", CONTRACT))


@pytest.mark.core
def test_delta_read_returns_the_version_at_its_start(spark, tmp_path):
    location = table(spark, tmp_path / "t")
    delivery = read(spark, location)
    table(spark, tmp_path / "t", "SELECT 'c' id, 3L n, named_struct('city', 'Rome') place")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 'a'")
    rows = sorted(map(tuple, delivery.frame.collect()))
    delivery.check_unchanged()
    delivery.release()
    assert rows == [("a", 1, "Oslo"), ("b", 2, None)]


def test_deleted_rows_are_not_read_although_their_files_remain(spark, tmp_path):
    location = table(spark, tmp_path / "t")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 'a'")
    delivery = read(spark, location)
    delivery.release()
    assert delivery.rows == 1


def test_columns_outside_the_contract_are_reported(spark, tmp_path):
    location = table(spark, tmp_path / "t", ROWS.replace("1L n", "1L n, current_date() day").replace("2L", "2L, NULL"))
    delivery = read(spark, location)
    delivery.release()
    assert [(column["name"], column["type"]) for column in delivery.unknown] == [("day", "date")]


def test_a_value_that_does_not_fit_is_named_by_its_key(spark, tmp_path):
    with pytest.raises(Refusal) as caught:
        read(spark, table(spark, tmp_path / "t", ROWS.replace("2L", "3000000000L")))
    assert (caught.value.code, caught.value.samples) == ("VALUE_DOES_NOT_FIT", ("id=b: 3000000000",))


def test_a_folder_without_a_table_is_refused(spark, tmp_path):
    with pytest.raises(Refusal, match="there is no Delta table") as caught:
        read(spark, str(tmp_path))
    assert caught.value.code == "MISSING_TABLE"


def test_a_broken_log_is_refused(spark, tmp_path):
    location = table(spark, tmp_path / "t")
    log = tmp_path / "t" / "_delta_log"
    for file in log.glob("*.json"):
        file.write_text("{")
    with pytest.raises(Refusal) as caught:
        read(spark, location)
    assert caught.value.code == "UNREADABLE_TABLE"
