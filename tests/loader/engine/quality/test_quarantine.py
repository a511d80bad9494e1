"""Quarantine of rows that fail checks, and its decisions, on real tables."""

import threading
from decimal import Decimal

import pytest

from architecture.domain.tables import raw_table
from loader.contract.manifest.maintenance import QuarantineManifest
from loader.contract.manifest.reads import Masking, ReadManifest
from loader.contract.refusals import Refusal
from loader.engine.maintenance.context import MaintenanceContext
from loader.engine.maintenance.maintenance_runs import perform_run
from loader.engine.maintenance.quarantine_decisions import decide
from loader.engine.quality.quarantine import quarantine_table
from loader.engine.queries import reads
from tests.loader.harness import Dataset, finished
from tests.loader.quality import COLUMNS, DAY, check, load, row

pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=10)]

SECRET = "secret of the tokens"
NAMED = check("not_null", "quarantine", columns=["name"])


@pytest.fixture
def item(spark, tmp_path) -> Dataset:
    return Dataset(spark, tmp_path, columns=COLUMNS)


@pytest.fixture
def delta(spark, tmp_path) -> Dataset:
    return Dataset(spark, tmp_path, columns=COLUMNS, policy={"input": "delta"})


@pytest.fixture
def sale(spark, tmp_path) -> Dataset:
    return Dataset(spark, tmp_path, columns=COLUMNS, keys=(), policy={"input": "append"}, historize=False)


def quarantine_rows(item: Dataset) -> list[dict]:
    table = quarantine_table(item.spark, item.warehouse, item.rawcore_spec.key)
    return [row.asDict() for row in table.frame().collect()] if table.exists() else []


def read_quarantine(item: Dataset, masking: Masking | None = None, **arguments) -> dict:
    """Return the answer of a read of the quarantine."""
    arguments = {"limit": 10, "secret": SECRET} | arguments
    manifest = ReadManifest("quarantine", table=item.rawcore_spec, arguments=arguments, masking=masking)
    return reads.read(item.spark, item.warehouse, manifest, "job")


def decision(item: Dataset, decision: str, run_id: str = "decided", entries: tuple = ()) -> dict[str, int]:
    name = item.state.qualified_name
    manifest = QuarantineManifest(run_id, item.state.key, name, decision, entries, secret=SECRET)
    return decide(MaintenanceContext.of(item.spark, item.warehouse, run_id, lambda _: None), manifest)


def names(item: Dataset) -> dict[int, str | None]:
    return {current["id"]: current["name"] for current in item.current()}


@pytest.mark.core
def test_failing_rows_are_quarantined_with_their_reasons_and_the_others_are_loaded(item):
    priced = check("range", "quarantine", columns=["price"], minimum="0")
    rows = [row(1), row(2, name=None, price="-1.00"), row(3, price="-2.50")]
    event, results = load(item, rows, NAMED, priced)
    assert (event["status"], names(item)) == ("succeeded", {1: "a"})
    assert event["counts"]["quarantined"] == 2
    assert {name: result["outcome"] for name, result in results.items()} == {
        "not_null": "quarantined",
        "range": "quarantined",
    }
    key = next(column.key for column in item.rawcore_spec.columns if column.name == "id")
    entries = {entry["row_values"][key]: entry for entry in quarantine_rows(item)}
    assert entries["2"]["reasons"] == ["not_null", "range"]
    assert entries["3"]["reasons"] == ["range"]
    assert (entries["3"]["run_id"], entries["3"]["state"]) == ("run-1", "waiting")


def test_row_whose_check_cannot_be_computed_is_quarantined_with_the_error(item):
    ratio = check("condition", "quarantine", condition="10 / price > 1")
    single = check("unique", "quarantine", columns=["name"], where="10 / price > 1")
    rows = [row(1), row(2, price="0", name="b"), row(3, price="20.00", name="c"), row(4, price=None, name="d")]
    event, results = load(item, rows, ratio, single)
    assert (event["status"], names(item)) == ("succeeded", {1: "a", 4: "d"})
    assert (event["counts"]["quarantined"], results["unique"]["failed"]) == (2, 1)
    key = next(column.key for column in item.rawcore_spec.columns if column.name == "id")
    reasons = {entry["row_values"][key]: entry["reasons"] for entry in quarantine_rows(item)}
    assert reasons["3"] == ["condition"]
    assert [reason.partition(",")[0] for reason in reasons["2"]] == [
        "condition: could not be computed (DIVIDE_BY_ZERO",
        "unique: could not be computed (DIVIDE_BY_ZERO",
    ]


def test_quarantine_check_that_cannot_run_refuses_the_load(item):
    event, results = load(item, [row(1)], check("not_null", "quarantine", columns=["former"]))
    assert (event["status"], event["error"]["code"]) == ("failed", "QUALITY_STOPPED")
    assert (results["not_null"]["outcome"], item.current()) == ("broken", [])


