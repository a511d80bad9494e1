"""Names that something held which is retired, or only kept: it makes way for what is to be called so."""

import pytest

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import RENAME_TABLE
from architecture.domain.steps.table_changes import NameTaken
from architecture.domain.tables import kept_histories
from tests.architecture.domain.steps.test_acceptance_steps import TAKEN, both, one
from tests.architecture.domain.steps.test_plan_cases import observed as seen
from tests.architecture.domain.steps.test_plan_cases import report, tables
from tests.architecture.states import EVERYTHING_ALLOWED
from tests.architecture.tables import column, observed, operation, table

V = column("v")
NEW, OLD = table("rc_a", V, of="new"), table("rc_a", V, of="old")
CREATE = operation("create_table", NEW)


@pytest.mark.parametrize("pair", TAKEN.values(), ids=TAKEN)
def test_what_is_retired_or_kept_blocks_no_name(pair: tuple) -> None:
    before, after = both(*pair)
    assert report(before, seen(before), after, EVERYTHING_ALLOWED).status == "open"


def test_it_moves_to_a_reserved_name_by_a_step_of_the_operation_that_needs_the_name() -> None:
    move, create = plan_steps([NEW], observed(OLD), [CREATE])
    assert (move.op, move.table.key, move.operation) == (RENAME_TABLE, OLD.key, create.operation)
    assert move.to_name == f"rawcore.__retired_{OLD.key[:8]}_rc_a"


def test_a_history_is_still_called_one() -> None:
    before, after = both(*TAKEN["new with history under the name of one that leaves its history behind"])
    steps = plan_steps(tables(after), seen(before), report(before, seen(before), after, EVERYTHING_ALLOWED).operations)
    (moved,) = (step.to_name for step in steps if step.op == RENAME_TABLE and "__retired_" in step.to_name)
    assert moved.endswith("_rc_a_hist")


def test_what_is_described_does_not_make_way() -> None:
    with pytest.raises(NameTaken):
        plan_steps([NEW, OLD], observed(OLD), [CREATE])


def test_what_nobody_knows_does_not_make_way() -> None:
    with pytest.raises(NameTaken):
        plan_steps([NEW], observed(OLD), [CREATE], staying={OLD.key})


def test_a_load_that_only_looks_moves_nothing() -> None:
    with pytest.raises(NameTaken):
        plan_steps([NEW], observed(OLD))


def test_of_what_nobody_knows_a_history_without_its_base_is_kept() -> None:
    strangers = observed(*(table(name, V) for name in ("rc_a", "rc_a_hist", "rc_b_hist", "rc_b_hist_events", "rc_c")))
    assert kept_histories(strangers) == {table(name, V).key for name in ("rc_b_hist", "rc_b_hist_events")}


# --- what was dropped comes back ------------------------------------------------------------------


def test_a_dataset_that_comes_back_takes_its_kept_history_up() -> None:
    gone, back = both((), (one("d1", "rc_a", historize=True),))
    there = {key: held for key, held in seen(back).items() if held.qualified_name.endswith("_hist")}
    found = report(gone, there, back, EVERYTHING_ALLOWED)
    assert [(each.op, each.side, each.decision) for each in found.operations] == [
        ("create_table", "base", "allowed"),
        ("unretire_table", "history", "needs_approval"),
    ]


def test_so_it_does_where_the_history_had_to_make_way_in_the_meantime() -> None:
    gone, back = both((), (one("d1", "rc_z", historize=True),))
    (there,) = (
        {key: held}
        for key, held in seen(both((), (one("d1", "rc_a", historize=True),))[1]).items()
        if held.qualified_name.endswith("_hist")
    )
    found = report(gone, there, back, EVERYTHING_ALLOWED)
    assert ("rename_table", "rawcore.rc_a_hist", "rawcore.rc_z_hist") in {
        (each.op, each.from_, each.to) for each in found.operations
    }


def test_a_view_of_that_name_leaves_the_kept_history_alone() -> None:
    gone, back = both((), (one("d1", "rc_a", historize=True, materialization="view"),))
    table_then = both((), (one("d1", "rc_a", historize=True),))[1]
    there = {key: held for key, held in seen(table_then).items() if held.qualified_name.endswith("_hist")}
    assert [each.op for each in report(gone, there, back, EVERYTHING_ALLOWED).operations] == ["create_table"]
