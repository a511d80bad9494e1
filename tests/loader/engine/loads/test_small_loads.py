"""Loads of small tables by one Spark job: the same tables as the general load, and the choice between both."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from loader.engine.loads import raw_loads, rawcore_loads, small_loads
from tests.fixtures.spark import by_night
from tests.loader.harness import Dataset, finished

pytestmark = pytest.mark.spark

SMALL = 50_000

COLUMNS = {
    "id": "integer",
    "part": "string(3)",
    "price": "decimal(10,2)",
    "weight": "float",
    "sold": "date",
    "seen": "timestamp",
    "live": "boolean",
    "many": "bigint",
    "code": "uuid",
}
UUID = "11111111-2222-3333-4444-555555555555"


def row(id_: int, **values: Any) -> dict[str, Any]:
    full = {
        "id": id_,
        "part": "a,b",
        "price": Decimal("1.50"),
        "weight": 0.1,
        "sold": date(2024, 1, 31),
        "seen": datetime(2024, 3, 31, 2, 30, 0, 123456, UTC),
        "live": True,
        "many": 2**40,
        "code": UUID,
    }
    return full | values


# Each delivery changes, closes, reopens and keeps rows; the last changes nothing.
DELIVERIES = [
    [row(1), row(2, part='"x"'), row(3, price=None, sold=None, seen=None)],
    [row(1, weight=float("inf")), row(3, price=None, sold=None, seen=None), row(4, part=None)],
    [row(1, weight=float("inf")), row(2, part="é~|"), row(4, part=None, live=False)],
    [row(1, weight=float("inf")), row(2, part="é~|"), row(4, part=None, live=False)],
]
KEYS = ("id", "part")


@pytest.fixture
def refuse_general_load(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def begin() -> None:
        def read(*_: Any, **__: Any) -> None:
            raise AssertionError("the general way was taken")

        monkeypatch.setattr(raw_loads, "read_delivery", read)
        monkeypatch.setattr(rawcore_loads, "typed_stage", read)

    return begin


def content(dataset: Dataset) -> dict[str, Any]:
    """Return all rows of the tables without clock times, and the metadata of their newest commits."""
    tables = {spec.kind: (spec, dataset.table(spec)) for spec in dataset.tables()}
    contents: dict[str, Any] = {}
    for kind, (spec, table) in tables.items():
        clock = {column.name for column in spec.columns if column.purpose in ("loaded_at", "closed_at")}
        rows = table.frame().drop(*clock).collect()
        contents[kind] = sorted((repr(row) for row in rows), key=str)
        last_run = table.newest_run_commit()
        contents[f"{kind} commit"] = (
            (last_run.counts, last_run.notes, last_run.version, last_run.foreign) if last_run else None
        )
        contents[f"{kind} numbers"] = table.committed_sequence(spec.key)
    return contents


def loads(dataset: Dataset, deliveries: list[list[dict[str, Any]]], **options: Any) -> list[dict[str, int]]:
    counts = []
    for day, rows in enumerate(deliveries, start=1):
        status, event = dataset.load(rows, at=f"2024-01-{day:02}T00:00:00Z", **options)
        assert status == "succeeded", event
        assert event["warnings"] == []
        counts.append(event["counts"])
    return counts


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "described"),
    [
        ("csv", {"format": "csv"}),
        by_night("parquet", {"format": "parquet", "policy": {"input": "delta", "open_end": "9999-12-31T00:00:00Z"}}),
        by_night("upserts", {"format": "csv", "historize": False}),
        by_night("dbt", {"format": "parquet", "policy": {"profile": "dbt", "track": ["price"], "untracked": "keep"}}),
    ],
)
def test_small_load_writes_the_tables_of_the_general_load(
    spark, tmp_path: Path, name: str, described: dict[str, Any], refuse_general_load: Callable[[], None]
):
    described = {"columns": COLUMNS, "keys": KEYS[:1]} | described
    general = Dataset(spark, tmp_path / "general", name, **described)
    small = Dataset(spark, tmp_path / "small", name, **described)
    general.folder.mkdir()
    small.folder.mkdir()
    expected = loads(general, DELIVERIES)
    refuse_general_load()
    assert loads(small, DELIVERIES, small_rows=SMALL) == expected
    assert content(small) == content(general)


def make_datasets(spark, tmp_path: Path, *names: str) -> list[Dataset]:
    """Return datasets of one warehouse with empty tables."""
    items = [Dataset(spark, tmp_path, name, format="csv") for name in names]
    for dataset in items:
        dataset.evolve()
    return items


def test_the_datasets_of_a_run_share_one_job(spark, tmp_path: Path):
    first, *_ = datasets_of = make_datasets(spark, tmp_path, "a", "b", "c")
    manifests = []
    for dataset in datasets_of:
        dataset.sequence = 1
        path = dataset.deliver([{"id": 1, "v": dataset.name}])
        manifests.append(dataset.manifest(path, at="2024-01-01T00:00:00Z", run_id="all", small_rows=SMALL))
    raw = tuple(manifest.raw[0] for manifest in manifests)
    rawcore = tuple(manifest.rawcore[0] for manifest in manifests)
    status, _ = first.attempt(replace(manifests[0], raw=raw, rawcore=rawcore))
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("all")
    assert (status, len(jobs)) == ("succeeded", 1)
    assert [dataset.current() for dataset in datasets_of] == [[{"id": 1, "v": name}] for name in "abc"]


WIDE = f"id,v,{','.join(f'x{number}' for number in range(9_998))}\n1,a{',1' * 9_998}\n".encode()


@pytest.mark.parametrize("small_rows", [SMALL, by_night(0)])
@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"id,v\n1\n", "RAGGED_ROW"),
        by_night(b"id,v\n1,\xff\n", "WRONG_ENCODING"),
        by_night(WIDE, "TOO_MANY_COLUMNS"),
    ],
)
def test_refused_delivery_does_not_stop_the_other_datasets_of_a_run(
    spark, tmp_path: Path, content: bytes, code: str, small_rows: int
):
    first, bad, last = datasets_of = make_datasets(spark, tmp_path, "a", "b", "c")
    manifests = []
    for dataset in datasets_of:
        dataset.sequence = 1
        path = dataset.deliver([{"id": 1, "v": dataset.name}])
        if dataset is bad:
            path.write_bytes(content)
        manifests.append(dataset.manifest(path, at="2024-01-01T00:00:00Z", run_id="all", small_rows=small_rows))
    raw = tuple(manifest.raw[0] for manifest in manifests)
    rawcore = tuple(manifest.rawcore[0] for manifest in manifests)
    status, events = first.attempt(replace(manifests[0], raw=raw, rawcore=rawcore))
    assert (status, finished(events, raw[1].dataset)["error"]["code"]) == ("failed", code)
    assert [dataset.current() for dataset in (first, last)] == [[{"id": 1, "v": name}] for name in "ac"]


def test_warehouse_on_an_object_store_uses_the_general_load(tmp_path: Path):
    item = Dataset(None, tmp_path, format="csv")
    manifest = item.manifest(item.deliver([]), at="2024-01-01T00:00:00Z", run_id="one", small_rows=SMALL)
    datasets_of = {manifest.raw[0].dataset, manifest.rawcore[0].dataset}
    assert small_loads.prepare_small_loads(None, "s3a://bucket/tables", manifest, None, datasets_of, 1) == {}


@pytest.mark.nightly
def test_small_load_compares_again_if_its_table_changes_after_the_job(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (item,) = make_datasets(spark, tmp_path, "moved")
    item.load([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], at="2024-01-01T00:00:00Z", small_rows=SMALL)
    prepare = small_loads.prepare_small_loads

    def prepared(*arguments: Any) -> Any:
        plan = prepare(*arguments)
        assert plan
        history = item.table(item.history_spec)
        spark.newSession().sql(f"DELETE FROM {history.sql_name} WHERE id = 2")
        return plan

    monkeypatch.setattr("loader.engine.loads.load.prepare_small_loads", prepared)
    item.load([{"id": 1, "v": "x"}, {"id": 2, "v": "b"}], at="2024-01-02T00:00:00Z", small_rows=SMALL)
    ids = [(version["id"], version["v"], version["ended"]) for version in item.history()]
    assert ids == [(1, "a", "2024-01-02T00:00:00Z"), (1, "x", None), (2, "b", None)]
    assert item.current() == [{"id": 1, "v": "x"}, {"id": 2, "v": "b"}]


def test_a_file_that_changes_after_the_job_is_refused(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (item,) = make_datasets(spark, tmp_path, "changed")
    prepare = small_loads.prepare_small_loads

    def prepared(*arguments: Any) -> Any:
        plan = prepare(*arguments)
        with Path(arguments[2].raw[0].source.location).open("a") as file:
            file.write("2,b\n")
        return plan

    monkeypatch.setattr("loader.engine.loads.load.prepare_small_loads", prepared)
    item.load([{"id": 1, "v": "a"}], at="2024-01-01T00:00:00Z", small_rows=SMALL)
    (raw,) = [e for e in item.events if e["event"] == "dataset_finished" and e["dataset"] == item.raw_state.key]
    assert (raw["status"], raw["error"]["code"]) == ("failed", "CHANGED_FILE")
    assert item.history() == []


def test_delivery_that_is_not_plain_uses_the_general_load(spark, tmp_path: Path):
    (item,) = make_datasets(spark, tmp_path, "judged")
    item.load([{"id": "one", "v": "a"}], at="2024-01-01T00:00:00Z", small_rows=SMALL)
    (raw,) = [e for e in item.events if e["event"] == "dataset_finished" and e["dataset"] == item.raw_state.key]
    assert (raw["error"]["code"], raw["error"]["row"]) == ("VALUE_DOES_NOT_FIT", 2)
    status, event = item.load([{"id": 1, "v": "a"}, {"id": 1, "v": "a"}], at="2024-01-02T00:00:00Z", small_rows=SMALL)
    assert (status, event["counts"]["duplicates"], event["counts"]["new"]) == ("succeeded", 0, 1)


def test_small_snapshot_that_lacks_many_keys_requires_allow_deletes(spark, tmp_path: Path):
    (item,) = make_datasets(spark, tmp_path, "lacking")
    item.load([{"id": id_, "v": "a"} for id_ in range(1, 6)], at="2024-01-01T00:00:00Z", small_rows=SMALL)
    rest = [{"id": 1, "v": "a"}]
    limits = {"deletes_share": 0.2, "deletes_keys": 1}
    status, event = item.load(rest, at="2024-01-02T00:00:00Z", small_rows=SMALL, **limits)
    assert (status, event["error"]["code"], event["error"]["count"]) == ("failed", "TOO_MANY_DELETES", 4)
    status, event = item.load(rest, at="2024-01-03T00:00:00Z", small_rows=SMALL, allow_deletes=True, **limits)
    assert (status, event["counts"]["deleted"]) == ("succeeded", 4)


def test_a_run_killed_between_history_and_rawcore_ends_right_when_repeated(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (item,) = make_datasets(spark, tmp_path, "killed")
    item.load([{"id": 1, "v": "a"}], at="2024-01-01T00:00:00Z", small_rows=SMALL)

    def killed(_: Any) -> None:
        raise SystemError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(small_loads.SmallBatch, "write_rawcore", killed)
        assert item.load([{"id": 1, "v": "b"}], at="2024-01-02T00:00:00Z", small_rows=SMALL)[0] == "failed"
    manifest = item.manifest(
        item.deliver([{"id": 1, "v": "b"}]), at="2024-01-02T00:00:00Z", run_id="run-2", small_rows=SMALL
    )
    assert item.again(manifest)[0] == "succeeded"
    assert [(version["v"], version["ended"]) for version in item.history()] == [
        ("a", "2024-01-02T00:00:00Z"),
        ("b", None),
    ]
    assert item.current() == [{"id": 1, "v": "b"}]
