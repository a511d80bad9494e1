"""Small loads without Spark: versions equal to the reference, and refusal of deliveries that are not plain."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.domain.historization.history import parse_instant
from loader.domain.reference import ReferenceEngine
from loader.engine.arrow.parquet_files import statistics
from loader.engine.arrow.small_load import load_small
from tests.loader.engine.arrow.warehouse import LOADED_AT, Warehouse

COLUMNS = {"id": "integer", "v": "string"}
AT = "2024-01-01T00:00:00+00:00"
deliveries = st.lists(
    st.dictionaries(st.integers(1, 6), st.sampled_from(["x", "y~|", None]), min_size=1), min_size=1, max_size=5
)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path, COLUMNS)


@settings(max_examples=60)
@given(deliveries, st.booleans(), st.sampled_from(["csv", "parquet"]))
def test_small_load_writes_the_versions_of_the_reference_engine(
    tmp_path_factory, snapshots, closes_absent: bool, format_name: str
):
    warehouse = Warehouse(tmp_path_factory.mktemp("w"), COLUMNS, closes_absent)
    policy = {"input": "snapshot", "deletes": "close"} if closes_absent else {"input": "delta"}
    reference = ReferenceEngine({"keys": ["id"], "columns": COLUMNS, "policy": policy | {"time": "load"}})
    for day, snapshot in enumerate(snapshots, start=1):
        rows = [{"id": key, "v": value} for key, value in snapshot.items()]
        at = f"2024-01-{day:02}T00:00:00+00:00"
        counts = warehouse.load(rows, at=at, run_id=f"run-{day}", format_name=format_name)["counts"]
        expected = reference.apply({"at": at, "run_id": f"run-{day}", "rows": rows})["counts"]
        for count in ("rows", "changed", "deleted", "reappeared", "unchanged"):
            assert counts[count] == expected[count], count
    expected_versions = [
        (
            row["id"],
            row["v"],
            row["state"],
            row["opened_by"],
            row["closed_by"],
            instant(row["valid_from"]),
            instant(row["valid_to"]),
        )
        for row in reference.rows()
    ]
    versions = warehouse.rows("history")
    assert sorted(map(version, versions), key=str) == sorted(expected_versions, key=str)
    live = [row for row in versions if row["ended_at"] is None]
    names = (*COLUMNS, "entity_key", "row_hash", "run_id", "loaded_at")
    assert picked(warehouse.rows("rawcore"), names) == picked(live, names)
    assert picked(warehouse.rows("raw"), COLUMNS) == picked(rows, COLUMNS)


KEYS = [f"0000000{n}-abcd-0000-0000-000000000000" for n in range(3)]
TEXTS = {
    "uuid": st.sampled_from([text for key in KEYS for text in (key, key.upper())]),
    "time": st.sampled_from(["08:30", "08:30:00", "08:30:00.0", "08:30:01"]),
    "json": st.sampled_from(['{"a":1,"b":[]}', '{ "b": [], "a": 1.0 }', "[1,2]", "[1, 2]", "[2,1]", None]),
}


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(
            st.fixed_dictionaries({"id": TEXTS["uuid"], "at": TEXTS["time"], "v": TEXTS["json"]}),
            min_size=1,
            unique_by=lambda row: row["id"].lower(),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_small_load_compares_uuids_times_and_json_as_the_reference_engine_does(tmp_path_factory, snapshots):
    columns = {"id": "uuid", "at": "time", "v": "json"}
    warehouse = Warehouse(tmp_path_factory.mktemp("w"), columns)
    policy = {"input": "snapshot", "deletes": "close", "time": "load"}
    reference = ReferenceEngine({"keys": ["id"], "columns": columns, "policy": policy})
    for day, rows in enumerate(snapshots, start=1):
        at = f"2024-01-{day:02}T00:00:00+00:00"
        counts = warehouse.load(rows, at=at, run_id=f"run-{day}", format_name="parquet")["counts"]
        expected = reference.apply({"at": at, "run_id": f"run-{day}", "rows": rows})["counts"]
        assert {name: counts[name] for name in ("changed", "deleted", "unchanged")} == {
            name: expected[name] for name in ("changed", "deleted", "unchanged")
        }
    names = ("at", "v", "state", "opened_by", "closed_by")
    expected_versions = [(row["id"].lower(), *(row[name] for name in names)) for row in reference.rows()]
    versions = [
        (row["id"].lower(), row["at"], row["v"], row["state"], row["run_id"], row["closed_by"])
        for row in warehouse.rows("history")
    ]
    assert sorted(versions, key=str) == sorted(expected_versions, key=str)


def version(row: dict[str, Any]) -> tuple:
    names = ("id", "v", "state", "run_id", "closed_by", "started_at", "ended_at")
    return tuple(row[name] for name in names)


def instant(value: object) -> datetime | None:
    return None if value is None else parse_instant(str(value))


def picked(rows: list[dict[str, Any]], names: Any) -> list[tuple]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=str)


def test_rows_without_a_history_are_upserted(tmp_path: Path):
    warehouse = Warehouse(tmp_path, COLUMNS, closes_absent=False, historize=False)
    warehouse.load([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], at=AT, run_id="one")
    result = warehouse.load([{"id": 2, "v": "c"}, {"id": 3, "v": "d"}], at=AT, run_id="two")
    assert result["counts"] | {"rows": 2, "new": 1, "changed": 1, "unchanged": 0, "stored": 2} == result["counts"]
    names = ("id", "v", "run_id")
    assert picked(warehouse.rows("rawcore"), names) == [(1, "a", "one"), (2, "c", "two"), (3, "d", "two")]


def test_a_load_without_changes_writes_raw_only(warehouse: Warehouse):
    warehouse.load([{"id": 1, "v": "a"}], at=AT, run_id="one")
    result = warehouse.load([{"id": 1, "v": "a"}], at=AT, run_id="two")
    assert (result["replaces"], result["history"], result["rawcore"], len(result["raw"])) == (False, [], [], 1)


def test_a_column_that_older_files_lack_is_null(warehouse: Warehouse):
    warehouse.load([{"id": 1, "v": "a"}, {"id": 2, "v": "a"}], at=AT, run_id="one")
    warehouse.columns = COLUMNS | {"extra": "decimal(5,1)"}
    rows = [{"id": 1, "v": "a", "extra": None}, {"id": 2, "v": "a", "extra": "1.5"}]
    warehouse.load(rows, at="2024-01-02T00:00:00+00:00", run_id="two")
    assert picked(warehouse.rows("rawcore"), ("id", "extra")) == [(1, None), (2, Decimal("1.5"))]


def text(rows: str, columns: dict[str, str] = COLUMNS) -> Callable[[Path], dict[str, Any]]:
    """Return a function that loads a CSV delivery with this text."""

    def load(folder: Path) -> dict[str, Any]:
        path = folder / "delivery.csv"
        path.write_bytes(rows.encode())
        return load_small(Warehouse(folder, columns).small_load(path, at=AT, run_id="one"))

    return load


def table(**columns: pa.Array) -> Callable[[Path], dict[str, Any]]:
    """Return a function that loads a Parquet delivery with these columns."""

    def load(folder: Path) -> dict[str, Any]:
        path = folder / "delivery.parquet"
        pq.write_table(pa.table(columns), path)
        return load_small(Warehouse(folder, COLUMNS).small_load(path, at=AT, run_id="one"))

    return load


@pytest.mark.parametrize(
    "load",
    [
        text('id,v\n1,"a\n'),
        text('id,v\n1,"a"b\n'),
        text('id,v\n1,a"b\n'),
        text("id,v\n1,a,c\n"),
        text("id,v\n1\n"),
        text("id,v\n\n1,a\n"),
        text("\nid,v\n1,a\n"),
        text("id,v\r1,a\r"),
        text("\ufeffid,v\n1,a\n"),
        text("id,v\n1,\ufffd\n"),
        text("id,v\n1,a\0\n"),
        text("id,v,w\n1,a,b\n"),
        text("id,v\na,b\n id,v\n", {"id": "string", "v": "string"}),
        text("id\n1\n"),
        text("id,V\n1,a\n"),
        text(" id,v\n1,a\n"),
        text("id,v\n1,a\n1,a\n"),
        text("id,v\n1,a\n1.0,b\n"),
        text("id,v\n,a\n"),
        text("id,v\none,a\n"),
        text("id,v\n1,1850-01-01\n", {"id": "integer", "v": "date"}),
        text("id,v\n1,abc\n", {"id": "integer", "v": "string(2)"}),
        text("id,v\n" + "1,a\n" * 1001),
        text(""),
        table(id=pa.array([1], pa.int64()), v=pa.array(["a"])),
        table(id=pa.array([1], pa.int32()), v=pa.array([b"a\xff"]).view(pa.string())),
        table(id=pa.array([1], pa.int32())),
        table(id=pa.array([1, 1], pa.int32()), v=pa.array(["a", "b"])),
        table(id=pa.array([None], pa.int32()), v=pa.array(["a"])),
    ],
)
def test_small_load_refuses_a_delivery_that_is_not_plain_and_writes_no_file(tmp_path: Path, load):
    assert set(load(tmp_path)) == {"not_plain"}
    assert not list(tmp_path.rglob("part-*"))


@pytest.mark.parametrize("rows", ["id,v\nsesame,a\n", "id,v\n1,sesame\n"])
def test_not_plain_reason_contains_no_value_of_the_delivery(tmp_path: Path, rows: str):
    columns = {"id": "integer", "v": "string(3)"}
    assert "sesame" not in text(rows, columns)(tmp_path)["not_plain"]


@pytest.mark.parametrize(
    "rows",
    ['id,v\n1,"a\n"\n', 'id,v\r\n1,"a,""b"""\r\n', "v,id\na,1", "id,v\n1, a \n", "id,v\n", 'id,v\n"1",""\n'],
)
def test_plain_csv_is_read(tmp_path: Path, rows: str):
    assert "counts" in text(rows)(tmp_path)


