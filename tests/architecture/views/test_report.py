"""Report page: operations, comparison and downstream datasets."""

import html
import json
import re
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from architecture.models import ChangeReport
from architecture.services.approvals import approve
from elevata.accounts.actors import acting_as
from metadata.models import TargetDataset
from metadata.services.copies import create_copy
from metadata.services.datasets.targets import create_schema, create_target_dataset, update_target_column
from metadata.services.lifecycle import retire_column
from metadata.services.sources import create_system
from tests.architecture.services.test_previews import describe_view
from tests.architecture.world import World, customers, make_contract_world, put_policy_in_force
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import address, change, needing, read, rename, section, signed_in, words
from tests.metadata.contracts import BOARD

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


# --- the page ----------------------------------------------------------------------------------


def test_report_page_shows_operations_codes_and_editors(viewer: Client, renamed: ChangeReport):
    text = words(read(viewer, address(renamed)))
    assert renamed.fingerprint in text
    assert "rename_column rawcore.rc_crm_customer full_name → display_name RENAME_COLUMN" in text
    assert "rawcore.rc_crm_customer_hist history full_name → display_name" in text
    assert "1 entry since these datasets were last applied" in text
    assert "ada column rawcore.rc_crm_customer.display_name renamed" in text
    assert "Needs 1 approver at this risk in dev" in text


def test_preview_section_shows_the_select_of_a_new_view(world: World, viewer: Client):
    describe_view(world)
    preview = world.previewed()
    text = words(section(read(viewer, address(preview.report)), "preview"))
    assert "serving.customers new view" in text
    assert "`full_name` AS VARCHAR ( 50 )) AS `full_name` FROM `rawcore` . `rc_crm_customer`" in text


def test_executed_report_keeps_its_change_log_entries(world: World, viewer: Client):
    rename(world, "full_name", "display_name")
    execution = world.executed()
    rename(world, "balance", "amount")
    text = words(section(read(viewer, address(execution.report)), "changes"))
    assert "1 entry" in text
    assert "display_name" in text
    assert "amount" not in text


