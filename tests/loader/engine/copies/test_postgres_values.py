"""Values at the limits of types in copies in PostgreSQL: they arrive exactly, or the copy names column and row."""

from collections.abc import Iterator

import psycopg
import pytest

from metadata.domain.copies import CHANGES, REPLACE
from tests.fixtures.source_database import own_schema
from tests.loader.engine.copies.copied_dataset import Copied

pytestmark = [pytest.mark.spark, pytest.mark.services]

DAY = [f"2024-01-0{n}T00:00:00Z" for n in range(1, 4)]
# Value as SQL of Spark -> the text of PostgreSQL.
RATIOS = {
    "double('Infinity')": "Infinity",
    "double('-Infinity')": "-Infinity",
    "double('NaN')": "NaN",
    "double('-0.0')": "-0",
    "double('4.9E-324')": "5e-324",
    "1.7976931348623157E308D": "1.7976931348623157e+308",
}
# Days of the Julian calendar's end, of years before the first and beyond 9999.
DAYS = {
    "DATE '1582-10-04'": "1582-10-04",
    "DATE '1582-10-10'": "1582-10-10",
    "DATE '1582-10-15'": "1582-10-15",
    "DATE '0000-02-29'": "0001-02-29 BC",
    "DATE '-0043-03-15'": "0044-03-15 BC",
    "DATE '-4713-11-24'": "4714-11-24 BC",
    "DATE '+10000-01-01'": "10000-01-01",
    "DATE '+294246-12-31'": "294246-12-31",
}


@pytest.fixture
def database() -> Iterator[psycopg.Connection]:
    with own_schema("mart") as connection:
        try:
            yield connection
        finally:
            connection.execute("DROP TABLE IF EXISTS public.elevata_copies")


def with_values(spark, item: Copied, column: str, values: list[str]) -> Copied:
    """Write these values, which loads may refuse, into the rawcore table by row."""
    place = item.table(item.rawcore_spec).location
    cases = " ".join(f"WHEN {number} THEN {value}" for number, value in enumerate(values))
    spark.sql(f"UPDATE delta.`{place}` SET {column} = CASE id {cases} END")
    return item


def test_numbers_and_times_at_the_limits_of_their_types_arrive_exactly(spark, tmp_path, database):
    item = Copied(spark, tmp_path, columns={"id": "integer", "ratio": "float", "day": "date", "at": "timestamp"})
    count = max(len(RATIOS), len(DAYS))
    item.given(([{"id": n, "ratio": None, "day": None, "at": None} for n in range(count)], DAY[0]))
    with_values(spark, item, "ratio", list(RATIOS))
    with_values(spark, item, "day", list(DAYS))
    with_values(spark, item, "at", [f"CAST({day} AS TIMESTAMP) + INTERVAL '0.000001' SECOND" for day in DAYS])
    assert item.copy(item.target())["status"] == "copied"
    database.execute("SET TIME ZONE 'UTC'")
    rows = database.execute("SELECT ratio::text, day::text, at::text FROM mart.item ORDER BY id").fetchall()
    ratios, days, times = zip(*rows, strict=True)
    assert list(ratios[: len(RATIOS)]) == list(RATIOS.values())
    assert list(days) == list(DAYS.values())
    expected = [day.partition(" ") for day in DAYS.values()]
    assert list(times) == [f"{day} 00:00:00.000001+00{space}{era}" for day, space, era in expected]


@pytest.mark.parametrize("mode", [REPLACE, CHANGES])
def test_refused_value_leaves_the_target_as_it_was_and_is_named_by_column_and_row(spark, tmp_path, database, mode):
    item = Copied(spark, tmp_path).given(([{"id": 0, "v": "a"}, {"id": 1, "v": "b"}], DAY[0]))
    item.copy(item.target(mode=mode))
    item.load([{"id": 0, "v": "a\0b"}], at=DAY[1], allow_deletes=True)
    error = item.copy(item.target(mode=mode))["error"]
    assert (error["code"], error["column"], error["samples"]) == ("COPY_FAILED", "v", ["id=0"])
    assert "1 rows have a NUL character in column v" in error["message"]
    assert database.execute("SELECT id, v FROM mart.item ORDER BY id").fetchall() == [(0, "a"), (1, "b")]


def test_refused_value_in_a_key_is_named_without_its_nul(spark, tmp_path, database):
    item = Copied(spark, tmp_path, columns={"id": "string", "v": "string"})
    item.given(([{"id": "a\0b", "v": "x"}, {"id": "c", "v": "y"}], DAY[0]))
    assert item.copy(item.target())["error"]["samples"] == ["id=a\\0b"]


def test_refused_value_of_a_dataset_with_a_sensitive_key_has_no_samples(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given(([{"id": 0, "v": "a\0b"}], DAY[0]))
    target = item.target()
    error = item.copy(target, sensitive=("id",))["error"]
    assert (error["code"], error.get("samples")) == ("COPY_FAILED", None)
    assert "samples" not in item.ended["error"]


@pytest.mark.parametrize("day", ["-4713-11-23", "+294247-01-01"])
def test_date_that_postgresql_does_not_take_is_named_by_column_and_row(spark, tmp_path, database, day):
    item = Copied(spark, tmp_path, columns={"id": "integer", "day": "date"})
    item.given(([{"id": n, "day": None} for n in range(2)], DAY[0]))
    with_values(spark, item, "day", ["DATE '2024-01-01'", f"DATE '{day}'"])
    error = item.copy(item.target())["error"]
    assert (error["code"], error["column"], error["samples"]) == ("COPY_FAILED", "day", ["id=1"])
    assert database.execute("SELECT to_regclass('mart.item')").fetchone() == (None,)
