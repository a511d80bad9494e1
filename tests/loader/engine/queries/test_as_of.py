"""Tables as of an instant, and as known at another, on real Delta tables."""

import time
from datetime import UTC, datetime

import pytest

from loader.contract.refusals import Refusal
from loader.engine.queries.reads import read
from tests.loader.history_rows import WrittenHistory, version

pytestmark = pytest.mark.spark

A, B, C = "2024-01-01", "2024-01-02", "2024-01-03"


def as_of(history: WrittenHistory, at: str, **more: object) -> list[tuple[int, str]]:
    """Return key and value of the rows valid at an instant."""
    answer = read(history.spark, history.warehouse, history.reading(at=at, **more), "read")
    rows = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    value = history.names.get("v", "v")
    return [(int(row["id"]), row[value]) for row in rows]


def refused(history: WrittenHistory, **arguments: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        as_of(history, **arguments)
    return caught.value


@pytest.mark.core
def test_as_of_includes_the_start_and_excludes_the_end_of_a_version(spark, tmp_path):
    history = WrittenHistory(spark, tmp_path)
    history.write(version(1, A, B, "changed"), version(1, B, state="changed", v="b"), version(2, A, B, "deleted"))
    assert as_of(history, "2023-12-31T23:59:59Z") == []
    assert as_of(history, "2024-01-01T00:00:00Z") == [(1, "a"), (2, "a")]
    assert as_of(history, "2024-01-02T00:00:00+00:00") == [(1, "b")]
    assert as_of(history, "2024-01-02T01:00:00+02:00", text="1") == [(1, "a")]
    assert refused(history, at="yesterday").code == "BAD_INSTANT"


def test_as_of_pages_rows_by_a_limit_and_the_last_key(spark, tmp_path):
    history = WrittenHistory(spark, tmp_path)
    history.write(*(version(number, A) for number in (2, 10, 9)))
    assert as_of(history, B, limit=2) == [(2, "a"), (9, "a")]
    assert as_of(history, B, limit=2, after={"id": "9"}) == [(10, "a")]
    assert as_of(history, B, after={"id": "10"}) == []
    assert refused(history, at=B, after={"id": "nine"}).code == "BAD_KEY"


def test_as_of_rows_are_searched_sorted_and_paged_by_any_column(spark, tmp_path):
    history = WrittenHistory(spark, tmp_path, {}, {"id": "integer", "v": "string", "w": "string"}, ("id", "w"))
    history.write(version(1, A, v="b", w="100%_x"), version(2, A, v="c", w="Ulm"), version(3, A, v="a", w="ULM"))
    assert as_of(history, B, text="ulm") == [(2, "c"), (3, "a")]
    assert as_of(history, B, text="%_") == [(1, "b")]
    assert as_of(history, B, find="C") == [(2, "c")]
    assert as_of(history, B, sort="v", descending=True) == [(2, "c"), (1, "b"), (3, "a")]
    assert as_of(history, B, sort="v", offset=1, limit=1) == [(1, "b")]
    assert as_of(history, B, column="w", comparison="equals", value="Ulm", known_at="2999-01-01T00:00:00Z") == [
        (2, "c")
    ]


def test_as_of_reads_versions_dated_by_days_and_treats_the_high_date_as_open(spark, tmp_path):
    policy = {"input": "effective", "time": "day", "open_end": "9999-12-31"}
    history = WrittenHistory(spark, tmp_path, policy, {"id": "integer", "v": "string", "day": "date"})
    history.write(
        version(1, A, B, "changed", day=A),
        version(1, B, "9999-12-31", "changed", v="b", day=B, segment="open"),
    )
    assert as_of(history, "2024-01-01T23:59:59Z") == [(1, "a")]
    assert as_of(history, "2024-01-02T00:00:00Z") == [(1, "b")]
    assert as_of(history, "9999-12-31T12:00:00Z") == [(1, "b")]


@pytest.mark.nightly
def test_as_of_requires_a_number_for_versions_dated_by_numbers(spark, tmp_path):
    policy = {"input": "cdc", "time": "seq", "op": "op"}
    history = WrittenHistory(spark, tmp_path, policy, {"id": "integer", "v": "string", "seq": "bigint"})
    history.write(version(1, 5, 9, "changed", seq=5), version(1, 9, state="changed", v="b", seq=9))
    assert [as_of(history, at) for at in ("4", "5", "8", "9")] == [[], [(1, "a")], [(1, "a")], [(1, "b")]]
    refusal = refused(history, at="2024-01-01T00:00:00Z")
    assert (refusal.code, "is not a number" in refusal.message) == ("BAD_INSTANT", True)


def test_as_of_omits_tombstones_and_includes_inclusive_ends(spark, tmp_path):
    history = WrittenHistory(spark, tmp_path, {"deletes": "tombstone"})
    history.write(version(1, A, B, "live"), version(1, B, state="deleted", segment="deleted"))
    assert as_of(history, B, tombstone="deleted") == []
    assert as_of(history, A, tombstone="deleted") == [(1, "a")]
    assert as_of(history, B, tombstone="gone", inclusive_ends=True) == [(1, "a"), (1, "a")]


def test_known_at_omits_later_loads_and_uses_current_column_names(spark, tmp_path):
    before = _now()
    history = WrittenHistory(spark, tmp_path)
    history.write(version(1, A))
    between = _now()
    history.write(version(2, A))
    table = history.table(history.history)
    spark.sql(f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {table.sql_name} RENAME COLUMN v TO value")
    history.names = {"v": "value"}

    assert as_of(history, A) == [(1, "a"), (2, "a")]
    assert as_of(history, A, known_at=between) == [(1, "a")]
    assert as_of(history, A, known_at="2999-01-01T00:00:00Z") == [(1, "a"), (2, "a")]
    refusal = refused(history, at=A, known_at=before)
    assert refusal.code == "NOT_KNOWN_YET"
    assert "its first commit is of" in refusal.message
    assert "Choose a later one" in refusal.hint

    history.policy = {"profile": "dbt"}
    assert as_of(history, A, known_at=between) == [(1, "a")]
    history.columns, history.keys = {**history.columns, "region": "string"}, ("id", "region")
    assert refused(history, at=A, known_at=between).code == "OTHER_LAYOUT"
    history = WrittenHistory(spark, tmp_path)

    spark.sql(f"DELETE FROM {table.sql_name}")
    for file in (tmp_path / "warehouse" / table.key).rglob("*.parquet"):
        file.unlink()
    refusal = refused(history, at=A, known_at=between)
    assert refusal.code == "BEYOND_RETENTION"
    assert "is no longer kept" in refusal.message
    assert "deletedFileRetentionDuration" in refusal.hint

    spark.sql(f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = '0 hours')")
    assert refused(history, at=A, known_at=between).code == "BEYOND_RETENTION"


def _now() -> str:
    """Return a time that no commit shares."""
    time.sleep(0.05)
    now = datetime.now(UTC).isoformat()
    time.sleep(0.05)
    return now
