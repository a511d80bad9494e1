"""Tests of the description of a history policy on a dataset's page."""

import pytest

from metadata.domain.history.history_facts import history_facts
from metadata.domain.history.history_policy import HistoryPolicy

CDC = {"input": "cdc", "time": "seq", "op": "what"}
FILES = {"input": "batch_files", "time": "_fivetran_start"}


def facts(policy: dict, time_type: str = "timestamp") -> dict[str, str]:
    return dict(history_facts("rc_a", HistoryPolicy.from_dict(policy), time_type))


def test_default_policy_is_described_in_words() -> None:
    assert facts({}) == {
        "History is fed by": "full snapshots: a key that is absent was deleted",
        "Versions are dated by": "the load",
        "Deletes": "close the version",
        "Tracked columns": "all",
        "End of an open version": "NULL",
        "Columns are named as": "elevata",
        "States": "new, changed, deleted",
        "Views": "none",
    }


@pytest.mark.parametrize(
    ("policy", "term", "words"),
    [
        ({"input": "delta"}, "History is fed by", "deltas: a key that is absent stays as it was"),
        (CDC, "History is fed by", "a CDC feed, its operation in what"),
        (CDC, "Versions are dated by", "column seq"),
        (
            {"input": "effective", "time": "at", "absent_keys": "deleted"},
            "History is fed by",
            "rows with a time of their own; a key that is absent was deleted",
        ),
        ({**CDC, "late_horizon": 30}, "Late rows", "split history where they belong; remembered for 30 days"),
        ({**CDC, "late": "refuse"}, "Late rows", "refuse the batch"),
        ({"track": ["a", "b"]}, "Tracked columns", "a, b; others update the version in place"),
        ({"track": ["a"], "untracked": "keep"}, "Tracked columns", "a; others stay as they were"),
        ({"open_end": "9999-12-31"}, "End of an open version", "9999-12-31"),
        ({"profile": "fivetran"}, "End of an open version", "9999-12-31T23:59:59.999Z"),
        ({"profile": "dbt"}, "Columns are named as", "dbt snapshots"),
        ({"state_labels": {"new": "I", "live": "on"}}, "States", "I (new), changed, deleted"),
        ({"deletes": "tombstone", "state_labels": {"live": "on"}}, "States", "on (live), deleted"),
        (
            {"views": ["as_of", "current"]},
            "Views",
            "rc_a_hist_current (what holds now), rc_a_hist_periods (what held when), rc_a_hist_as_of(at)",
        ),
    ],
)
def test_policy_choice_is_described_in_words(policy: dict, term: str, words: str) -> None:
    assert facts(policy)[term] == words


def test_numeric_time_column_has_null_as_open_end_despite_its_profile() -> None:
    assert (
        facts({"profile": "fivetran", "input": "effective", "time": "at"}, "bigint")["End of an open version"] == "NULL"
    )


def test_batch_files_policy_describes_only_the_fields_it_decides() -> None:
    assert set(facts(FILES)) == {
        "History is fed by",
        "Versions are dated by",
        "Columns are named as",
        "States",
        "Views",
    }
