"""Reports on pages: the list, making one, deciding, previews."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from architecture.domain.reports.artifacts import verify
from architecture.models import ChangeReport
from architecture.services.reports.previews import make_preview
from architecture.services.states.observed_states import store_observations
from loader.models import ReadRequest
from metadata.domain.roles import Role
from tests.architecture.world import World, person
from tests.loader_factories import EnvironmentFactory, WorkerFactory
from tests.web.controlling import address, change, read, rename, section, signed_in, words

pytestmark = pytest.mark.django_db


# --- the list ----------------------------------------------------------------------------------


def test_an_empty_list_says_what_to_do_first(viewer: Client):
    EnvironmentFactory()
    text = words(read(viewer, "/reports/"))
    assert "No report yet" in text
    assert "or import metadata" in text


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
    assert "Use the last scan" in text
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
    assert "0: only the tables' logs are written" in text.replace("&#x27;", "'")
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
