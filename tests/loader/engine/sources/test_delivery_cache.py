"""Consistency of deliveries between check and write: text is cached, Parquet is read again and compared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader.contract.manifest.loads import LoadManifest
from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.engine.session import dataset_session
from loader.engine.sources import deliveries
from loader.engine.sources.checks import keys
from loader.engine.sources.deliveries import read_delivery
from tests.fixtures.spark import by_night, held_in_memory
from tests.loader.harness import Dataset, finished

pytestmark = pytest.mark.spark

DAY = [f"2024-01-0{number}T00:00:00Z" for number in range(1, 5)]
CHECKED = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
UNCHECKED = [{"id": 1, "v": "never"}, {"id": 1, "v": "checked"}]


@pytest.fixture
def item(spark, tmp_path) -> Dataset:
    return Dataset(spark, tmp_path, columns={"id": "integer", "v": "string"})


def put(path: Path, rows: list[dict]) -> Path:
    schema = pa.schema([("id", pa.int32()), ("v", pa.string())])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def parquet(item: Dataset, path: Path, *, at: str, run_id: str) -> LoadManifest:
    item.sequence += 1
    manifest = item.manifest(path, at=at, run_id=run_id)
    raw = manifest.raw[0]
    return replace(manifest, raw=(replace(raw, source=replace(raw.source, format="parquet")),))


def once_checked(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Call a function between the checks of a delivery and its write."""
    check = deliveries.check_keys

    def checked(*given):
        result = check(*given)
        do()
        return result

    monkeypatch.setattr(deliveries, "check_keys", checked)


def versions(item: Dataset) -> list[int]:
    return [item.table(spec).version() for spec in item.tables()]


def test_parquet_is_loaded_without_keeping_it_in_memory(item, tmp_path, monkeypatch):
    item.given()
    cached = []
    once_checked(monkeypatch, lambda: cached.extend(held_in_memory(item.spark)))
    status, _ = item.attempt(parquet(item, put(tmp_path / "a.parquet", CHECKED), at=DAY[0], run_id="one"))
    assert (status, item.current(), cached) == ("succeeded", CHECKED, [])


@pytest.mark.parametrize(
    ("meanwhile", "message"),
    [
        (lambda path: put(path, UNCHECKED), "was written while it was read"),
        (lambda path: path.unlink(), "was taken away while it was read"),
    ],
    ids=["written", "taken away"],
)
def test_parquet_changed_after_its_checks_is_refused_and_nothing_is_written(
    item, tmp_path, monkeypatch, meanwhile, message
):
    item.given((CHECKED, DAY[0]))
    before = versions(item)
    path = put(tmp_path / "b.parquet", CHECKED)
    once_checked(monkeypatch, lambda: meanwhile(path))
    status, events = item.attempt(parquet(item, path, at=DAY[1], run_id="two"))
    error = finished(events, item.raw_state.key)["error"]
    assert (status, error["code"], error["file"]) == ("failed", "CHANGED_FILE", str(path))
    assert message in error["message"]
    assert finished(events, item.state.key)["status"] == "skipped"
    assert versions(item) == before


def test_parquet_with_damage_unseen_by_the_checks_is_refused_and_nothing_is_written(item, tmp_path):
    item.given((CHECKED, DAY[0]))
    before = versions(item)
    path = put(tmp_path / "f.parquet", CHECKED)
    column = pq.read_metadata(path).row_group(0).column(1)
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    status, events = item.attempt(parquet(item, path, at=DAY[1], run_id="two"))
    error = finished(events, item.raw_state.key)["error"]
    assert (status, error["code"], error["file"]) == ("failed", "UNREADABLE_FILE", str(path))
    assert versions(item) == before


@pytest.mark.core
def test_text_file_replaced_after_its_checks_is_loaded_as_checked(item, monkeypatch):
    item.given()
    path = item.deliver(CHECKED)
    once_checked(monkeypatch, lambda: path.write_text('{"id": 9, "v": "never checked"}\n'))
    item.sequence += 1
    status, _ = item.attempt(item.manifest(path, at=DAY[0], run_id="one"))
    assert (status, item.current()) == ("succeeded", CHECKED)


