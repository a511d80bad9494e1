"""History policy recorded in commits: permitted changes, and the policy of each run."""

import json

import pytest

from loader.contract.refusals import Refusal
from loader.domain.historization.history import (
    Choices,
    Era,
    eras_note,
    eras_with,
    ever_tracked,
    form_note,
    may_repeat,
    noted_eras,
    refuse_other_form,
)
from metadata.domain.history.history_policy import HistoryPolicy

COLUMNS = [("k-a", "a"), ("k-b", "b"), ("k-t", "t")]
KEYS = {name: key for key, name in COLUMNS}
EFFECTIVE = {"input": "effective", "time": "t"}


def policy(**more) -> HistoryPolicy:
    return HistoryPolicy.from_dict(EFFECTIVE | more)


def choices(**more) -> Choices:
    return Choices.of(policy(**more), COLUMNS)


def test_every_column_except_the_time_opens_versions_by_default():
    made = choices()
    assert [made.opens(key) for key, _ in COLUMNS] == [True, True, False]
    assert not any(made.updates(key) for key, _ in COLUMNS)


def test_untracked_column_is_updated_in_place():
    made = choices(track=["a"])
    assert [(made.opens(key), made.updates(key)) for key, _ in COLUMNS] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_untracked_column_is_not_updated_with_the_keep_setting():
    assert not choices(track=["a"], untracked="keep").updates("k-b")


def test_a_rename_changes_no_choice():
    renamed = Choices.of(policy(track=["a"]).renamed({"a": "z"}), [("k-a", "z"), *COLUMNS[1:]])
    assert renamed == choices(track=["a"])


def test_equal_choices_begin_no_new_era():
    first = eras_with({}, 1, choices(track=["a"]))
    assert eras_with(eras_note(first), 2, choices(track=["a"])) == first


def test_changed_choices_begin_an_era_with_their_run():
    first = eras_with({}, 1, choices(track=["a"]))
    then = eras_with(eras_note(first), 5, choices())
    assert then == (Era(0, choices(track=["a"])), Era(5, choices()))
    assert eras_with(eras_note(then), 9, choices(track=["a"])) == (*then, Era(9, choices(track=["a"])))


def test_recorded_eras_are_read_back_unchanged():
    eras = (Era(0, choices(track=["a"])), Era(5, choices()), Era(9, choices(track=["b"], untracked="keep")))
    assert noted_eras(eras_note(eras)) == eras


def test_column_tracked_in_an_earlier_era_remains_ever_tracked():
    eras = (Era(0, choices()), Era(5, choices(track=["a"], untracked="keep")))
    assert (ever_tracked(eras, "k-b"), ever_tracked(eras, "k-t")) == (True, False)


def test_adjacent_versions_may_repeat_only_after_a_tracked_column_became_updated_in_place():
    keys = [key for key, _ in COLUMNS]
    assert may_repeat((Era(0, choices()), Era(5, choices(track=["a"]))), keys)
    assert not may_repeat((Era(0, choices(track=["a"])),), keys)
    assert not may_repeat((Era(0, choices()), Era(5, choices(track=["a"], untracked="keep"))), keys)


def load_under(before: HistoryPolicy, now: HistoryPolicy, *, versions: int | None = 3) -> None:
    refuse_other_form(name="rawcore.item", policy=now, keys=KEYS, noted=form_note(before, KEYS), versions=versions)


OTHER_FORMS = {
    "another time": (policy(), HistoryPolicy(), "time"),
    "batch files": (HistoryPolicy(), HistoryPolicy.from_dict({"input": "batch_files", "time": "x"}), "input"),
    "tombstones": (HistoryPolicy(), HistoryPolicy(deletes="tombstone"), "deletes"),
    "no tombstones": (HistoryPolicy(deletes="tombstone"), HistoryPolicy(), "deletes"),
    "a high end": (HistoryPolicy(), HistoryPolicy(open_end="9999-12-31"), "open_end"),
    "another profile": (HistoryPolicy(), HistoryPolicy(profile="scd2"), "profile"),
    "other states": (HistoryPolicy(), HistoryPolicy(state_labels=(("new", "opened"),)), "state_labels"),
}


@pytest.mark.parametrize(("before", "now", "named"), OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_change_of_the_form_of_versions_is_refused_naming_the_setting(before, now, named):
    with pytest.raises(Refusal) as refused:
        load_under(before, now)
    assert refused.value.code == "HISTORY_POLICY_CHANGED"
    assert named in refused.value.message
    assert "Set the history policy back" in refused.value.hint


def test_policy_change_that_keeps_the_form_is_accepted():
    load_under(policy(), policy(track=["a"], late="ignore", views=["current"]))
    load_under(HistoryPolicy(), HistoryPolicy(deletes="ignore"))
    load_under(policy(), HistoryPolicy.from_dict({"input": "cdc", "time": "t", "op": "op"}))


def test_a_history_without_versions_takes_any_form():
    load_under(policy(), HistoryPolicy(), versions=0)
    with pytest.raises(Refusal):
        load_under(policy(), HistoryPolicy(), versions=None)


def test_setting_absent_from_an_older_recorded_form_is_not_compared():
    notes = {name: value for name, value in json.loads(form_note(policy(), KEYS)["form"]).items() if name != "profile"}
    refuse_other_form(
        name="rawcore.item",
        policy=policy(profile="scd2"),
        keys=KEYS,
        noted={"form": json.dumps(notes)},
        versions=3,
    )


def test_history_without_a_recorded_form_accepts_the_current_one():
    refuse_other_form(name="rawcore.item", policy=policy(), keys=KEYS, noted={}, versions=3)
