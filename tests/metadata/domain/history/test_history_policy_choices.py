"""Tests of the history policy choices in forms: all are listed, and those without effect are marked."""

from itertools import product

import pytest

from metadata.domain.history import history_policy
from metadata.domain.history.history_policy import HistoryPolicy, PolicyContradiction
from metadata.domain.history.history_policy_labels import BY_INPUT, CHOICES, Chosen, described_policy, not_applying


@pytest.mark.parametrize("name", history_policy._CHOICES)
def test_choices_list_every_value_of_a_field(name: str):
    values = [choice.value for choice in CHOICES[name] if choice.value != BY_INPUT]
    assert sorted(values) == sorted(history_policy._CHOICES[name])


def test_choices_list_every_view():
    assert sorted(choice.value for choice in CHOICES["views"]) == sorted(history_policy.VIEWS)


@pytest.mark.parametrize("choice", [choice for choices in CHOICES.values() for choice in choices])
def test_choice_is_described_in_one_sentence(choice):
    assert choice.explanation.endswith(".")
    assert ". " not in choice.explanation


# For each field a value with an effect, to be combined with other choices.
_EFFECTIVE = {"deletes": "tombstone", "late": "ignore", "late_horizon": 3, "op": "op", "profile": "dbt"}
_EFFECTIVE |= {"null_string": "N", "unmodified_string": "U", "open_end": "9999-12-31", "untracked": "keep"}


def _beside(input_: str, absent: str, time: str) -> dict:
    return {"input": input_, "absent_keys": absent, "time": time} | ({"op": "op"} if input_ == "cdc" else {})


def _contradicts(described: dict) -> bool:
    try:
        HistoryPolicy.from_dict(described)
    except PolicyContradiction:
        return True
    return False


_INPUTS = [choice.value for choice in CHOICES["input"]]
_POSSIBLE = [row for row in product(_INPUTS, ("nothing", "deleted"), ("load", "at")) if not _contradicts(_beside(*row))]


@pytest.mark.parametrize("name", _EFFECTIVE)
@pytest.mark.parametrize("chosen", _POSSIBLE)
def test_field_is_disabled_exactly_if_its_value_would_contradict_the_policy(chosen: tuple[str, str, str], name: str):
    refused = _contradicts(_beside(*chosen) | {name: _EFFECTIVE[name]})
    assert (name in not_applying(Chosen(*chosen))) == refused


def test_numeric_time_column_disables_late_horizon_and_open_end():
    reasons = not_applying(Chosen("cdc", time="sequence", numbered=True))
    assert {"late_horizon", "open_end"} <= reasons.keys()
    assert "late" not in reasons


def test_deletes_of_a_delta_are_enabled_by_delete_detection():
    assert "deletes" in not_applying(Chosen("delta"))
    assert "deletes" not in not_applying(Chosen("delta", detects=True))
    assert "delete_detection" not in not_applying(Chosen("delta"))
    assert {"deletes", "delete_detection"} <= not_applying(Chosen("delta", time="at", detects=True)).keys()


def test_untracked_is_enabled_if_only_some_columns_are_tracked():
    assert "untracked" in not_applying(Chosen())
    assert "untracked" not in not_applying(Chosen(tracks=True))


def test_policy_from_form_values_omits_empty_fields():
    values = {"historize": True, "input": "snapshot", "deletes": "", "track": [], "op": "", "late_horizon": None}
    policy = described_policy(values, {"new": "I", "live": ""})
    assert policy == {"input": "snapshot", "state_labels": {"new": "I"}}
    assert HistoryPolicy.from_dict(policy).label("new") == "I"