def test_change_log_entries_of_a_long_report_are_loaded_separately(
    viewer: Client, renamed: ChangeReport, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("architecture.views.reports.MAX_AT_ONCE", 0)
    page = read(viewer, address(renamed))
    assert "since these datasets were last applied" not in words(page)
    assert address(renamed, "behind/") in section(page, "changes")
    part = read(viewer, address(renamed, "behind/"))
    assert "ada column rawcore.rc_crm_customer.display_name renamed" in words(section(part, "changes"))


def test_report_status_shows_up_to_date_or_the_outdated_reason(world: World, viewer: Client, renamed: ChangeReport):
    assert "Up to date" in read(viewer, address(renamed, "status/"))
    rename(world, "balance", "amount")
    assert "REPORT_STALE" in read(viewer, address(renamed, "status/"))


def test_report_status_poll_runs_few_queries_until_the_report_is_outdated(
    world: World, viewer: Client, renamed: ChangeReport, django_assert_max_num_queries: DjangoAssertNumQueries
):
    part = read(viewer, address(renamed, "status/"))
    again = html.unescape(re.search(r'hx-get="([^"]+)" hx-trigger="every 2s"', part)[1])
    with django_assert_max_num_queries(9):  # session, user, report, its approvals, executions and preview, and one
        assert viewer.get(again).status_code == 204
    change(world, "balance", type="decimal(12,2)")
    assert "REPORT_STALE" in read(viewer, again)
    change(world, "balance", type="decimal(10,2)")
    assert "Up to date" in read(viewer, again)


def test_outdated_report_disables_approval_and_keeps_the_note_field(world: World, renamed: ChangeReport):
    bob = signed_in(world.approver)
    part = html_of(bob.get(address(renamed, "status/"), headers=HTMX))
    assert "Up to date" in part
    assert "hx-swap-oob" not in part
    rename(world, "balance", "amount")
    part = html_of(bob.get(address(renamed, "status/"), headers=HTMX))
    decide = part[part.index('id="decide"') :]
    assert 'id="decide" hx-swap-oob="true"' in part
    assert re.search(r'disabled aria-describedby="why-no-approval" form="decide-form">.*?Approve', decide)
    assert "The metadata changed since the report was created. REPORT_STALE" in words(decide)
    assert re.search(r'formaction="[^"]+">.*?Reject', decide)
    assert "textarea" not in part


def test_page_of_a_known_outdated_report_disables_approval_at_once(world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    bob = signed_in(world.approver)
    read(bob, address(renamed, "status/"))
    page = read(bob, address(renamed))
    assert "Outdated. The metadata changed since the report was created." in words(page)
    assert re.search(r'disabled aria-describedby="why-no-approval" form="decide-form"', page)


def test_report_page_shows_a_decision_by_another_user_and_stops_polling(world: World, renamed: ChangeReport):
    olga = signed_in(world.operator)
    part = read(olga, address(renamed, "status/"))
    again = html.unescape(re.search(r'hx-get="([^"]+)" hx-trigger="every 2s"', part)[1])
    approve(report=renamed, user=world.approver)
    part = html_of(olga.get(again, headers=HTMX))
    assert "This report has changed. It is approved now" in words(part)
    assert "every" not in part
    assert f'hx-get="/next-step/?report={renamed.report_id}"' in part
    assert "The report has all required approvals." in part


# --- side by side, and downstream -------------------------------------------------------------


def test_report_differences_are_shown_side_by_side_with_their_operation(viewer: Client, renamed: ChangeReport):
    part = html_of(viewer.get(address(renamed, "differences/"), headers=HTMX))
    assert "<del>full_name</del>" in part
    assert "<ins>display_name</ins>" in part
    assert f'href="{address(renamed)}#operation-1"' in part
    assert "2 unchanged columns" in words(part)
    assert "balance decimal(10,2)" in words(part)
    assert "<html" not in part
    assert "<html" in read(viewer, address(renamed, "differences/"))


def describe_vip(world: World) -> TargetDataset:
    """Describe ``bizcore.vip``, which reads the customers, as Ada."""
    customers = TargetDataset.objects.get(name="rc_crm_customer")
    with acting_as(world.author):
        schema = create_schema(name="bizcore", layer="bizcore")
        return create_target_dataset(schema=schema, name="vip", inputs=[customers], take_columns=True)


def test_report_differences_show_a_new_dataset_with_columns_and_inputs(world: World, viewer: Client):
    describe_vip(world)
    text = words(html_of(viewer.get(address(world.report(), "differences/"), headers=HTMX)))
    assert "bizcore.vip new" in text
    assert "Inputs nothing rawcore.rc_crm_customer" in text
    assert "Column nothing balance decimal(10,2)" in text


def graph_of(part: str) -> dict[str, Any]:
    return json.loads(re.search(r'id="downstream-graph" type="application/json">(.+?)</script>', part)[1])


def test_downstream_graph_shows_changed_datasets_and_readers(world: World, viewer: Client):
    reading = describe_vip(world)
    world.executed()
    column = TargetDataset.objects.get(name="rc_crm_customer").columns.get(name="full_name")
    with acting_as(world.author):
        update_target_column(column=column, expected_version=column.version, type="string(10)")
    part = html_of(viewer.get(address(world.report(), "downstream/"), headers=HTMX))
    nodes = {node["title"]: node for node in graph_of(part)["nodes"]}
    assert {name: node["state_label"] for name, node in nodes.items()} == {
        "rc_crm_customer": "blocked",
        "rc_crm_customer_hist": "reads from it",  # the history keeps the wider type
        "vip": "reads from it",
    }
    assert nodes["vip"]["url"] == f"/datasets/{reading.key}/"
    assert "Changed (1)" in part
    assert "Readers (2)" in part


def test_copies_of_changed_datasets_are_downstream_and_affected(world: World, viewer: Client):
    with acting_as(world.author):
        bi = create_system(name="BI", short_name="bi", kind="duckdb", location="{{ data_dir }}/copies/bi.duckdb")
        create_copy(dataset=TargetDataset.objects.get(name="rc_crm_customer"), to=bi, table="mart.customer")
    rename(world, "full_name", "display_name")
    report = world.report()
    part = html_of(viewer.get(address(report, "downstream/"), headers=HTMX))
    (copy,) = (node for node in graph_of(part)["nodes"] if node["layer"] == "copy")
    assert (copy["title"], copy["sub"], copy["state_label"]) == ("mart.customer", "in bi", "reads from it")
    assert "mart.customer Copy" in words(part)
    assert "copy mart.customer in bi" in words(read(viewer, f"/affected/?report={report.report_id}"))


def drop_a_column_with_readers(world: World) -> ChangeReport:
    describe_vip(world)
    world.executed()
    for name in ("full_name", "balance"):
        column = TargetDataset.objects.get(name="rc_crm_customer").columns.get(name=name)
        with acting_as(world.author):
            retire_column(column=column, expected_version=column.version)
    return world.report()


def test_downstream_shows_what_a_dropped_column_breaks(world: World, viewer: Client):
    part = words(html_of(viewer.get(address(drop_a_column_with_readers(world), "downstream/"), headers=HTMX)))
    assert "What breaks" in part
    assert "bizcore.vip column balance breaks reads it, and will have nothing to read" in part
    assert "Effects of the first" not in part


def test_downstream_says_how_many_columns_it_examined(world: World, viewer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("architecture.selectors.column_impacts.IMPACTS_SHOWN", 1)
    part = words(html_of(viewer.get(address(drop_a_column_with_readers(world), "downstream/"), headers=HTMX)))
    assert "Effects of the first 1 of 2 changed columns" in part


def test_downstream_graph_shows_a_dataset_that_is_no_longer_described(world: World, viewer: Client):
    report = world.report()
    row = {"op": "drop_table", "dataset": "rawcore.rc_gone", "dataset_key": str(uuid4()), "decision": "blocked"}
    ChangeReport.objects.filter(pk=report.pk).update(document=report.document | {"rows": [row]})
    part = html_of(viewer.get(address(report, "downstream/"), headers=HTMX))
    (node,) = graph_of(part)["nodes"]
    assert (node["title"], node["sub"], node["state_label"]) == ("rc_gone", "rawcore · not described", "blocked")


def test_long_report_shows_100_operations_and_a_link_to_all(world: World, viewer: Client):
    report = world.report()
    row = {"op": "add_column", "dataset": "rawcore.rc_crm_customer", "dataset_key": str(uuid4()), "column": "c"}
    ChangeReport.objects.filter(pk=report.pk).update(document=report.document | {"rows": [row] * 120})
    text = section(read(viewer, address(report)), "operations")
    assert text.count("<tr id=") == 100
    assert "The first 100 of 120" in text
    assert section(read(viewer, f"{address(report)}?all=yes"), "operations").count("<tr id=") == 120


def blocked_with_more(world: World) -> ChangeReport:
    """Return a report with a blocked change of one dataset and a new dataset."""
    change(world, "balance", type="integer")
    customers(world.author, "rc_crm_order")
    return world.report()


def test_page_of_a_blocked_report_creates_the_report_of_the_rest(world: World):
    report, ada = blocked_with_more(world), signed_in(world.author)
    page = section(read(ada, address(report)), "approvals")
    assert "Create report without blocked changes" in page
    fields = dict(re.findall(r'<input type="hidden" name="(scope|without_blocked)" value="(\w+)">', page))
    assert fields == {"scope": "all", "without_blocked": "on"}
    answer = ada.post("/reports/make/", {**fields, "last": "yes"})
    text = words(read(ada, answer["Location"]))
    assert "LEFT_OUT" in text
    assert "rawcore.rc_crm_customer" in text
    assert "all datasets without blocked ones" in text


def test_blocked_report_is_withdrawn_with_a_reason_on_its_page(world: World):
    report, ada = blocked_with_more(world), signed_in(world.author)
    assert address(report, "withdraw/") in section(read(ada, address(report)), "approvals")
    assert ada.post(address(report, "withdraw/"), {"reason": ""}).status_code == 422
    ada.post(address(report, "withdraw/"), {"reason": "not needed"})
    report.refresh_from_db()
    assert report.status == "withdrawn"
    assert "The report was withdrawn" in words(section(read(ada, address(report)), "approvals"))


def test_withdrawal_is_not_offered_to_another_user(world: World):
    report, olga = blocked_with_more(world), signed_in(world.operator)
    assert "Withdraw" not in section(read(olga, address(report)), "approvals")
    assert "Only an author of its changes or an approver" in words(read(olga, address(report, "withdraw/")))


def test_blocked_operation_shows_the_alternative(world: World, viewer: Client):
    change(world, "full_name", type="string(10)")
    report = world.report()
    text = words(read(viewer, address(report)))
    assert report.status == "blocked"
    assert "blocked destructive retype_column" in text
    assert "What to do: keep the type, add a column of the new type" in text
    assert "REPORT_BLOCKED" in text
    assert "formaction" not in text


def test_a_superseded_report_leads_to_the_newer_one(world: World, viewer: Client, renamed: ChangeReport):
    rename(world, "balance", "amount")
    newer = world.report()
    assert address(newer) in read(viewer, address(renamed))
    assert renamed.fingerprint[:12] in read(viewer, address(newer))


def test_a_report_without_changes_has_nothing_to_approve(world: World, viewer: Client):
    text = words(read(viewer, address(world.report())))
    assert "The warehouse matches the metadata" in text
    assert "NO_CHANGES" in text


def test_report_is_downloaded_as_json(viewer: Client, renamed: ChangeReport):
    answer = viewer.get(address(renamed, "report.json"))
    document = json.loads(answer.content)
    assert (document["format"], document["fingerprint"]) == ("change-report/v1", renamed.fingerprint)
    assert "rows" not in document
    assert answer.headers["Content-Disposition"].startswith("attachment")


def test_an_approver_accepts_lost_readers_on_the_page(world: World):
    put_policy_in_force(world.environment, {"readers": "open"})
    rename(world, "full_name", "display_name")
    report, bob = world.report(), signed_in(world.approver)
    page = read(bob, address(report))
    assert "Polars could not read the table" in words(page)
    assert 'name="readers_lost"' in section(page, "approvals")
    assert bob.post(address(report, "approve/"), {"note": "", "readers_lost": "on"}).status_code == 302
    assert report.approvals.get().readers_lost
    assert "lost readers accepted" in words(section(read(bob, address(report)), "approvals"))


def test_an_approver_accepts_a_broken_contract_on_the_page(db: None):
    world = make_contract_world()
    rename(world, "amount", "revenue")
    report, bob = world.report(), signed_in(world.approver)
    page = read(bob, address(report))
    assert "BREAKS_CONTRACT column amount is removed" in words(section(page, "operations"))
    assert f'href="{BOARD["link"]}"' in section(page, "operations")
    assert "the contract of mart.sales, read by dashboard Board (Finance)" in words(section(page, "approvals"))
    assert "CONTRACT_BROKEN" in words(html_of(bob.post(address(report, "approve/"), {"note": ""})))
    assert bob.post(address(report, "approve/"), {"note": "", "contracts_broken": "on"}).status_code == 302
    text = words(section(read(bob, address(report)), "approvals"))
    assert "broken contract of mart.sales accepted, read by dashboard Board (Finance)" in text


def test_report_page_without_lost_readers_offers_no_acceptance(world: World):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    assert 'name="readers_lost"' not in read(signed_in(world.approver), address(world.report()))
