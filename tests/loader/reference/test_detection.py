"""Delete detection of deltas: which open keys a run closes, by the list of all keys or by the read window."""

from typing import Any

import pytest

from loader.contract.refusals import Refusal
from loader.domain.reference import ReferenceEngine

COLUMNS = {"id": "integer", "v": "string", "n": "integer"}
BY_KEYS, BY_WINDOW = {"delete_detection": "key_list"}, {"delete_detection": "window"}
ROWS = [{"id": n, "v": "a", "n": n} for n in (1, 2, 3)]


def table(policy: dict[str, Any], rows: list[dict] | None = None) -> ReferenceEngine:
    made = ReferenceEngine({"keys": ["id"], "columns": COLUMNS, "policy": {"input": "delta"} | policy})
    made.apply({"run_id": "first", "at": "2024-01-01", "rows": ROWS if rows is None else rows})
    return made


def second(made: ReferenceEngine, rows: list[dict], **evidence: Any) -> dict[str, int]:
    return made.apply({"run_id": "second", "at": "2024-01-02", "rows": rows, **evidence})["counts"]


def open_keys(made: ReferenceEngine) -> list[int]:
    return sorted(row["id"] for row in made.rows() if row["valid_to"] is None and row["state"] != "deleted")


def test_a_key_that_the_list_lacks_is_closed_at_the_time_of_the_run():
    made = table(BY_KEYS)
    counts = second(made, [{"id": 1, "v": "b", "n": 4}], keys=[{"id": 1}, {"id": "2"}, {"id": 2}, {"id": 9}])
    assert (open_keys(made), counts["deleted"], counts["changed"]) == ([1, 2], 1, 1)
    (closed,) = (row for row in made.rows() if row["id"] == 3)
    assert (closed["state"], closed["valid_to"].isoformat(), closed["closed_by"]) == (
        "deleted",
        "2024-01-02T00:00:00+00:00",
        "second",
    )


def test_a_key_that_the_delta_has_is_open_even_if_the_list_lacks_it():
    made = table(BY_KEYS)
    second(made, [{"id": 3, "v": "b", "n": 4}], keys=[{"id": 1}, {"id": 2}])
    assert open_keys(made) == [1, 2, 3]


def test_returned_key_opens_a_version():
    made = table(BY_KEYS)
    second(made, [], keys=[{"id": 1}, {"id": 2}])
    made.apply({"run_id": "third", "at": "2024-01-03", "rows": [ROWS[2]], "keys": [{"id": n} for n in (1, 2, 3)]})
    assert open_keys(made) == [1, 2, 3]


def test_window_detection_keeps_keys_below_its_start_or_without_a_value_open():
    made = table(BY_WINDOW, [*ROWS, {"id": 4, "v": "a", "n": None}])
    second(made, [{"id": 3, "v": "b", "n": 3}], window={"column": "n", "from": 2})
    assert open_keys(made) == [1, 3, 4]


def test_window_without_a_start_closes_every_absent_key():
    made = table(BY_WINDOW, [*ROWS, {"id": 4, "v": "a", "n": None}])
    second(made, [{"id": 3, "v": "b", "n": 3}], window={"column": "n", "from": None})
    assert open_keys(made) == [3]


def test_delete_detection_writes_tombstones_if_the_policy_requires_them():
    made = table(BY_KEYS | {"deletes": "tombstone"})
    second(made, [], keys=[{"id": 1}])
    assert sorted(row["id"] for row in made.rows() if row["state"] == "deleted") == [2, 3]
    assert (
        made.apply({"run_id": "third", "at": "2024-01-03", "rows": [], "keys": [{"id": 1}]})["counts"]["deleted"] == 0
    )


@pytest.mark.parametrize(
    ("policy", "evidence", "code"),
    [
        (BY_KEYS, {"keys": []}, "EMPTY_SNAPSHOT"),
        (BY_WINDOW, {"window": {"column": "n", "from": 2}}, "EMPTY_SNAPSHOT"),
        (BY_KEYS, {"keys": [{"id": 1}, {"id": None}]}, "NULL_KEY"),
        (BY_KEYS, {"keys": [{"id": "x"}]}, "VALUE_DOES_NOT_FIT"),
    ],
)
def test_evidence_that_is_empty_or_incomplete_refuses_the_run(policy: dict, evidence: dict, code: str):
    made = table(policy)
    with pytest.raises(Refusal) as refused:
        second(made, [], **evidence)
    assert (refused.value.code, open_keys(made)) == (code, [1, 2, 3])


def test_an_empty_key_list_closes_all_keys_if_it_is_allowed():
    made = table(BY_KEYS)
    second(made, [], keys=[], allow_empty=True)
    assert open_keys(made) == []


def test_key_list_that_lacks_many_open_keys_requires_allow_deletes():
    made = table(BY_KEYS, [{"id": n, "v": "a", "n": n} for n in range(2000)])
    with pytest.raises(Refusal, match="the key list has 5 rows and lacks 1995 of the 2000 open keys"):
        second(made, [], keys=[{"id": n} for n in range(5)])
    second(made, [], keys=[{"id": n} for n in range(5)], allow_deletes=True)
    assert open_keys(made) == [0, 1, 2, 3, 4]
