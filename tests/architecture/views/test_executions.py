"""Executions on pages: start, live page, cancellation, resumption, abandoning, records and undo."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from architecture.domain.artifacts import verify
from architecture.models import ChangeReport, DryRun, Execution, Preview
from architecture.services.previews import make_preview
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetColumn
from metadata.services.datasets.targets import create_target_column
from tests.architecture.executions import customer
from tests.architecture.world import Killed, World, person, put_policy_in_force
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import address, change, needing, read, rename, section, signed_in, words
from tests.loader.factories import WorkerFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def previewed(world: World) -> Preview:
    """Return the preview of a rename that needs no approval."""
    rename(world, "full_name", "display_name")
    return make_preview(report=world.report(), user=world.operator)


@pytest.fixture
def olga(world: World) -> Client:
    return signed_in(world.operator)


def execute(client: Client, preview: Preview, **fields: Any) -> Any:
    return client.post(address(preview.report, "execute/"), {"preview": preview.fingerprint, **fields})


def page_of(execution: Execution, part: str = "") -> str:
    return f"/executions/{execution.pk}/{part}"


def lose_worker(world: World) -> Execution:
    """Return an execution whose worker died after its first step."""
    execution = world.queued()
    with pytest.raises(Killed):
        world.work(execution, dies_at=1)
    error = {"code": "WORKER_LOST", "message": "the worker is gone"}
    Execution.objects.filter(pk=execution.pk).update(status="lost", error=error)
    return Execution.objects.get(pk=execution.pk)


# --- start -------------------------------------------------------------------------------------


def test_executing_queues_the_steps_of_the_preview(olga: Client, previewed: Preview):
    answer = execute(olga, previewed)
    execution = Execution.objects.get(report=previewed.report)
    assert answer.url == page_of(execution)
    assert (execution.status, execution.who, execution.command) == ("queued", "olga", "page")
    assert [row.op for row in execution.operations.all()] == ["rename_column", "rename_column"]


def test_executing_twice_leads_to_the_same_execution(olga: Client, previewed: Preview):
    first = execute(olga, previewed).url
    again = olga.post(address(previewed.report, "execute/"), {"preview": previewed.fingerprint}, follow=True)
    assert again.redirect_chain[0][0] == first
    assert "already being executed" in html_of(again)


def refusal_of(olga: Client, report: ChangeReport, **data: str) -> str:
    answer = olga.post(address(report, "execute/"), data)
    assert answer.status_code in (403, 409)
    assert not report.executions.exists()
    return section(html_of(answer), "execute")


def test_execution_requires_a_preview(world: World, olga: Client):
    rename(world, "full_name", "display_name")
    report = world.report()
    assert "disabled" in section(read(olga, address(report)), "execute")
    assert "NO_PREVIEW" in refusal_of(olga, report)


def test_execution_requires_the_missing_approval(world: World, olga: Client):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    preview = make_preview(report=world.report(), user=world.operator)
    assert "NOT_APPROVED" in refusal_of(olga, preview.report, preview=preview.fingerprint)


def test_execution_requires_the_newest_preview(olga: Client, previewed: Preview):
    assert "PREVIEW_STALE" in refusal_of(olga, previewed.report, preview="a" * 64)


def test_execution_is_refused_after_a_later_metadata_edit(world: World, olga: Client, previewed: Preview):
    change(world, "display_name", type="string(80)")
    assert "REPORT_STALE" in refusal_of(olga, previewed.report, preview=previewed.fingerprint)


def test_execution_requires_the_execute_permission(world: World, previewed: Preview):
    for name, role in (("bob", Role.APPROVER), ("vera", Role.VIEWER)):
        client = signed_in(person(name, role))
        assert "An operator previews and executes it." in section(read(client, address(previewed.report)), "execute")
        assert execute(client, previewed).status_code == 403
    assert not previewed.report.executions.exists()


# --- the live page -----------------------------------------------------------------------------


def test_queued_execution_page_polls_and_reports_missing_workers(world: World, olga: Client, previewed: Preview):
    execution = world.queued()
    page = read(olga, page_of(execution))
    assert 'hx-trigger="every 1s"' in page
    assert "no worker is running" in page
    WorkerFactory()
    state = re.search(r"seen=(\w+)", read(olga, page_of(execution)))[1]
    assert olga.get(page_of(execution, f"live/?seen={state}")).status_code == 204
    Execution.objects.update(phase="scanning the warehouse")
    part = read(olga, page_of(execution, f"live/?seen={state}"))
    assert "scanning the warehouse" in part
    assert "<html" not in part


def test_a_finished_execution_shows_steps_versions_and_its_record(world: World, olga: Client, previewed: Preview):
    execution = world.executed()
    page = read(olga, page_of(execution))
    assert "every 1s" not in page
    assert "2 of 2 done" in words(page)
    assert "rename_column rawcore.rc_crm_customer.display_name succeeded" in words(page)
    assert execution.record.digest in page


def test_record_is_downloaded_as_an_artifact_that_verifies(world: World, olga: Client, previewed: Preview):
    execution = world.executed()
    answer = olga.get(f"/records/{execution.record.record_id}/record.json")
    artifact = json.loads(answer.content)
    assert artifact["document"]["outcome"] == "succeeded"
    assert verify(artifact) == ()


def test_a_record_is_verified_on_its_page(world: World, viewer: Client, previewed: Preview):
    execution = world.executed()
    text = words(read(viewer, page_of(execution, "verify/")))
    assert "The record verifies: every digest and fingerprint matches" in text
    assert "rawcore.rc_crm_customer in sync" in text


def test_executions_are_listed_with_their_records(world: World, olga: Client, previewed: Preview):
    execution = world.executed()
    assert f"execution {execution.pk} succeeded report" in words(read(olga, "/executions/?kind=report"))
    assert str(execution.record.record_id) in read(olga, "/executions/?dataset=rawcore.rc_crm_customer")
    assert "No executions match" in read(olga, "/executions/?status=lost")


def test_empty_list_of_executions_shows_a_hint(viewer: Client):
    assert "No executions yet" in read(viewer, "/executions/")


# --- cancel, resume and abandon ----------------------------------------------------------------


def test_cancelling_requires_a_confirmation(world: World, olga: Client, previewed: Preview):
    execution = world.queued()
    assert "Cancel this execution?" in read(olga, page_of(execution, "cancel/"))
    execution.refresh_from_db()
    assert execution.status == "queued"
    olga.post(page_of(execution, "cancel/"))
    execution.refresh_from_db()
    assert execution.status == "canceled"


def test_lost_execution_is_resumed_without_repeating_a_step(world: World, olga: Client, previewed: Preview):
    execution = lose_worker(world)
    assert "Resume" in read(olga, page_of(execution))
    assert olga.post(page_of(execution, "resume/")).url == page_of(execution)
    assert Execution.objects.get(pk=execution.pk).status == "queued"
    before = len(world.warehouse.commits)
    assert world.work(execution).status == "succeeded"
    assert len(world.warehouse.commits) - before == 1


def test_abandoning_requires_a_reason_and_creates_a_record(world: World, olga: Client, previewed: Preview):
    execution = lose_worker(world)
    answer = olga.post(page_of(execution, "abandon/"), {"reason": "  "})
    assert answer.status_code == 422
    assert "Enter a reason." in html_of(answer)
    page = olga.post(page_of(execution, "abandon/"), {"reason": "we go another way"}, follow=True)
    execution = Execution.objects.get(pk=execution.pk)
    assert (execution.status, execution.record.outcome) == ("abandoned", "abandoned")
    assert "we go another way" in html_of(page)


def test_resume_of_an_executed_report_is_refused_with_a_reason(world: World, olga: Client, previewed: Preview):
    execution = world.executed()
    answer = olga.post(page_of(execution, "resume/"))
    assert answer.status_code == 409
    assert "ALREADY_EXECUTED" in html_of(answer)


def test_buttons_of_a_lost_execution_are_disabled_for_a_viewer(world: World, viewer: Client, previewed: Preview):
    execution = lose_worker(world)
    assert 'disabled title="Ask for the operator role to resume' in read(viewer, page_of(execution))
    for part in ("cancel/", "resume/", "abandon/"):
        assert viewer.post(page_of(execution, part)).status_code == 403


# --- undo --------------------------------------------------------------------------------------


@pytest.fixture
def two_changes(world: World) -> Execution:
    """Return an execution of a rename and a widening, which came first; the policy permits narrowing."""
    put_policy_in_force(world.environment, {"severities": {"RETYPE_COLUMN": "needs_approval"}})
    rename(world, "full_name", "display_name")
    change(world, "balance", type="decimal(12,2)")
    return world.executed()


def choices(html: str) -> list[tuple[str, bool]]:
    """Return the operations that can be chosen, and whether each is ticked."""
    boxes = re.findall(r'<input class="form-check-input"[^>]*name="operation"[^>]*>', html)
    return [(re.search(r'value="(\d+)"', box)[1], "checked" in box) for box in boxes]


def test_execution_page_shows_undo_options_and_creates_the_undo_report(world: World, olga: Client, previewed: Preview):
    execution = world.executed()
    way = words(section(read(olga, page_of(execution)), "undo"))
    assert "1, 2 rename_column rawcore.rc_crm_customer: full_name → display_name" in way
    assert "rename_column rawcore.rc_crm_customer: display_name → full_name" in way
    assert "The metadata stays, because changing it needs the editor role" in way
    answer = olga.post(page_of(execution, "undo/"))
    undo = ChangeReport.objects.get(undo_of=execution.record)
    assert answer.url == address(undo)
    page = words(read(olga, address(undo)))
    assert "undo of execution" in page
    assert "display_name → full_name" in page
    assert "METADATA_UNCHANGED" in page
    assert f"Undo report {undo.fingerprint[:12]}" in words(read(olga, page_of(execution)))


def test_undo_on_the_page_changes_tables_and_metadata(world: World, previewed: Preview):
    execution, ada = world.executed(), signed_in(world.author)
    part = section(read(ada, page_of(execution)), "undo")
    assert "Metadata: display_name is renamed to full_name." in words(part)
    assert re.search(r'name="metadata" checked', part)
    ada.post(page_of(execution, "undo/"), {"choose": "yes", "operation": ["0"], "metadata": "on"})
    assert TargetColumn.objects.filter(name="full_name").exists()
    assert ChangeReport.objects.get(undo_of=execution.record).document["warnings"] == []


def test_undo_that_the_policy_blocks_is_not_chosen_and_offers_an_edit_instead(world: World):
    with acting_as(world.author):
        create_target_column(dataset=customer(), name="email", type="string(50)", inputs=[])
    execution, ada = world.executed(), signed_in(world.author)
    part = section(read(ada, page_of(execution)), "undo")
    assert choices(part) == []
    text = words(part)
    assert "DROP_COLUMN" in text
    assert "Retire column instead" in text


def test_live_part_brings_the_undo_when_the_execution_ends(world: World, olga: Client, previewed: Preview):
    execution = world.queued()
    assert 'id="undo"' not in read(olga, page_of(execution))
    assert "undo-place" not in read(olga, page_of(execution, "live/"))
    world.work(execution)
    part = read(olga, page_of(execution, "live/"))
    assert 'id="undo-place" hx-swap-oob="true"' in part
    assert "Create undo report" in part


def test_undo_form_preselects_all_operations_and_undoes_the_chosen_ones(olga: Client, two_changes: Execution):
    boxes = choices(section(read(olga, page_of(two_changes)), "undo"))
    assert [ticked for _, ticked in boxes] == [True, True]
    olga.post(page_of(two_changes, "undo/"), {"choose": "yes", "operation": [boxes[0][0]]})
    operations = ChangeReport.objects.get(undo_of=two_changes.record).document["operations"]
    assert {operation["op"] for operation in operations} == {"rename_column"}


def test_undo_form_without_a_choice_is_refused(olga: Client, two_changes: Execution):
    answer = olga.post(page_of(two_changes, "undo/"), {"choose": "yes"})
    part = section(html_of(answer), "undo")
    assert answer.status_code == 422
    assert "Choose at least one operation" in part
    assert [ticked for _, ticked in choices(part)] == [False, False]


def test_undo_form_refused_for_a_choice_shows_the_reason_and_keeps_it(olga: Client, two_changes: Execution):
    widened = choices(section(read(olga, page_of(two_changes)), "undo"))[1][0]
    answer = olga.post(page_of(two_changes, "undo/"), {"choose": "yes", "operation": [widened]})
    part = section(html_of(answer), "undo")
    assert answer.status_code == 409
    assert "LATER_OPERATIONS" in part
    assert ("Undo both." in part, dict(choices(part))[widened]) == (True, True)


def test_undo_form_offers_no_operations_undone_before(world: World, olga: Client, previewed: Preview):
    execution = world.executed()
    rename(world, "display_name", "full_name")
    world.executed()
    part = section(read(olga, page_of(execution)), "undo")
    assert "ALREADY_UNDONE" in part
    assert choices(part) == []
    assert "Nothing in this record can be undone now" in part


def test_undo_options_are_read_only_for_a_viewer(viewer: Client, two_changes: Execution):
    part = section(read(viewer, page_of(two_changes)), "undo")
    assert choices(part) == []
    assert "needs the editor, approver or operator role" in part
    assert viewer.post(page_of(two_changes, "undo/")).status_code == 403


def test_undo_of_an_execution_without_a_record_is_refused(world: World, olga: Client, previewed: Preview):
    execution = world.queued()
    answer = olga.post(page_of(execution, "undo/"))
    assert answer.status_code == 409
    assert "NOTHING_TO_UNDO" in html_of(answer)


# --- dry runs --------------------------------------------------------------------------------


def test_dry_run_is_queued_and_polled_on_the_report_page(olga: Client, previewed: Preview):
    assert olga.post(address(previewed.report, "dry-run/")).url == f"{address(previewed.report)}#dry-run"
    dry_run = DryRun.objects.get()
    part = section(read(olga, address(previewed.report)), "dry-run")
    assert "every 1s" in part
    assert "Repeat dry run" not in part
    assert olga.get(f"/dry-runs/{dry_run.pk}/?seen=queued").status_code == 204


def test_dry_run_shows_before_after_and_failing_queries(olga: Client, previewed: Preview):
    before = {
        "name": "rawcore.rc_crm_customer",
        "columns": [{"name": "full_name", "type": "string", "key": "k1"}],
        "rows": 3,
        "bytes": 10,
        "samples": [["Ann"], [None]],
    }
    after = before | {"columns": [{"name": "display_name", "type": "string", "key": "k1"}]}
    result = {
        "succeeded": True,
        "error": None,
        "steps": [{"ordinal": 0, "status": "succeeded", "error": None}],
        "tables": {"t1": {"before": before, "after": after}},
        "queries": [
            {"name": "bizcore.names", "before": None, "after": "no column full_name", "breaks": True},
            {"name": "bizcore.all", "before": None, "after": None, "breaks": False},
        ],
    }
    DryRun.objects.create(preview=previewed, status="succeeded", result=result)
    text = section(read(olga, address(previewed.report)), "dry-run")
    assert "<del>full_name string</del>" in text
    assert "<ins>display_name string</ins>" in text
    assert "1 of 2 queries downstream would fail" in words(text)
    assert "no column full_name" in text
    assert '<span class="nothing">NULL</span>' in text


def test_dry_run_omits_sample_values_of_sensitive_columns(olga: Client, previewed: Preview):
    side = {
        "name": "rawcore.rc_crm_customer",
        "columns": [{"name": "full_name", "type": "string", "key": "k1"}],
        "rows": 1,
        "bytes": 10,
        "samples": [["Zebedee"]],
    }
    result = {"succeeded": True, "error": None, "steps": [], "tables": {"t1": {"before": side}}, "queries": []}
    dry_run = DryRun.objects.create(preview=previewed, status="succeeded", result=result)
    addresses = (address(previewed.report), f"/api/v1/dry-runs/{dry_run.pk}/")
    assert all("Zebedee" in html_of(olga.get(url)) for url in addresses)
    columns = TargetColumn.objects.filter(dataset__name="rc_crm_customer", name__in=("full_name", "display_name"))
    assert columns.update(pii=True)
    assert not any("Zebedee" in html_of(olga.get(url)) for url in addresses)


def test_failed_dry_run_shows_its_error(olga: Client, previewed: Preview):
    error = {"code": "VALUES_DO_NOT_FIT", "message": "3 values do not fit"}
    result = {"succeeded": False, "error": error, "steps": [], "tables": {}, "queries": []}
    DryRun.objects.create(preview=previewed, status="succeeded", result=result)
    text = section(read(olga, address(previewed.report)), "dry-run")
    assert "a step failed" in text
    assert "3 values do not fit" in text


def test_step_without_a_statement_is_shown_as_recorded_only(world: World, olga: Client, previewed: Preview):
    execution = world.executed()
    execution.operations.filter(ordinal=1).update(statement="")
    steps = words(section(read(olga, page_of(execution)), "steps"))
    assert "recorded none: no warehouse change" in steps
