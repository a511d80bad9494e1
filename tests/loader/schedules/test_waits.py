"""Wait conditions of schedules: fields, deadlines, and completeness of data."""

from datetime import UTC, datetime

import pytest

from elevata.core.errors import MetadataError
from loader.schedules.waits import FILES, ROWS, SKIP, START, Wait, answer_of_files, answer_of_rows

DUE = datetime(2026, 11, 25, 6, tzinfo=UTC)
SEEN = {"files": 2, "newest": "b.csv", "signature": "two", "expected": 0}


def test_empty_wait_description_is_no_condition():
    assert Wait.from_json({}) is None


@pytest.mark.parametrize(
    "described",
    [
        {"for": FILES, "source": "k", "minutes": 60, "then": SKIP},
        {"for": ROWS, "source": "k", "rows": 5, "newer": "changed_at", "minutes": 5, "then": START},
    ],
)
def test_a_condition_survives_json(described: dict):
    assert Wait.from_json(described).as_json() == described


@pytest.mark.parametrize(
    ("described", "field"),
    [
        ("files", "wait"),
        ({"source": "k"}, "wait.for"),
        ({"for": "moon", "source": "k"}, "wait.for"),
        ({"for": FILES}, "wait.source"),
        ({"for": FILES, "source": "k", "kind": "x"}, "wait.kind"),
        ({"for": FILES, "source": "k", "until": 5}, "wait.until"),
        ({"for": FILES, "source": "k", "newer": "x"}, "wait.newer"),
        ({"for": ROWS, "source": "k", "rows": 0}, "wait.rows"),
        ({"for": ROWS, "source": "k", "rows": True}, "wait.rows"),
        ({"for": ROWS, "source": "k", "minutes": 10_081}, "wait.minutes"),
        ({"for": ROWS, "source": "k", "then": "panic"}, "wait.then"),
    ],
)
def test_invalid_condition_is_refused_naming_the_field(described: object, field: str):
    with pytest.raises(MetadataError) as problem:
        Wait.from_json(described)
    assert problem.value.field == field


def test_the_deadline_counts_from_the_due_time():
    assert Wait(FILES, "k", minutes=90).deadline(DUE) == datetime(2026, 11, 25, 7, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wait", "description"),
    [
        (Wait(FILES, "k"), "waits for new files of s, at most 60 minutes; then the run is skipped"),
        (Wait(ROWS, "k", rows=1, then=START), "waits for 1 row of s, at most 60 minutes; then the run starts anyway"),
        (Wait(ROWS, "k", rows=9, newer="at"), "waits for 9 rows of s with at after its last load, at most 60 minutes"),
    ],
)
def test_condition_is_described_in_words(wait: Wait, description: str):
    assert wait.words("s").startswith(description)


def test_new_files_are_complete_once_two_checks_find_the_same():
    assert not answer_of_files(**SEEN, last_check="", last_run="one").fulfilled
    assert not answer_of_files(**SEEN, last_check="growing", last_run="one").fulfilled
    assert answer_of_files(**SEEN, last_check="two", last_run="one").fulfilled


def test_the_files_of_the_last_run_are_not_new():
    answer = answer_of_files(**SEEN, last_check="two", last_run="two")
    assert (answer.fulfilled, answer.text) == (False, "2 files, the newest b.csv: the same as at the last run")


def test_fewer_files_than_declared_are_not_complete():
    answer = answer_of_files(**SEEN | {"expected": 3}, last_check="two", last_run="one")
    assert (answer.fulfilled, answer.text) == (False, "2 files, the newest b.csv: 3 are expected")


@pytest.mark.parametrize(("rows", "fulfilled"), [(0, False), (9, False), (10, True), (11, True)])
def test_row_condition_is_fulfilled_from_the_wanted_number_of_rows(rows: int, fulfilled: bool):
    assert answer_of_rows(rows=rows, wanted=10).fulfilled is fulfilled
