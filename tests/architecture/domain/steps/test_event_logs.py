"""Steps of event logs without a history, which follow the base table."""

from dataclasses import replace

from architecture.domain.steps.report_steps import plan_steps
from tests.architecture.tables import column, observed, operation, table

ID, V = column("id", "integer"), column("v")
BASE = table("rc_a", ID)
LOG = table("rc_a_hist_events", ID, kind="event_log", owner=BASE.key)


def test_new_column_of_the_base_is_added_to_its_event_log() -> None:
    wanted = [replace(spec, columns=(ID, V)) for spec in (BASE, LOG)]
    steps = plan_steps(wanted, observed(BASE, LOG), [operation("add_column", BASE, V)])
    assert [(step.op, step.table.name) for step in steps] == [
        ("add_column", "rc_a"),
        ("add_column", "rc_a_hist_events"),
    ]


def test_narrower_type_of_the_base_leaves_its_event_log() -> None:
    current = [replace(spec, columns=(ID, V)) for spec in (BASE, LOG)]
    narrow = column("v", "integer")
    wanted = [replace(spec, columns=(ID, narrow)) for spec in (BASE, LOG)]
    requested = [operation("retype_column", BASE, narrow, from_="string", to="integer")]
    assert [step.table.name for step in plan_steps(wanted, observed(*current), requested)] == ["rc_a"]


def test_an_event_log_is_created_with_the_change_of_logic_that_needs_it() -> None:
    (step,) = plan_steps([BASE, LOG], observed(BASE), [operation("change_logic", BASE)])
    assert (step.op, step.table.name) == ("create_table", "rc_a_hist_events")
