"""Current rows of dated rows: the newest row of each key, as an upsert stores it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from loader.domain.reference import ReferenceEngine
from loader.domain.reference.values import canonical
from tests.loader.reference.test_properties import COLUMNS, batch, feed, rows

BUDGET = settings(max_examples=80)


def current(policy: dict, batches: list[list[dict]]) -> list[tuple]:
    table = ReferenceEngine({"keys": ["id"], "columns": COLUMNS, "policy": policy})
    for n, delivered in enumerate(batches):
        table.apply(batch(n, delivered))
    return sorted((row["id"], canonical(row["a"]) or "", canonical(row["b"]) or "") for row in table.current())


def newest_of_each_key(batches: list[list[dict]]) -> list[tuple]:
    """Return the values of the row with the latest time of each key, unless it is a delete.

    A delete outranks a row of its time; a later batch corrects the values of a time.
    """
    newest: dict[int, tuple] = {}
    for n, delivered in enumerate(batches):
        for row in delivered:
            rank = (row["t"], row.get("op") == "D", n)
            if row["id"] not in newest or rank >= newest[row["id"]][0]:
                newest[row["id"]] = (rank, row)
    live = [row for _, row in newest.values() if row.get("op") != "D"]
    return sorted((row["id"], row["a"] or "", canonical(float(row["b"])) or "") for row in live)


def one_row_per_time(drawn: list[dict]) -> list[dict]:
    return list({(row["id"], row["t"]): row for row in drawn}.values())


@BUDGET
@given(st.lists(st.lists(feed, max_size=6).map(one_row_per_time), max_size=5))
def test_current_rows_of_a_feed_are_the_newest_of_each_key(batches):
    assert current({"input": "cdc", "time": "t", "op": "op"}, batches) == newest_of_each_key(batches)


@BUDGET
@given(st.lists(st.lists(rows, max_size=6).map(one_row_per_time), max_size=5))
def test_current_rows_of_effective_rows_are_the_newest_of_each_key(batches):
    assert current({"input": "effective", "time": "t"}, batches) == newest_of_each_key(batches)


@BUDGET
@given(st.lists(st.lists(feed, max_size=6).map(one_row_per_time), max_size=4))
def test_flagged_delete_has_the_effect_of_a_feed_delete(batches):
    flagged = [[{**row, "gone": row["op"] == "D"} for row in batch_rows] for batch_rows in batches]
    policy = {"input": "effective", "time": "t", "delete_flag": "gone"}
    assert current(policy, flagged) == current({"input": "cdc", "time": "t", "op": "op"}, batches)
