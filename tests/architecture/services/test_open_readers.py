"""Environments with open readers: changes rewrite tables, unless approvers accept lost readers."""

import pytest

from architecture.domain.refusals import Refused
from architecture.domain.steps.features import COLUMN_MAPPING, DELETION_VECTORS, OPEN
from architecture.domain.steps.step import shape_of
from architecture.models import ChangeReport, ExecutionRecord
from architecture.services.approvals import approve
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.reports import operations_of
from architecture.services.undo import undo_report
from architecture.services.undo_options import groups_of
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_target_column
from metadata.services.lifecycle import rename_dataset
from tests.architecture.services.test_automatic_changes import pending
from tests.architecture.services.test_reports import rename
from tests.architecture.world import (
    World,
    customers_built,
    make_world,
    person,
    put_policy_in_force,
    remembered_in,
)
from tests.database.row_cache import remembered

pytestmark = pytest.mark.django_db
TABLES = ("rawcore.rc_crm_customer", "rawcore.rc_crm_customer_hist")


@pytest.fixture
def open_world(db) -> World:
    """Return a world with customers, in an environment with open readers."""
    return remembered("customers for open readers", make_open_world)


def make_open_world() -> World:
    world = make_world()
    put_policy_in_force(world.environment, {"readers": OPEN})
    return customers_built(world)


@pytest.fixture
def report(open_world) -> ChangeReport:
    rename(open_world, "full_name", "display_name")
    return open_world.report()


def features(world: World) -> set[str]:
    return {name for key in world.warehouse.shapes for name in shape_of(world.warehouse.table(key)).features}


def undo_all(world: World, record: ExecutionRecord) -> None:
    """Undo all operations of an execution."""
    report = undo_report(record=record, user=world.operator, operations=None)
    report.refresh_from_db()
    if report.status == "open" and world.needs_approval(report):
        approve(report=report, user=world.approver)
    make_preview(report=report, user=world.operator)
    world.work(request_execution(report=report, user=world.operator).execution)


def test_tables_for_open_readers_are_created_without_features(open_world):
    assert features(open_world) == set()


@pytest.mark.full
def test_rename_for_open_readers_needs_approval_and_names_the_readers_it_would_exclude(report):
    renames = operations_of(report)
    assert [(operation.op, operation.decision, operation.code) for operation in renames] == [
        ("rename_column", "needs_approval", "REWRITE_TABLE")
    ] * 2
    assert all("Polars could not read the table" in operation.message for operation in renames)


@pytest.mark.full
def test_rename_for_open_readers_rewrites_the_tables(open_world, report):
    approve(report=report, user=open_world.approver)
    preview = make_preview(report=report, user=open_world.operator)
    assert set(preview.estimate["rewritten"]) == set(TABLES)
    for step in preview.document["steps"]:
        if step["op"] == "rename_column":
            assert "SELECT" in step["statement"]
            assert "`full_name` AS `display_name`" in step["statement"]
        assert "columnMapping" not in step["statement"]
    open_world.work(request_execution(report=report, user=open_world.operator).execution)
    assert features(open_world) == set()
    assert open_world.report().status == "no_changes"


def test_accepted_lost_readers_permit_column_mapping(open_world, report):
    early = make_preview(report=report, user=open_world.operator)
    approve(report=report, user=open_world.approver, readers_lost=True)
    preview = make_preview(report=report, user=open_world.operator)
    assert preview.fingerprint != early.fingerprint
    assert preview.estimate["rewritten"] == {}
    assert "'delta.columnMapping.mode' = 'name'" in preview.document["steps"][0]["statement"]
    open_world.work(request_execution(report=report, user=open_world.operator).execution)
    assert features(open_world) == {COLUMN_MAPPING}
    rename(open_world, "display_name", "shown_name")
    assert {operation.code for operation in operations_of(open_world.report())} == {"RENAME_COLUMN", "DROP_FEATURES"}


def test_a_preview_from_before_the_acceptance_is_not_executed(open_world, report):
    make_preview(report=report, user=open_world.operator)
    approve(report=report, user=open_world.approver, readers_lost=True)
    execution = request_execution(report=report, user=open_world.operator).execution
    with pytest.raises(Refused) as refused:
        open_world.work(execution)
    assert refused.value.code == "PREVIEW_STALE"


def test_lost_readers_must_be_accepted_by_every_approver(open_world):
    put_policy_in_force(open_world.environment, {"readers": OPEN, "approvals": {"review": {"count": 2}}})
    rename(open_world, "full_name", "display_name")
    report = open_world.report()
    approve(report=report, user=open_world.approver, readers_lost=True)
    approve(report=report, user=person("bea", Role.APPROVER))
    preview = make_preview(report=report, user=open_world.operator)
    assert set(preview.estimate["rewritten"]) == set(TABLES)


def test_approval_that_accepts_lost_readers_is_refused_if_none_is_lost(built):
    put_policy_in_force(built.environment, {"approvals": {"safe": {"count": 1}}})
    rename(built, "full_name", "display_name")
    report = built.report()
    with pytest.raises(Refused) as refused:
        approve(report=report, user=built.approver, readers_lost=True)
    assert refused.value.code == "NO_READER_LOST"


