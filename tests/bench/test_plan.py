"""Tests of the data plan: its percentages are exact."""

import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.history.plan import Plan, Step, coprime, load_time
from bench.problem import BenchProblem


def rows_after(plan: Plan, load: int) -> dict[int, int]:
    """Return every live row and the load its values come from, by the plan's SQL expression."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE TABLE live AS WITH RECURSIVE n(id) AS (SELECT ? UNION ALL SELECT id + 1 FROM n "
            "WHERE id + 1 < ?) SELECT id FROM n",
            (plan.gone(load), plan.born(load)),
        )
        return dict(database.execute(f"SELECT id, {plan.since_sql(load)} FROM live"))


@pytest.mark.parametrize(("rows", "per_cent"), [(1000, 10), (5000, 0.1), (200, 50), (12345, 7)])
def test_every_load_changes_deletes_and_adds_exactly_what_is_planned(rows, per_cent):
    plan = Plan.even(rows, per_cent, 3)
    before = rows_after(plan, 0)
    assert len(before) == rows
    for load, step in enumerate(plan.steps, start=1):
        after = rows_after(plan, load)
        kinds = Counter(
            "new" if row not in before else "changed" if since != before[row] else "unchanged"
            for row, since in after.items()
        )
        assert (kinds["changed"], kinds["new"]) == (step.changed, step.new)
        assert len(before.keys() - after.keys()) == step.deleted
        assert all(since == load for row, since in after.items() if since != before.get(row))
        before = after
    assert step == Step(round(rows * per_cent / 100), round(rows * per_cent / 1000), round(rows * per_cent / 1000))


@given(rows=st.integers(60, 300), steps=st.lists(st.tuples(*[st.integers(0, 5)] * 3), max_size=4))
def test_planned_numbers_of_versions_and_live_rows_match_the_rows(rows, steps):
    plan = Plan(rows, tuple(Step(*step) for step in steps))
    versions = {(row, since) for load in range(plan.last + 1) for row, since in rows_after(plan, load).items()}
    assert len(versions) == plan.versions(plan.last)
    assert len(rows_after(plan, plan.last)) == plan.live(plan.last)


def test_changes_are_spread_over_the_table():
    plan = Plan.even(10_000, 10, 1)
    per_tenth = Counter(row // 1000 for row, since in rows_after(plan, 1).items() if since == 1 and row < 10_000)
    assert all(50 < per_tenth[tenth] < 150 for tenth in range(10))


def test_plan_refuses_a_load_that_changes_and_deletes_more_rows_than_exist():
    with pytest.raises(BenchProblem, match="load 1 would change and delete more rows than there are"):
        Plan(10, (Step(8, 3, 0),))


@given(st.integers(1, 5000), st.integers(0, 10**9))
def test_a_coprime_factor_permutes(count, wish):
    factor = coprime(count, wish)
    assert len({place * factor % count for place in range(count)}) == count


def test_loads_are_a_day_apart():
    assert [load_time(load) for load in (0, 31)] == ["2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"]