@pytest.mark.core
def test_text_that_is_replaced_before_its_rows_are_cached_is_refused(item, monkeypatch):
    """Check that the header of the first file does not name the fields of the second."""
    item.given()
    before, check = versions(item), deliveries.missing_columns
    path = item.deliver(CHECKED)

    def replaced(*arguments):
        path.write_text('{"id": 1, "v": "another"}\n')
        return check(*arguments)

    monkeypatch.setattr(deliveries, "missing_columns", replaced)
    item.sequence += 1
    _, events = item.attempt(item.manifest(path, at=DAY[0], run_id="one"))
    assert finished(events, item.raw_state.key)["error"]["code"] == "CHANGED_FILE"
    assert versions(item) == before


def test_sources_over_the_same_file_cache_separate_rows(spark, tmp_path):
    """Check that releasing one source does not affect the cached rows of the other."""
    path = tmp_path / "shared.csv"
    path.write_text("id,a,b\n1,10,20\n2,11,21\n")

    def source(name: str) -> SourceSpec:
        key = DeliveredColumn("1" * 8, "id", "integer", business_key=True)
        return SourceSpec(f"t.{name}", str(path), "csv", (key, DeliveredColumn("2" * 8, name, "integer")))

    first, second = (read_delivery(dataset_session(spark, user_metadata="{}"), source(name)) for name in "ab")
    first.release()
    path.write_text("id,a,b\n1,10,never checked\n7,11,21\n")
    second.check_unchanged()
    assert sorted(map(tuple, second.frame.collect())) == [("1", "20"), ("2", "21")]
    assert held_in_memory(spark)
    second.release()
    assert held_in_memory(spark) == []


@pytest.mark.parametrize("one_task", [by_night(0, id="many rows"), pytest.param(50_000, id="few rows")])
@pytest.mark.parametrize(
    ("rows", "counted"),
    [
        (CHECKED, {"rows": 2, "duplicates": 0}),
        ([*CHECKED, CHECKED[0], CHECKED[0]], {"rows": 4, "duplicates": 2}),
    ],
    ids=["each once", "some again"],
)
def test_identical_rows_count_once(item, tmp_path, monkeypatch, one_task, rows, counted):
    item.given()
    monkeypatch.setattr(keys, "ONE_TASK_UP_TO_ROWS", one_task)
    status, events = item.attempt(parquet(item, put(tmp_path / "c.parquet", rows), at=DAY[0], run_id="one"))
    assert (status, finished(events, item.raw_state.key)["counts"], item.current()) == ("succeeded", counted, CHECKED)


@pytest.mark.parametrize("one_task", [pytest.param(0, id="many rows"), by_night(50_000, id="few rows")])
def test_rows_of_one_key_that_differ_are_refused(item, tmp_path, monkeypatch, one_task):
    item.given()
    monkeypatch.setattr(keys, "ONE_TASK_UP_TO_ROWS", one_task)
    manifest = parquet(item, put(tmp_path / "d.parquet", UNCHECKED), at=DAY[0], run_id="one")
    error = finished(item.attempt(manifest)[1], item.raw_state.key)["error"]
    assert (error["code"], error["count"], error["samples"]) == ("CONFLICTING_ROWS", 1, ["id=1 (2 rows)"])


def test_different_keys_with_equal_hashes_are_distinguished(item, tmp_path, monkeypatch):
    item.given()
    monkeypatch.setattr(keys, "_has_distinct_keys", lambda *_: False)
    status, events = item.attempt(parquet(item, put(tmp_path / "e.parquet", CHECKED), at=DAY[0], run_id="one"))
    assert status == "succeeded"
    assert finished(events, item.raw_state.key)["counts"] == {"rows": 2, "duplicates": 0}
