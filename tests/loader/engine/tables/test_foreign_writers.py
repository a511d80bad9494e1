"""Loads beside another writer of the same tables: nothing is doubled, lost or unreported."""

import importlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loader.contract.manifest.maintenance import AcceptManifest
from loader.contract.manifest.reads import CheckManifest
from loader.contract.refusals import Refusal
from loader.engine.historization.invariants import check
from loader.engine.maintenance.acceptance import accept
from loader.engine.maintenance.context import MaintenanceContext
from loader.engine.tables.tables import DeltaTable
from tests.fixtures.spark import by_night
from tests.loader.harness import Dataset, finished

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path")]

DAY = ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z"]
ROWS = [{"id": n, "v": f"v{n}"} for n in range(6)]
CHANGED = [{"id": n, "v": f"w{n}"} for n in range(6)]
COMPARED = "loader.engine.historization.history.write_history"


@pytest.fixture
def item(spark, tmp_path):
    return Dataset(spark, tmp_path)


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call a function before a function of the engine begins, at its first or at every call."""

    def arrange(target: str, deed: Callable[[], object], *, always: bool = False) -> None:
        module, _, name = target.rpartition(".")
        real, calls = getattr(importlib.import_module(module), name), []

        def wrapped(*arguments, **named):
            calls.append(target)
            if always or len(calls) == 1:
                deed()
            return real(*arguments, **named)

        monkeypatch.setattr(target, wrapped)

    return arrange


def foreign(table: DeltaTable, statement: str) -> None:
    """Run a statement as another Spark session would, without any run's commit metadata."""
    table.spark.newSession().sql(statement.format(table=table.sql_name))


def open_keys(item: Dataset) -> list[int]:
    return [row["id"] for row in item.history() if row["ended"] is None]


# --- changes during a comparison -----------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("DELETE FROM {table} WHERE id = 3", id="deletes"),
        by_night(
            "INSERT INTO {table} SELECT * FROM {table} WHERE id = 3 AND version_ended_at IS NOT NULL", id="appends"
        ),
    ],
)
def test_foreign_commit_on_the_history_during_a_load_duplicates_no_rows(item, before, statement):
    item.given((ROWS, DAY[0]), ([*ROWS[:3], *CHANGED[3:]], DAY[1]))
    before(COMPARED, lambda: foreign(item.table(item.history_spec), statement))
    status, event = item.load(CHANGED, at=DAY[2])
    assert status == "succeeded", event
    assert open_keys(item) == [row["id"] for row in CHANGED]
    assert item.current() == CHANGED
    assert any("another writer" in warning for warning in event["warnings"])


@pytest.mark.nightly
def test_foreign_deletes_before_and_during_a_comparison_are_respected_in_a_large_table(item, before):
    """Delete by deletion vectors of another writer, over files of more than 200,000 rows."""
    count = 250_000
    item.given(([{"id": n, "v": "a"} for n in range(count)], DAY[0]))
    history = item.table(item.history_spec)
    foreign(history, "DELETE FROM {table} WHERE id % 7 = 3")
    before(COMPARED, lambda: foreign(history, "DELETE FROM {table} WHERE id % 11 = 5"))
    changed = [{"id": n, "v": "b" if n % 2 else "a"} for n in range(count)]
    status, event = item.load(changed, at=DAY[1])
    assert status == "succeeded", event
    is_open = history.frame().where("version_ended_at IS NULL")
    assert is_open.count() == is_open.select("id").distinct().count() == count
    assert is_open.where("v != CASE WHEN id % 2 = 1 THEN 'b' ELSE 'a' END").count() == 0
    changed_keys = [n for n in range(1, count, 2) if n % 7 != 3 and n % 11 != 5]
    assert history.frame().where("version_ended_at IS NOT NULL").count() == len(changed_keys)
    assert item.table(item.rawcore_spec).frame().count() == count


def test_foreign_commit_on_rawcore_during_a_load_duplicates_no_rows(item, before):
    item.given((ROWS, DAY[0]))
    rawcore = item.table(item.rawcore_spec)
    before(
        "loader.engine.historization.rawcore.write_rawcore",
        lambda: foreign(rawcore, "DELETE FROM {table} WHERE id = 2"),
    )
    status, event = item.load(CHANGED, at=DAY[1])
    assert (status, event["counts"]["changed"]) == ("succeeded", 6)
    assert item.current() == CHANGED
    assert open_keys(item) == [row["id"] for row in ROWS]


