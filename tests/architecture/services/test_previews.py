"""Previews: statements, assumptions, and a fingerprint that depends on these only."""

from dataclasses import asdict

import pytest

from architecture.domain.refusals import Refused
from architecture.models import DryRun, Preview
from architecture.services.dry_runs import end_dry_run, request_dry_run
from architecture.services.executions import cancel_execution, request_execution, resume_execution
from architecture.services.observations import store_observations
from architecture.services.previews import build_previewed_report, make_preview, newest_preview, steps_in
from architecture.services.reports import basis_of, operations_of
from elevata.accounts.actors import acting_as
from elevata.core.canonical_json import sha256_hex
from elevata.jobs.services import claim
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    set_dataset_inputs,
    update_target_column,
    update_target_dataset,
)
from metadata.services.lifecycle import rename_dataset
from tests.architecture.services.test_reports import rename
from tests.architecture.world import committed, customers, put_policy_in_force

pytestmark = pytest.mark.django_db


@pytest.fixture
def renamed(built):
    rename(built, "full_name", "display_name")
    return built


def test_preview_lists_the_statements_in_order_with_their_assumptions(renamed):
    preview = renamed.previewed()
    steps = preview.document["steps"]
    assert [(step["op"], step["operation"]) for step in steps if step["op"] == "rename_column"] == [
        ("rename_column", 0),
        ("rename_column", 1),
    ]
    assert "RENAME COLUMN `full_name` TO `display_name`" in steps[0]["statement"]
    assert "full_name" in {column["name"] for column in steps[0]["assumes"]["columns"]}


def test_steps_of_a_stored_preview_equal_the_planned_ones(renamed):
    preview = renamed.previewed()
    again = Preview.objects.get(pk=preview.pk)
    assert steps_in(again) == basis_of(preview.report).steps(operations_of(preview.report))


def describe_view(world, **changes) -> TargetDataset:
    """Create or change a view with a column that reads the customers."""
    with acting_as(world.author):
        view = TargetDataset.objects.filter(name="customers").first()
        if view is None:
            schema = create_schema(name="serving", layer="serving")
            view = create_target_dataset(schema=schema, name="customers", materialization="view")
            read = TargetDataset.objects.get(name="rc_crm_customer")
            view = set_dataset_inputs(dataset=view, inputs=[read], expected_version=view.version)
            create_target_column(dataset=view, name="full_name", type="string(50)")
        if changes:
            view.refresh_from_db()
            update_target_dataset(dataset=view, expected_version=view.version, **changes)
    return view


def test_preview_shows_the_select_of_created_and_changed_views_only(built):
    view = describe_view(built)
    created = built.previewed()
    (entry,) = created.document["views"]
    assert (entry["key"], entry["name"], entry["new"]) == (str(view.key), "serving.customers", True)
    assert entry["statement"].startswith("CREATE VIEW `serving`.`customers` AS\nSELECT\n  CAST(`full_name` AS ")
    assert entry["statement"].endswith("FROM `rawcore`.`rc_crm_customer`")
    built.work(request_execution(report=created.report, user=built.operator).execution)

    rename(built, "balance", "amount")
    assert "views" not in built.executed().preview.document
    describe_view(built, filter="amount > 0")
    (entry,) = built.previewed().document["views"]
    assert (entry["new"], entry["statement"].splitlines()[-1]) == (False, "WHERE (amount > 0)")


def test_preview_fingerprint_covers_the_select_of_a_view(built):
    describe_view(built)
    before = built.previewed()
    document = {**before.document, "views": [{**before.document["views"][0], "statement": "SELECT 1"}]}
    assert sha256_hex(before.document) == before.fingerprint != sha256_hex(document)


def test_unchanged_report_returns_the_same_preview(renamed):
    assert renamed.previewed() == renamed.previewed()


def test_preview_fingerprint_excludes_table_sizes(renamed):
    before = renamed.previewed()
    key = str(TargetDataset.objects.get(name="rc_crm_customer").key)
    table = renamed.warehouse.table(key)
    sizes = {key: {"rows": 3, "bytes": 1000, "files": 1}}
    store_observations(environment=renamed.environment, keys=[key], tables={key: asdict(table)}, sizes=sizes)
    after = make_preview(report=before.report, user=renamed.operator)
    assert after.fingerprint == before.fingerprint
    assert after.sizes == sizes


def test_preview_estimates_the_rewritten_tables(built):
    column = TargetColumn.objects.get(name="customer_id")
    with acting_as(built.author):
        update_target_column(column=column, expected_version=column.version, type="string(20)")
    preview = built.previewed()
    assert set(preview.estimate["rewritten"]) == {"rawcore.rc_crm_customer", "rawcore.rc_crm_customer_hist"}


def test_preview_of_a_rename_estimates_no_rewrite(renamed):
    assert renamed.previewed().estimate == {"rewritten": {}, "read": {}}


def test_preview_of_swapped_names_lists_the_additional_rename(built):
    """Check the third rename, because Delta cannot swap two names directly."""
    rename(built, "full_name", "aside")
    rename(built, "balance", "full_name")
    rename(built, "aside", "balance")
    steps = built.previewed().document["steps"]
    base = [step for step in steps if step["op"] == "rename_column" and step["table"]["kind"] == "rawcore"]
    assert len(base) == 3


