"""Synthetic CDC data: exact shares, reproducible by seed, generated row by row."""

from itertools import islice
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.contract.refusals import Refusal
from loader.domain.synthetic import DELETED, UNCHANGED, UPDATED, SyntheticPlan, changes, incremental, initial


def plan(**given_):
    wanted = {
        "initial_rows": 100,
        "incremental_rows": 100,
        "keys": 2,
        "nonkeys": 3,
        "deleted": "0.2",
        "updated": "0.4",
        "unchanged": "0.4",
        "seed": 7,
    }
    return SyntheticPlan.of(**(wanted | given_))


@st.composite
def plans(draw):
    rows, parts = draw(st.integers(0, 40)), draw(st.integers(1, 1000))
    deleted = draw(st.integers(0, parts))
    updated = draw(st.integers(0, parts - deleted))
    # Shares as text with three decimals, as users enter them.
    shares = [f"{deleted / 1000:.3f}", f"{updated / 1000:.3f}", f"{(1000 - deleted - updated) / 1000:.3f}"]
    return plan(
        initial_rows=rows,
        incremental_rows=rows + draw(st.integers(0, 5)),
        keys=draw(st.integers(1, 3)),
        nonkeys=draw(st.integers(1, 12)),
        seed=draw(st.integers(0, 3)),
        **dict(zip(("deleted", "updated", "unchanged"), shares, strict=True)),
    )


@settings(max_examples=60)
@given(plans())
def test_second_delivery_has_exactly_the_planned_counts(wanted):
    first = {row[: wanted.keys]: row[wanted.keys :] for row in initial(wanted)}
    second = {row[: wanted.keys]: row[wanted.keys :] for row in incremental(wanted)}
    assert len(first) == wanted.initial_rows
    assert len(second) == wanted.incremental_rows
    common_keys = first.keys() & second.keys()
    counts = wanted.counts()
    assert sum(counts.values()) == wanted.initial_rows
    assert len(first.keys() - common_keys) == counts[DELETED]
    assert len(second.keys() - common_keys) == wanted.inserted
    assert sum(first[key] == second[key] for key in common_keys) == counts[UNCHANGED]
    assert sum(all(a != b for a, b in zip(first[k], second[k], strict=True)) for k in common_keys) == counts[UPDATED]
    for name, share in wanted.shares.items():
        assert abs(counts[name] - share * wanted.initial_rows) < 1


def test_rounding_adds_the_row_to_the_share_with_the_largest_remainder():
    assert plan(initial_rows=10, deleted="0.25", updated="0.33", unchanged="0.42").counts() == {
        DELETED: 3,
        UPDATED: 3,
        UNCHANGED: 4,
    }
    assert plan(deleted=0.1, updated=0.2, unchanged=0.7).counts() == {DELETED: 10, UPDATED: 20, UNCHANGED: 70}


def test_seed_determines_the_rows_and_changes_are_spread_over_them():
    assert list(incremental(plan())) == list(incremental(plan()))
    assert list(initial(plan())) != list(initial(plan(seed=8)))
    # Pinned: the same on every machine and every Python.
    assert next(initial(plan()))[::2] == ("56a8fb2b-89a9-4a6f-bf2a-a843ac399c92", 6689759, 898845282)
    first_half = list(changes(plan(initial_rows=1000, incremental_rows=1000)))[:500]
    assert 60 < first_half.count(DELETED) < 140


def test_rows_are_generated_on_demand():
    endless = plan(initial_rows=10**12, incremental_rows=10**12)
    for row in (*islice(initial(endless), 2), *islice(incremental(endless), 2)):
        assert len(row) == len(endless.columns) == 5
        assert str(UUID(row[0])) == row[0]
        assert all(isinstance(value, int) for value in row[2:])
    assert endless.columns == ("key_1", "key_2", "value_1", "value_2", "value_3")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"deleted": "0.3"}, "must sum to 1, and 0.3 + 0.4 + 0.4 is 1.1"),
        ({"deleted": "-0.2"}, "between 0 and 1"),
        ({"deleted": "a fifth"}, "between 0 and 1"),
        ({"deleted": "nan"}, "between 0 and 1"),
        ({"keys": 0}, "key columns"),
        ({"nonkeys": 0}, "cannot be updated"),
        ({"initial_rows": -1}, "at least 0"),
        ({"incremental_rows": 79}, "80 rows are kept"),
    ],
)
def test_invalid_synthetic_plans_are_refused(changed, message):
    with pytest.raises(Refusal) as caught:
        plan(**changed)
    assert message in str(caught.value)