def test_commit_on_raw_during_its_write_is_overwritten(item, before):
    item.given((ROWS, DAY[0]))
    raw = item.table(item.tables()[0])
    deed = "INSERT INTO {table} BY NAME SELECT '99' AS id, v, load_run_id, loaded_at FROM {table} LIMIT 1"
    before("loader.engine.loads.raw_loads.commit", lambda: foreign(raw, deed))
    status, event = item.load(CHANGED, at=DAY[1])
    assert status == "succeeded", event
    assert item.current() == CHANGED


@pytest.mark.nightly
def test_load_is_refused_if_the_history_changes_at_every_comparison(item, before):
    item.given((ROWS, DAY[0]))
    history = item.table(item.history_spec)
    before(COMPARED, lambda: foreign(history, "UPDATE {table} SET v = concat(v, 'x') WHERE id = 1"), always=True)
    status, event = item.load(CHANGED, at=DAY[1])
    assert (status, event["error"]["code"]) == ("failed", "TABLE_MOVED")
    assert open_keys(item) == [row["id"] for row in ROWS]
    assert "run-2" not in [commit.run_id for commit in history.run_commits()]


def test_overtaken_run_commits_nothing(item, before):
    """Let two runners, one with a broken lease, overlap: the earlier run commits after the later number is stored."""
    item.given((ROWS, DAY[0]))
    item.prepare()
    overtaken = item.manifest(item.deliver(CHANGED), at=DAY[1], run_id="overtaken")
    overtaken = replace(overtaken, rawcore=tuple(replace(load, sequence=2) for load in overtaken.rawcore))
    item.sequence = 2

    def overtake() -> None:
        assert replace(item).load(ROWS[:4], at=DAY[2], run_id="later")[0] == "succeeded"

    before(COMPARED, overtake)
    status, events = item.attempt(overtaken)
    event = finished(events, item.state.key)
    assert (status, event["error"]["code"]) == ("failed", "sequence_behind_table")
    assert open_keys(item) == [0, 1, 2, 3]


@pytest.mark.parametrize("which", ["history_spec", by_night("rawcore_spec")])
def test_next_load_warns_once_of_a_foreign_change_and_duplicates_no_rows(item, monkeypatch, which):
    """Use the method for large tables, which writes changed rows only and continues where a first search ends."""
    monkeypatch.setattr("loader.engine.historization.batches.REWRITE_UP_TO_ROWS", 0)
    monkeypatch.setattr("loader.engine.tables.tables._COMMITS_TO_SEARCH", 1)
    item.given((ROWS, DAY[0]))
    table = item.table(getattr(item, which))
    foreign(table, "DELETE FROM {table} WHERE id = 3")
    foreign(table, "OPTIMIZE {table}")
    _, event = item.load(ROWS, at=DAY[1])
    (warning,) = event["warnings"]
    assert "since its newest run: DELETE (version" in warning
    assert item.current() == ROWS
    assert item.load(CHANGED, at=DAY[2])[1]["warnings"] == []
    assert item.current() == CHANGED


# --- wrong checksums -------------------------------------------------------------------------------


def checksum_of(table: DeltaTable, version: int) -> Path:
    return Path(table.location, "_delta_log", f"{version:020d}.crc")


def outdated(table: DeltaTable) -> None:
    newest = table.version()
    checksum_of(table, newest).write_bytes(checksum_of(table, newest - 1).read_bytes())


def incomplete(table: DeltaTable) -> None:
    path = checksum_of(table, table.version())
    checksum = json.loads(path.read_text())
    del checksum["allFiles"][0]
    path.write_text(json.dumps(checksum))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("which", "damage"),
    [
        ("history_spec", outdated),
        by_night("history_spec", incomplete),
        by_night("rawcore_spec", outdated),
        by_night("rawcore_spec", incomplete),
    ],
)
def test_wrong_checksum_file_leads_to_no_duplicate_rows(item, spark, damage, which):
    item.given((ROWS, DAY[0]), ([*ROWS[:3], *CHANGED[3:]], DAY[1]))
    table = item.table(getattr(item, which))
    damage(table)
    # Simulate a store without checksums, and a process that never read the table.
    for hidden in Path(table.location, "_delta_log").glob(".*.crc.crc"):
        hidden.unlink()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    for at, rows in ((DAY[2], CHANGED), ("2024-01-04T00:00:00Z", ROWS)):
        status, event = item.load(rows, at=at)
        assert status == "succeeded", event
        assert open_keys(item) == [row["id"] for row in rows]
        assert item.current() == rows


# --- tables changed since the newest run ---------------------------------------------------------


def load_after(item: Dataset, sequence: int, rows: list[dict], at: str) -> tuple[str, dict]:
    """Load with a control database that has a run of this sequence number."""
    item.prepare()
    item.sequence += 1
    manifest = item.manifest(item.deliver(rows), at=at, run_id=f"run-{item.sequence}")
    known = tuple(replace(load, newest_applied=sequence) for load in manifest.rawcore)
    status, events = item.attempt(replace(manifest, rawcore=known))
    return status, finished(events, item.state.key)


