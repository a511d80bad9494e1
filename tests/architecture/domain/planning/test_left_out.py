"""Datasets that a report leaves out because the change policy blocks their changes."""

from architecture.domain.change_policy import PolicySet
from architecture.domain.planning.left_out import LeftOut, left_out
from architecture.domain.planning.plan import Planned
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import ArchitectureState
from metadata.domain.state import DatasetState
from tests.architecture.states import column, dataset, state

ALL_KEYS = frozenset({"a", "b", "c", "d"})


def leaving_out(before: ArchitectureState, after: ArchitectureState) -> LeftOut:
    return left_out(Planned.of(CurrentState.of_state(before), after.datasets, PolicySet()), ALL_KEYS)


def table(key: str, *names: str, **fields) -> DatasetState:
    """Return a dataset with these attributes. The default policy blocks dropping one of them."""
    return dataset(key, "", *(column(f"{key}-{name}", name) for name in names), **fields)


def test_dataset_with_a_blocked_operation_is_left_out_with_the_reason() -> None:
    left = leaving_out(state(table("a", "x", "y"), table("b", "x")), state(table("a", "x"), table("b", "x", "y")))
    assert left.keys == {"a"}
    (warning,) = left.warnings.values()
    assert (warning.code, warning.dataset, warning.column) == ("LEFT_OUT", "rawcore.rc_a", "y")
    assert warning.message.startswith("is left out: drop_column rawcore.rc_a: y is blocked (DROP_COLUMN), ")


def test_changed_reader_of_a_left_out_dataset_is_left_out_across_unchanged_datasets() -> None:
    middle, reader = table("b", "x", inputs=("a",)), table("c", "x", inputs=("b",))
    changed, other = table("c", "x", "y", inputs=("b",)), table("d", "x", "y")
    before = state(table("a", "x", "y"), middle, reader, table("d", "x"))
    left = leaving_out(before, state(table("a", "x"), middle, changed, other))
    assert left.keys == {"a", "c"}
    assert left.warnings["c"].message == "is left out: it reads rawcore.rc_a, which is left out"


def test_dataset_that_needs_the_name_of_a_left_out_dataset_is_left_out() -> None:
    before = state(dataset("a", "rc_a", column("x"), column("y")), dataset("b", "rc_b", column("z")))
    after = state(dataset("a", "rc_old", column("x")), dataset("b", "rc_a", column("z")))
    assert leaving_out(before, after).keys == {"a", "b"}


def test_report_without_blocked_operations_leaves_out_no_dataset() -> None:
    assert leaving_out(state(table("a", "x")), state(table("a", "x", "y"))) == LeftOut(frozenset(), {})
