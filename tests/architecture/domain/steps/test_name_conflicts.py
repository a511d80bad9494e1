"""Name conflicts with retired tables and kept histories, which move to a reserved name."""

import pytest

from architecture.domain.steps.rename_order import NameTaken
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import RENAME_TABLE
from architecture.domain.tables import kept_histories
from tests.architecture.domain.steps.test_acceptance_steps import TAKEN, states_of, tiny
from tests.architecture.domain.steps.test_plan_cases import observed as observed_state
from tests.architecture.domain.steps.test_plan_cases import report, tables
from tests.architecture.states import EVERYTHING_ALLOWED
from tests.architecture.tables import column, observed, operation, table

V = column("v")
NEW, OLD = table("rc_a", V, of="new"), table("rc_a", V, of="old")
CREATE = operation("create_table", NEW)


@pytest.mark.parametrize("pair", TAKEN.values(), ids=TAKEN)
def test_retired_or_kept_table_blocks_no_name(pair: tuple) -> None:
    before, after = states_of(*pair)
    assert report(before, observed_state(before), after, EVERYTHING_ALLOWED).status == "open"


def test_retired_table_moves_to_a_reserved_name_by_the_operation_that_needs_its_name() -> None:
    move, create = plan_steps([NEW], observed(OLD), [CREATE])
    assert (move.op, move.table.key, move.operation) == (RENAME_TABLE, OLD.key, create.operation)
    assert move.to_name == f"rawcore.__retired_{OLD.key[:8]}_rc_a"


def test_moved_history_keeps_its_suffix() -> None:
    before, after = states_of(*TAKEN["new with history under the name of one that leaves its history behind"])
    steps = plan_steps(
        tables(after),
        observed_state(before),
        report(before, observed_state(before), after, EVERYTHING_ALLOWED).operations,
    )
    (moved,) = (step.to_name for step in steps if step.op == RENAME_TABLE and "__retired_" in step.to_name)
    assert moved.endswith("_rc_a_hist")


def test_described_table_keeps_its_name() -> None:
    with pytest.raises(NameTaken):
        plan_steps([NEW, OLD], observed(OLD), [CREATE])


def test_unknown_table_keeps_its_name() -> None:
    with pytest.raises(NameTaken):
        plan_steps([NEW], observed(OLD), [CREATE], staying={OLD.key})


def test_planning_without_operations_moves_no_table() -> None:
    with pytest.raises(NameTaken):
        plan_steps([NEW], observed(OLD))


def test_unknown_history_without_its_base_is_a_kept_history() -> None:
    strangers = observed(*(table(name, V) for name in ("rc_a", "rc_a_hist", "rc_b_hist", "rc_b_hist_events", "rc_c")))
    assert kept_histories(strangers) == {table(name, V).key for name in ("rc_b_hist", "rc_b_hist_events")}


# --- restored datasets --------------------------------------------------------------------------


def test_restored_dataset_resumes_its_kept_history() -> None:
    before, after = states_of((), (tiny("d1", "rc_a", historize=True),))
    start = {key: item for key, item in observed_state(after).items() if item.qualified_name.endswith("_hist")}
    change_report = report(before, start, after, EVERYTHING_ALLOWED)
    assert [(each.op, each.side, each.decision) for each in change_report.operations] == [
        ("create_table", "base", "allowed"),
        ("unretire_table", "history", "needs_approval"),
    ]


def test_restored_dataset_renames_its_kept_history_to_its_new_name() -> None:
    before, after = states_of((), (tiny("d1", "rc_z", historize=True),))
    (start,) = (
        {key: item}
        for key, item in observed_state(states_of((), (tiny("d1", "rc_a", historize=True),))[1]).items()
        if item.qualified_name.endswith("_hist")
    )
    change_report = report(before, start, after, EVERYTHING_ALLOWED)
    assert ("rename_table", "rawcore.rc_a_hist", "rawcore.rc_z_hist") in {
        (each.op, each.from_, each.to) for each in change_report.operations
    }


def test_restored_view_leaves_the_kept_history() -> None:
    before, after = states_of((), (tiny("d1", "rc_a", historize=True, materialization="view"),))
    table_then = states_of((), (tiny("d1", "rc_a", historize=True),))[1]
    start = {key: item for key, item in observed_state(table_then).items() if item.qualified_name.endswith("_hist")}
    assert [each.op for each in report(before, start, after, EVERYTHING_ALLOWED).operations] == ["create_table"]
