"""State of the reference engine besides the table: counts, warnings, runs, horizon."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from loader.contract.refusals import Refusal
from loader.domain.reference import Header, ReferenceEngine, violations
from metadata.domain.history.history_policy import PolicyProblem

COLUMNS = {"id": "integer", "v": "string", "t": "timestamp"}


def engine(columns=None, **policy) -> ReferenceEngine:
    return ReferenceEngine({"keys": ["id"], "columns": columns or COLUMNS, "policy": policy})


def day(n: int) -> str:
    return f"2024-01-{n:02d}T00:00:00+00:00"


def batch(n: int, *rows, **more):
    records = [dict(zip(("id", "v", "t", "op"), row, strict=False)) for row in rows]
    return {"at": day(n), "run_id": f"run-{n}", "rows": records, **more}


def nonzero(counts: dict) -> dict:
    return {name: count for name, count in counts.items() if count}


def table_of(table: ReferenceEngine) -> list[tuple]:
    rows = sorted(table.rows(), key=lambda row: (row["id"], row["valid_from"]))
    return [(row["id"], row["v"], row["valid_from"].day, row["valid_to"] and row["valid_to"].day) for row in rows]


def test_a_snapshot_counts_keys_and_versions():
    table = engine(input="snapshot")
    first = table.apply(batch(1, (1, "a"), (2, "b"), (3, "c"), (3, "c")))
    assert nonzero(first["counts"]) == {"rows": 4, "collapsed": 1, "new": 3, "opened": 3}
    second = table.apply(batch(2, (1, "a"), (2, "B"), (4, "d")))
    assert nonzero(second["counts"]) == {
        "rows": 3,
        "new": 1,
        "changed": 1,
        "deleted": 1,
        "unchanged": 1,
        "opened": 2,
        "closed": 2,
    }
    third = table.apply(batch(3, (1, "a"), (2, "B"), (3, "c"), (4, "d")))
    assert nonzero(third["counts"]) == {"rows": 4, "reappeared": 1, "unchanged": 3, "opened": 1}


def test_late_rows_are_counted():
    table = engine(input="effective", time="t")
    table.apply(batch(20, (1, "a", day(1)), (1, "b", day(5))))
    counts = table.apply(batch(21, (1, "b", day(3)), (1, "b", day(4))))["counts"]
    assert counts["late"] == 1
    assert (counts["opened"], counts["removed"]) == (1, 1)

    ignoring = engine(input="effective", time="t", late="ignore")
    ignoring.apply(batch(20, (1, "a", day(1)), (1, "b", day(5))))
    assert nonzero(ignoring.apply(batch(21, (1, "x", day(3))))["counts"]) == {
        "rows": 1,
        "late_ignored": 1,
        "unchanged": 1,
    }


def test_skipped_deletes_and_unknown_keys_are_counted():
    feed = engine(input="cdc", time="t", op="op", deletes="ignore")
    assert nonzero(feed.apply(batch(1, (1, None, day(1), "D")))["counts"]) == {"rows": 1, "skipped_deletes": 1}

    files = engine(input="batch_files", time="_fivetran_start", unmodified_string="same")
    update = [{"id": 1, "v": "same", "_fivetran_start": day(1)}]
    counts = files.apply(
        {"at": day(1), "run_id": "r", "update": update, "delete": [{"id": 2, "_fivetran_end": day(2)}]}
    )["counts"]
    assert nonzero(counts) == {"rows": 2, "unknown_ignored": 2}


def test_rerun_warns_only_if_its_rows_differ():
    table = engine(input="snapshot")
    table.apply(batch(1, (1, "a"), (2, "b")))
    before = table.rows()
    again = table.apply(batch(1, (2, "b"), (1, "a")))
    assert (again["rerun"], again["warnings"]) == (True, [])
    other = table.apply(batch(1, (1, "z")))
    assert other["rerun"]
    assert "run-1 was applied already, with other rows" in other["warnings"][0]
    assert table.rows() == before


def test_version_stores_the_runs_that_opened_and_closed_it():
    table = engine(input="snapshot")
    for n, rows in enumerate([[(1, "a"), (2, "z")], [(1, "b"), (2, "z")], [(2, "z")]], 1):
        table.apply(batch(n, *rows))
    runs = {(r["id"], r["v"]): (r["opened_by"], r["closed_by"]) for r in table.rows()}
    assert runs == {(1, "a"): ("run-1", "run-2"), (1, "b"): ("run-2", "run-3"), (2, "z"): ("run-1", None)}


def test_late_horizon_skips_and_counts_older_rows():
    """Check rule 11: rows before the horizon that would change history are counted, the others applied."""
    table = engine(input="effective", time="t", late_horizon=5)
    table.apply(batch(1, (1, "a", day(1))))
    table.apply(batch(20, (1, "b", day(20)), (2, "n", day(2))))
    counts = table.apply(batch(21, (1, "x", day(14)), (1, "y", day(16)), (1, "a", day(3)), (3, "o", day(1))))["counts"]
    assert (counts["beyond_horizon"], counts["late"]) == (1, 1)
    assert table_of(table) == [
        (1, "a", 1, 16),
        (1, "y", 16, 20),
        (1, "b", 20, None),
        (2, "n", 2, None),
        (3, "o", 1, None),
    ]


def test_late_horizon_drops_old_events_and_keeps_the_versions():
    table = engine(input="cdc", time="t", op="op", late_horizon=2)
    table.apply(batch(1, (1, "a", day(1), "I"), (2, None, day(1), "D")))
    table.apply(batch(2, (1, "a", day(2), "U")))
    table.apply(batch(3, (1, None, day(3), "D")))
    assert len(next(iter(table.table.logs.values())).events) == 3
    table.apply(batch(10, (3, "c", day(10), "I")))
    assert {key[0]: len(log.events) for key, log in table.table.logs.items()} == {"1": 2, "3": 1}
    assert table_of(table) == [(1, "a", 1, 3), (3, "c", 10, None)]


def test_a_horizon_folds_updates_in_place_into_their_version():
    columns = COLUMNS | {"u": "integer"}
    table = engine(columns, input="effective", time="t", track=["v"], late_horizon=2)
    for n, u in ((1, 1), (2, 2), (10, 3)):
        table.apply(batch(n) | {"rows": [{"id": 1, "v": "a", "u": u, "t": day(n)}]})
    table.apply(batch(11) | {"rows": [{"id": 1, "v": "b", "u": 9, "t": day(9)}]})
    versions = sorted((row["valid_from"].day, row["v"], row["u"]) for row in table.rows())
    assert versions == [(1, "a", 2), (9, "b", 9), (10, "a", 3)]


def test_a_refusal_counts_and_shows_samples():
    table = engine(input="snapshot")
    with pytest.raises(Refusal) as caught:
        table.apply(batch(1, *((n, v) for n in range(7) for v in "ab")))
    assert (caught.value.code, caught.value.count, len(caught.value.samples)) == ("CONFLICTING_ROWS", 7, 5)
    assert caught.value.samples[0] == "id=0"
    with pytest.raises(Refusal) as caught:
        table.apply(batch(1, ("x", "a"), (2, "b"), (3.5, "b")))
    assert (caught.value.code, caught.value.column, caught.value.count) == ("VALUE_DOES_NOT_FIT", "id", 2)


def test_version_keeps_the_first_literal_of_equal_floats():
    table = engine({"id": "float", "v": "float"}, input="snapshot")
    table.apply(batch(1, ("-0.0", "-0.0")))
    table.apply(batch(2, (0.0, 0.0)))
    [row] = table.rows()
    assert (str(row["id"]), str(row["v"])) == ("-0.0", "-0.0")


def test_widening_converts_stored_keys_values_and_times():
    table = engine({"id": "integer", "v": "boolean", "t": "date"}, input="snapshot", time="t")
    table.apply(batch(5, (1, True, "2024-01-01")) | {"columns": {"id": "integer", "v": "boolean", "t": "date"}})
    wider = {"id": "string", "v": "string", "t": "timestamp"}
    table.apply(batch(6, ("1", "true", "2024-01-01T00:00:00Z")) | {"columns": wider})
    [row] = table.rows()
    assert (row["id"], row["v"]) == ("1", "true")
    assert row["valid_from"] == row["t"] == datetime(2024, 1, 1, tzinfo=UTC)


def test_absence_and_return_within_a_day_leave_a_history_of_dates_unchanged():
    table = engine({"id": "integer", "v": "string", "t": "date"}, input="snapshot", time="t")
    table.apply(batch(1, (1, "a", "2023-12-01"), (2, "b", "2023-12-01")))
    table.apply(batch(5, (2, "b", "2023-12-01")))
    table.apply(
        batch(5, (1, "a", "2023-12-01"), (2, "b", "2023-12-01")) | {"at": "2024-01-05T09:00:00Z", "run_id": "x"}
    )
    assert [(row["valid_from"], row["valid_to"]) for row in table.rows()] == [(date(2023, 12, 1), None)] * 2


def test_absent_key_is_refused_if_the_time_column_is_a_number():
    table = engine({"id": "integer", "v": "string", "t": "bigint"}, input="snapshot", time="t")
    table.apply(batch(1, (1, "a", 5), (2, "b", 5)))
    table.apply(batch(2, (1, "a", 5), (2, "c", 6)))
    with pytest.raises(Refusal) as caught:
        table.apply(batch(3, (1, "a", 5)))
    assert caught.value.code == "NO_RUN_TIME"


def test_a_later_row_of_a_returned_key_never_fills_the_gap():
    """Check rule 9: absent at 10, back at 20 with a row of 5; later rows of 7 and 15 belong to the returned key."""
    table = engine(input="effective", time="t", absent_keys="deleted")
    table.apply(batch(8, (1, "a", day(1)), (2, "z", day(1))))
    table.apply(batch(10, (2, "z", day(1))))
    table.apply(batch(20, (1, "b", day(5)), (1, "old", day(3)), (2, "z", day(1))))
    assert table_of(table)[:3] == [(1, "a", 1, 3), (1, "old", 3, 10), (1, "b", 20, None)]
    table.apply(batch(21, (1, "c", day(7)), (2, "z", day(1))))
    assert table_of(table)[:3] == [(1, "a", 1, 3), (1, "old", 3, 10), (1, "c", 20, None)]
    table.apply(batch(22, (1, "d", day(15)), (1, "e", day(2)), (2, "z", day(1))))
    assert table_of(table)[:4] == [(1, "a", 1, 2), (1, "e", 2, 3), (1, "old", 3, 10), (1, "d", 20, None)]


def test_header_with_an_incomplete_policy_is_refused():
    with pytest.raises(PolicyProblem):
        engine(input="effective")
    assert Header.from_dict({"keys": ["id"], "columns": {"id": "int4"}, "policy": {}}).columns["id"].name == "integer"


def version(start, end, v="a", state="new"):
    return {"id": 1, "v": Decimal(v) if v.isdigit() else v, "valid_from": start, "valid_to": end, "state": state}


@pytest.mark.parametrize(
    ("rows", "deletes", "said_of_it"),
    [
        (
            [version(1, None, state="new"), version(2, None, "b", "new")],
            "close",
            ["more than one open", "overlaps at 2"],
        ),
        ([version(1, 3, "a", "changed"), version(2, None, "b", "changed")], "close", ["overlaps at 2"]),
        ([version(1, 2, "a", "changed"), version(2, None, "a", "changed")], "close", ["repeats its value at 2"]),
        ([version(1, 2, "1", "changed"), version(2, None, "1", "changed")], "close", ["repeats its value at 2"]),
        ([version(2, 2, "a", "deleted")], "close", ["it is empty"]),
        ([version(1, None, "a", "changed")], "close", ["is 'changed', and should be new"]),
        ([version(1, 2, "a", "new")], "close", ["is 'new', and should be deleted"]),
        ([version(1, 2, "a", "deleted"), version(2, None, "b", "changed")], "close", ["should be changed"]),
        ([version(1, 2, "a", "live"), version(2, None, "a", "deleted")], "tombstone", []),
        ([version(1, None, "a", "deleted")], "tombstone", ["should be live"]),
        ([version(1, 2, "a", "live")], "tombstone", ["should be something else"]),
        ([version(1, 2, "a", "deleted"), version(4, None, "a", "new")], "close", []),
        ([version(1, None) | {"id": None}], "close", ["has no key"]),
        ([version(None, None)], "close", ["without a start"]),
    ],
)
def test_violations_reports_each_broken_invariant(rows, deletes, said_of_it):
    policy = engine(input="snapshot", deletes=deletes).table.policy
    findings = "; ".join(violations(rows, policy, ["id"]))
    assert all(sentence in findings for sentence in said_of_it), findings
    assert bool(findings) == bool(said_of_it)


def test_a_horizon_never_moves_back():
    table = engine(input="effective", time="t", late_horizon=2)
    table.apply(batch(1, (1, "a", day(1)), (1, "b", day(15))))
    table.apply(batch(20, (1, "b", day(20))))
    table.apply(batch(5, (1, "b", day(21))) | {"run_id": "dated earlier"})
    counts = table.apply(batch(6, (1, "x", day(16))))["counts"]
    assert counts["beyond_horizon"] == 1


def test_late_horizon_applies_after_the_time_column_is_widened():
    narrow = {"id": "integer", "v": "string", "t": "date"}
    table = engine(narrow, input="effective", time="t", late_horizon=2)
    table.apply(batch(20, (1, "a", "2024-01-01"), (1, "b", "2024-01-20")) | {"columns": narrow})
    counts = table.apply(batch(21, (1, "x", day(3)), (1, "y", day(19))) | {"columns": narrow | {"t": "timestamp"}})[
        "counts"
    ]
    assert (counts["beyond_horizon"], counts["late"]) == (1, 1)


def test_absence_on_the_day_of_a_return_ends_the_return():
    table = engine({"id": "integer", "v": "string", "t": "date"}, input="effective", time="t", absent_keys="deleted")
    other = (2, "z", "2024-01-01")

    def at(hour, run_id, *rows, of=10):
        return batch(of, *rows, other) | {"at": f"2024-01-{of:02d}T{hour:02d}:00:00Z", "run_id": run_id}

    table.apply(at(1, "a", (1, "a", "2024-01-01"), of=5))
    table.apply(at(1, "b"))
    table.apply(at(2, "c", (1, "b", "2024-01-02")))
    table.apply(at(3, "d"))
    table.apply(at(1, "e", (1, "c", "2024-01-03"), (1, "d", "2024-01-04"), of=12))
    assert [(v, start, end) for id_, v, start, end in table_of(table) if id_ == 1] == [
        ("a", 1, 3),
        ("c", 3, 10),
        ("d", 12, None),
    ]