@pytest.mark.nightly
def test_a_quarantined_key_keeps_its_open_version_and_an_absent_one_is_closed(item):
    load(item, [row(1), row(2), row(3)])
    event, _ = load(item, [row(1), row(2, name=None)], NAMED, at=DAY[1], policy=item.policy)
    assert names(item) == {1: "a", 2: "a"}
    assert event["counts"]["deleted"] == 1
    opened = [(version["id"], version["ended"]) for version in item.history()]
    assert opened == [(1, None), (2, None), (3, DAY[1])]


@pytest.mark.nightly
def test_next_snapshot_replaces_the_waiting_quarantined_rows(item):
    load(item, [row(1, name=None), row(2, name=None)], NAMED)
    load(item, [row(1), row(2, name=None)], NAMED, at=DAY[1])
    assert [entry["run_id"] for entry in quarantine_rows(item)] == ["run-2"]
    load(item, [row(1), row(2)], NAMED, at=DAY[2])
    assert quarantine_rows(item) == []
    assert names(item) == {1: "a", 2: "a"}


@pytest.mark.nightly
def test_unique_check_quarantines_every_row_that_repeats_a_value(item):
    twice = check("unique", "quarantine", columns=["name"], where="id > 1")
    load(item, [row(1, name="x"), row(2, name="x"), row(3, name="x"), row(4, name="y")], twice)
    assert names(item) == {1: "x", 4: "y"}


def test_next_load_stores_a_released_row_unchanged(item):
    load(item, [row(1), row(2, name=None)], NAMED)
    (waiting_row,) = read_quarantine(item)["rows"]
    assert decision(item, "release", entries=(waiting_row[0],)) == {"released": 1}
    event, results = load(item, [row(1), row(2, name=None), row(3, name=None)], NAMED, at=DAY[1])
    assert names(item) == {1: "a", 2: None}
    assert event["counts"]["quarantined"] == 1
    assert results["not_null"]["failed"] == 2


@pytest.mark.parametrize("masking", [None, Masking((), (), secret="s")], ids=["steward", "masked"])
def test_quarantine_read_shows_tokens_instead_of_hashes_of_values(item, masking):
    load(item, [row(1), row(2, name=None), row(3, name=None)], NAMED)
    hashes = {entry["entry_id"] for entry in quarantine_rows(item)}
    tokens = [waiting_row[0] for waiting_row in read_quarantine(item, masking)["rows"]]
    assert len({*tokens, *hashes}) == 4
    with pytest.raises(Refusal, match="has no such rows in quarantine"):
        decision(item, "release", entries=tuple(hashes))
    assert decision(item, "release", entries=(tokens[0],)) == {"released": 1}
    assert [waiting_row[0] for waiting_row in read_quarantine(item, masking)["rows"]] == tokens[1:]
    table = quarantine_table(item.spark, item.warehouse, item.rawcore_spec.key)
    commits = item.spark.sql(f"DESCRIBE HISTORY {table.sql_name}").collect()
    assert all(SECRET not in str(commit.operationParameters) for commit in commits)


@pytest.mark.nightly
def test_a_released_row_of_a_delta_is_added_to_the_next_load_once(delta):
    load(delta, [row(1), row(2, name=None, price="7.25")], NAMED)
    assert names(delta) == {1: "a"}
    decision(delta, "release")
    load(delta, [row(1)], NAMED, at=DAY[1])
    assert names(delta) == {1: "a", 2: None}
    load(delta, [row(2, name="c")], NAMED, at=DAY[2])
    load(delta, [row(1)], NAMED, at=DAY[3])
    assert names(delta) == {1: "a", 2: "c"}
    assert [entry["state"] for entry in quarantine_rows(delta)] == ["loaded"]


@pytest.mark.nightly
def test_a_released_row_is_loaded_after_its_check_was_removed(delta):
    load(delta, [row(1), row(2, name=None)], NAMED)
    decision(delta, "release")
    load(delta, [row(1)], at=DAY[1])
    assert names(delta) == {1: "a", 2: None}


@pytest.mark.nightly
def test_newest_of_several_released_rows_of_a_key_is_loaded(delta):
    load(delta, [row(1), row(2, name=None, price="7.25")], NAMED)
    load(delta, [row(2, name=None, price="8.50")], NAMED, at=DAY[1])
    decision(delta, "release")
    load(delta, [row(1)], NAMED, at=DAY[2])
    assert [(version["price"], version["ended"]) for version in delta.history() if version["id"] == 2] == [
        (Decimal("8.50"), None)
    ]


@pytest.mark.nightly
def test_a_released_row_of_an_append_is_added_once(sale):
    load(sale, [row(1), row(2, name=None)], NAMED)
    decision(sale, "release")
    load(sale, [row(3)], NAMED, at=DAY[1])
    load(sale, [row(4)], NAMED, at=DAY[2])
    assert sorted(current["id"] for current in sale.current()) == [1, 2, 3, 4]


