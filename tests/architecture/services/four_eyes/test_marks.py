"""Marks: authors are counted from the last chain link that a plan had read."""

import pytest

from architecture.domain.states.flat_states import of_row
from architecture.domain.states.state_files import ArchitectureState
from architecture.models import AppliedDataset, Execution
from architecture.selectors.authors import carried_out
from architecture.selectors.report_state import behind
from architecture.services.automatic_changes import attempt_of_load, begin_execution, finish_execution, pending_changes
from architecture.services.execution_checks import Todo
from architecture.services.executions import abandon_execution
from architecture.services.observations import last_observations
from architecture.services.reports import build_report
from architecture.services.state_import import import_state
from architecture.services.states import sign_applied
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.chain import sealed_through
from elevata.jobs.services import mark_lost
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import update_target_column
from metadata.services.lifecycle import retire_column, unretire_column
from tests.architecture.executions import customer
from tests.architecture.services.test_reports import column, rename
from tests.architecture.world import Killed, World, committed, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def eve(built):
    return person("eve", Role.EDITOR, Role.APPROVER)


def edit(name: str, by, **changes: object) -> None:
    row = column(name)
    with acting_as(by):
        update_target_column(column=row, expected_version=row.version, **changes)


def mark(world: World) -> int:
    key = str(customer().key)
    return carried_out(world.environment, [key])[key]


def load(world: World, meanwhile=lambda: None) -> Execution:
    """Execute pending changes as a load does: read mark and metadata first, then observe the warehouse."""
    committed()
    through, states = sealed_through(), dataset_states()
    meanwhile()
    committed()
    world.warehouse.show()
    pending = pending_changes(
        environment=world.environment,
        states=states,
        keys={str(customer().key)},
        observations=last_observations(environment=world.environment),
        through=through,
    )
    assert not pending.needing
    execution = begin_execution(pending=pending, reason="load run night-1", user=world.operator)
    writer = attempt_of_load(execution)
    world._run(Todo(pending.steps, tuple(range(len(pending.steps)))), writer, None)
    for ordinal in writer.silent_rows():
        writer.step_finished(ordinal, succeeded=True)
    return finish_execution(execution=execution)


def test_user_who_edits_while_a_load_observes_the_warehouse_is_an_author_of_the_next_report(built, eve):
    rename(built, "full_name", "display_name")
    load(built, meanwhile=lambda: edit("balance", eve, nullable=False))
    report = built.report()
    assert [row["code"] for row in report.document["rows"]] == ["NOT_NULL"]
    assert report.authors == ["eve"]


def test_user_whose_changes_a_load_executed_is_no_longer_an_author(built, eve):
    rename(built, "full_name", "display_name", by=eve)
    load(built)
    rename(built, "balance", "amount")
    assert built.report().authors == ["ada"]


def test_edit_without_a_chain_link_at_the_time_of_a_report_is_later_than_it(built, eve):
    """Check that an entry without a chain link at the time of a report counts as later, regardless of its time."""
    rename(built, "full_name", "display_name")
    built.warehouse.show()
    committed()
    edit("balance", eve, nullable=False)
    unsealed = build_report(environment=built.environment, user=built.author)
    assert unsealed.through == sealed_through()
    newest = ChangeLogEntry.objects.latest("pk")
    committed()
    assert sealed_through() > unsealed.through
    assert newest.pk not in {item.entry.pk for item in behind(unsealed, limit=99).entries}


def test_user_of_a_log_entry_without_a_chain_link_is_an_author(built, eve):
    committed()
    row = AppliedDataset.objects.get()
    row.through = sealed_through() + 1000
    sign_applied(row).save()
    edit("balance", eve, nullable=False)
    built.warehouse.show()
    assert build_report(environment=built.environment, user=built.author).authors == ["eve"]


# --- remaining changes ---------------------------------------------------------------------------


def test_user_who_changed_a_retired_column_is_an_author_after_other_executions(built, eve):
    with acting_as(built.author):
        retire_column(column=column("full_name"), expected_version=column("full_name").version)
    built.executed()
    edit("full_name", eve, expression="'none'")
    rename(built, "balance", "amount")
    before = mark(built)
    built.executed()
    assert mark(built) == before
    with acting_as(built.author):
        unretire_column(column=column("full_name"), expected_version=column("full_name").version)
    report = built.report()
    assert "HISTORY_DIFFERS" in {row["code"] for row in report.document["rows"]}
    assert "eve" in report.authors


def test_mark_moves_once_all_changes_are_executed(built, eve):
    with acting_as(built.author):
        retire_column(column=column("full_name"), expected_version=column("full_name").version)
    before = mark(built)
    built.executed()
    assert mark(built) > before


def test_half_executed_undo_restores_the_authors_of_the_undone_changes(built, eve):
    from architecture.services.undo import undo_report

    rename(built, "balance", "amount", by=eve)
    rename(built, "full_name", "display_name", by=eve)
    execution = built.executed()
    assert built.report().document["rows"] == []
    after = mark(built)
    from architecture.services.executions import request_execution
    from architecture.services.previews import make_preview

    report = undo_report(record=execution.record, user=built.operator)
    make_preview(report=report, user=built.operator)
    again = request_execution(report=report, user=built.operator).execution
    with pytest.raises(Killed):
        built.work(again, dies_at=again.operations.count() / 2)
    Execution.objects.filter(pk=again.pk).update(heartbeat_at="2020-01-01T00:00:00Z")
    mark_lost()
    abandon_execution(execution=again, user=built.operator, reason="another way was found")
    assert mark(built) < after
    assert "eve" in built.report().authors


# --- imported baselines ---------------------------------------------------------------------------


def test_imported_baseline_keeps_earlier_authors_and_adds_the_importing_user(built, eve):
    state = ArchitectureState(tuple(of_row(row.state) for row in AppliedDataset.objects.all()))
    AppliedDataset.objects.all().delete()
    boss = person("boss", Role.OPERATOR)
    import_state(environment=built.environment, state=state, user=boss, reason="taken over from north")
    assert mark(built) == 0
    edit("balance", eve, nullable=False)
    assert built.report().authors == ["ada", "boss", "eve"]