def test_widening_of_a_number_rewrites_the_table_and_a_longer_text_does_not(open_world):
    columns = {column.name: column for column in TargetColumn.objects.filter(dataset__name="rc_crm_customer")}
    with acting_as(open_world.author):
        number, text = columns["customer_id"], columns["full_name"]
        update_target_column(column=number, expected_version=number.version, type="bigint")
        update_target_column(column=text, expected_version=text.version, type="string(200)")
    codes = {(operation.column, operation.code) for operation in operations_of(open_world.report())}
    assert codes == {("customer_id", "REWRITE_TABLE"), ("full_name", "WIDEN_COLUMN")}
    steps = open_world.previewed().document["steps"]
    assert {step["retyped"][0]["name"]: step["rewrites"] for step in steps if step["op"] == "widen_column"} == {
        "customer_id": True,
        "full_name": False,
    }


def widen_number_and_balance(world) -> None:
    columns = {column.name: column for column in TargetColumn.objects.filter(dataset__name="rc_crm_customer")}
    with acting_as(world.author):
        for column, type_ in ((columns["customer_id"], "bigint"), (columns["balance"], "decimal(18,2)")):
            update_target_column(column=column, expected_version=column.version, type=type_)


def test_several_widenings_of_one_table_rewrite_it_once(open_world):
    widen_number_and_balance(open_world)
    steps = [step for step in open_world.previewed().document["steps"] if step["op"] == "widen_column"]
    assert [sorted(item["name"] for item in step["retyped"]) for step in steps] == [["balance", "customer_id"]] * 2
    assert len({step["table"]["key"] for step in steps}) == 2


def test_widenings_of_one_rewrite_are_undone_together(open_world):
    widen_number_and_balance(open_world)
    record = open_world.executed().record
    (group,) = groups_of(record)
    assert {operation.column for operation in group.operations} == {"customer_id", "balance"}
    narrower = dict.fromkeys(("RETYPE_COLUMN", "KEY_RETYPED"), "needs_approval")
    put_policy_in_force(open_world.environment, {"readers": OPEN, "severities": narrower})
    undo_all(open_world, record)
    for key in open_world.warehouse.shapes:
        types = {column.name: column.type for column in open_world.warehouse.table(key).columns}
        assert (types["customer_id"], types["balance"]) == ("integer", "decimal(10,2)")


def test_rename_of_technical_columns_with_their_table_rewrites_it(open_world):
    dataset = TargetDataset.objects.get(name="rc_crm_customer")
    with acting_as(open_world.author):
        rename_dataset(dataset=dataset, name="rc_crm_client", expected_version=dataset.version)
    operations = {(operation.op, operation.code) for operation in operations_of(open_world.report())}
    assert operations == {("rename_table", "RENAME_TABLE"), ("rename_column", "REWRITE_TABLE")}
    open_world.executed()
    assert features(open_world) == set()


def test_undo_of_a_rename_enables_no_feature(open_world, report):
    undo_all(open_world, open_world.executed().record)
    assert features(open_world) == set()


@pytest.fixture
def closed_world(built) -> World:
    """Return a world with table features that were enabled before its environment got open readers."""
    remembered_in(built, "customers with features", lambda: add_features(built))
    return built


def add_features(built: World) -> None:
    rename(built, "full_name", "display_name")
    built.executed()
    columns = {column.name: column for column in TargetColumn.objects.filter(dataset__name="rc_crm_customer")}
    with acting_as(built.author):
        update_target_column(
            column=columns["balance"], expected_version=columns["balance"].version, type="decimal(18,2)"
        )
    built.executed()
    put_policy_in_force(built.environment, {"readers": OPEN})


def test_report_that_drops_unsupported_features_needs_approval(closed_world):
    report = closed_world.report()
    assert [
        (operation.op, operation.dataset, operation.decision, operation.code) for operation in operations_of(report)
    ] == [("drop_features", name, "needs_approval", "DROP_FEATURES") for name in TABLES]
    message = "some readers of the environment lack columnMapping and typeWidening; "
    assert all(operation.message.startswith(message) for operation in operations_of(report))
    with pytest.raises(Refused) as refused:
        approve(report=report, user=closed_world.approver, readers_lost=True)
    assert refused.value.code == "NO_READER_LOST"
    preview = closed_world.previewed()
    assert set(preview.estimate["rewritten"]) == set(TABLES)
    execution = closed_world.work(request_execution(report=report, user=closed_world.operator).execution)
    assert execution.status == "succeeded"
    assert features(closed_world) == {DELETION_VECTORS}
    assert closed_world.report().status == "no_changes"
    assert groups_of(execution.record) == ()


def test_tables_with_unsupported_features_are_still_loaded(closed_world):
    assert closed_world.report().status == "open"
    waiting = pending(closed_world)
    assert (waiting.operations, waiting.needing) == ((), ())


def test_undo_keeps_unsupported_features(built):
    rename(built, "full_name", "display_name")
    record = built.executed().record
    put_policy_in_force(built.environment, {"readers": OPEN})
    undo_all(built, record)
    assert features(built) == {COLUMN_MAPPING, DELETION_VECTORS}


def test_tables_keep_their_features_where_only_spark_reads(built):
    rename(built, "full_name", "display_name")
    built.executed()
    assert built.report().status == "no_changes"


def test_rename_for_spark_readers_is_allowed(built):
    rename(built, "full_name", "display_name")
    assert {operation.code for operation in operations_of(built.report())} == {"RENAME_COLUMN"}
