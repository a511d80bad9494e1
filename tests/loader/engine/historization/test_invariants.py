"""Invalid histories: every broken invariant is found on the real table, and nothing else."""

from dataclasses import replace
from random import Random

import pytest

from loader.contract.refusals import Refusal
from loader.domain.reference import violations
from loader.engine.historization import invariants
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sensitivity import MASK
from tests.fixtures.spark import by_night, held_in_memory
from tests.loader.history_rows import WrittenHistory, version

pytestmark = pytest.mark.spark

A, B, C, D = "2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"


@pytest.fixture
def make_history(spark, tmp_path):
    def make(**more) -> WrittenHistory:
        return WrittenHistory(spark, tmp_path, **more)

    return make


def findings_of(history: WrittenHistory, samples: int = 50) -> dict[str, set]:
    """Return the keys of each finding, after checking the counts."""
    answer = invariants.check(history.spark, history.warehouse, history.manifest(samples), "check")
    for finding in answer["findings"]:
        assert len(finding["samples"]) == min(finding["count"], samples), finding
        assert finding["message"]
    return {entry["code"]: {_id(sample["key"]["id"]) for sample in entry["samples"]} for entry in answer["findings"]}


def _id(text: str | None) -> int | None:
    return None if text is None else int(text)


# Each key is broken in one way; the rest of its history is right.
BROKEN = {
    "fine": (
        {},
        version(1, A, B, "changed"),
        version(1, B, C, "deleted", v="b"),
        version(1, D, v="b"),
        version(2, A, B, "deleted"),
    ),
    "no key": ({"NULL_KEY"}, version(None, A)),
    "no start": ({"NULL_START"}, version(10, None, history_key="0" * 64, segment="closed", ended_at=B)),
    "another key's entity key": (
        {"ENTITY_KEY"},
        version(11, A, B, "deleted", entity_key="1" * 64),
    ),
    "wrong history key": ({"HISTORY_KEY"}, version(12, A, history_key="0" * 64)),
    "an empty interval": ({"EMPTY_INTERVAL"}, version(13, A, A, "deleted")),
    "an interval that runs backwards": ({"EMPTY_INTERVAL"}, version(14, B, A, "deleted")),
    "an overlap": ({"OVERLAP"}, version(15, A, C, "deleted", segment="closed"), version(15, B, v="b")),
    "two open versions": ({"OVERLAP", "SEVERAL_OPEN"}, version(16, A), version(16, B, v="b")),
    "equal neighbours": ({"REPEATED_VALUE"}, version(17, A, B, "changed"), version(17, B, state="changed")),
    "equal neighbours around a gap are right": ({}, version(18, A, B, "deleted"), version(18, C)),
    "NULL and empty text differ": (
        {},
        version(19, A, B, "changed", v=None),
        version(19, B, state="changed", v=""),
    ),
    "opened as changed": ({"STATE"}, version(20, A, state="changed")),
    "closed by a change, called deleted": (
        {"STATE"},
        version(21, A, B, "deleted"),
        version(21, B, state="changed", v="b"),
    ),
    "closed by a delete, called changed": ({"STATE"}, version(22, A, B, "changed", segment="deleted")),
    "no state": ({"STATE"}, version(23, A, state=None)),
    "open, in the closed partition": ({"SEGMENT"}, version(24, A, segment="closed")),
    "closed, in the open partition": (
        {"SEGMENT"},
        version(25, A, B, "changed", segment="open"),
        version(25, B, state="changed", v="b"),
    ),
    "the end of a gone key, in the closed partition": ({"SEGMENT"}, version(26, A, B, "deleted", segment="closed")),
    "an unknown partition": ({"SEGMENT"}, version(27, A, B, "deleted", segment="attic")),
    "an open version with another's row hash": ({"ROW_HASH"}, version(28, A, row_hash="0" * 64)),
    "a closed version's row hash does not matter": ({}, version(29, A, B, "deleted", row_hash="0" * 64)),
}


