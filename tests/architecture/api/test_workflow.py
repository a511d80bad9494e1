"""API of architecture control: lists, and each step of the workflow with its refusals."""

from typing import Any

import pytest
from django.test import Client

from architecture.models import ChangeReport, Environment, Execution, ExecutionRecord, Refresh
from elevata.accounts.roles import Role
from metadata.models import TargetColumn
from tests.architecture.refreshes import observed
from tests.architecture.world import (
    World,
    customers,
    make_built_world,
    make_contract_world,
    person,
    put_policy_in_force,
)
from tests.elevata.web.pages import change, needing, rename, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db) -> World:
    """Return a world with customers built and a pending rename that needs an approval."""
    world = make_built_world()
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    world.warehouse.show()
    return world


def post(client: Client, path: str, status: int, over: str = "", **body: Any) -> Any:
    """Send a POST and return its body; ``over`` is the path whose ETag is sent as If-Match."""
    headers = {"If-Match": client.get(f"/api/v1/{over}").headers["ETag"]} if over else {}
    answer = client.post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)
    assert answer.status_code == status, answer.content
    return answer.json()


def get(client: Client, path: str, status: int = 200) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == status, answer.content
    return answer.json()


def test_a_change_goes_from_report_to_record(world: World):
    ada, bob, olga = (signed_in(user) for user in (world.author, world.approver, world.operator))
    body = post(ada, "reports/", 201, kind="all")
    report = f"reports/{body['report_id']}/"
    assert body["report"]["format"] == "change-report/v1"
    assert (body["status"], body["authors"], body["approvals_missing"]) == ("open", ["ada"], 1)
    assert post(bob, f"{report}approve/", 201, over=report, note="Agreed.")["person"] == "bob"
    preview = post(olga, f"{report}preview/", 201)
    assert get(olga, f"{report}preview/")["fingerprint"] == preview["fingerprint"]
    execution = post(olga, f"{report}execute/", 202, over=f"{report}preview/", preview=preview["fingerprint"])
    assert (execution["status"], execution["operation_count"], execution["command"]) == ("queued", 2, "REST")
    world.work(Execution.objects.get(pk=execution["id"]))
    done = get(olga, f"executions/{execution['id']}/")
    assert (done["status"], [step["status"] for step in done["steps"]]) == ("succeeded", ["succeeded"] * 2)
    record = get(olga, f"records/{done['record']}/")
    assert record["artifact"]["document"]["approvals"][0]["person"] == "bob"


def test_refusals_carry_the_workflows_codes(world: World):
    ada, olga = signed_in(world.author), signed_in(world.operator)
    report = f"reports/{post(ada, 'reports/', 201, kind='all')['report_id']}/"
    assert post(olga, f"{report}execute/", 409, over=f"{report}preview/")["code"] == "NOT_APPROVED"
    assert post(ada, f"{report}approve/", 403)["code"] == "permission_denied"
    rename(world, "balance", "amount")
    bob = signed_in(world.approver)
    assert post(bob, f"{report}approve/", 409, over=report)["code"] == "REPORT_STALE"
    assert post(ada, "reports/", 422, kind="dataset", name="raw.nowhere")["code"] == "unknown_scope"
    assert not ChangeReport.objects.filter(approvals__isnull=False).exists()


def test_report_of_a_selection_keeps_the_names_of_its_words(world: World):
    ada = signed_in(world.author)
    customers(world.author, "rc_crm_order")
    world.warehouse.show()
    body = post(ada, "reports/", 201, kind="selection", name="rawcore.*", exclude="*_order")
    assert body["report"]["scope"]["name"] == "rawcore.rc_crm_customer"
    problem = post(ada, "reports/", 422, kind="schema", name="rawcore", exclude="layer:raw")
    assert (problem["code"], problem["detail"]) == ("unknown_scope", "scope: words to leave out go with a selection")


