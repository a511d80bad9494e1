"""Fivetran's protocol against the real service and a real worker, through to history and rawcore."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loader.fivetran.protocol import messages
from tests.loader.fivetran.sender import NULL, SAME, Sender, served_sender, table
from tests.loader.installation import Installation, working
from tests.loader.processes import make_folder

# Embedded stores, even if the session uses servers: the test has a data folder of its own.
pytestmark = pytest.mark.spark

T1, T2, T3 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00.123456789Z", "2026-01-03T00:00:00Z"
CUT = "2026-01-02 00:00:00.123456"
OPEN = "9999-12-31T23:59:59.999Z"
ITEM = {
    "id": "LONG",
    "name": "STRING",
    "price": ("DECIMAL", 9, 2),
    "at": "UTC_DATETIME",
    "_fivetran_synced": "UTC_DATETIME",
}
HISTORY = {"_fivetran_start": "UTC_DATETIME", "_fivetran_end": "UTC_DATETIME", "_fivetran_active": "BOOLEAN"}
RUNS = """
import json
from loader.models import DatasetRun
rows = DatasetRun.objects.filter(run__kind="history_batch").order_by("pk")
print(json.dumps([[row.run.kind, row.status, row.run.who, row.warnings] for row in rows]))
"""


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    folder = tmp_path / "data"
    make_folder(folder)
    return Installation(folder)


@pytest.fixture
def sender(installation: Installation) -> Iterator[Sender]:
    with served_sender(installation) as sender:
        yield sender


# By day, the example of Fivetran sends its rows (tests/loader/runs/test_source_examples.py).
@pytest.mark.nightly
def test_fivetran_sender_writes_tables_through_to_history_and_rawcore(installation: Installation, sender: Sender):
    with working(installation):
        assert sender.test("permission").success
        assert sender.test("worker").success
        write_history(installation, sender)
        write_rows(installation, sender)
    assert installation.run("check_history", "--local").returncode == 0
    batches = installation.folder / "landing" / "history-batches"
    assert [path for path in batches.rglob("*") if path.is_file()] == []


def write_history(installation: Installation, sender: Sender) -> None:
    sent = table("item", ["id", "_fivetran_start"], **ITEM, **HISTORY)
    assert sender.create(sent).success
    assert sender.describe("item").table == sent
    header = ",".join([*ITEM, *HISTORY])
    first = sender.file(
        header,
        f'1,"a, ""b""",1.50,{T2},{T1},{T1},{OPEN},true',
        f"2,,{NULL},{NULL},{T1},{T1},{OPEN},true",
    )
    assert sender.write_history("item", replace=[first]).success
    changed = sender.file(header, f"1,{SAME},2,{SAME},{T3},{T2},{OPEN},true")
    earliest = sender.file("id,_fivetran_start", f"1,{T2}")
    deleted = sender.file("id,_fivetran_end", f"2,{T3}")
    answer = sender.write_history("item", earliest_start=[earliest], update=[changed], delete=[deleted])
    assert answer.success, answer
    names = ("id", "name", "price", "at", "_fivetran_start", "_fivetran_end", "_fivetran_active")
    assert installation.rows("rawcore.rc_shop_item_hist", *names) == [
        ("1", 'a, "b"', "1.50", CUT, "2026-01-01 00:00:00", "2026-01-02 00:00:00.122456", "false"),
        ("1", 'a, "b"', "2.00", CUT, CUT, "9999-12-31 23:59:59.999", "true"),
        ("2", "", None, None, "2026-01-01 00:00:00", "2026-01-03 00:00:00", "false"),
    ]
    assert installation.rows("rawcore.rc_shop_item", "id", "name") == [("1", 'a, "b"')]
    assert json.loads(installation.shell(RUNS)) == [
        ["history_batch", "succeeded", "fay", ["1 times of the upsert file were cut to microseconds."]],
        [
            "history_batch",
            "succeeded",
            "fay",
            [
                "1 times of the earliest_start file were cut to microseconds.",
                "1 times of the update file were cut to microseconds.",
            ],
        ],
    ]


def write_rows(installation: Installation, sender: Sender) -> None:
    assert sender.create(table("member", ["id"], **ITEM, _fivetran_deleted="BOOLEAN")).success
    header = "id,name,price,at,_fivetran_synced,_fivetran_deleted"
    rows = (f"{n},m{n},{n},{NULL},{T1},false" for n in (1, 2, 3))
    assert sender.write("member", replace=[sender.file(header, *rows)]).success
    changed = sender.file(header, f"1,{SAME},9,{SAME},{T3},{SAME}", f"7,{SAME},9,{SAME},{T3},{SAME}")
    assert sender.write("member", update=[changed], delete=[sender.file("id", "2", "8")]).success
    assert rawcore_rows(installation) == [("1", "m1", "9.00", "false"), ("3", "m3", "3.00", "false")]
    assert sender.truncate("member", datetime(2026, 1, 2, tzinfo=UTC), "_fivetran_deleted").success
    assert rawcore_rows(installation) == [("1", "m1", "9.00", "false"), ("3", "m3", "3.00", "true")]
    copy_rows(installation, sender)
    assert sender.truncate("member", datetime(2026, 1, 4, tzinfo=UTC)).success
    assert rawcore_rows(installation) == []


def copy_rows(installation: Installation, sender: Sender) -> None:
    copied = messages.CopyTableToHistoryMode(source="member", target="past", soft_deleted_column="_fivetran_deleted")
    answer = sender.migrate("member", copy=messages.Copy(copy_table_to_history_mode=copied))
    assert answer.success, answer
    assert installation.rows("rawcore.rc_shop_past", "id", "name", "price") == [("1", "m1", "9.00")]
    names = ("id", "price", "_fivetran_start")
    copies, originals = (installation.rows(f"rawcore.rc_shop_{name}_hist", *names) for name in ("past", "member"))
    assert copies == originals
    label = messages.Copy(copy_column=messages.FromTo(source="name", target="label"))
    assert sender.migrate("past", copy=label).success
    assert {row[0] == row[1] for row in installation.rows("rawcore.rc_shop_past_hist", "name", "label")} == {True}


def rawcore_rows(installation: Installation) -> list[tuple]:
    return installation.rows("rawcore.rc_shop_member", "id", "name", "price", "_fivetran_deleted")
