"""Effect of another history policy on an existing history."""

import pytest

from loader.domain.historization.policy_effects import FROM_NOW, NEXT_LOAD, REFUSED, effects
from metadata.domain.history.history_policy import HistoryPolicy

EFFECTIVE = {"input": "effective", "time": "at"}


def kinds(before: dict, now: dict) -> list[str]:
    return [effect.kind for effect in effects(HistoryPolicy.from_dict(before), HistoryPolicy.from_dict(now))]


def test_unchanged_policy_has_no_effects():
    assert kinds(EFFECTIVE, EFFECTIVE) == []


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"time": "at"}, {"time": "other"}),
        ({}, {"deletes": "tombstone"}),
        ({}, {"open_end": "9999-12-31"}),
        ({}, {"state_labels": {"new": "I"}}),
        ({}, {"profile": "scd2"}),
    ],
)
def test_change_of_the_form_of_versions_is_refused(before: dict, now: dict):
    assert kinds(before, now) == [REFUSED]


@pytest.mark.parametrize("now", [{"track": ["a"]}, {"track": ["a"], "untracked": "keep"}])
def test_change_of_tracked_columns_applies_from_now_on(now: dict):
    assert kinds({}, now) == [FROM_NOW]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {"deletes": "ignore"}),
        ({}, {"input": "delta"}),
        ({}, {"views": ["current"]}),
        (EFFECTIVE, EFFECTIVE | {"late": "refuse"}),
        (EFFECTIVE, EFFECTIVE | {"late_horizon": 7}),
        (EFFECTIVE, EFFECTIVE | {"absent_keys": "deleted", "deletes": "ignore"}),
    ],
)
def test_other_policy_changes_apply_from_the_next_load(before: dict, now: dict):
    assert kinds(before, now) == [NEXT_LOAD]


def test_each_kind_of_effect_is_listed_once_with_all_its_settings():
    now = {"deletes": "tombstone", "track": ["a"], "views": ["current"], "profile": "dbt"}
    refused, from_now, next_load = effects(HistoryPolicy(), HistoryPolicy.from_dict(now))
    assert "whether a delete leaves a tombstone" in refused.text
    assert "which columns its versions have" in refused.text
    assert from_now.text.startswith("The tracked columns: what is in the history stays")
    assert next_load.text.startswith("Views: so from the next load on")