# Rows of rawcore that differ from the open versions of these keys.
RAWCORE = {
    30: ({"RAWCORE_MISSING"}, []),
    31: ({"RAWCORE_DIFFERS"}, [{"id": 31, "v": "x"}]),
    32: ({"RAWCORE_TWICE"}, [{"id": 32, "v": "a"}, {"id": 32, "v": "a"}]),
    33: ({"RAWCORE_EXTRA"}, [{"id": 33, "v": "a"}]),
}


@pytest.mark.core
def test_check_reports_each_broken_invariant_at_its_key(make_history):
    history = make_history()
    versions = [row for _, *rows in BROKEN.values() for row in rows] + [version(id, A) for id in RAWCORE if id != 33]
    current = {row["id"]: row for row in versions if row["segment"] == "open" and row["id"] not in RAWCORE}
    history.write(*versions, rawcore=[*current.values(), *(row for _, rows in RAWCORE.values() for row in rows)])
    cases = [*((codes, rows[0]["id"]) for codes, *rows in BROKEN.values())]
    cases += [(codes, id) for id, (codes, _) in RAWCORE.items()]
    # Rawcore can contain only one of two versions in the open partition.
    cases += [({"RAWCORE_DIFFERS"}, 16), ({"RAWCORE_DIFFERS"}, 25)]
    expected: dict[str, set] = {}
    for codes, id in cases:
        for code in codes:
            expected.setdefault(code, set()).add(id)
    assert findings_of(history) == expected
    assert held_in_memory(history.spark) == []


def test_check_refuses_a_missing_table(make_history):
    history = make_history()
    with pytest.raises(Refusal, match="does not exist in the warehouse yet"):
        invariants.check(history.spark, history.warehouse, history.manifest(), "check")


def test_check_has_no_findings_for_renamed_or_retired_columns(make_history):
    history = make_history(columns={"id": "integer", "v": "string", "w": "string"})
    history.write(version(1, A, B, "changed", w="x"), version(1, B, state="changed", w=None))
    history.columns = {"id": "integer", "v": "string"}
    history.names = {"v": "value", "rc_t": "rc_renamed"}
    assert findings_of(history) == {}


# --- comparison with the findings of the reference ---------------------------------------------------

SENTENCES = {
    "EMPTY_INTERVAL": "it is empty",
    "SEVERAL_OPEN": "more than one open version",
    "OVERLAP": "overlaps at",
    "REPEATED_VALUE": "repeats its value",
    "STATE": "and should be",
    "SAME_START": "two versions that start at",
}
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04")
POLICIES = {
    "snapshots": {},
    "tombstones with a high date": {"deletes": "tombstone", "open_end": "9999-12-31T00:00:00Z"},
    "dated by a date, one column tracked, labelled": {
        "input": "effective", "time": "day", "track": ["v"], "open_end": "9999-12-31", "profile": "scd2",
        "state_labels": {"new": "opened"},
    },
    "batch files": {"input": "batch_files", "time": "_fivetran_start"},
}  # fmt: skip
# These cover the properties of the others except tombstones, which have a separate test below.
BY_DAY = {"dated by a date, one column tracked, labelled", "batch files"}


def chance_versions(random: Random, policy: HistoryPolicy) -> list[dict]:
    """Return one key's versions, some invalid: intervals that mostly meet, states that mostly fit."""
    states = ("live", "deleted") if policy.deletes == "tombstone" else ("new", "changed", "deleted")
    starts = sorted(random.choices(DAYS, k=random.randint(1, 3)))
    rows = []
    for place, start in enumerate(starts):
        following = starts[place + 1] if place + 1 < len(starts) else None
        end = random.choice([following, following, following, None, *DAYS])
        value = random.choice([None, 0.0, -0.0, float("nan"), 1.5])
        rows.append({"valid_from": start, "valid_to": end, "state": random.choice(states), "v": value})
    return rows


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name if name in BY_DAY else by_night(name) for name in POLICIES])
def test_check_of_random_histories_has_the_findings_of_the_reference(make_history, name):
    described = POLICIES[name]
    policy = HistoryPolicy.from_dict(described)
    columns = {"id": "integer", "v": "float", "w": "integer"} | ({"day": "date"} if policy.time == "day" else {})
    history = make_history(policy=described, columns=columns)
    random, expected, stored = Random(name), {}, []
    for id in range(120):
        rows = [{"id": id, "w": number, **row} for number, row in enumerate(chance_versions(random, policy))]
        for row in rows:
            row |= {"day": row["valid_from"]} if policy.time == "day" else {"w": 0}
        sentences = violations(rows, policy, ["id"], list(columns))
        for code, words in SENTENCES.items():
            if any(words in sentence for sentence in sentences):
                expected.setdefault(code, set()).add(id)
        stored += [_stored_version(row, policy) for row in rows]
    history.write(*stored, rawcore=[])
    assert expected
    actual = findings_of(history, samples=1000)
    assert {code: keys for code, keys in actual.items() if code in SENTENCES} == expected
    assert "ROW_HASH" not in actual
    assert "HISTORY_KEY" not in actual