@pytest.mark.parametrize("to", [by_night("VERSION AS OF {version}"), "TIMESTAMP AS OF '{time}'"])
def test_load_refuses_a_history_restored_by_another_writer(item, to):
    item.given((ROWS, DAY[0]))
    history = item.table(item.history_spec)
    place = history.spark.sql(f"DESCRIBE HISTORY {history.sql_name} LIMIT 1").first()
    item.load(CHANGED, at=DAY[1])
    foreign(history, "RESTORE TABLE {table} TO " + to.format(version=place.version, time=place.timestamp))
    status, event = load_after(item, 2, ROWS, DAY[2])
    assert (status, event["error"]["code"]) == ("failed", "TABLE_BEHIND")
    assert "accept_table" in event["error"]["hint"]


@pytest.mark.nightly
def test_next_load_rebuilds_a_restored_rawcore(item):
    item.given((ROWS, DAY[0]))
    rawcore = item.table(item.rawcore_spec)
    version = rawcore.version()
    item.load(CHANGED, at=DAY[1])
    foreign(rawcore, f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    status, event = load_after(item, 2, CHANGED, DAY[2])
    assert status == "succeeded", event
    assert item.current() == CHANGED


def test_load_refuses_a_table_that_lacks_applied_runs(item):
    status, event = load_after(item, 7, ROWS, DAY[0])
    assert (status, event["error"]["code"]) == ("failed", "TABLE_BEHIND")
    assert item.history() == []


def test_a_table_with_a_run_that_the_control_database_does_not_know_is_loaded(item):
    """Load a table whose last run died after its commit and before it was recorded."""
    item.given((ROWS, DAY[0]), (CHANGED, DAY[1]))
    status, event = load_after(item, 1, ROWS, DAY[2])
    assert status == "succeeded", event


# --- the event log of rows that carry their own time ------------------------------------------------

DATED = {"input": "effective", "time": "valid_from"}
FIRST, SECOND = ([{"id": n, "v": v, "valid_from": at} for n in range(3)] for v, at in zip("ab", DAY, strict=False))


@pytest.fixture
def feed(spark, tmp_path):
    columns = {"id": "integer", "v": "string", "valid_from": "timestamp"}
    return Dataset(spark, tmp_path, columns=columns, policy=DATED).given((FIRST, DAY[0]), (SECOND, DAY[1]))


def event_log(feed: Dataset) -> DeltaTable:
    spec = feed.manifest(Path("none"), at=DAY[0], run_id="none").rawcore[0].event_log
    assert spec is not None
    return feed.table(spec)


def restore(table: DeltaTable, versions_back: int) -> None:
    foreign(table, f"RESTORE TABLE {{table}} TO VERSION AS OF {table.version() - versions_back}")


def findings(feed: Dataset) -> list[str]:
    load = feed.manifest(Path("none"), at=DAY[0], run_id="none").rawcore[0]
    assert load.history is not None
    manifest = CheckManifest(
        load.name, load.history, load.table, load.entity_key, load.row_hash, feed.policy, event_log=load.event_log
    )
    return [finding["code"] for finding in check(feed.spark, feed.warehouse, manifest, "check")["findings"]]


THIRD = [{"id": 1, "v": "c", "valid_from": DAY[2]}]


@pytest.mark.nightly
@pytest.mark.parametrize("statement", [by_night("RESTORE"), "DELETE FROM {table} WHERE id = 1"])
def test_load_refuses_a_foreign_change_of_the_event_log_until_it_is_restored(feed, statement):
    log = event_log(feed)
    as_left = log.version()
    if statement == "RESTORE":
        restore(log, 1)
    else:
        foreign(log, statement)
    before = feed.history()
    status, event = feed.load(THIRD, at=DAY[2])
    assert (status, event["error"]["code"]) == ("failed", "EVENT_LOG_CHANGED")
    assert f"TO VERSION AS OF {as_left})" in event["error"]["hint"]
    assert feed.history() == before
    assert findings(feed) == ["EVENT_LOG_CHANGED"]
    foreign(log, f"RESTORE TABLE {{table}} TO VERSION AS OF {as_left}")
    assert findings(feed) == []
    status, event = feed.load(THIRD, at=DAY[2], run_id="again")
    assert (status, event["warnings"]) == ("succeeded", [])
    assert [row["v"] for row in feed.history() if row["id"] == 1] == ["a", "b", "c"]


@pytest.mark.nightly
def test_load_refuses_a_missing_event_log(feed):
    log = event_log(feed)
    backup = shutil.move(log.location, feed.folder / "kept")
    before = feed.history()
    status, event = feed.load(THIRD, at=DAY[2])
    assert (status, event["error"]["code"]) == ("failed", "EVENT_LOG_MISSING")
    assert (feed.history(), findings(feed)) == (before, ["EVENT_LOG_MISSING"])
    shutil.rmtree(log.location)
    shutil.move(backup, log.location)
    log.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    status, event = feed.load(THIRD, at=DAY[2], run_id="again")
    assert status == "succeeded", event
    assert [row["v"] for row in feed.history() if row["id"] == 1] == ["a", "b", "c"]


@pytest.mark.nightly
def test_accept_takes_a_history_and_event_log_restored_together(feed):
    restore(event_log(feed), 1)
    with pytest.raises(Refusal) as refused:
        accept_table(feed, sequence=3)
    assert refused.value.code == "EVENT_LOG_CHANGED"
    restore(feed.table(feed.history_spec), 1)
    assert accept_table(feed, sequence=3)["held"] == 1
    feed.sequence = 3
    status, event = feed.load(THIRD, at=DAY[2])
    assert status == "succeeded", event
    assert [row["v"] for row in feed.history() if row["id"] == 1] == ["a", "c"]
    assert findings(feed) == []


# --- tables whose log is damaged -------------------------------------------------------------------


def damage(table: DeltaTable) -> None:
    """Truncate the newest commit file, as on a full disk, and clear Delta's cache of the log."""
    newest = Path(table.location, "_delta_log", f"{table.version():020d}.json")
    newest.write_text('{"commitInfo":{"timesta')
    for hidden in newest.parent.glob(".*.crc"):
        hidden.unlink()
    for checksum in newest.parent.glob("*.crc"):
        checksum.unlink()
    table.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.mark.parametrize("which", ["history_spec", by_night("rawcore_spec")])
def test_damaged_table_log_fails_only_its_own_dataset(spark, tmp_path, which):
    hurt, well = Dataset(spark, tmp_path, name="hurt"), Dataset(spark, tmp_path, name="well")
    hurt.given((ROWS, DAY[0]))
    well.given((ROWS, DAY[0]))
    manifests = [dataset.manifest(dataset.deliver(CHANGED), at=DAY[1], run_id="both") for dataset in (hurt, well)]
    damage(hurt.table(getattr(hurt, which)))
    both_loads = replace(
        manifests[0],
        raw=tuple(load for manifest in manifests for load in manifest.raw),
        rawcore=tuple(replace(load, sequence=2) for manifest in manifests for load in manifest.rawcore),
    )
    status, events = hurt.attempt(both_loads)
    assert status == "failed"
    assert finished(events, well.state.key)["status"] == "succeeded"
    error = finished(events, hurt.state.key)["error"]
    assert hurt.state.qualified_name in error["message"]


# --- acceptance of tables ---------------------------------------------------------------------------


def accept_table(item: Dataset, **changes) -> dict:
    """Accept the dataset's table; return the counts, and the report about its history."""
    manifest = item.manifest(item.folder / "none.jsonl", at=DAY[0], run_id="accepted")
    load = replace(manifest.rawcore[0], **changes)
    context = MaintenanceContext.of(item.spark, item.warehouse, "accepted", lambda _: None)
    counts = accept(context, AcceptManifest("accepted", load))
    return {"counts": counts, **context.tables[item.history_spec.qualified_name]}


@pytest.mark.nightly
def test_accepted_restored_history_can_be_loaded(item):
    item.given((ROWS, DAY[0]))
    history = item.table(item.history_spec)
    version = history.version()
    item.load(CHANGED, at=DAY[1])
    foreign(history, f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    answer = accept_table(item, sequence=3)
    assert (answer["held"], answer["sequence"], answer["counts"]) == (1, 3, {"versions": 6, "open": 6})
    assert item.current() == ROWS
    item.sequence = 3
    status, event = load_after(item, 1, CHANGED, DAY[1])
    assert (status, event["counts"]["changed"]) == ("succeeded", 6)


@pytest.mark.nightly
def test_repeated_acceptance_of_a_table_changes_nothing(item):
    item.given((ROWS, DAY[0]))
    first = accept_table(item, sequence=2)
    before = item.table(item.history_spec).version()
    again = accept_table(item, sequence=2)
    assert (again["held"], again["sequence"]) == (first["held"], first["sequence"]) == (1, 2)
    assert item.table(item.history_spec).version() == before


def test_accept_assigns_a_sequence_above_every_number_in_the_table(item):
    item.given((ROWS, DAY[0]), (CHANGED, DAY[1]))
    assert accept_table(item, sequence=1)["sequence"] == 3