def test_small_load_stores_each_csv_value_in_its_column_type(tmp_path: Path):
    columns = {
        "id": "integer",
        "price": "decimal(10,2)",
        "day": "date",
        "at": "timestamp",
        "rate": "float",
        "live": "boolean",
        "code": "binary",
        "clock": "time",
    }
    warehouse = Warehouse(tmp_path, columns)
    path = tmp_path / "delivery.csv"
    names = ",".join(columns)
    path.write_text(f"{names}\n 1 ,1.5,2024-02-29,2024-01-01T01:00:00+01:00,NaN,yes,00ff,12:30\n")
    warehouse.commit(load_small(warehouse.small_load(path, at=AT, run_id="one")))
    (row,) = warehouse.rows("rawcore")
    assert row["rate"] != row["rate"]
    assert {name: row[name] for name in columns if name != "rate"} == {
        "id": 1,
        "price": Decimal("1.50"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 1, 1, tzinfo=UTC),
        "live": True,
        "code": b"\x00\xff",
        "clock": "12:30",
    }


def test_small_load_refuses_a_file_that_changes_while_it_is_read(warehouse: Warehouse):
    path = warehouse.deliver([{"id": 1, "v": "a"}])
    load = warehouse.small_load(path, at=AT, run_id="one")
    path.write_text("id,v\n1,a\n2,b\n")
    assert "was written" in load_small(load)["not_plain"]


