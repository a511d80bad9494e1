"""Invariants of every history, for generated batches."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.contract.refusals import Refusal
from loader.domain.reference import ReferenceEngine, violations
from loader.domain.reference.values import canonical

START = datetime(2024, 1, 1, tzinfo=UTC)
COLUMNS = {"id": "integer", "a": "string", "b": "float", "t": "bigint"}
FILE_COLUMNS = {"id": "integer", "a": "string", "b": "integer"}
BUDGET = settings(max_examples=60)

keys = st.integers(1, 3)
texts = st.sampled_from(["x", "y", None])
numbers = st.sampled_from([0.0, "-0.0", "NaN", 1.5])
times = st.integers(1, 12)


def day(n: int) -> str:
    return (START + timedelta(days=n)).isoformat()


def row(id_, a, b, t):
    return {"id": id_, "a": a, "b": b, "t": t}


rows = st.builds(row, keys, texts, numbers, times)
dated = st.builds(lambda record, n: record | {"t": day(n)}, rows, times)
feed = st.builds(lambda record, op: record | {"op": op}, rows, st.sampled_from(["I", "U", "U", "D"]))

track = st.sampled_from([{}, {"track": ["a"]}, {"track": ["a"], "untracked": "keep"}])
late = st.sampled_from([{}, {"late": "ignore"}, {"late": "refuse"}])


class Source:
    """Columns of a source that change from batch to batch: removed, restored, renamed, widened, or new."""

    STEPS = (None, None, "drop or return", "rename", "widen", "add")

    def __init__(self, columns: dict[str, str]):
        self.types, self.names, self.dropped = dict(columns), {name: name for name in columns}, frozenset()

    def next(self, step: str | None, records: list[dict]) -> tuple["Source", dict]:
        """Return the source after a step, and the batch's content under its new names."""
        after, more = Source(self.types), {}
        after.names, after.dropped = dict(self.names), self.dropped
        if step == "drop or return":
            after.dropped = self.dropped ^ {"b"}
        elif step == "rename":
            after.names["a"] = "a" if self.names["a"] == "renamed" else "renamed"
            more["rename"] = {self.names["a"]: after.names["a"]}
        elif step == "widen":
            after.types["b"] = "string"
        elif step == "add":
            after.types["n"], after.names["n"] = "integer", "n"
        present = {own: name for own, name in after.names.items() if own not in after.dropped}
        records = [row | ({"n": row["id"] % 2 or None} if "n" in after.types else {}) for row in records]
        rows = [{after.names.get(own, own): value for own, value in row.items()} for row in records]
        return after, more | {"columns": {name: after.types[own] for own, name in present.items()}, "rows": rows}


def policies(base, *choices):
    return st.tuples(*choices).map(lambda chosen: base | {k: v for choice in chosen for k, v in choice.items()})


deletes = st.sampled_from([{}, {"deletes": "ignore"}, {"deletes": "tombstone"}])
closing = st.sampled_from([{}, {"deletes": "tombstone"}])
INPUTS = {
    "snapshot": (policies({"input": "snapshot"}, deletes, track), dated, "timestamp"),
    "snapshot by own time": (policies({"input": "snapshot", "time": "t"}, deletes, track, late), dated, "timestamp"),
    "snapshot by own date": (
        policies({"input": "snapshot", "time": "t"}, deletes, track, late),
        dated.map(lambda record: record | {"t": record["t"][:10]}),
        "date",
    ),
    "delta": (policies({"input": "delta"}, track), dated, "timestamp"),
    "delta, key list": (
        policies({"input": "delta", "delete_detection": "key_list"}, closing, track),
        dated,
        "timestamp",
    ),
    "delta, window": (policies({"input": "delta", "delete_detection": "window"}, closing, track), dated, "timestamp"),
    "effective": (policies({"input": "effective", "time": "t"}, track, late), rows, "bigint"),
    "effective, absent deleted": (
        policies({"input": "effective", "time": "t", "absent_keys": "deleted"}, deletes, track, late),
        dated,
        "timestamp",
    ),
    "cdc": (policies({"input": "cdc", "time": "t", "op": "op"}, deletes, track, late), feed, "bigint"),
}


@st.composite
def files(draw):
    """Draw a history batch as a source would send it: at most one earliest start per key."""

    def times_of(n):
        return {"_fivetran_start": day(n)}

    marked = st.sampled_from(["x", "y", "<same>"])
    upserts = draw(st.lists(st.builds(lambda i, a, n: {"id": i, "a": a, "b": n} | times_of(n), keys, texts, times)))
    updates = draw(st.lists(st.builds(lambda i, a, n: {"id": i, "a": a, "b": n} | times_of(n), keys, marked, times)))
    deleted = draw(st.lists(st.builds(lambda i, n: {"id": i, "_fivetran_end": day(n)}, keys, times), max_size=2))
    starts: dict[int, str] = {}
    for record in [*upserts, *updates]:
        starts[record["id"]] = min(starts.get(record["id"], record["_fivetran_start"]), record["_fivetran_start"])
    earliest = [{"id": id_, "_fivetran_start": start} for id_, start in starts.items()] if draw(st.booleans()) else []
    return {"earliest_start": earliest, "upsert": upserts, "update": updates, "delete": deleted}


def engine(policy, time_type="bigint"):
    columns = FILE_COLUMNS if policy["input"] == "batch_files" else COLUMNS | {"t": time_type}
    return ReferenceEngine({"keys": ["id"], "columns": columns, "policy": policy})


def batch(n, content, **more):
    content = content if isinstance(content, dict) else {"rows": content}
    return {"at": day(n), "run_id": f"run-{n}", "allow_empty": True, **content, **more}


