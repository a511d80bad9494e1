"""Reports on pages: list, creation, decisions and previews."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from architecture.domain.artifacts import verify
from architecture.models import ChangeReport, Refresh
from architecture.services.observations import store_observations
from architecture.services.previews import make_preview
from elevata.accounts.roles import Role
from tests.architecture.refreshes import observed
from tests.architecture.world import World, customers, person
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import address, change, read, rename, section, signed_in, words
from tests.loader.factories import EnvironmentFactory, WorkerFactory

pytestmark = pytest.mark.django_db


# --- the list ----------------------------------------------------------------------------------


def test_empty_list_of_reports_shows_a_hint(viewer: Client):
    EnvironmentFactory()
    text = words(read(viewer, "/reports/"))
    assert "No reports yet" in text
    assert "or import metadata" in text


def test_report_list_shows_scope_risk_author_and_outcome(viewer: Client, world: World, renamed: ChangeReport):
    text = words(read(viewer, "/reports/"))
    assert f"{renamed.fingerprint[:12]} open all datasets dev low risk 2 ada" in text
    assert "executed: succeeded" in text


def test_report_list_marks_outdated_reports(viewer: Client, world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    assert "checked=yes" in read(viewer, "/reports/")
    assert "open outdated" in words(read(viewer, "/reports/?checked=yes"))
    assert "open outdated" in words(read(viewer, "/reports/"))


def test_report_list_is_filtered(viewer: Client, renamed: ChangeReport):
    assert renamed.fingerprint[:12] in read(viewer, "/reports/?status=open&author=ada&risk=safe")
    assert renamed.fingerprint[:12] in read(viewer, f"/reports/?q={renamed.fingerprint[:9]}")
    assert "No reports match" in read(viewer, "/reports/?author=nobody")


# --- creation ----------------------------------------------------------------------------------


def test_creating_a_report_requires_more_than_the_viewer_role(world: World):
    viewer = signed_in(person("vera", Role.VIEWER))
    assert "<fieldset disabled>" in read(viewer, "/reports/")
    assert viewer.post("/reports/make/", {"scope": "all"}).status_code == 403


def test_report_is_created_by_its_refresh(world: World):
    rename(world, "full_name", "display_name")
    ada = signed_in(world.author)
    page = ada.post("/reports/make/", {"scope": "dataset_alone", "dataset": "rawcore.rc_crm_customer"}).url
    refresh = Refresh.objects.get()
    assert refresh.scope == {"kind": "dataset", "name": "rawcore.rc_crm_customer", "target_only": True}
    assert "every 400ms" in read(ada, page)
    report = observed(world).report
    assert (report.scope["kind"], report.created_by) == ("dataset", world.author)
    assert ada.get(f"{page}live/").headers["HX-Redirect"] == address(report)
    assert ada.get(page).url == address(report)


def test_failed_refresh_shows_its_error_and_offers_the_last_observation(world: World):
    ada = signed_in(world.author)
    page = ada.post("/reports/make/", {"scope": "schema", "schema": "rawcore"}).url
    observed(world, error={"code": "NO_ANSWER", "message": "no worker responded in time"})
    text = read(ada, page)
    assert "no worker responded in time" in text
    assert "Use the last scan" in text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text.partition('id="refresh"')[2]))
    ada.post("/reports/make/", form | {"last": "yes"})
    assert ChangeReport.objects.get(created_by=world.author, scope__kind="schema").scope["name"] == "rawcore"


def test_queued_refresh_page_reports_missing_workers_and_polls(world: World):
    ada = signed_in(world.author)
    page = ada.post("/reports/make/", {"scope": "all"}).url
    assert "no worker is running" in read(ada, page)
    state = re.search(r"seen=([\w-]+)", read(ada, page))[1]
    assert ada.get(f"{page}live/?seen={state}").status_code == 204
    WorkerFactory()
    assert "Waiting for the worker" in read(ada, f"{page}live/?seen={state}")


def test_refresh_page_of_another_user_returns_404(world: World):
    page = signed_in(world.author).post("/reports/make/", {"scope": "all"}).url
    assert signed_in(world.operator).get(page).status_code == 404


def test_report_from_the_last_observation_needs_no_worker(world: World):
    rename(world, "full_name", "display_name")
    answer = signed_in(world.author).post("/reports/make/", {"scope": "all", "last": "yes"})
    assert answer.url == address(ChangeReport.objects.first())


def test_report_of_a_selection_by_words_names_its_datasets(world: World):
    signed_in(world.author).post("/reports/make/", {"scope": "selection", "selection": "rawcore.*", "last": "yes"})
    scope = ChangeReport.objects.latest("pk").scope
    assert (scope["kind"], scope["name"]) == ("selection", "rawcore.rc_crm_customer")


def test_words_left_out_of_a_selection_leave_datasets_out_of_its_report(world: World):
    customers(world.author, "rc_crm_order")
    world.warehouse.show()
    words = {"scope": "selection", "selection": "rawcore.*", "exclude": "*_order"}
    signed_in(world.author).post("/reports/make/", {**words, "last": "yes"})
    assert ChangeReport.objects.latest("pk").scope["name"] == "rawcore.rc_crm_customer"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"scope": "odd"}, "Select a valid choice"),
        ({"scope": "schema"}, "Choose a schema"),
        ({"scope": "dataset", "dataset": ""}, "Choose a dataset"),
        ({"scope": "dataset", "dataset": "rawcore.nowhere"}, "there is no dataset rawcore.nowhere"),
        ({"scope": "selection", "selection": "tag:nothing"}, "no dataset is selected by tag:nothing"),
    ],
)
def test_invalid_report_scope_is_reported_in_the_form(world: World, data: dict[str, str], message: str):
    answer = signed_in(world.author).post("/reports/make/", data)
    assert answer.status_code == 422
    assert message.lower() in html_of(answer).lower()
    assert not Refresh.objects.exists()


# --- decisions ---------------------------------------------------------------------------------


def test_an_approval_is_recorded_with_its_note(world: World, renamed: ChangeReport):
    bob = signed_in(world.approver)
    answer = bob.post(address(renamed, "approve/"), {"note": "Agreed on Monday."}, follow=True)
    text = words(html_of(answer))
    renamed.refresh_from_db()
    assert renamed.status == "approved"
    assert "bob approved Agreed on Monday. approver" in text


def test_approval_by_an_author_is_refused_and_keeps_the_typed_note(world: World, renamed: ChangeReport):
    author = person("ada", Role.EDITOR, Role.APPROVER)
    ada = signed_in(author)
    page = read(ada, address(renamed))
    assert re.search(r'<button class="btn btn-primary" type="submit" disabled[^>]*>.*?Approve', page)
    answer = ada.post(address(renamed, "approve/"), {"note": "I know <what> I do"})
    text = section(html_of(answer), "approvals")
    assert answer.status_code == 403
    assert "OWN_CHANGE" in text
    assert "I know &lt;what&gt; I do</textarea>" in text
    assert not renamed.approvals.exists()


def test_an_author_may_reject(world: World, renamed: ChangeReport):
    ada = signed_in(person("ada", Role.EDITOR, Role.APPROVER))
    answer = ada.post(address(renamed, "reject/"), {"note": "Not yet."}, follow=True)
    renamed.refresh_from_db()
    assert renamed.status == "rejected"
    assert "REPORT_REJECTED" in words(html_of(answer))


def test_outdated_report_is_not_approved(world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    answer = signed_in(world.approver).post(address(renamed, "approve/"))
    assert answer.status_code == 409
    assert "REPORT_STALE" in section(html_of(answer), "approvals")
    assert not renamed.approvals.exists()


@pytest.mark.parametrize("part", ["approve/", "reject/"])
def test_approval_and_rejection_require_the_approver_role(world: World, renamed: ChangeReport, part: str):
    olga = signed_in(world.operator)
    assert "NOT_PERMITTED" in section(read(olga, address(renamed)), "approvals")
    assert olga.post(address(renamed, part)).status_code == 403
    assert not renamed.approvals.exists()


def test_approvals_are_downloaded_as_an_artifact_that_verifies(world: World, renamed: ChangeReport):
    bob = signed_in(world.approver)
    bob.post(address(renamed, "approve/"))
    artifact = json.loads(bob.get(address(renamed, "approvals.json")).content)
    assert [row["row"]["person"] for row in artifact["approvals"]] == ["bob"]
    assert verify(artifact) == ()


# --- previews ----------------------------------------------------------------------------------


def test_a_preview_shows_statements_assumptions_and_sizes(world: World, renamed: ChangeReport):
    olga = signed_in(world.operator)
    keys = {str(key): {"rows": 1200, "bytes": 5_000_000, "files": 2} for key in world.warehouse.shapes}
    observations = {key: world.warehouse.table(key) for key in keys}
    tables = {key: json.loads(json.dumps(_plain(table))) for key, table in observations.items()}
    store_observations(environment=world.environment, keys=keys, tables=tables, sizes=keys)
    answer = olga.post(address(renamed, "preview/"), {"last": "yes"})
    assert answer.url == f"{address(renamed)}#preview"
    text = words(section(read(olga, address(renamed)), "preview"))
    assert "2 on 2 tables" in text
    assert "2,400 rows" in text
    assert "0 (log entries only)" in text.replace("&#x27;", "'")
    assert "RENAME COLUMN ` full_name ` TO" in text or "RENAME COLUMN `full_name` TO `display_name`" in text
    assert "Assumed structure" in text
    assert renamed.previews.get().fingerprint in text


def _plain(table: Any) -> dict[str, Any]:
    return {**vars(table), "columns": [vars(column) for column in table.columns]}


def test_preview_is_created_by_a_refresh_with_table_sizes(world: World, renamed: ChangeReport):
    olga = signed_in(world.operator)
    page = olga.post(address(renamed, "preview/")).url
    refresh = Refresh.objects.get()
    assert (page, refresh.sizes, refresh.report) == (f"/refreshes/{refresh.pk}/", True, renamed)
    preview = observed(world).preview
    assert (preview, preview.created_by) == (renamed.previews.get(), world.operator)
    assert olga.get(page).url == f"{address(renamed)}#preview"


def test_refresh_for_a_preview_fails_if_the_report_is_outdated(world: World, renamed: ChangeReport):
    olga = signed_in(world.operator)
    page = olga.post(address(renamed, "preview/")).url
    rename(world, "balance", "amount")
    observed(world)
    assert "REPORT_STALE" in read(olga, page)
    assert not renamed.previews.exists()


def test_preview_of_an_outdated_report_is_refused(world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    answer = signed_in(world.operator).post(address(renamed, "preview/"), {"last": "yes"})
    assert answer.status_code == 409
    assert "REPORT_STALE" in section(html_of(answer), "preview")
    assert not renamed.previews.exists()


def test_preview_marks_a_rebuilt_table_as_rewritten(world: World):
    change(world, "balance", type="string")
    report = world.report()
    make_preview(report=report, user=world.operator)
    assert report.risk == "review"
    assert '">rewritten</span>' in section(read(signed_in(world.author), address(report)), "preview")
