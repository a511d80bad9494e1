"""First batch of dated rows: its versions, computed by comparing adjacent rows, equal those of the reference."""

import random

import pytest

from loader.contract.refusals import Refusal
from loader.engine.historization.events.event_batches import EventBatch
from tests.fixtures.spark import by_night
from tests.loader.engine.historization.test_policies import EnginePair
from tests.loader.reference.test_properties import COLUMNS, batch

pytestmark = pytest.mark.spark

FEED = {"input": "cdc", "time": "t", "op": "op"}
POLICIES = {
    "feed": FEED,
    "tombstones": FEED | {"deletes": "tombstone"},
    "tombstones, some tracked": FEED | {"deletes": "tombstone", "track": ["a"], "untracked": "keep"},
    "deletes ignored, late rows refused": FEED | {"deletes": "ignore", "track": ["a"], "untracked": "keep"}
    | {"late": "refuse"},
    "updated in place": FEED | {"track": ["a"]},
}  # fmt: skip
BY_DAY = ("feed", "tombstones")


def random_rows(seed: int, *, keys: int = 30, count: int = 400) -> list[dict]:
    """Return rows with few values, often equal to those of neighbours; some repeated, some beside a delete."""
    chance, rows = random.Random(seed), {}
    for _ in range(count):
        row = {"id": chance.randrange(keys), "a": chance.choice(["x", "y", None]), "t": chance.randrange(60)}
        row |= {"b": chance.choice([0.0, "-0.0", "NaN", 1.5]), "op": chance.choice("IUUUD")}
        rows.setdefault((row["id"], row["t"], row["op"] == "D"), row)
    return [*rows.values(), *chance.sample(list(rows.values()), 20)]


@pytest.mark.parametrize(
    "policy", [policy if name in BY_DAY else by_night(policy) for name, policy in POLICIES.items()], ids=POLICIES
)
def test_first_and_second_feed_batches_give_the_history_of_the_reference(spark, tmp_path, policy):
    engines = EnginePair(spark, tmp_path, policy, COLUMNS | {"t": "bigint"})
    assert engines.apply(batch(1, random_rows(1)))
    later = [row | {"t": row["t"] + 60} for row in random_rows(2, keys=40, count=100)]
    assert engines.apply(batch(2, later))


def test_first_batch_counts_equal_those_of_the_fold(spark, tmp_path, monkeypatch):
    counts, prepare = [], EventBatch.prepare

    def recording(events, *args, **kwargs):
        prepare(events, *args, **kwargs)
        counts.append(dict(events.counts))

    monkeypatch.setattr(EventBatch, "prepare", recording)
    for name in ("compared", "folded"):
        if name == "folded":
            monkeypatch.setattr("loader.engine.historization.events.event_batches.compares_rows", lambda _: False)
        (tmp_path / name).mkdir()
        EnginePair(spark, tmp_path / name, FEED, COLUMNS | {"t": "bigint"}).apply(batch(1, random_rows(3)))
    compared, folded = counts
    assert compared == folded
    assert compared["duplicates"] == 20


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([{"id": 1, "a": "x", "t": 1, "op": "I"}, {"id": 1, "a": "y", "t": 1, "op": "U"}], "CONFLICTING_ROWS"),
        ([{"id": None, "a": "x", "t": 1, "op": "I"}], "NULL_KEY"),
        ([{"id": 1, "a": "x", "t": None, "op": "I"}], "NULL_TIME"),
        ([{"id": 1, "a": "x", "t": 1, "op": "X"}], "UNKNOWN_OP"),
    ],
)
def test_refused_first_batch_writes_no_version(spark, tmp_path, rows, code):
    engines = EnginePair(spark, tmp_path, FEED, {"id": "integer", "a": "string", "t": "bigint"})
    with pytest.raises(Refusal) as refused:
        engines.engine.apply(batch(1, rows))
    assert refused.value.code == code
    assert engines.engine.rows() == []


def test_delete_outranks_conflicting_rows_of_the_same_time(spark, tmp_path):
    engines = EnginePair(spark, tmp_path, FEED, {"id": "integer", "a": "string", "t": "bigint"})
    differing = [{"id": 1, "a": a, "t": 5, "op": op} for a, op in (("x", "U"), ("y", "U"), (None, "D"), ("x", "U"))]
    assert engines.apply(batch(1, [{"id": 1, "a": "x", "t": 1, "op": "I"}, *differing]))
    assert [row["state"] for row in engines.engine.rows()] == ["deleted"]


def test_first_load_refuses_deletes_of_absent_keys_with_a_numeric_time(spark, tmp_path):
    policy = {"input": "effective", "time": "t", "absent_keys": "deleted"}
    engines = EnginePair(spark, tmp_path, policy, {"id": "integer", "a": "string", "t": "bigint"})
    with pytest.raises(Refusal, match="has no place among its values"):
        engines.engine.apply(batch(1, [{"id": 1, "a": "x", "t": 1}]))
