"""Tests of the changes of an edit of many rows, and of their undo."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.bulk_edits import (
    ADD_TAGS,
    OWNER,
    REMOVE_TAGS,
    RETIRE,
    can_undo,
    changes_of,
    follows_rename,
    key_before,
    refuse_later_change,
    values_before,
)


def test_added_tags_are_merged_in_order_without_duplicates():
    assert changes_of(ADD_TAGS, ["b", "a"], tags=["a"]) == {"tags": ["a", "b"]}


def test_only_the_given_tags_are_removed():
    assert changes_of(REMOVE_TAGS, ["a", "z"], tags=["a", "b"]) == {"tags": ["b"]}


def test_owner_and_retire_actions_set_their_field():
    assert changes_of(OWNER, "ops", tags=[]) == {"owner": "ops"}
    assert changes_of(RETIRE, None, tags=[]) == {"active": False}


def test_undo_restores_an_empty_value():
    assert values_before({"tags": {"after": ["a"]}}) == {"tags": []}


def test_undo_of_a_retirement_restores_only_the_active_flag():
    logged = {"active": {"before": True, "after": False}, "retired_by": {"after": "person"}}
    assert values_before(logged) == {"active": True}


def test_undo_of_a_rename_restores_only_the_name():
    logged = {"name": {"before": "a", "after": "b"}, "former_names": {"after": ["a"]}}
    assert values_before(logged) == {"name": "a"}


def test_a_field_that_was_changed_again_is_not_undone():
    with pytest.raises(MetadataError) as refused:
        refuse_later_change({"owner": {"before": "a", "after": "b"}}, {"owner": "c"})
    assert refused.value.code == "changed_since"


@pytest.mark.parametrize(
    ("kind", "action", "fields"),
    [
        ("dataset", "renamed", ["name", "former_names"]),
        ("dataset", "changed", ["filter"]),
        ("dataset", "changed", ["select", "inputs", "owner"]),
        ("dataset", "changed", ["select", "increment"]),
        ("column", "renamed", ["name", "former_names"]),
        ("column", "changed", ["type"]),
        ("column", "changed", ["expression", "inputs"]),
        ("column", "changed", ["role", "key_ordinal", "nullable"]),
    ],
)
def test_names_types_roles_and_expressions_can_be_undone(kind: str, action: str, fields: list[str]):
    assert can_undo(kind, action, fields)


def test_expressions_and_policies_can_follow_a_rename():
    assert follows_rename("changed", ["expression"])
    assert follows_rename("changed", ["history_policy"])
    assert not follows_rename("changed", ["expression", "owner"])


@pytest.mark.parametrize(
    ("kind", "action", "fields"),
    [
        ("dataset", "created", ["owner"]),
        ("dataset", "changed", ["select", "materialization"]),
        ("dataset", "created", ["select"]),
        ("dataset", "changed", ["history_policy"]),
        ("dataset", "changed", ["inputs"]),
        ("column", "changed", ["former_names"]),
        ("system", "changed", ["owner"]),
    ],
)
def test_other_changes_cannot_be_undone(kind: str, action: str, fields: list[str]):
    assert not can_undo(kind, action, fields)


def test_key_before_a_select_change_follows_from_the_logged_column_changes():
    current = {"a": ("id", None), "b": ("number", 1), "c": ("line", 2), "d": ("new", 3), "e": ("old", 2)}
    logged = [
        ("a", "changed", {"key_ordinal": {"before": 1}}),
        ("b", "renamed", {"name": {"before": "nr", "after": "number"}, "key_ordinal": {"after": 1}}),
        ("d", "created", {"key_ordinal": {"after": 3}}),
        ("e", "retired", {"active": {"before": True, "after": False}}),
        ("c", "restored", {"active": {"after": True}}),
    ]
    assert key_before(current, logged) == ["id", "old"]
    assert key_before({"b": ("number", 1)}, logged[1:2]) == []
    assert key_before({"b": ("number", 1)}, []) == ["number"]