def test_blocked_change_is_left_out_of_a_report_and_its_report_withdrawn(world: World):
    change(world, "balance", type="integer")
    customers(world.author, "rc_crm_order")
    world.warehouse.show()
    ada = signed_in(world.author)
    blocked = post(ada, "reports/", 201, kind="all")
    assert blocked["status"] == "blocked"
    partial = post(ada, "reports/", 201, kind="all", without_blocked=True)
    assert (partial["status"], partial["report"]["warnings"][0]["code"]) == ("open", "LEFT_OUT")
    assert partial["report"]["scope"]["without_blocked"]
    withdrawn = post(ada, f"reports/{blocked['report_id']}/withdraw/", 200, reason="bob narrows it elsewhere")
    assert withdrawn["status"] == "withdrawn"
    other = post(ada, "reports/", 201, kind="all")["report_id"]
    olga = signed_in(world.operator)
    assert post(olga, f"reports/{other}/withdraw/", 403, reason="no")["code"] == "NOT_PERMITTED"


def test_approval_refuses_an_author_who_is_a_superuser(world: World):
    world.author.is_superuser = True
    world.author.save()
    ada = signed_in(world.author)
    report = post(ada, "reports/", 201, kind="all")["report_id"]
    problem = post(ada, f"reports/{report}/approve/", 403, over=f"reports/{report}/")
    assert (problem["code"], problem["hint"]) == (
        "OWN_CHANGE",
        "ask another approver; this also applies to superusers and tokens",
    )


# --- ETags ------------------------------------------------------------------------------------------


def sent(client: Client, path: str, etag: str | None = None) -> tuple[int, str, str]:
    """Return status, code and ETag of the response to a POST with this If-Match header."""
    headers = {} if etag is None else {"If-Match": etag}
    answer = client.post(f"/api/v1/{path}", {}, content_type="application/json", headers=headers)
    return answer.status_code, answer.json().get("code", ""), answer.headers.get("ETag", "")


@pytest.mark.parametrize("verb", ["approve", "reject", "execute"])
@pytest.mark.parametrize("etag", [None, "*"])
def test_approve_reject_and_execute_require_an_if_match_header(world: World, verb: str, etag: str | None):
    report = post(signed_in(world.author), "reports/", 201, kind="all")["report_id"]
    person = world.operator if verb == "execute" else world.approver
    assert sent(signed_in(person), f"reports/{report}/{verb}/", etag)[:2] == (428, "if_match_required")


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_decision_with_the_etag_of_another_report_is_refused(world: World, verb: str):
    report = post(signed_in(world.author), "reports/", 201, kind="all")
    answer = sent(signed_in(world.approver), f"reports/{report['report_id']}/{verb}/", '"0123"')
    assert answer == (412, "stale_version", f'"{report["fingerprint"]}"')
    assert not ChangeReport.objects.filter(approvals__isnull=False).exists()


def test_execution_of_an_outdated_preview_is_refused_with_the_etag_of_the_newest(world: World):
    ada, bob, olga = (signed_in(user) for user in (world.author, world.approver, world.operator))
    report = f"reports/{post(ada, 'reports/', 201, kind='all')['report_id']}/"
    post(bob, f"{report}approve/", 201, over=report)
    preview = post(olga, f"{report}preview/", 201)["fingerprint"]
    assert sent(olga, f"{report}execute/", '"0123"') == (412, "stale_version", f'"{preview}"')
    assert post(olga, f"{report}execute/", 409, over=f"{report}preview/", preview="a" * 64)["code"] == "PREVIEW_STALE"
    assert not Execution.objects.filter(report__isnull=False, status="queued").exists()


def test_approval_without_a_note_stores_the_changelog_message_as_note(world: World):
    report = f"reports/{post(signed_in(world.author), 'reports/', 201, kind='all')['report_id']}/"
    approval = post(signed_in(world.approver), f"{report}approve/", 201, over=report, changelog_message="As agreed on")
    assert approval["note"] == "As agreed on"


def test_approval_refuses_unknown_fields(world: World):
    report = f"reports/{post(signed_in(world.author), 'reports/', 201, kind='all')['report_id']}/"
    assert list(post(signed_in(world.approver), f"{report}approve/", 400, over=report, nite="x")["errors"]) == ["nite"]


# --- lists -------------------------------------------------------------------------------------------


def test_report_execution_and_record_lists_are_filtered_and_omit_details(world: World):
    bob = signed_in(world.approver)
    assert get(bob, "reports/?status=blocked")["count"] == 0
    (listed,) = get(bob, "reports/?risk=safe")["results"]
    assert "report" not in listed
    (execution,) = get(bob, "executions/?status=succeeded")["results"]
    assert "steps" not in execution
    assert get(bob, "records/?outcome=succeeded")["count"] == 1


