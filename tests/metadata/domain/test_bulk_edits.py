"""Tests of the changes of an edit of many rows, and of their undo."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.bulk_edits import ADD_TAGS, OWNER, REMOVE_TAGS, RETIRE, can_undo, changes_of, undo_of


def test_added_tags_follow_the_existing_ones():
    assert changes_of(ADD_TAGS, ["b", "a"], tags=["a"]) == {"tags": ["a", "b"]}


def test_only_the_given_tags_are_removed():
    assert changes_of(REMOVE_TAGS, ["a", "z"], tags=["a", "b"]) == {"tags": ["b"]}


def test_other_actions_set_their_field():
    assert changes_of(OWNER, "ops", tags=[]) == {"owner": "ops"}
    assert changes_of(RETIRE, None, tags=[]) == {"active": False}


def test_an_empty_value_is_restored():
    assert undo_of({"tags": {"after": ["a"]}}, {"tags": ["a"]}) == {"tags": []}


def test_the_times_of_a_retirement_follow_from_the_state():
    logged = {"active": {"before": True, "after": False}, "retired_by": {"after": "person"}}
    assert undo_of(logged, {"active": False}) == {"active": True}


def test_a_field_that_was_changed_again_is_not_undone():
    with pytest.raises(MetadataError) as refused:
        undo_of({"owner": {"before": "a", "after": "b"}}, {"owner": "c"})
    assert refused.value.code == "changed_since"


@pytest.mark.parametrize(
    ("kind", "action", "fields"),
    [("dataset", "created", ["owner"]), ("dataset", "changed", ["owner", "filter"]), ("system", "changed", ["owner"])],
)
def test_other_changes_are_not_undone(kind: str, action: str, fields: list[str]):
    assert not can_undo(kind, action, fields)
