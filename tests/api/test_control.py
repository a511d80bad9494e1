"""The API of architecture control: reading, and every step of the workflow with its refusals."""

from typing import Any

import pytest
from django.test import Client

from architecture.models import ChangeReport, Execution
from tests.architecture.world import World, customers, make_world
from tests.web.controlling import needing, rename, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db) -> World:
    """Customers are built; a rename that needs an approval is pending."""
    world = make_world()
    customers(world.author)
    world.executed()
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    world.warehouse.show()
    return world


def post(client: Client, path: str, status: int, **body: Any) -> Any:
    answer = client.post(f"/api/v1/{path}", body, content_type="application/json")
    assert answer.status_code == status, answer.content
    return answer.json()


def get(client: Client, path: str) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_a_change_goes_from_report_to_record(world: World):
    ada, bob, olga = (signed_in(one) for one in (world.author, world.approver, world.operator))
    made = post(ada, "reports/", 201, kind="all")
    report = f"reports/{made['report_id']}/"
    assert made["report"]["format"] == "change-report/v1"
    assert (made["status"], made["authors"], made["approvals_missing"]) == ("open", ["ada"], 1)
    assert post(bob, f"{report}approve/", 201, note="Agreed.")["person"] == "bob"
    preview = post(olga, f"{report}preview/", 201)
    assert get(olga, f"{report}preview/")["fingerprint"] == preview["fingerprint"]
    asked = post(olga, f"{report}execute/", 202, preview=preview["fingerprint"])
    assert (asked["status"], asked["operation_count"], asked["command"]) == ("queued", 2, "REST")
    world.work(Execution.objects.get(pk=asked["id"]))
    done = get(olga, f"executions/{asked['id']}/")
    assert (done["status"], [step["status"] for step in done["steps"]]) == ("succeeded", ["succeeded"] * 2)
    record = get(olga, f"records/{done['record']}/")
    assert record["artifact"]["document"]["approvals"][0]["person"] == "bob"


def test_refusals_carry_the_workflows_codes(world: World):
    ada, olga = signed_in(world.author), signed_in(world.operator)
    report = f"reports/{post(ada, 'reports/', 201, kind='all')['report_id']}/"
    assert post(olga, f"{report}execute/", 409, preview="a" * 64)["code"] == "NOT_APPROVED"
    assert post(ada, f"{report}approve/", 403)["code"] == "permission_denied"
    rename(world, "balance", "amount")
    bob = signed_in(world.approver)
    assert post(bob, f"{report}approve/", 409)["code"] == "REPORT_STALE"
    assert post(ada, "reports/", 422, kind="dataset", name="raw.nowhere")["code"] == "unknown_scope"
    assert not ChangeReport.objects.filter(approvals__isnull=False).exists()


def test_an_author_with_every_role_is_still_refused(world: World):
    world.author.is_superuser = True
    world.author.save()
    ada = signed_in(world.author)
    report = post(ada, "reports/", 201, kind="all")["report_id"]
    assert post(ada, f"reports/{report}/approve/", 403)["code"] == "OWN_CHANGE"


def test_lists_are_filtered_and_short(world: World):
    bob = signed_in(world.approver)
    assert get(bob, "reports/?status=blocked")["count"] == 0
    (listed,) = get(bob, "reports/?risk=safe")["results"]
    assert "report" not in listed
    (execution,) = get(bob, "executions/?status=succeeded")["results"]
    assert "steps" not in execution
    assert get(bob, "records/?outcome=succeeded")["count"] == 1