# --- undo ----------------------------------------------------------------------------------------


@pytest.fixture
def record(world: World) -> str:
    """Return the API path of the record of the rename."""
    put_policy_in_force(Environment.objects.get(), {})
    return f"records/{world.executed().record.record_id}/"


def test_record_lists_the_undo_options_of_its_operations(world: World, record: str):
    (option,) = get(signed_in(world.approver), record)["undo_options"]
    assert (option["operations"], option["possible"], option["refused"]) == ([0, 1], True, None)
    assert option["done"][0] == "rename_column rawcore.rc_crm_customer: full_name → display_name"
    assert option["undo"][-1] == "rename_column rawcore.rc_crm_customer: display_name → full_name"
    assert (option["decision"], option["losses"]) == ("allowed", [])
    assert option["metadata"] == "display_name is renamed to full_name"


def test_undo_changes_the_metadata_back_for_an_editor(world: World, record: str):
    assert post(signed_in(world.operator), f"{record}undo/", 403, metadata=True)["code"] == "not_permitted"
    body = post(signed_in(world.author), f"{record}undo/", 201, metadata=True)
    assert body["report"]["warnings"] == []
    assert TargetColumn.objects.filter(name="full_name").exists()


@pytest.mark.parametrize("body", [{}, {"operations": None}, {"operations": [1]}])
def test_undo_report_covers_linked_operations_for_a_whole_record_or_chosen_ones(world: World, record: str, body: dict):
    undo_report = post(signed_in(world.operator), f"{record}undo/", 201, **body)
    assert undo_report["report"]["undo"]["operations"] == [0, 1]
    assert f"records/{undo_report['undo_of']}/" == record
    assert get(signed_in(world.approver), record)["undo_reports"] == [undo_report["report_id"]]


@pytest.mark.parametrize(
    ("operations", "status", "code"), [([7], 404, "UNKNOWN_OPERATION"), ([], 400, "invalid"), (["x"], 400, "invalid")]
)
def test_undo_refuses_invalid_operations(world: World, record: str, operations: list, status: int, code: str):
    assert post(signed_in(world.operator), f"{record}undo/", status, operations=operations)["code"] == code


def test_undo_refuses_a_viewer(world: World, record: str):
    post(signed_in(person("vera", Role.VIEWER)), f"{record}undo/", 403)
    assert not ExecutionRecord.objects.filter(undo_reports__isnull=False).exists()


# --- refreshes -----------------------------------------------------------------------------------


def test_a_report_is_created_after_a_refresh_as_one_job(world: World):
    ada = signed_in(world.author)
    answer = ada.post("/api/v1/refreshes/", {"kind": "all"}, content_type="application/json")
    refresh = answer.json()
    assert (answer.status_code, refresh["status"], refresh["found"], refresh["report"]) == (202, "queued", None, None)
    assert answer.headers["Location"].endswith(f"/api/v1/refreshes/{refresh['id']}/")
    assert (refresh["purpose"], refresh["scope"]) == ("report", {"kind": "all", "name": "", "target_only": False})
    waiting = ada.get(answer.headers["Location"])
    assert (waiting.json()["finished_at"], waiting.headers["Retry-After"]) == (None, "1")
    observed(world, refresh["id"])
    done = get(ada, f"refreshes/{refresh['id']}/")
    assert (done["status"], done["found"], done["error"]) == ("succeeded", 2, None)
    report = get(ada, f"reports/{done['report']}/")
    assert (report["status"], report["created_by"]) == ("open", "ada")


def test_failed_refresh_creates_no_report_and_stores_its_error(world: World):
    ada, known = signed_in(world.author), ChangeReport.objects.count()
    refresh = post(ada, "refreshes/", 202)["id"]
    observed(world, refresh, error={"code": "UNREADABLE_TABLE", "message": "it is damaged"})
    done = get(ada, f"refreshes/{refresh}/")
    assert (done["status"], done["report"], done["error"]["code"]) == ("failed", None, "UNREADABLE_TABLE")
    assert ChangeReport.objects.count() == known


