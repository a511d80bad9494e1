"""Reports on pages: making one, the whole story of one, deciding, previews."""

import html
import json
import re
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from architecture.domain.artifacts import verify
from architecture.models import ChangeReport
from architecture.services.approvals import approve
from architecture.services.observing import store_observations
from architecture.services.previews import make_preview
from loader.models import ReadRequest
from metadata.domain.roles import Role
from metadata.models import TargetDataset
from metadata.services.actor import acting_as
from metadata.services.targets import create_schema, create_target_dataset, update_target_column
from tests.architecture.world import World, person
from tests.loader_factories import EnvironmentFactory, WorkerFactory
from tests.web.controlling import address, change, needing, read, rename, section, signed_in, words

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def renamed(world: World) -> ChangeReport:
    """An open report of a rename, which needs one approval."""
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    return world.report()


# --- the list ----------------------------------------------------------------------------------


def test_an_empty_list_says_what_to_do_first(viewer: Client):
    EnvironmentFactory()
    text = words(read(viewer, "/reports/"))
    assert "No report yet" in text
    assert "import metadata first" in text


def test_the_list_tells_scope_risk_author_and_what_became_of_it(viewer: Client, world: World, renamed: ChangeReport):
    text = words(read(viewer, "/reports/"))
    assert f"{renamed.fingerprint[:12]} open all datasets dev safe 2 ada" in text
    assert "executed: succeeded" in text


def test_the_list_is_filtered(viewer: Client, renamed: ChangeReport):
    assert renamed.fingerprint[:12] in read(viewer, "/reports/?status=open&author=ada&risk=safe")
    assert renamed.fingerprint[:12] in read(viewer, f"/reports/?q={renamed.fingerprint[:9]}")
    assert "No report fits" in read(viewer, "/reports/?author=nobody")


# --- making one --------------------------------------------------------------------------------


def test_who_only_reads_cannot_make_a_report(world: World):
    viewer = signed_in(person("vera", Role.VIEWER))
    assert "<fieldset disabled>" in read(viewer, "/reports/")
    assert viewer.post("/reports/make/", {"scope": "all"}).status_code == 403


def test_a_report_is_made_after_a_look_at_the_warehouse(world: World):
    rename(world, "full_name", "display_name")
    ada = signed_in(world.author)
    look = ada.post("/reports/make/", {"scope": "dataset_alone", "dataset": "rawcore.rc_crm_customer"}).url
    asked = ReadRequest.objects.get()
    assert asked.arguments["then"]["scope"] == {
        "kind": "dataset",
        "name": "rawcore.rc_crm_customer",
        "target_only": True,
    }
    assert str(asked.dataset_id) == "None"
    assert "every 400ms" in read(ada, look)
    world.warehouse.show()
    ReadRequest.objects.update(status="succeeded", answer={"asked": 3, "found": 2})
    assert "data-go-on" in read(ada, f"{look}live/")
    made = ada.post(f"{look}go/")
    report = ChangeReport.objects.get(scope__kind="dataset")
    assert made.url == address(report)
    assert report.created_by == world.author


def test_a_look_that_failed_says_why_and_offers_what_was_seen_before(world: World):
    ada = signed_in(world.author)
    look = ada.post("/reports/make/", {"scope": "all"}).url
    error = {"code": "NO_ANSWER", "message": "no worker answered in time"}
    ReadRequest.objects.update(status="failed", error=error)
    text = read(ada, look)
    assert "no worker answered in time" in text
    assert "Go on with what was seen before" in text
    assert "data-go-on" not in text


def test_a_waiting_look_says_when_no_worker_answers_and_is_silent_while_nothing_changes(world: World):
    ada = signed_in(world.author)
    look = ada.post("/reports/make/", {"scope": "all"}).url
    assert "no worker is answering" in read(ada, look)
    seen = re.search(r"seen=([\w-]+)", read(ada, look))[1]
    assert ada.get(f"{look}live/?seen={seen}").status_code == 204
    WorkerFactory()
    assert "Waiting for the worker" in read(ada, f"{look}live/?seen={seen}")


def test_nobody_goes_on_with_another_persons_look(world: World):
    look = signed_in(world.author).post("/reports/make/", {"scope": "all"}).url
    assert signed_in(world.operator).post(f"{look}go/").status_code == 404


