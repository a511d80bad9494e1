"""Tests of the rules for unknown parents that a reference can have."""

import pytest

from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.quality.unknown_parents import GHOST, KEEP, NULL, QUARANTINE, REFUSE, RULES, End, rule_problem


def end(name: str, *, is_loaded: bool = True, **policy: object) -> End:
    return End(name, HistoryPolicy.from_dict(policy), is_loaded)


ORDER, PLANT = end("rc_order"), end("rc_plant")
FEED = {"input": "cdc", "time": "seq", "op": "op"}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("policy", [{}, {"input": "delta"}, {"deletes": "tombstone"}])
def test_tables_dated_by_the_load_can_have_each_rule(rule: str, policy: dict) -> None:
    assert rule_problem(rule, end("rc_order", **policy), end("rc_plant", **policy)) == ""


@pytest.mark.parametrize("rule", [NULL, GHOST, REFUSE, QUARANTINE])
def test_child_with_dated_rows_accepts_only_the_rule_keep(rule: str) -> None:
    assert "rc_order must be" in rule_problem(rule, end("rc_order", **FEED), PLANT)
    assert rule_problem(KEEP, end("rc_order", **FEED), PLANT) == ""


def test_a_parent_with_dated_rows_gets_no_ghost_rows() -> None:
    feed = end("rc_plant", **FEED)
    assert "rc_plant must be" in rule_problem(GHOST, ORDER, feed)
    assert rule_problem(REFUSE, ORDER, feed) == rule_problem(NULL, ORDER, feed) == ""


@pytest.mark.parametrize("rule", [NULL, GHOST, REFUSE, QUARANTINE])
def test_parent_that_no_load_writes_is_refused(rule: str) -> None:
    assert "rc_plant must be a rawcore table" in rule_problem(rule, ORDER, end("rc_plant", is_loaded=False))


@pytest.mark.parametrize("rule", [NULL, REFUSE, QUARANTINE])
def test_rules_without_ghost_rows_do_not_require_snapshots_of_the_parent(rule: str) -> None:
    assert "snapshots" not in rule_problem(rule, ORDER, end("rc_plant", is_loaded=False))


@pytest.mark.parametrize("rule", [NULL, GHOST, REFUSE, QUARANTINE])
def test_self_reference_accepts_only_the_rule_keep(rule: str) -> None:
    assert "refers to itself" in rule_problem(rule, PLANT, PLANT)


def test_parent_with_a_required_attribute_refuses_ghost_rows() -> None:
    assert "rc_plant.name may not be NULL" in rule_problem(GHOST, ORDER, PLANT, required=["title", "name"])
    assert rule_problem(NULL, ORDER, PLANT, required=["name"]) == ""


def test_child_that_keeps_untracked_columns_refuses_the_rule_null() -> None:
    child = end("rc_order", track=["v"], untracked="keep")
    assert "keeps untracked columns" in rule_problem(NULL, child, PLANT)
    assert rule_problem(REFUSE, child, PLANT) == ""


def test_child_with_a_delete_flag_refuses_the_rule_quarantine() -> None:
    child = end("rc_order", input="delta", delete_flag="gone")
    assert "flag deletes" in rule_problem(QUARANTINE, child, PLANT)
    assert rule_problem(REFUSE, child, PLANT) == ""