def test_refused_report_becomes_the_error_of_its_refresh(world: World):
    ada, known = signed_in(world.author), ChangeReport.objects.count()
    refresh = post(ada, "refreshes/", 202)["id"]
    world.author.groups.clear()
    observed(world, refresh)
    assert Refresh.objects.get(pk=refresh).error["code"] == "NOT_PERMITTED"
    assert ChangeReport.objects.count() == known


def test_a_preview_is_created_after_a_refresh_of_its_report(world: World):
    ada, olga = signed_in(world.author), signed_in(world.operator)
    report = post(ada, "reports/", 201, kind="all")["report_id"]
    post(ada, "refreshes/", 403, report=report)
    refresh = post(olga, "refreshes/", 202, report=report)["id"]
    assert Refresh.objects.get(pk=refresh).sizes is True
    observed(world, refresh)
    preview = get(olga, f"reports/{report}/preview/")
    assert preview["document"]["steps"]
    assert get(olga, f"refreshes/{refresh}/")["preview"] == preview["fingerprint"]


def test_refresh_is_visible_only_to_its_requester(world: World):
    ada, olga = signed_in(world.author), signed_in(world.operator)
    refresh_id = post(ada, "refreshes/", 202)["id"]
    get(olga, f"refreshes/{refresh_id}/", 404)
    assert [refresh["id"] for refresh in get(ada, "refreshes/")["results"]] == [refresh_id]
    assert get(olga, "refreshes/")["count"] == 0


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "dataset", "name": "raw.nowhere"}, 422, "unknown_scope"),
        ({"kind": "all", "report": "00000000-0000-0000-0000-000000000000"}, 400, "invalid"),
        ({"report": "00000000-0000-0000-0000-000000000000"}, 404, "UNKNOWN_REPORT"),
        ({"kind": "files"}, 400, "invalid"),
    ],
)
def test_refresh_refuses_an_invalid_scope_or_report(world: World, body: dict, status: int, code: str):
    assert post(signed_in(world.operator), "refreshes/", status, **body)["code"] == code


def test_refresh_refuses_a_viewer(world: World):
    post(signed_in(person("vera", Role.VIEWER)), "refreshes/", 403)
    assert not Refresh.objects.exists()


def test_refresh_page_redirects_to_the_report_of_a_refresh_requested_by_rest(world: World):
    ada = signed_in(world.author)
    refresh = post(ada, "refreshes/", 202)["id"]
    report = observed(world, refresh).report
    assert ada.get(f"/refreshes/{refresh}/").url == f"/reports/{report.report_id}/"


def test_approval_accepts_lost_readers_only_if_the_report_loses_some(world: World):
    ada, bob, olga = (signed_in(user) for user in (world.author, world.approver, world.operator))
    report = f"reports/{post(ada, 'reports/', 201, kind='all')['report_id']}/"
    refused = post(bob, f"{report}approve/", 409, over=report, readers_lost=True)
    assert refused["code"] == "NO_READER_LOST"
    put_policy_in_force(world.environment, {"readers": "open"})
    body = post(ada, "reports/", 201, kind="all")
    report = f"reports/{body['report_id']}/"
    assert {operation["code"] for operation in body["report"]["operations"]} == {"REWRITE_TABLE"}
    assert post(bob, f"{report}approve/", 201, over=report, readers_lost=True)["readers_lost"] is True
    assert "columnMapping" in str(post(olga, f"{report}preview/", 201))


def test_an_approver_accepts_a_broken_contract(db: None):
    world = make_contract_world()
    rename(world, "amount", "revenue")
    world.warehouse.show()
    ada, bob = signed_in(world.author), signed_in(world.approver)
    body = post(ada, "reports/", 201, kind="all")
    (operation,) = (operation for operation in body["report"]["operations"] if operation["op"] == "change_contract")
    assert (operation["from"], operation["to"], operation["consumers"][0]["name"]) == ("1.0", "2.0", "Board")
    report = f"reports/{body['report_id']}/"
    assert post(bob, f"{report}approve/", 409, over=report)["code"] == "CONTRACT_BROKEN"
    approval = post(bob, f"{report}approve/", 201, over=report, contracts_broken=True)
    assert [broken["dataset"] for broken in approval["contracts_broken"]] == ["mart.sales"]