def test_a_report_from_what_was_seen_last_needs_no_worker(world: World):
    rename(world, "full_name", "display_name")
    answer = signed_in(world.author).post("/reports/make/", {"scope": "all", "last": "yes"})
    assert answer.url == address(ChangeReport.objects.first())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scope": "odd"}, "Select a valid choice"),
        ({"scope": "schema"}, "Choose a schema"),
        ({"scope": "dataset", "dataset": ""}, "Choose a dataset"),
        ({"scope": "dataset", "dataset": "rawcore.nowhere"}, "there is no dataset rawcore.nowhere"),
    ],
)
def test_what_cannot_be_made_is_said_in_the_form(world: World, given: dict[str, str], message: str):
    answer = signed_in(world.author).post("/reports/make/", given)
    assert answer.status_code == 422
    assert message.lower() in answer.content.decode().lower()
    assert not ReadRequest.objects.exists()


# --- the story of one --------------------------------------------------------------------------


def test_a_page_tells_what_changes_why_and_who_changed_it(viewer: Client, renamed: ChangeReport):
    text = words(read(viewer, address(renamed)))
    assert renamed.fingerprint in text
    assert "rename_column rawcore.rc_crm_customer full_name → display_name RENAME_COLUMN" in text
    assert "rawcore.rc_crm_customer_hist history full_name → display_name" in text
    assert "1 entry since these datasets were last carried out" in text
    assert "ada column rawcore.rc_crm_customer.display_name renamed" in text
    assert "1 needed at this risk in dev; 1 missing" in text


def test_the_changes_behind_a_report_stay_the_same_once_it_was_executed(world: World, viewer: Client):
    rename(world, "full_name", "display_name")
    execution = world.executed()
    rename(world, "balance", "amount")
    text = words(section(read(viewer, address(execution.report)), "changes"))
    assert "1 entry" in text
    assert "display_name" in text
    assert "amount" not in text


def test_a_report_that_holds_says_so_and_a_stale_one_what_moved(world: World, viewer: Client, renamed: ChangeReport):
    assert "Still holds" in read(viewer, address(renamed, "standing/"))
    rename(world, "balance", "amount")
    assert "REPORT_STALE" in read(viewer, address(renamed, "standing/"))


def test_an_open_page_asks_cheaply_until_something_moves(
    world: World, viewer: Client, renamed: ChangeReport, django_assert_max_num_queries: DjangoAssertNumQueries
):
    part = read(viewer, address(renamed, "standing/"))
    again = html.unescape(re.search(r'hx-get="([^"]+)" hx-trigger="every 2s"', part)[1])
    with django_assert_max_num_queries(9):  # session, person, report, its approvals, executions and preview, and one
        assert viewer.get(again).status_code == 204
    change(world, "balance", type="decimal(12,2)")
    assert "REPORT_STALE" in read(viewer, again)
    change(world, "balance", type="decimal(10,2)")
    assert "Still holds" in read(viewer, again)


def test_a_report_that_goes_stale_takes_its_buttons_along_and_leaves_the_note(world: World, renamed: ChangeReport):
    bob = signed_in(world.approver)
    part = bob.get(address(renamed, "standing/"), headers=HTMX).content.decode()
    assert "Still holds" in part
    assert "hx-swap-oob" not in part
    rename(world, "balance", "amount")
    part = bob.get(address(renamed, "standing/"), headers=HTMX).content.decode()
    decide = part[part.index('id="decide"') :]
    assert 'id="decide" hx-swap-oob="true"' in part
    assert re.search(r'disabled aria-describedby="why-no-approval" form="decide-form">.*?Approve', decide)
    assert "Metadata moved since the report was made. REPORT_STALE" in words(decide)
    assert re.search(r'formaction="[^"]+">.*?Reject', decide)
    assert "textarea" not in part


