"""Matching of objects by name after their stable keys changed."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

from hypothesis import given
from hypothesis import strategies as st

from architecture.domain.planning.matching import as_known
from architecture.domain.states.flat_states import flat
from architecture.domain.tables import tables_of
from loader.domain.historization.stage import entity_key_components, row_hash_components
from metadata.domain.state import ColumnState, DatasetState, ReferenceState


def key(*names: str) -> str:
    return str(uuid5(NAMESPACE_DNS, "/".join(names)))


def dataset(name: str, *columns: str, **changes) -> DatasetState:
    described = tuple(
        ColumnState(key(name, column), column, "string", role="business_key" if column == "id" else "attribute")
        for column in columns or ("id", "v")
    )
    fields = {"historize": True, "history_key": key(name, "hist")} | changes
    return DatasetState(key(name), "rawcore", "rawcore", f"rc_{name}", described, **fields)


def column(of: DatasetState, name: str) -> ColumnState:
    return next(column for column in of.columns if column.name == name)


def with_column(of: DatasetState, which: str, **changes) -> DatasetState:
    columns = tuple(replace(column, **changes) if column.name == which else column for column in of.columns)
    return replace(of, columns=columns)


def with_new_keys(state: DatasetState) -> DatasetState:
    """Return the dataset with new keys, those of its history and columns included."""
    return replace(
        state,
        key=key("new", state.key),
        history_key=state.history_key and key("new", state.history_key),
        columns=tuple(replace(column, key=key("new", column.key)) for column in state.columns),
    )


def warned(known) -> list[tuple[str, str, str]]:
    return [(warning.code, warning.dataset, warning.column) for _, warning in known.warnings]


def test_matching_changes_nothing_while_no_key_moved():
    states = (dataset("a"), dataset("b", "id", "more"))
    known = as_known(states, [dataset("a"), dataset("gone")])
    assert known.states == states
    assert (known.moved, known.warnings) == ({}, ())


def test_dataset_with_a_moved_key_is_matched_by_name():
    applied = dataset("a")
    known = as_known([with_new_keys(applied)], [applied])
    assert known.states == (applied,)
    assert known.moved == {applied.key: key("new", applied.key)}


def test_match_by_name_warns_of_the_dataset_and_each_column():
    applied = dataset("a")
    known = as_known([with_new_keys(applied)], [applied])
    code, name = "KEY_CHANGED_NAME_KEPT", "rawcore.rc_a"
    assert warned(known) == [(code, name, ""), (code, name, "id"), (code, name, "v")]
    assert {dataset_key for dataset_key, _ in known.warnings} == {applied.key}


def test_match_by_name_ignores_case():
    applied = dataset("a")
    desired = replace(with_new_keys(applied), name="RC_A")
    assert as_known([desired], [applied]).states == (replace(applied, name="RC_A"),)


def test_match_by_name_keeps_hash_components_and_tables():
    applied = dataset("a")
    (known,) = as_known([with_new_keys(applied)], [applied]).states
    assert entity_key_components(known) == entity_key_components(applied)
    assert row_hash_components(known) == row_hash_components(applied)
    assert tables_of(known) == tables_of(applied)


def test_column_with_a_moved_key_is_matched_by_name():
    applied = dataset("a")
    known = as_known([with_column(applied, "v", key=key("other"), type="integer")], [applied])
    assert known.states == (with_column(applied, "v", type="integer"),)
    assert warned(known) == [("KEY_CHANGED_NAME_KEPT", "rawcore.rc_a", "v")]


def test_renamed_object_with_a_moved_key_is_matched_by_former_name_without_warning():
    applied = dataset("a")
    renamed = replace(with_column(with_new_keys(applied), "v", name="w", former_names=("v",)), name="rc_z")
    desired = replace(renamed, former_names=("rc_a",))
    known = as_known([desired], [applied])
    assert (known.states[0].key, known.states[0].name) == (applied.key, "rc_z")
    assert column(known.states[0], "w").key == column(applied, "v").key
    assert warned(known) == [("KEY_CHANGED_NAME_KEPT", "rawcore.rc_a", "id")]


def test_new_column_and_dataset_keep_their_own_keys():
    applied = dataset("a")
    more = replace(applied, columns=(*applied.columns, ColumnState(key("n"), "n", "string")))
    known = as_known([with_new_keys(more), dataset("b")], [applied])
    assert column(known.states[0], "n").key == key("new", key("n"))
    assert known.states[1] == dataset("b")


def test_match_by_name_skips_a_dataset_matched_by_key():
    applied = dataset("a")
    renamed, other = replace(applied, name="rc_z"), replace(dataset("b"), name="rc_a")
    assert as_known([renamed, other], [applied]).states == (renamed, other)


def test_ambiguous_former_names_match_nothing():
    applied = [dataset("a"), dataset("b")]
    doubtful = replace(dataset("c"), former_names=("rc_a", "rc_b"))
    assert as_known([doubtful], applied).states == (doubtful,)


def test_new_history_of_a_matched_dataset_keeps_its_own_key():
    applied = dataset("a", historize=False, history_key=None)
    desired = with_new_keys(dataset("a"))
    (known,) = as_known([desired], [applied]).states
    assert (known.key, known.history_key) == (applied.key, desired.history_key)


# --- references from others -------------------------------------------------------------------


def reading(upstream: DatasetState, by: str) -> DatasetState:
    """Return a dataset with one column that reads column ``v`` of another dataset, or of its history."""
    reader = dataset("reader", historize=False, history_key=None, inputs=(by,))
    return with_column(reader, "v", inputs=(column(upstream, "v").key,))


def test_inputs_of_a_reader_follow_moved_keys():
    applied = dataset("a")
    for before, after in (
        (applied.key, with_new_keys(applied).key),
        (applied.history_key, with_new_keys(applied).history_key),
    ):
        reader = reading(with_new_keys(applied), after)
        known = as_known([with_new_keys(applied), reader], [applied, reading(applied, before)])
        assert known.states[1] == reading(applied, before)


def referring(child: DatasetState, parent: DatasetState, own: str) -> DatasetState:
    pairs = ((column(child, "id").key, column(parent, "id").key),)
    return replace(child, references=(ReferenceState(own, "rc_a_key", parent.key, pairs),))


def test_references_to_a_parent_follow_moved_keys():
    parent, child = dataset("a"), dataset("c")
    before = referring(child, parent, key("ref"))
    after = referring(with_new_keys(child), with_new_keys(parent), key("new ref"))
    known = as_known([with_new_keys(parent), after], [parent, flat(before)])
    assert known.states == (parent, before)


# --- random changes ---------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")


def chain() -> list[DatasetState]:
    """Return datasets of which each reads a column of the one before."""
    datasets = [dataset(NAMES[0])]
    for name in NAMES[1:]:
        upstream = datasets[-1]
        reader = replace(dataset(name), inputs=(upstream.key,))
        datasets.append(with_column(reader, "v", inputs=(column(upstream, "v").key,)))
    return datasets


def with_keys(state: DatasetState, keys: dict[str, str]) -> DatasetState:
    """Return the dataset with each key replaced by that of the mapping."""

    def new_key(old_key: str) -> str:
        return keys.get(old_key, old_key)

    columns = tuple(
        replace(column, key=new_key(column.key), inputs=tuple(map(new_key, column.inputs))) for column in state.columns
    )
    return replace(state, key=new_key(state.key), inputs=tuple(map(new_key, state.inputs)), columns=columns)


KEYS = [key for state in chain() for key in (state.key, *(each.key for each in state.columns))]


@given(st.sets(st.sampled_from(KEYS)))
def test_any_set_of_moved_keys_is_matched_with_one_warning_each(moved):
    applied = chain()
    keys = {old_key: key("new", old_key) for old_key in moved}
    known = as_known([with_keys(state, keys) for state in applied], applied)
    assert known.states == tuple(applied)
    assert len(known.warnings) == len(moved)
