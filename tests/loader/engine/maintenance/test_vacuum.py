"""Vacuum on real tables: removal of former files, retention of required ones, measurement of disk use."""

import os
import time
from pathlib import Path

import pytest

from loader.contract.manifest.maintenance import VacuumManifest
from loader.contract.run_states import VACUUM
from loader.engine.maintenance.vacuum import disk_use
from tests.loader.histories import Kept

pytestmark = pytest.mark.spark

DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 29)]
COLUMNS = {"id": "integer", "v": "string"}
POLICY = {"input": "snapshot", "time": "load", "deletes": "close"}
LONG_AGO = time.time() - 90 * 24 * 3600


@pytest.fixture
def item(spark, tmp_path):
    """Return a dataset written by two loads, whose tables have no minimum retention of former files."""
    item = Kept(spark, tmp_path, columns=COLUMNS, policy=POLICY)
    item.given(*(([{"id": n, "v": value} for n in range(5)], DAY[day]) for day, value in ((0, "a"), (1, "b"))))
    for table in tables(item):
        properties = "'delta.deletedFileRetentionDuration' = 'interval 0 hours'"
        table.spark.sql(f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ({properties})")
    return item


def tables(item):
    return [table for spec in item.tables() if (table := item.table(spec)).exists()]


def vacuum(item, *, hours=0, dry_run=False):
    manifest = VacuumManifest("v", item.state.key, item.state.qualified_name, item.tables(), hours, dry_run)
    return item.perform_run(VACUUM, manifest)


def data_files(item):
    return {
        path: path.stat().st_size
        for table in tables(item)
        for path in Path(table.location).rglob("*")
        if path.is_file() and "_delta_log" not in path.parts and not path.name.startswith(".")
    }


@pytest.mark.nightly
def test_vacuum_dry_run_lists_removable_files_and_removes_nothing(item):
    before = data_files(item)
    status, event = vacuum(item, dry_run=True)
    assert status == "succeeded"
    assert data_files(item) == before
    listed = [file["file"] for table in item.answer["tables"].values() for file in table["files"]]
    assert event["counts"]["files_removable"] == len(listed) > 0
    assert set(listed) < {path.name for path in before}


def test_vacuum_removes_the_files_of_its_dry_run_and_no_row(item):
    before, versions = data_files(item), item.versions()
    _, planned = vacuum(item, dry_run=True)
    commits = [table.newest_run_commit() for table in tables(item)]
    status, event = vacuum(item)
    gone = set(before) - set(data_files(item))
    assert status == "succeeded"
    assert event["counts"]["files_removed"] == planned["counts"]["files_removable"] == len(gone)
    assert event["counts"]["bytes_removed"] == sum(before[path] for path in gone)
    assert event["version_before"] == event["version_after"]
    assert [table.newest_run_commit() for table in tables(item)] == commits
    assert item.versions() == versions
    assert item.load([{"id": n, "v": "c"} for n in range(5)], at=DAY[2])[0] == "succeeded"


@pytest.mark.nightly
def test_a_vacuum_removes_key_lists_that_no_commit_names(item):
    raw = next(table for table in tables(item) if table.key == item.tables()[0].key)
    unused_list = Path(raw.location, "_key_lists", "left")
    unused_list.mkdir(parents=True)
    vacuum(item)
    assert not unused_list.exists()


@pytest.mark.nightly
def test_vacuum_reports_the_disk_use_of_the_table_folders(item):
    _, event = vacuum(item, dry_run=True)
    counts, files = event["counts"], data_files(item)
    assert counts["current_files"] + counts["former_files"] == len(files)
    assert counts["current_bytes"] + counts["former_bytes"] == pytest.approx(sum(files.values()), rel=0.01)
    assert counts["former_files"] > 0
    assert counts["log_bytes"] > 0
    _, after = vacuum(item)
    assert after["counts"]["former_files"] == 0
    assert after["counts"]["current_files"] == counts["current_files"]


def test_vacuum_refuses_hours_below_the_retention_of_a_table(item):
    table = tables(item)[-1]
    table.spark.sql(
        f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 30 days')"
    )
    before = data_files(item)
    status, event = vacuum(item, hours=719)
    assert status == "failed"
    assert event["error"]["code"] == "RETENTION_TOO_SHORT"
    assert "720 hours (delta.deletedFileRetentionDuration)" in event["error"]["message"]
    assert data_files(item) == before


def log_of(table):
    return sorted(path for path in Path(table.location, "_delta_log").iterdir() if path.name[0].isdigit())


@pytest.mark.nightly
def test_vacuum_deletes_the_expired_log_and_keeps_later_versions_readable(item):
    table = tables(item)[-1]
    table._log.checkpoint()
    checkpoint = table.version()
    assert item.load([{"id": 1, "v": "d"}], at=DAY[2])[0] == "succeeded"
    for path in log_of(table):
        os.utime(path, (LONG_AGO, LONG_AGO))
    fresh = Path(table.location, "_delta_log", f"{table.version():020d}.json")
    os.utime(fresh)
    before = disk_use(table)
    assert vacuum(item)[0] == "succeeded"
    versions = {int(path.name.split(".")[0]) for path in log_of(table)}
    assert min(versions) == checkpoint
    assert disk_use(table).log_bytes < before.log_bytes
    names = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
    longer = ", ".join(f"'{name}' = 'interval 365 days'" for name in names)
    table.spark.sql(f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ({longer})")
    assert table.frame_as_of(checkpoint).schema == table.frame().schema
    assert item.load([{"id": 1, "v": "e"}], at=DAY[3])[0] == "succeeded"


@pytest.mark.nightly
def test_vacuum_keeps_the_newest_run_commit_of_an_expired_log(item):
    table = tables(item)[-1]
    table.spark.sql(f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ('a.b' = 'c')")
    table._log.checkpoint()
    run = table.newest_run_commit()
    for path in log_of(table):
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert vacuum(item)[0] == "succeeded"
    assert table.newest_run_commit() == run
