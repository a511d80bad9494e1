"""Undo reports of a whole record or of chosen operations: the same decisions as for others, and refusals."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from architecture.domain.artifacts import verify
from architecture.domain.refusals import Refused
from architecture.models import ChangeReport, Execution, ExecutionRecord
from architecture.selectors.report_state import behind
from architecture.selectors.undo_forecasts import forecasts
from architecture.services.approvals import approve
from architecture.services.automatic_changes import attempt_of_load, begin_execution, finish_execution, pending_changes
from architecture.services.change_policy import update_policies
from architecture.services.execution_checks import Todo
from architecture.services.execution_records import record_artifact
from architecture.services.executions import request_execution
from architecture.services.observations import last_observations
from architecture.services.previews import make_preview, newest_preview
from architecture.services.reports import operations_of, report_document
from architecture.services.undo import undo_report
from architecture.services.undo_options import offered
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.services.chain import sealed_through
from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.services.maintenance.vacuums import request_vacuum
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import create_target_column, create_target_dataset, update_target_column
from metadata.services.lifecycle import rename_dataset, retire_column
from tests.architecture.executions import customer
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, agree_on_policy, customers, person, remembered_in
from tests.loader.factories import DatasetRunFactory, LoadRunFactory

pytestmark = pytest.mark.django_db


def widen(world: World, name: str, to: str) -> None:
    column = TargetColumn.objects.get(name=name)
    with acting_as(world.author):
        update_target_column(column=column, expected_version=column.version, type=to)


def undo(
    world: World, record: ExecutionRecord, *operations: int, by: User | None = None, metadata: bool = False
) -> ChangeReport:
    """Return the undo report of these operations, or of all operations of the record."""
    world.warehouse.show()
    return undo_report(record=record, user=by or world.operator, operations=operations or None, metadata=metadata)


def refusal_of(world: World, record: ExecutionRecord, *operations: int) -> Refused:
    with pytest.raises(Refused) as error:
        undo(world, record, *operations)
    return error.value


def execute(world: World, report: ChangeReport) -> Execution:
    make_preview(report=report, user=world.operator)
    return world.work(request_execution(report=report, user=world.operator).execution)


def changes_of(report: ChangeReport) -> list[tuple[str, str, str, str]]:
    return [(operation.op, operation.side, operation.from_, operation.to) for operation in operations_of(report)]


def create_run(world: World, run_id: str, *, versions: tuple[int, int] = (3, 4), kind: str = "load") -> None:
    """Create a run that wrote rows into the customers, or left the table version unchanged."""
    before, after = versions
    ended = timezone.now() + timedelta(seconds=1)
    run = LoadRunFactory(run_id=run_id, environment=world.environment, kind=kind)
    DatasetRunFactory(
        run=run, dataset=customer(), table_version_before=before, table_version_after=after, finished_at=ended
    )


def ordinals(record: ExecutionRecord, op: str) -> list[int]:
    return [operation["ordinal"] for operation in record.document["operations"] if operation["op"] == op]


@pytest.fixture
def renamed(built: World) -> ExecutionRecord:
    return remembered_in(built, "a rename to undo", lambda: record_of_a_rename(built))


def record_of_a_rename(built: World) -> ExecutionRecord:
    rename(built, "full_name", "display_name")
    return built.executed().record


@pytest.fixture
def two_changes(built: World) -> ExecutionRecord:
    """Return the record of a rename of one column and a widening of another one, which is executed first."""
    return remembered_in(built, "a rename and a widening to undo", lambda: record_of_two_changes(built))


def record_of_two_changes(built: World) -> ExecutionRecord:
    rename(built, "full_name", "display_name")
    widen(built, "balance", "decimal(12,2)")
    return built.executed().record


# --- the whole record --------------------------------------------------------------------------


def test_undo_of_a_rename_is_a_report_that_reverses_base_and_history(built, renamed):
    report = undo(built, renamed)
    back = ("display_name", "full_name")
    assert changes_of(report) == [("rename_column", "base", *back), ("rename_column", "history", *back)]
    assert (report.undo_of, report.authors) == (renamed, ["olga"])
    assert report_document(report)["undo"] == {"record": str(renamed.record_id), "operations": [0, 1]}


def test_undo_report_is_previewed_at_once(built, renamed):
    preview = newest_preview(undo(built, renamed))
    assert [row["op"] for row in preview.document["steps"]] == ["rename_column", "rename_column"]
    assert preview.fingerprint == make_preview(report=preview.report, user=built.operator).fingerprint


def test_undo_of_logic_that_a_history_downstream_is_built_from_needs_approval(world):
    upstream = customers(world.author, historize=False)
    with acting_as(world.author):
        create_target_dataset(
            schema=upstream.schema, name="rc_crm_copy", inputs=[upstream], take_columns=True, historize=True
        )
    world.executed()
    column = upstream.columns.get(name="full_name")
    with acting_as(world.author):
        update_target_column(column=column, expected_version=column.version, expression="upper('a')")
    report = undo(world, world.executed().record)
    assert [(operation.op, operation.code) for operation in operations_of(report)] == [
        ("change_logic", "HISTORY_DIFFERS")
    ]
    assert world.needs_approval(report)


def test_undo_warns_of_unchanged_metadata_and_the_next_report_plans_the_change_again(built, renamed):
    report = undo(built, renamed)
    (warning,) = report.document["warnings"]
    assert warning["code"] == "METADATA_UNCHANGED"
    assert "the next report or load repeats the change" in warning["message"]
    execute(built, report)
    assert ("rename_column", "base", "full_name", "display_name") in changes_of(built.report())


def test_executed_undo_restores_the_tables_and_names_the_undone_record(built):
    before = dict(built.warehouse.shapes)
    rename(built, "full_name", "display_name")
    record = built.executed().record
    ended = execute(built, undo(built, record, by=built.author))
    assert ended.status == "succeeded"
    assert all(built.warehouse.shapes[key].matches(shape) for key, shape in before.items())
    assert ended.record.document["undo"] == {"record": str(record.record_id), "operations": [0, 1]}
    assert verify(record_artifact(ended.record)) == ()


def test_each_step_of_an_undo_belongs_to_the_operation_of_its_side(built, renamed):
    preview = make_preview(report=undo(built, renamed), user=built.operator)
    steps = [(row["op"], row["table"]["kind"], row["operation"]) for row in preview.document["steps"]]
    assert [step for step in steps if step[0] == "rename_column"] == [
        ("rename_column", "history", 1),
        ("rename_column", "rawcore", 0),
    ]


def test_undo_publishes_the_views_of_a_history_with_the_former_names(world):
    customers(world.author, history_policy={"views": ["current"]})
    world.executed()
    rename(world, "full_name", "display_name")
    record = world.executed().record
    preview = make_preview(report=undo(world, record), user=world.operator)
    views = [row["view"] for row in preview.document["steps"] if row["op"] == "publish_view"]
    assert views
    assert not any("display_name" in view for view in views)


def test_requester_of_an_undo_cannot_approve_it(built, renamed):
    root = person("root", Role.ADMIN)
    needs = {"approvals": {"safe": {"count": 1, "role": ""}}}
    update_policies(environment=built.environment, policies=needs, expected_version=1, user=root)
    report = undo(built, renamed, by=built.approver)
    with pytest.raises(Refused) as error:
        approve(report=report, user=built.approver)
    assert error.value.code == "OWN_CHANGE"


def test_undo_requires_a_user(renamed):
    with pytest.raises(Refused) as error:
        undo_report(record=renamed, user=None)
    assert error.value.code == "NO_PERSON"


def test_repeated_undo_returns_the_same_report(built, renamed):
    assert undo(built, renamed) == undo(built, renamed, 0, by=built.author)


def test_undo_of_an_added_column_is_blocked_by_the_policy(built):
    with acting_as(built.author):
        create_target_column(dataset=customer(), name="email", type="string(50)", inputs=[])
    assert undo(built, built.executed().record).status == "blocked"


def test_executed_undo_can_be_undone(built, renamed):
    back = execute(built, undo(built, renamed)).record
    again = undo(built, back)
    assert ("rename_column", "base", "full_name", "display_name") in changes_of(again)
    execute(built, again)
    assert built.report().status == "no_changes"


# --- chosen operations ---------------------------------------------------------------------------


def test_undo_of_one_operation_covers_base_and_history_and_leaves_the_rest(built, two_changes):
    (chosen, _) = ordinals(two_changes, "rename_column")
    report = undo(built, two_changes, chosen)
    assert {operation[0] for operation in changes_of(report)} == {"rename_column"}
    execute(built, report)
    assert built.report().status == "open"
    assert {operation[0] for operation in changes_of(built.report())} == {"rename_column"}


def test_second_undo_covers_the_remaining_operations_of_a_record(built, two_changes):
    execute(built, undo(built, two_changes, ordinals(two_changes, "rename_column")[0]))
    remaining = undo(built, two_changes)
    assert report_document(remaining)["undo"]["operations"] == ordinals(two_changes, "widen_column")


def test_undo_of_more_operations_supersedes_the_open_undo(built, two_changes):
    waiting = undo(built, two_changes, ordinals(two_changes, "rename_column")[0])
    newer = undo(built, two_changes, ordinals(two_changes, "rename_column")[1], by=built.author)
    assert newer == waiting
    agree_on_policy(built.environment, {"severities": {"RETYPE_COLUMN": "needs_approval"}})
    whole = undo(built, two_changes)
    waiting.refresh_from_db()
    assert (waiting.status, waiting.superseded_by) == ("superseded", whole)


def test_undo_refuses_an_unknown_operation(built, renamed):
    assert refusal_of(built, renamed, 0, 99).code == "UNKNOWN_OPERATION"


def test_undo_refuses_an_operation_on_which_a_later_one_of_the_record_depends(built, two_changes):
    refusal = refusal_of(built, two_changes, ordinals(two_changes, "widen_column")[0])
    assert refusal.code == "LATER_OPERATIONS"
    assert "rename_column rawcore.rc_crm_customer: full_name → display_name" in refusal.message
    assert refusal.hint == "undo both"


@pytest.mark.full
def test_undo_refuses_an_operation_on_which_a_named_later_execution_depends(built, renamed):
    rename(built, "display_name", "name_shown")
    later = built.executed()
    refusal = refusal_of(built, renamed)
    assert refusal.code == "LATER_OPERATIONS"
    assert refusal.hint == f"undo execution {later.pk} first"
    execute(built, undo(built, later.record))
    assert changes_of(undo(built, renamed))


def test_undo_keeps_independent_changes_of_a_later_execution(built, renamed):
    rename(built, "balance", "saldo")
    built.executed()
    execute(built, undo(built, renamed))
    assert {operation[2:] for operation in changes_of(built.report())} == {("full_name", "display_name")}


def test_undo_refuses_operations_undone_before(built, renamed):
    execute(built, undo(built, renamed))
    assert refusal_of(built, renamed).code == "ALREADY_UNDONE"
    assert refusal_of(built, renamed, 0).code == "ALREADY_UNDONE"


@pytest.mark.full
def test_undo_refuses_operations_reversed_by_a_later_execution(built, renamed):
    rename(built, "display_name", "full_name")
    built.executed()
    assert refusal_of(built, renamed).code == "ALREADY_UNDONE"


def test_undo_refuses_a_table_changed_by_hand(built, renamed):
    for table in built.warehouse.shapes:
        built.warehouse.rename_behind_your_back(table, "balance", "by_hand")
    refusal = refusal_of(built, renamed)
    assert (refusal.code, "by_hand" in refusal.message) == ("TABLE_MOVED", True)


def test_undo_refuses_a_record_without_finished_operations(built, renamed):
    renamed.execution.operations.update(status="failed")
    assert refusal_of(built, renamed).code == "NOTHING_TO_UNDO"


# --- rows written after the execution ------------------------------------------------------------


def test_undo_to_a_version_is_refused_after_a_load_wrote_rows(built, two_changes):
    create_run(built, "night-7")
    refusal = refusal_of(built, two_changes)
    assert refusal.code == "WRITTEN_SINCE"
    assert "load run night-7 wrote rows since" in refusal.message


def test_undo_of_a_rename_is_possible_after_a_load_wrote_rows(built, two_changes):
    create_run(built, "night-7")
    assert changes_of(undo(built, two_changes, *ordinals(two_changes, "rename_column")))


@pytest.mark.parametrize("run", [{"versions": (3, 3)}, {"kind": "compact"}])
def test_undo_to_a_version_is_possible_after_a_run_without_written_rows(built, two_changes, run):
    create_run(built, "night-7", **run)
    assert changes_of(undo(built, two_changes))


def test_preview_of_an_undo_is_refused_after_a_load_wrote_rows(built, two_changes):
    report = undo(built, two_changes)
    ChangeReport.objects.filter(pk=report.pk).update(status="open")
    create_run(built, "night-8")
    with pytest.raises(Refused) as error:
        make_preview(report=report, user=built.operator)
    assert error.value.code == "WRITTEN_SINCE"


def test_undo_of_a_widening_restores_the_version_before(built, two_changes):
    report = undo(built, two_changes)
    ChangeReport.objects.filter(pk=report.pk).update(status="open")
    preview = make_preview(report=report, user=built.operator)
    restored = [row for row in preview.document["steps"] if row["op"] == "restore_table"]
    assert len(restored) == 2
    assert all("TO VERSION AS OF" in row["statement"] for row in restored)


# --- options of a record -------------------------------------------------------------------------


def test_record_offers_the_undo_of_each_operation_from_last_to_first(built, two_changes):
    assert [(offer.group.describe().split()[0], offer.refused) for offer in offered(two_changes)] == [
        ("rename_column", None),
        ("widen_column", None),
    ]
    (rename_, widen_) = offered(two_changes)
    assert rename_.undo_steps[0] == "rename_column rawcore.rc_crm_customer_hist: display_name → full_name"
    assert {step.split()[0] for step in widen_.undo_steps} == {"restore_table"}


def test_record_lists_operations_that_cannot_be_undone_with_the_reason(built, two_changes):
    create_run(built, "night-7")
    execute(built, undo(built, two_changes, *ordinals(two_changes, "rename_column")))
    codes = {offer.group.describe().split()[0]: offer.refused.code for offer in offered(two_changes)}
    assert codes == {"rename_column": "ALREADY_UNDONE", "widen_column": "WRITTEN_SINCE"}


def test_undo_of_a_created_dataset_drops_only_its_base_table(built):
    record = ExecutionRecord.objects.get()
    (creation,) = offered(record)
    assert [step.split()[0] for step in creation.undo_steps] == ["drop_table"]


def test_changes_executed_by_a_load_can_be_undone(built):
    rename(built, "full_name", "display_name")
    built.warehouse.show()
    pending = pending_changes(
        environment=built.environment,
        states=dataset_states(),
        keys={str(customer().key)},
        observations=last_observations(environment=built.environment),
        through=sealed_through(),
    )
    execution = begin_execution(pending=pending, reason="load run night-1", user=built.operator)
    todo = Todo(pending.steps, tuple(range(len(pending.steps))))
    built._run(todo, attempt_of_load(execution), None)
    record = finish_execution(execution=execution).record
    assert [offer.refused for offer in offered(record)] == [None]
    assert undo(built, record).scope["name"] == "rawcore.rc_crm_customer"


def test_undone_change_keeps_its_authors_in_the_next_report(built, renamed):
    execute(built, undo(built, renamed))
    assert built.report(by=built.operator).authors == ["ada"]


def test_undone_change_keeps_its_log_entries_in_the_next_report(built, renamed):
    execute(built, undo(built, renamed))
    assert "renamed" in {item.entry.action for item in behind(built.report(), limit=9).entries}


def test_vacuum_is_refused_while_an_open_undo_needs_the_files(built, two_changes):
    Execution.objects.filter(pk=two_changes.execution_id).update(started_at=timezone.now() - timedelta(days=10))

    def vacuum() -> str:
        return request_vacuum(
            dataset=str(customer()), reason="full", retention_hours=200, user=built.operator, wake_worker=False
        ).run.kind

    report = undo(built, two_changes)
    with pytest.raises(Refusal, match=f"undo {report} needs the files of 242 hours ago"):
        vacuum()
    ChangeReport.objects.filter(pk=report.pk).update(status=ChangeReport.Status.REJECTED)
    assert vacuum() == "vacuum"


# --- metadata ------------------------------------------------------------------------------------


def with_new_column(world: World) -> ExecutionRecord:
    """Return the record that added the column ``email``; the policy does not block dropping it."""
    agree_on_policy(world.environment, {"severities": {"DROP_COLUMN": "needs_approval"}})
    with acting_as(world.author):
        create_target_column(dataset=customer(), name="email", type="string(50)", inputs=[])
    return world.executed().record


def narrowing_permitted(world: World) -> None:
    agree_on_policy(world.environment, {"severities": {"RETYPE_COLUMN": "needs_approval"}})


def test_undo_changes_tables_and_metadata_of_a_rename_and_a_widening_back(built, two_changes):
    narrowing_permitted(built)
    report = undo(built, two_changes, by=built.author, metadata=True)
    assert [warning["code"] for warning in report.document["warnings"]] == []
    columns = {(column.name, str(column.type)) for column in customer().columns.all()}
    assert {("full_name", "string(50)"), ("balance", "decimal(10,2)")} <= columns
    approve(report=report, user=built.approver)
    execute(built, report)
    assert built.report().status == "no_changes"


def test_undo_of_an_added_column_retires_it_in_the_metadata(built):
    record = with_new_column(built)
    report = undo(built, record, by=built.author, metadata=True)
    assert not TargetColumn.objects.get(name="email").active
    approve(report=report, user=built.approver)
    execute(built, report)
    assert built.report().status == "no_changes"


def test_undo_of_a_retired_column_uses_it_again(built):
    column = TargetColumn.objects.get(name="balance")
    with acting_as(built.author):
        retire_column(column=column, expected_version=column.version)
    report = undo(built, built.executed().record, by=built.author, metadata=True)
    assert TargetColumn.objects.get(name="balance").active
    execute(built, report)
    assert built.report().status == "no_changes"


def test_undo_of_a_renamed_dataset_renames_it_back(built):
    with acting_as(built.author):
        rename_dataset(dataset=customer(), name="rc_crm_client", expected_version=customer().version)
    record = built.executed().record
    execute(built, undo(built, record, by=built.author, metadata=True))
    assert TargetDataset.objects.filter(name="rc_crm_customer").exists()
    assert built.report().status == "no_changes"


def test_blocked_undo_changes_no_metadata(built, two_changes):
    with pytest.raises(Refused) as error:
        undo(built, two_changes, by=built.author, metadata=True)
    assert (error.value.code, "retype_column" in error.value.message) == ("REPORT_BLOCKED", True)
    assert TargetColumn.objects.filter(name="display_name").exists()


def test_undo_of_metadata_by_a_user_who_may_not_edit_is_refused_and_changes_nothing(built, renamed):
    with acting_as(built.operator), pytest.raises(MetadataError) as error:
        undo(built, renamed, metadata=True)
    assert error.value.code == "not_permitted"
    assert not ChangeReport.objects.filter(undo_of=renamed).exists()


def test_undo_keeps_metadata_that_was_changed_since_and_warns_of_it(built, renamed):
    rename(built, "display_name", "shown")
    report = undo(built, renamed, by=built.author, metadata=True)
    assert [warning["code"] for warning in report.document["warnings"]] == ["METADATA_UNCHANGED"]
    assert TargetColumn.objects.filter(name="shown").exists()


def test_undo_with_metadata_after_one_without_supersedes_it(built, renamed):
    first = undo(built, renamed, by=built.author)
    second = undo(built, renamed, by=built.author, metadata=True)
    first.refresh_from_db()
    assert (first.status, first.superseded_by) == ("superseded", second)


# --- forecasts -----------------------------------------------------------------------------------


def test_forecast_names_decision_losses_and_metadata_of_each_group(built, two_changes):
    rename_, widen_ = forecasts(two_changes)
    assert (rename_.decision, rename_.losses, rename_.possible) == ("allowed", (), True)
    assert rename_.metadata.text == "display_name is renamed to full_name"
    assert (widen_.decision, widen_.possible, widen_.blocked.code) == ("blocked", False, "RETYPE_COLUMN")


def test_forecast_of_a_blocked_undo_offers_an_edit_that_is_possible_instead(built):
    with acting_as(built.author):
        create_target_column(dataset=customer(), name="email", type="string(50)", inputs=[])
    (added,) = forecasts(built.executed().record)
    email = TargetColumn.objects.get(name="email")
    assert (added.possible, added.alternative) == (False, ("Retire column", f"/columns/{email.key}/retire/"))


def test_forecast_of_an_added_column_names_it_as_loss(built):
    (added,) = forecasts(with_new_column(built))
    tables = ("rawcore.rc_crm_customer_hist", "rawcore.rc_crm_customer")
    assert added.losses == tuple(f"Column email of {table}, which must be empty." for table in tables)
    assert (added.decision, added.metadata.text) == ("needs_approval", "email is retired")
