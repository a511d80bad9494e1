"""History policy recorded in commits: permitted changes, and the policy of each run."""

import json

import pytest

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
from loader.domain.refusals import Refusal
from metadata.domain.history.history_policy import HistoryPolicy

COLUMNS = [("k-a", "a"), ("k-b", "b"), ("k-t", "t")]
KEYS = {name: key for key, name in COLUMNS}
EFFECTIVE = {"input": "effective", "time": "t"}


def policy(**more) -> HistoryPolicy:
    return HistoryPolicy.from_dict(EFFECTIVE | more)


def choices(**more) -> Choices:
    return Choices.of(policy(**more), COLUMNS)


def test_without_a_list_every_column_but_the_time_opens_a_version():
    made = choices()
    assert [made.opens(key) for key, _ in COLUMNS] == [True, True, False]
    assert not any(made.updates(key) for key, _ in COLUMNS)


def test_what_is_not_tracked_is_updated_in_place():
    made = choices(track=["a"])
    assert [(made.opens(key), made.updates(key)) for key, _ in COLUMNS] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_or_kept_as_it_was():
    assert not choices(track=["a"], untracked="keep").updates("k-b")


def test_a_rename_changes_no_choice():
    renamed = Choices.of(policy(track=["a"]).renamed({"a": "z"}), [("k-a", "z"), *COLUMNS[1:]])
    assert renamed == choices(track=["a"])


def test_the_same_choices_go_on_in_their_era():
    first = eras_with({}, 1, choices(track=["a"]))
    assert eras_with(eras_note(first), 2, choices(track=["a"])) == first


def test_other_choices_begin_an_era_with_the_run_that_brings_them():
    first = eras_with({}, 1, choices(track=["a"]))
    then = eras_with(eras_note(first), 5, choices())
    assert then == (Era(0, choices(track=["a"])), Era(5, choices()))
    assert eras_with(eras_note(then), 9, choices(track=["a"])) == (*then, Era(9, choices(track=["a"])))


def test_eras_come_back_from_their_note():
    eras = (Era(0, choices(track=["a"])), Era(5, choices()), Era(9, choices(track=["b"], untracked="keep")))
    assert noted_eras(eras_note(eras)) == eras


def test_a_column_that_was_tracked_once_tells_versions_apart_for_ever():
    eras = (Era(0, choices()), Era(5, choices(track=["a"], untracked="keep")))
    assert (ever_tracked(eras, "k-b"), ever_tracked(eras, "k-t")) == (True, False)


def test_neighbours_may_be_equal_only_where_a_tracked_column_was_updated_in_place_later():
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
def test_versions_of_another_form_are_refused_naming_the_choice(before, now, named):
    with pytest.raises(Refusal) as refused:
        load_under(before, now)
    assert refused.value.code == "HISTORY_POLICY_CHANGED"
    assert named in refused.value.message
    assert "Set the history policy back" in refused.value.hint


def test_what_changes_no_form_is_taken():
    load_under(policy(), policy(track=["a"], late="ignore", views=["current"]))
    load_under(HistoryPolicy(), HistoryPolicy(deletes="ignore"))
    load_under(policy(), HistoryPolicy.from_dict({"input": "cdc", "time": "t", "op": "op"}))


def test_a_history_without_versions_takes_any_form():
    load_under(policy(), HistoryPolicy(), versions=0)
    with pytest.raises(Refusal):
        load_under(policy(), HistoryPolicy(), versions=None)


def test_a_part_that_an_older_note_leaves_out_may_be_anything():
    noted = {name: value for name, value in json.loads(form_note(policy(), KEYS)["form"]).items() if name != "profile"}
    refuse_other_form(
        name="rawcore.item",
        policy=policy(profile="scd2"),
        keys=KEYS,
        noted={"form": json.dumps(noted)},
        versions=3,
    )


def test_a_history_that_notes_no_form_takes_todays():
    refuse_other_form(name="rawcore.item", policy=policy(), keys=KEYS, noted={}, versions=3)
