"""History batches computed from the current rows: ended, marked, set and copied values."""

from dataclasses import replace

import pytest

from loader.contract.manifest.loads import ComputedRows
from tests.loader.histories import Kept

pytestmark = [pytest.mark.spark]

POLICY = {"input": "batch_files", "time": "_fivetran_start"}
T1, T2, T3 = "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"
COLUMNS = {"id": "integer", "v": "string", "w": "string", "b": "binary", "x": "float", "synced": "timestamp"}


@pytest.fixture
def item(spark, tmp_path):
    """Return a dataset whose row 1 was synced and opened at T1, row 2 at T2, and whose row 3 was deleted."""
    item = Kept(spark, tmp_path, columns=COLUMNS, policy=POLICY)
    item.prepare()
    rows = item.folder / "rows.csv"
    rows.write_text(
        f"id,v,w,b,x,synced,_fivetran_start\n1,a,,0aff,1.5e10,{T1},{T1}\n2,b,x,,NaN,{T2},{T2}\n3,c,y,,,{T1},{T1}\n"
    )
    gone = item.folder / "gone.csv"
    gone.write_text(f"id,_fivetran_end\n3,{T2}\n")
    assert item.batch(at=T1, upsert=[rows], delete=[gone])[0] == "succeeded"
    return item


def versions(item):
    frame = item.table(item.history_spec).frame()
    rows = frame.selectExpr(
        "id", "v", "w", "hex(b) b", "x", "CAST(_fivetran_start AS STRING) s", "CAST(_fivetran_end AS STRING) e"
    ).collect()
    return sorted((r["id"], r["s"], r["e"], r["v"], r["w"], r["b"], str(r["x"])) for r in rows)


def change(item, **rows) -> dict:
    status, event = item.batch(at=T3, rows=ComputedRows(**rows))
    assert (status, event.get("error")) == ("succeeded", None)
    return event["counts"]


OPEN = "9999-12-31 23:59:59.999"
FIRST = (1, "2024-01-01 00:00:00", OPEN, "a", None, "0AFF", "15000000000.0")
SECOND = (2, "2024-02-01 00:00:00", OPEN, "b", "x", None, "nan")
THIRD = (3, "2024-01-01 00:00:00", "2024-02-01 00:00:00", "c", "y", None, "None")


def test_computed_batch_ends_rows_synced_before_a_time(item):
    assert change(item, at=T2, before={"synced": T2}, deletes=True)["closed"] == 1
    assert versions(item) == [(*FIRST[:2], "2024-02-01 00:00:00", *FIRST[3:]), SECOND, THIRD]
    assert item.rawcore_keys() == [2]


@pytest.mark.nightly
def test_computed_version_copies_the_values_that_are_not_set(item):
    assert change(item, at=T2, before={"synced": T2}, values={"v": "new"})["opened"] == 1
    assert versions(item) == [
        (*FIRST[:2], "2024-01-31 23:59:59.999", *FIRST[3:]),
        (1, "2024-02-01 00:00:00", OPEN, "new", *FIRST[4:]),
        SECOND,
        THIRD,
    ]


@pytest.mark.nightly
def test_computed_version_replaces_a_version_that_started_later(item):
    assert change(item, at="2024-01-15T00:00:00Z", copies={"w": "v"})["opened"] == 1
    assert versions(item)[1:] == [
        (1, "2024-01-15 00:00:00", OPEN, "a", "a", *FIRST[5:]),
        (*SECOND[:3], "b", "b", *SECOND[5:]),
        THIRD,
    ]


@pytest.mark.nightly
def test_having_option_changes_only_rows_with_a_value_in_the_column(item):
    assert change(item, at=T3, values={"w": None}, having="w")["opened"] == 1
    assert versions(item) == [
        FIRST,
        (*SECOND[:2], "2024-02-29 23:59:59.999", *SECOND[3:]),
        (2, "2024-03-01 00:00:00", OPEN, "b", None, None, "nan"),
        THIRD,
    ]


@pytest.mark.nightly
def test_equal_option_ends_rows_with_the_given_value(item):
    assert change(item, at=T3, equal={"w": "x"}, deletes=True)["closed"] == 1
    assert versions(item) == [FIRST, (*SECOND[:2], "2024-03-01 00:00:00", *SECOND[3:]), THIRD]


@pytest.mark.nightly
def test_ended_option_reopens_ended_rows(item):
    assert change(item, at=T3, ended=True, values={"v": "back"})["opened"] == 1
    assert versions(item) == [FIRST, SECOND, THIRD, (3, "2024-03-01 00:00:00", OPEN, "back", *THIRD[4:])]
    assert item.rawcore_keys() == [1, 2, 3]


@pytest.mark.nightly
def test_computed_batch_of_every_version_keeps_times_and_retired_columns(item):
    without_w = replace(item, columns={name: type_ for name, type_ in COLUMNS.items() if name != "w"})
    assert change(without_w, at=T3, every=True, values={"v": "new"})["rows"] == 3
    assert versions(item) == [(*row[:3], "new", *row[4:]) for row in (FIRST, SECOND, THIRD)]
    assert item.rawcore_keys() == [1, 2]


def test_copy_to_another_table_takes_all_versions_and_ends_the_selected_rows(item):
    columns = {name: type_ for name, type_ in COLUMNS.items() if name != "synced"}
    other = replace(item, name="other", columns=columns, sequence=0, events=[])
    copies = {name: name for name in columns} | {"w": "v"}
    ends = {"equal": {"v": "b"}, "deletes": True}
    assert change(other, at=T3, every=True, history=item.history_spec, copies=copies, **ends)["rows"] == 4
    ended = (*SECOND[:2], "2024-03-01 00:00:00", *SECOND[3:])
    assert versions(other) == [(*row[:4], row[3], *row[5:]) for row in (FIRST, ended, THIRD)]
    assert other.rawcore_keys() == [1]


def test_an_empty_history_has_no_rows_to_change(spark, tmp_path):
    item = Kept(spark, tmp_path, columns=COLUMNS, policy=POLICY)
    assert change(item, at=T2, deletes=True)["rows"] == 0