@st.composite
def evidence(draw, policy, of_keys=keys):
    """Draw the evidence of deleted keys that comes with a delta of this policy."""
    match policy.get("delete_detection"):
        case "key_list":
            return {"keys": [{"id": key} for key in draw(st.lists(of_keys, max_size=24))]}
        case "window":
            return {"window": {"column": "t", "from": draw(st.none() | times.map(day))}}
    return {}


def comparable_rows(table, *, without=()):
    """Return the table as comparable text, independent of row order."""
    left_out = {"opened_by", "closed_by", *without}
    return sorted(
        repr(
            sorted(
                (name, value if name == "state" else canonical(value))
                for name, value in record.items()
                if name not in left_out and value is not None
            )
        )
        for record in table.rows()
    )


def apply(table, delivery) -> bool:
    try:
        table.apply(delivery)
    except Refusal:
        return False
    return True


@pytest.mark.parametrize("name", INPUTS)
@BUDGET
@given(data=st.data())
def test_history_keeps_its_invariants_for_generated_batches(name, data):
    policy_of, row_of, time_type = INPUTS[name]
    policy = data.draw(policy_of)
    table, source = engine(policy, time_type), Source(COLUMNS | {"t": time_type})
    contents = st.tuples(st.lists(row_of, max_size=6), st.sampled_from(Source.STEPS))
    for n, (records, step) in enumerate(data.draw(st.lists(contents, max_size=6))):
        before = table.table
        after, content = source.next(step, records)
        delivery = batch(3 * n, content | data.draw(evidence(policy)))
        if not apply(table, delivery):
            assert table.table is before
            continue
        source = after
        after = comparable_rows(table)
        assert violations(table.rows(), table.table.policy, ["id"]) == []
        assert table.apply({**delivery, "rows": []})["rerun"]
        assert comparable_rows(table) == after


@BUDGET
@given(st.lists(files(), max_size=4))
def test_history_of_batch_files_keeps_its_invariants(batches):
    policy = {"input": "batch_files", "time": "_fivetran_start", "unmodified_string": "<same>"}
    table = engine(policy)
    for n, content in enumerate(batches):
        before = table.table
        if not apply(table, batch(n, content)):
            assert table.table is before
        assert violations(table.rows(), table.table.policy, ["id"]) == []
        assert not any(record["a"] == "<same>" for record in table.rows())


@BUDGET
@given(st.lists(st.dictionaries(keys, st.tuples(texts, numbers)), min_size=1, max_size=6), track)
def test_snapshot_history_as_of_a_run_equals_its_snapshot(snapshots, tracked):
    table = engine({"input": "snapshot"} | tracked, "timestamp")
    for n, snapshot in enumerate(snapshots):
        table.apply(batch(n, [row(key, a, b, day(0)) for key, (a, b) in snapshot.items()]))
    compared = ["a"] if tracked else ["a", "b"]
    for n, snapshot in enumerate(snapshots):
        at = START + timedelta(days=n)
        valid = {
            record["id"]: [canonical(record[name]) for name in compared]
            for record in table.rows()
            if record["valid_from"] <= at and (record["valid_to"] is None or record["valid_to"] > at)
        }
        wanted = {key: dict(zip("ab", values, strict=True)) for key, values in snapshot.items()}
        assert valid == {
            key: [
                canonical(None if v[name] is None else float(v[name]) if name == "b" else v[name]) for name in compared
            ]
            for key, v in wanted.items()
        }


@st.composite
def arrivals(draw, row_of):
    """Draw the same rows twice, each time shuffled and cut into other batches."""
    drawn_rows = draw(
        st.lists(row_of, min_size=1, max_size=12, unique_by=lambda item: (item["id"], item["t"], item.get("op") == "D"))
    )

    def cut():
        shuffled = draw(st.permutations(drawn_rows))
        size = draw(st.integers(1, len(drawn_rows)))
        return [shuffled[place : place + size] for place in range(0, len(drawn_rows), size)]

    return cut(), cut()


@pytest.mark.parametrize("name", ["effective", "cdc", "delta"])
@settings(max_examples=80)
@given(data=st.data())
def test_history_does_not_depend_on_the_order_of_arrival(name, data):
    base = {
        "effective": {"input": "effective", "time": "t"},
        "delta": {"input": "delta", "time": "t"},
        "cdc": {"input": "cdc", "time": "t", "op": "op"},
    }[name]
    policy = base | data.draw(track) | (data.draw(deletes) if name == "cdc" else {})
    tables = []
    for batches in data.draw(arrivals(feed if name == "cdc" else rows)):
        table = engine(policy)
        for n, content in enumerate(batches):
            table.apply(batch(n, content))
        tables.append(table)
    assert comparable_rows(tables[0]) == comparable_rows(tables[1])


@settings(max_examples=80)
@given(data=st.data())
def test_late_horizon_gives_the_unlimited_history_for_rows_within_it(data):
    """Check rows at most two days late: an event log of three days gives the result of an unlimited one."""
    base = {"input": "cdc", "time": "t", "op": "op"} | data.draw(track) | data.draw(deletes)
    for_ever, forgetting = engine(base, "timestamp"), engine(base | {"late_horizon": 3}, "timestamp")
    for n in range(3, 3 + data.draw(st.integers(1, 6))):
        offsets = st.builds(lambda record, back: record | {"t": day(n - back)}, feed, st.integers(0, 2))  # noqa: B023
        drawn_rows = data.draw(st.lists(offsets, max_size=3, unique_by=lambda record: (record["id"], record["t"])))
        for table in (for_ever, forgetting):
            table.apply(batch(n, drawn_rows))
        assert comparable_rows(for_ever) == comparable_rows(forgetting)
    assert sum(len(log.events) for log in forgetting.table.logs.values()) <= sum(
        len(log.events) for log in for_ever.table.logs.values()
    )