@pytest.mark.nightly
def test_drop_deletes_quarantined_rows_and_a_second_decision_is_refused(item):
    load(item, [row(1), row(2, name=None)], NAMED)
    assert decision(item, "drop") == {"dropped": 1}
    assert quarantine_rows(item) == []
    with pytest.raises(Refusal, match="has no such rows in quarantine"):
        decision(item, "drop", run_id="another")


@pytest.mark.nightly
@pytest.mark.parametrize(("chosen", "counts"), [("release", {"released": 1}), ("drop", {"dropped": 1})])
def test_repeated_decision_returns_the_same_counts_and_ignores_later_rows(delta, chosen, counts):
    load(delta, [row(1), row(2, name=None)], NAMED)
    decision(delta, chosen)
    load(delta, [row(3, name=None)], NAMED, at=DAY[1])
    assert decision(delta, chosen) == counts
    assert [entry["run_id"] for entry in quarantine_rows(delta) if entry["state"] == "waiting"] == ["run-2"]


def test_quarantine_decision_runs_as_a_maintenance_run_with_table_versions(item):
    load(item, [row(1), row(2, name=None)], NAMED)
    manifest = QuarantineManifest("decided", item.state.key, item.state.qualified_name, "release")
    events = []
    record = lambda event, **fields: events.append({"event": event} | fields)  # noqa: E731
    done = perform_run(item.spark, item.warehouse, "quarantine_decision", manifest, record, threading.Event(), "job")
    assert done["status"] == "succeeded"
    assert done["answer"]["tables"] == {
        f"{item.state.qualified_name} quarantine": {"version_before": 0, "version_after": 1}
    }
    assert events[-1]["counts"] == {"released": 1}


@pytest.mark.nightly
def test_quarantine_read_returns_waiting_rows_with_their_columns(item):
    load(item, [row(1), row(2, name=None, price="7.25")], NAMED)
    answer = read_quarantine(item)
    assert answer["columns"] == ["__entry", "__run", "__at", "__reasons", "id", "name", "price", "at"]
    assert answer["rows"][0][3:] == ["not_null", "2", None, "7.25", "2024-01-01 00:00:00"]


def test_quarantine_read_returns_no_rows_if_no_row_was_quarantined(item):
    load(item, [row(1)])
    assert read_quarantine(item)["rows"] == []


# --- rows of a delivery that do not fit the contract ---------------------------------------------


@pytest.fixture
def lenient(spark, tmp_path) -> Dataset:
    return Dataset(spark, tmp_path, columns=COLUMNS, options={"faulty_rows": "quarantine"})


def rejected_rows(item: Dataset, run_id: str = "") -> list[list]:
    """Return reasons, row number and values of the rejected rows."""
    arguments = {"run_id": run_id, "limit": 10, "secret": SECRET}
    manifest = ReadManifest("quarantine", table=raw_table(item.raw_state), arguments=arguments)
    answer = reads.read(item.spark, item.warehouse, manifest, "job")
    return [[row[3], *row[5:]] for row in answer["rows"]]


def test_faulty_rows_are_quarantined_and_the_rest_is_loaded(lenient):
    load(lenient, [row(1), row(2), row(3)])
    event, _ = load(lenient, [row(1, "b"), row(2, price="much"), row(4)], at=DAY[1])
    assert (event["status"], names(lenient)) == ("succeeded", {1: "b", 2: "a", 3: "a", 4: "a"})
    assert [event["counts"][name] for name in ("rows", "deleted", "unchanged")] == [2, 0, 0]
    assert len(event["warnings"]) == 1
    delivered = finished(lenient.events, lenient.raw_state.key)
    assert (delivered["counts"]["rows"], delivered["counts"]["quarantined"]) == (3, 1)
    assert [(fault["code"], fault["column"]) for fault in delivered["faults"]["faults"]] == [
        ("VALUE_DOES_NOT_FIT", "price")
    ]
    assert rejected_rows(lenient) == [
        ["VALUE_DOES_NOT_FIT price", "2", None, "2", "a", "much", "2024-01-01T00:00:00Z"],
    ]
    event, _ = load(lenient, [row(1, "b"), row(2, price="3.00")], at=DAY[2])
    assert (names(lenient), rejected_rows(lenient)) == ({1: "b", 2: "a"}, [])


def test_faulty_rows_of_a_refused_delivery_are_stored_by_run_and_do_not_wait(item):
    load(item, [row(1)])
    load(item, [row(1), {**row(2), "at": "soon"}, row(None)], at=DAY[1])
    refused = finished(item.events, item.raw_state.key)
    assert (refused["status"], refused["error"]["code"]) == ("failed", "VALUE_DOES_NOT_FIT")
    assert [fault["code"] for fault in refused["error"]["faults"]] == ["VALUE_DOES_NOT_FIT", "NULL_KEY"]
    assert [entry[:2] for entry in rejected_rows(item, "run-2")] == [
        ["VALUE_DOES_NOT_FIT at", "2"],
        ["NULL_KEY id", "3"],
    ]
    assert rejected_rows(item) == []