def test_a_page_made_when_the_report_was_known_to_be_stale_says_so_at_once(world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    bob = signed_in(world.approver)
    read(bob, address(renamed, "standing/"))
    page = read(bob, address(renamed))
    assert "Stale. Metadata moved since the report was made." in words(page)
    assert re.search(r'disabled aria-describedby="why-no-approval" form="decide-form"', page)


def test_a_page_is_told_when_somebody_else_went_on_and_asks_no_more(world: World, renamed: ChangeReport):
    olga = signed_in(world.operator)
    part = read(olga, address(renamed, "standing/"))
    again = html.unescape(re.search(r'hx-get="([^"]+)" hx-trigger="every 2s"', part)[1])
    approve(report=renamed, person=world.approver)
    part = olga.get(again, headers=HTMX).content.decode()
    assert "Somebody went on with this report. It is approved by now" in words(part)
    assert "hx-get" not in part
    assert "The report has the approvals it needs." in part


# --- side by side, and downstream -------------------------------------------------------------


def test_what_differs_stands_side_by_side_with_its_operation(viewer: Client, renamed: ChangeReport):
    part = viewer.get(address(renamed, "differences/"), headers=HTMX).content.decode()
    assert "<del>full_name</del>" in part
    assert "<ins>display_name</ins>" in part
    assert f'href="{address(renamed)}#operation-1"' in part
    assert "2 columns stay as they are" in words(part)
    assert "balance decimal(10,2)" in words(part)
    assert "<html" not in part
    assert "<html" in read(viewer, address(renamed, "differences/"))


def vips(world: World) -> TargetDataset:
    """``bizcore.vip`` reads the customers; Ada describes it."""
    customers = TargetDataset.objects.get(name="rc_crm_customer")
    with acting_as(world.author):
        schema = create_schema(name="bizcore", layer="bizcore")
        return create_target_dataset(schema=schema, name="vip", inputs=[customers], take_columns=True)


def test_a_new_dataset_is_told_whole_with_its_inputs_by_name(world: World, viewer: Client):
    vips(world)
    text = words(viewer.get(address(world.report(), "differences/"), headers=HTMX).content.decode())
    assert "bizcore.vip new" in text
    assert "Inputs nothing rawcore.rc_crm_customer" in text
    assert "Column nothing balance decimal(10,2)" in text


def graph_of(part: str) -> dict[str, Any]:
    return json.loads(re.search(r'id="downstream-graph" type="application/json">(.+?)</script>', part)[1])


def test_downstream_shows_what_changes_by_its_risk_and_what_reads_it(world: World, viewer: Client):
    reading = vips(world)
    world.executed()
    column = TargetDataset.objects.get(name="rc_crm_customer").columns.get(name="full_name")
    with acting_as(world.author):
        update_target_column(column=column, expected_version=column.version, type="string(10)")
    part = viewer.get(address(world.report(), "downstream/"), headers=HTMX).content.decode()
    nodes = {node["title"]: node for node in graph_of(part)["nodes"]}
    assert {name: node["said"] for name, node in nodes.items()} == {
        "rc_crm_customer": "blocked",
        "rc_crm_customer_hist": "reads from it",  # it keeps the wider type
        "vip": "reads from it",
    }
    assert nodes["vip"]["url"] == f"/datasets/{reading.key}/"
    assert "Changed (1)" in part
    assert "Reading from them (2)" in part


def test_a_dataset_that_nothing_describes_any_more_is_drawn_too(world: World, viewer: Client):
    report = world.report()
    row = {"op": "drop_table", "dataset": "rawcore.rc_gone", "dataset_key": str(uuid4()), "decision": "blocked"}
    ChangeReport.objects.filter(pk=report.pk).update(document=report.document | {"rows": [row]})
    part = viewer.get(address(report, "downstream/"), headers=HTMX).content.decode()
    (node,) = graph_of(part)["nodes"]
    assert (node["title"], node["sub"], node["said"]) == ("rc_gone", "rawcore · not described", "blocked")


def test_a_long_report_shows_its_first_operations_and_the_way_to_all(world: World, viewer: Client):
    report = world.report()
    row = {"op": "add_column", "dataset": "rawcore.rc_crm_customer", "dataset_key": str(uuid4()), "column": "c"}
    ChangeReport.objects.filter(pk=report.pk).update(document=report.document | {"rows": [row] * 120})
    text = section(read(viewer, address(report)), "operations")
    assert text.count("<tr id=") == 100
    assert "The first 100 of 120" in text
    assert section(read(viewer, f"{address(report)}?all=yes"), "operations").count("<tr id=") == 120


def test_a_blocked_operation_says_what_to_do_instead(world: World, viewer: Client):
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
    assert "What is there is what is described" in text
    assert "NO_CHANGES" in text


def test_the_report_is_a_file(viewer: Client, renamed: ChangeReport):
    answer = viewer.get(address(renamed, "report.json"))
    document = json.loads(answer.content)
    assert (document["format"], document["fingerprint"]) == ("change-report/v1", renamed.fingerprint)
    assert "rows" not in document
    assert answer.headers["Content-Disposition"].startswith("attachment")


# --- deciding ----------------------------------------------------------------------------------


def test_an_approval_is_recorded_with_its_note(world: World, renamed: ChangeReport):
    bob = signed_in(world.approver)
    answer = bob.post(address(renamed, "approve/"), {"note": "Agreed on Monday."}, follow=True)
    text = words(answer.content.decode())
    renamed.refresh_from_db()
    assert renamed.status == "approved"
    assert "bob approved Agreed on Monday. approver" in text


def test_nobody_approves_their_own_change_and_nothing_typed_is_lost(world: World, renamed: ChangeReport):
    both = person("ada", Role.EDITOR, Role.APPROVER)
    ada = signed_in(both)
    page = read(ada, address(renamed))
    assert re.search(r'<button class="btn btn-primary" type="submit" disabled[^>]*>.*?Approve', page)
    answer = ada.post(address(renamed, "approve/"), {"note": "I know <what> I do"})
    text = section(answer.content.decode(), "approvals")
    assert answer.status_code == 403
    assert "OWN_CHANGE" in text
    assert "I know &lt;what&gt; I do</textarea>" in text
    assert not renamed.approvals.exists()


def test_an_author_may_reject(world: World, renamed: ChangeReport):
    ada = signed_in(person("ada", Role.EDITOR, Role.APPROVER))
    answer = ada.post(address(renamed, "reject/"), {"note": "Not yet."}, follow=True)
    renamed.refresh_from_db()
    assert renamed.status == "rejected"
    assert "REPORT_REJECTED" in words(answer.content.decode())


def test_a_stale_report_is_not_approved(world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    answer = signed_in(world.approver).post(address(renamed, "approve/"))
    assert answer.status_code == 409
    assert "REPORT_STALE" in section(answer.content.decode(), "approvals")
    assert not renamed.approvals.exists()


@pytest.mark.parametrize("part", ["approve/", "reject/"])
def test_who_may_not_decide_is_refused(world: World, renamed: ChangeReport, part: str):
    olga = signed_in(world.operator)
    assert "NOT_PERMITTED" in section(read(olga, address(renamed)), "approvals")
    assert olga.post(address(renamed, part)).status_code == 403
    assert not renamed.approvals.exists()


def test_approvals_are_a_file_that_proves_itself(world: World, renamed: ChangeReport):
    bob = signed_in(world.approver)
    bob.post(address(renamed, "approve/"))
    artifact = json.loads(bob.get(address(renamed, "approvals.json")).content)
    assert [row["row"]["person"] for row in artifact["approvals"]] == ["bob"]
    assert verify(artifact) == ()


# --- previews ----------------------------------------------------------------------------------


def test_a_preview_shows_statements_assumptions_and_sizes(world: World, renamed: ChangeReport):
    olga = signed_in(world.operator)
    keys = {str(key): {"rows": 1200, "bytes": 5_000_000, "files": 2} for key in world.warehouse.shapes}
    shown = {key: world.warehouse.table(key) for key in keys}
    tables = {key: json.loads(json.dumps(_plain(table))) for key, table in shown.items()}
    store_observations(environment=world.environment, asked=keys, tables=tables, sizes=keys)
    answer = olga.post(address(renamed, "preview/"), {"last": "yes"})
    assert answer.url == f"{address(renamed)}#preview"
    text = words(section(read(olga, address(renamed)), "preview"))
    assert "2 on 2 tables" in text
    assert "2,400 rows" in text
    assert "no row: only the tables' logs are written" in text.replace("&#x27;", "'")
    assert "RENAME COLUMN ` full_name ` TO" in text or "RENAME COLUMN `full_name` TO `display_name`" in text
    assert "Assumed structure" in text
    assert renamed.previews.get().fingerprint in text


def _plain(table: Any) -> dict[str, Any]:
    return {**vars(table), "columns": [vars(column) for column in table.columns]}


def test_a_preview_looks_first_and_measures(world: World, renamed: ChangeReport):
    answer = signed_in(world.operator).post(address(renamed, "preview/"))
    asked = ReadRequest.objects.get()
    assert answer.url == f"/looks/{asked.pk}/"
    assert asked.arguments["sizes"] is True
    assert asked.arguments["then"] == {"do": "preview", "report": str(renamed.report_id)}


def test_a_stale_report_gets_no_preview(world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    answer = signed_in(world.operator).post(address(renamed, "preview/"), {"last": "yes"})
    assert answer.status_code == 409
    assert "REPORT_STALE" in section(answer.content.decode(), "preview")
    assert not renamed.previews.exists()


def test_a_rebuild_is_said_to_write_its_table_anew(world: World):
    change(world, "balance", type="string")
    report = world.report()
    make_preview(report=report, person=world.operator)
    assert report.risk == "review"
    assert "written anew" in section(read(signed_in(world.author), address(report)), "preview")
