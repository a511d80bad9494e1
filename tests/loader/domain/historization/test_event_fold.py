"""SQL of the event fold where it depends on the history policy of each event."""

from loader.domain.historization.fold import Column, EventFold
from loader.domain.historization.history import Choices, Era
from metadata.domain.history.history_policy import HistoryPolicy

COLUMNS = (Column("ka", "a", "STRING"), Column("kb", "b", "INT"))


def choices(**more) -> Choices:
    policy = HistoryPolicy.from_dict({"input": "effective", "time": "t"} | more)
    return Choices.of(policy, [(column.key, column.name) for column in COLUMNS])


def versions(*eras: Era) -> str:
    policy = HistoryPolicy.from_dict({"input": "effective", "time": "t"})
    return EventFold(policy, COLUMNS, "BIGINT", eras).versions("log")


def test_fold_under_one_policy_ignores_the_run_of_an_event():
    assert ".seq >" not in versions(Era(0, choices(track=["a"])))
    assert ".seq <" not in versions(Era(0, choices(track=["a"])))


def test_column_tracked_later_opens_versions_only_for_events_of_later_runs():
    sql = versions(Era(0, choices(track=["a"])), Era(5, choices()))
    assert "f_e.v.c1 <=> f_acc.cur.v.c1) AND ((f_e.seq >= 5L))" in sql
    assert "f_e.v.c1 <=> f_acc.cur.v.c1) AND ((f_e.seq < 5L))" in sql  # earlier events update the column in place
    assert "f_e.v.c0 <=> f_acc.cur.v.c0) AND" not in sql


def test_an_era_in_between_ends_where_the_next_begins():
    sql = versions(Era(0, choices(track=["a"])), Era(5, choices()), Era(9, choices(track=["a"])))
    assert "((f_e.seq >= 5L AND f_e.seq < 9L))" in sql
    assert "((f_e.seq < 5L) OR (f_e.seq >= 9L))" in sql