def test_report_that_needs_approval_gets_a_preview_and_a_dry_run(renamed):
    put_policy_in_force(renamed.environment, {"approvals": {"safe": {"count": 1}}})
    committed()
    renamed.warehouse.show()
    report = build_previewed_report(environment=renamed.environment, user=renamed.author)
    preview = newest_preview(report)
    assert [step["op"] for step in preview.document["steps"]] == ["rename_column"] * 2
    assert DryRun.objects.get().preview == preview
    assert build_previewed_report(environment=renamed.environment, user=renamed.author) == report
    assert DryRun.objects.count() == 1


def test_a_report_that_needs_no_approval_is_previewed_without_a_dry_run(renamed):
    committed()
    renamed.warehouse.show()
    assert newest_preview(build_previewed_report(environment=renamed.environment, user=renamed.author)) is not None
    assert not DryRun.objects.exists()


@pytest.mark.parametrize(("user", "code"), [("approver", "NOT_PERMITTED"), (None, "NO_PERSON")])
def test_preview_requires_the_execute_permission(renamed, user, code):
    report = renamed.report()
    with pytest.raises(Refused) as refused:
        make_preview(report=report, user=getattr(renamed, user) if user else None)
    assert refused.value.code == code


def test_preview_of_a_report_without_changes_is_refused(built):
    with pytest.raises(Refused) as refused:
        make_preview(report=built.report(), user=built.operator)
    assert refused.value.code == "NO_CHANGES"


def test_preview_of_an_outdated_report_is_refused(renamed):
    report = renamed.report()
    rename(renamed, "balance", "saldo")
    with pytest.raises(Refused) as refused:
        make_preview(report=report, user=renamed.operator)
    assert refused.value.code == "REPORT_STALE"


def test_preview_of_a_report_with_a_queued_execution_is_refused(renamed):
    execution = renamed.queued()
    with pytest.raises(Refused) as refused:
        make_preview(report=execution.report, user=renamed.operator)
    assert refused.value.code == "ALREADY_RUNNING"


def test_preview_of_a_renamed_history_drops_and_publishes_its_views(world):
    customers(world.author, history_policy={"views": ["current"]})
    world.executed()
    built, dataset = world, TargetDataset.objects.get(name="rc_crm_customer")
    with acting_as(built.author):
        rename_dataset(dataset=dataset, name="rc_crm_client", expected_version=dataset.version)
    ops = [step["op"] for step in built.previewed().document["steps"]]
    assert "drop_views" in ops
    assert "publish_view" in ops


# --- dry runs ------------------------------------------------------------------------------


def test_dry_run_is_queued_claimed_and_ended_once(renamed):
    preview = renamed.previewed()
    dry_run = request_dry_run(preview=preview, user=renamed.operator).dry_run
    again = request_dry_run(preview=preview, user=renamed.operator)
    assert (again.dry_run, again.requested) == (dry_run, False)
    claimed = claim(job_pk=dry_run.pk, worker="w1")
    assert claim(job_pk=dry_run.pk, worker="w2") is None
    assert end_dry_run(attempt=claimed, result={"succeeded": True})
    assert not end_dry_run(attempt=claimed, error={"code": "LATE"})
    dry_run.refresh_from_db()
    assert (dry_run.status, dry_run.result) == ("succeeded", {"succeeded": True})


def test_execution_cancels_a_queued_dry_run_of_its_report(renamed):
    preview = renamed.previewed()
    waiting = request_dry_run(preview=preview, user=renamed.operator).dry_run
    request_execution(report=preview.report, user=renamed.operator)
    waiting.refresh_from_db()
    assert (waiting.status, waiting.error["code"], waiting.exclusive) == ("canceled", "CANCELED", None)


def test_execution_asks_the_worker_to_cancel_a_running_dry_run_of_its_report(renamed):
    preview = renamed.previewed()
    running = request_dry_run(preview=preview, user=renamed.operator).dry_run
    attempt = claim(job_pk=running.pk, worker="w1")
    request_execution(report=preview.report, user=renamed.operator)
    assert attempt.heartbeat() == "canceling"
    assert end_dry_run(attempt=attempt, error={"code": "CANCELED"})
    running.refresh_from_db()
    assert (running.status, running.error["message"]) == ("canceled", "the report is executed")


def test_resumed_execution_cancels_a_dry_run_of_its_report(renamed):
    preview = renamed.previewed()
    execution = request_execution(report=preview.report, user=renamed.operator).execution
    cancel_execution(execution=execution, user=renamed.operator)
    waiting = request_dry_run(preview=preview, user=renamed.operator).dry_run
    resume_execution(execution=execution, user=renamed.operator)
    waiting.refresh_from_db()
    assert waiting.status == "canceled"


def test_dry_run_of_a_report_that_is_executed_is_refused(renamed):
    execution = renamed.queued()
    with pytest.raises(Refused) as refused:
        request_dry_run(preview=execution.preview, user=renamed.operator)
    assert refused.value.code == "ALREADY_RUNNING"