def _stored_version(row: dict, policy: HistoryPolicy) -> dict:
    end = row["valid_to"]
    if end is None and policy.open_end:
        end = "9999-12-31"
    return version(row["id"], row["valid_from"], end, policy.label(row["state"]), v=row["v"], w=row["w"]) | {
        "day": row.get("day"),
        "active": row["valid_to"] is None,
        "segment": "open" if row["valid_to"] is None else "closed",
    }


def test_check_of_batch_files_reports_repeated_starts_and_several_active_versions(make_history):
    history = make_history(policy=POLICIES["batch files"])
    history.write(
        version(1, A, C, segment="closed", active=False),
        version(1, B, B, segment="closed", active=False),
        version(2, A, segment="open", active=True),
        version(2, B, segment="open", active=True),
        version(3, A, segment="closed", active=False),
        version(3, A, segment="closed", active=False),
    )
    actual = findings_of(history)
    assert {code: actual[code] for code in ("SAME_START", "SEVERAL_ACTIVE")} == {
        "SAME_START": {3},
        "SEVERAL_ACTIVE": {2},
    }
    assert actual.keys() == {"SAME_START", "SEVERAL_ACTIVE", "RAWCORE_TWICE"}


def test_check_expects_open_tombstones_in_the_deleted_segment_without_a_rawcore_row(make_history):
    history = make_history(policy={"deletes": "tombstone"})
    history.write(
        version(1, A, B, "live"),
        version(1, B, state="deleted", segment="deleted"),
        version(2, A, B, "live"),
        version(2, B, C, "deleted", segment="closed"),
        version(2, C, state="live"),
        version(3, A, B, "live"),
        version(3, B, state="deleted", segment="open"),
        version(4, A, state="deleted", segment="deleted"),
        version(5, A, B, "live"),
        rawcore=[{"id": 2, "v": "a"}, {"id": 3, "v": "a"}],
    )
    assert findings_of(history) == {"SEGMENT": {3, 5}, "STATE": {4, 5}}


def test_check_reports_wrong_active_flags_with_a_limited_number_of_samples(make_history):
    history = make_history(policy={"profile": "scd2"})
    history.write(
        version(1, A, active=True),
        version(2, A, active=False),
        version(3, A, B, "deleted", active=True),
        version(4, A, B, "deleted", active=None),
    )
    assert findings_of(history, samples=2) == {"ACTIVE": {2, 3}}


def test_check_masks_starts_that_a_sensitive_column_dates(make_history):
    columns = {"id": "integer", "v": "string", "born": "date"}
    history = make_history(policy={"input": "effective", "time": "born"}, columns=columns)
    history.write(version(1, A, A, "deleted", born=A), rawcore=[])

    def answer(*sensitive: str) -> tuple:
        manifest = replace(history.manifest(), sensitive=sensitive)
        checked = invariants.check(history.spark, history.warehouse, manifest, "check")
        (sample,) = next(finding["samples"] for finding in checked["findings"] if finding["code"] == "EMPTY_INTERVAL")
        return sample["key"]["id"], sample["start"][:10], checked["columns"], checked["masked"]

    assert answer() == ("1", A, ["id", "born"], [])
    assert answer("born") == ("1", MASK, ["id", "born"], ["born"])
    assert answer("id", "born") == (MASK, MASK, ["id", "born"], ["id", "born"])