def test_written_files_are_accessible_to_their_owner_only(warehouse: Warehouse):
    warehouse.load([{"id": 1, "v": "a"}], at=AT, run_id="one")
    files = list(warehouse.folder.rglob("part-*"))
    assert len(files) == 3
    assert {file.stat().st_mode & 0o077 for file in files} == {0}


def test_an_add_action_has_partition_values_and_statistics_under_stored_names(warehouse: Warehouse):
    result = warehouse.load([{"id": 1, "v": "a"}, {"id": 3, "v": None}], at=AT, run_id="one")
    add = json.loads(result["history"][0])["add"]
    assert add["partitionValues"] == {"col-segment": "open"}
    assert add["path"].startswith("col-segment=open/part-")
    stats = json.loads(add["stats"])
    assert (stats["numRecords"], stats["minValues"]["col-id"], stats["maxValues"]["col-id"]) == (2, 1, 3)
    assert (stats["nullCount"]["col-v"], stats["nullCount"]["col-ended_at"]) == (1, 2)
    assert "col-segment" not in stats["nullCount"]


def test_statistics_round_timestamps_outwards_to_whole_milliseconds():
    at = pa.array([datetime(2024, 12, 31, 23, 59, 59, 999_001, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    stats = statistics(pa.table({"at": at}))
    assert stats["minValues"] == {"at": "2024-12-31T23:59:59.999Z"}
    assert stats["maxValues"] == {"at": "2025-01-01T00:00:00.000Z"}


def test_statistics_omit_bounds_of_long_texts_floats_and_null_columns():
    stats = statistics(
        pa.table({"text": pa.array(["a" * 33]), "rate": pa.array([1.0]), "none": pa.nulls(1, pa.int32())})
    )
    assert (stats["minValues"], stats["maxValues"]) == ({}, {})


def test_every_table_stores_the_run_id_and_the_load_time(warehouse: Warehouse):
    warehouse.load([{"id": 1, "v": "a"}], at=AT, run_id="one")
    for name in ("raw", "history", "rawcore"):
        assert [(row["run_id"], row["loaded_at"]) for row in warehouse.rows(name)] == [("one", LOADED_AT)]
