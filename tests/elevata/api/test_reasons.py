"""Reasons of writes: every write accepts and stores one."""

from typing import Any

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from architecture.models import Environment, Execution
from elevata.audit.models import ChangeLogEntry
from loader.models import LoadRun
from loader.schedules.services import create_schedule
from metadata.models import TargetDataset
from tests.architecture.api.test_workflow import post, world  # noqa: F401  a fixture is found by its name
from tests.architecture.world import World, put_policy_in_force
from tests.elevata.api.requests import get, send
from tests.elevata.web.pages import signed_in
from tests.factories import NoticeFactory, WebhookFactory
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db

WHY = "as the auditors asked"
SAYS_WHY = "changelog_message"
WRITES = ("post", "put", "patch", "delete")


# --- fields --------------------------------------------------------------------------------------


def api_schema() -> dict[str, Any]:
    return SchemaGenerator().get_schema(request=None, public=True)


def accepts_reason(operation: dict[str, Any], components: dict[str, Any]) -> bool:
    """Return True if all request bodies have a field for a reason, or, without a body, a parameter has one."""
    bodies = operation.get("requestBody", {}).get("content", {}).values()
    if not bodies:
        return any(
            parameter["name"] == SAYS_WHY and parameter["in"] == "query"
            for parameter in operation.get("parameters", ())
        )
    named = [body["schema"]["$ref"].rpartition("/")[2] for body in bodies]
    return all(SAYS_WHY in components[name]["properties"] for name in named)


def test_every_write_of_the_api_accepts_a_reason():
    document = api_schema()
    writes = {
        f"{method} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method in WRITES
    }
    assert writes
    silent = [
        name for name, operation in writes.items() if not accepts_reason(operation, document["components"]["schemas"])
    ]
    assert silent == []


# --- change log --------------------------------------------------------------------------------


def logged(kind: str) -> tuple[str, str, str]:
    """Return actor, action and reason of the newest entry about an object of this kind."""
    entry = ChangeLogEntry.objects.filter(subject_kind=kind).latest("pk")
    return entry.actor, entry.action, entry.reason


@pytest.fixture
def report(world: World) -> str:  # noqa: F811
    """Return the API path of a report that waits for an approval."""
    body = post(signed_in(world.author), "reports/", 201, kind="all")
    return f"reports/{body['report_id']}/"


@pytest.fixture
def previewed(world: World) -> str:  # noqa: F811
    """Return the API path of a previewed report that needs no approval."""
    put_policy_in_force(Environment.objects.get(), {})
    path = f"reports/{world.report().report_id}/"
    post(signed_in(world.operator), f"{path}preview/", 201)
    return path


def test_reason_of_a_report_is_logged(world: World):  # noqa: F811
    post(signed_in(world.author), "reports/", 201, kind="all", changelog_message=WHY)
    assert logged("report") == ("ada", "requested", WHY)


def test_reason_of_an_undo_report_is_logged(world: World):  # noqa: F811
    put_policy_in_force(Environment.objects.get(), {})
    record = world.executed().record.record_id
    post(signed_in(world.operator), f"records/{record}/undo/", 201, changelog_message=WHY)
    assert logged("report") == ("olga", "requested", WHY)


def test_reason_of_a_preview_is_logged(world: World, previewed: str):  # noqa: F811
    post(signed_in(world.operator), f"{previewed}preview/", 201, changelog_message=WHY)
    assert logged("report") == ("olga", "previewed", WHY)


def test_reason_of_a_dry_run_is_logged(world: World, previewed: str):  # noqa: F811
    post(signed_in(world.operator), f"{previewed}dry-run/", 202, changelog_message=WHY)
    assert logged("report") == ("olga", "dry_run", WHY)


@pytest.mark.parametrize(("verb", "action"), [("approve", "approved"), ("reject", "rejected")])
def test_reason_of_a_decision_is_logged_beside_its_note(world: World, report: str, verb: str, action: str):  # noqa: F811
    bob = signed_in(world.approver)
    answer = post(bob, f"{report}{verb}/", 201, over=report, note="Seen.", changelog_message=WHY)
    assert (answer["note"], logged("report")) == ("Seen.", ("bob", action, WHY))


def test_reasons_of_execute_cancel_resume_and_abandon_are_logged(world: World, previewed: str):  # noqa: F811
    olga = signed_in(world.operator)
    execution = post(olga, f"{previewed}execute/", 202, over=f"{previewed}preview/", changelog_message="first")
    assert logged("execution") == ("olga", "requested", "first")
    path = f"executions/{execution['id']}/"
    post(olga, f"{path}cancel/", 200, changelog_message="not today")
    assert logged("execution") == ("olga", "cancelled", "not today")
    post(olga, f"{path}resume/", 202, changelog_message="today")
    assert logged("execution") == ("olga", "resumed", "today")
    post(olga, f"{path}cancel/", 200)
    post(olga, f"{path}abandon/", 200, reason="never", changelog_message=WHY)
    assert logged("execution") == ("olga", "abandoned", f"never: {WHY}")
    assert Execution.objects.get(pk=execution["id"]).reason == "never"


def test_reason_of_a_baseline_is_logged_beside_the_required_one(world: World):  # noqa: F811
    keys = [str(TargetDataset.objects.get(name="rc_crm_customer").key)]
    adopted = {"datasets": keys, "reason": "by hand", SAYS_WHY: WHY}
    post(signed_in(world.operator), "drift/adopt/", 200, **adopted)
    assert logged("baseline") == ("olga", "adopted", f"by hand: {WHY}")


def test_reason_of_reading_a_notice_is_logged(operator: Client, starter: Any):
    notice = NoticeFactory(user=starter)
    assert send(operator, "post", f"notices/{notice.pk}/read/", {SAYS_WHY: WHY}).status_code == 200
    assert logged("notice") == ("eve", "read", WHY)


def test_reason_of_reading_all_notices_is_logged(operator: Client, starter: Any):
    NoticeFactory(user=starter)
    assert send(operator, "post", "notices/read/", {SAYS_WHY: WHY}).json() == {"read": 1}
    assert logged("notice") == ("eve", "read", WHY)


def test_reason_of_a_webhook_test_is_logged(operator: Client):
    assert send(operator, "post", f"webhooks/{WebhookFactory().key}/test/", {SAYS_WHY: WHY}).status_code == 202
    assert logged("webhook") == ("eve", "tested", WHY)


def test_dry_run_without_a_reason_is_not_logged(world: World, previewed: str):  # noqa: F811
    post(signed_in(world.operator), f"{previewed}dry-run/", 202)
    assert not ChangeLogEntry.objects.filter(subject_kind="report").exists()


# --- runs and requests --------------------------------------------------------------------------


def test_refresh_stores_its_reason(world: World):  # noqa: F811
    ada = signed_in(world.author)
    refresh = post(ada, "refreshes/", 202, kind="all", changelog_message=WHY)
    assert get(ada, f"refreshes/{refresh['id']}/")["reason"] == WHY


def test_drift_check_stores_its_reason(world: World):  # noqa: F811
    assert post(signed_in(world.operator), "drift/check/", 202, changelog_message=WHY)["reason"] == WHY


def test_warehouse_read_stores_its_reason(reader: Client, airport: TargetDataset):
    body = {"dataset": str(airport.key), "kind": "sample", SAYS_WHY: WHY}
    answer = send(reader, "post", "reads/", body)
    assert answer.status_code == 202, answer.content
    assert get(reader, f"reads/{answer.json()['id']}/")["reason"] == WHY


def test_cancelled_run_returns_its_reason(operator: Client):
    LoadRunFactory(run_id="r1", status="queued")
    answer = send(operator, "post", "load-runs/r1/cancel/", {SAYS_WHY: WHY})
    assert answer.json()["error"]["message"] == f"cancelled by eve: {WHY}"


def test_repeated_run_has_the_new_reason_in_its_log(operator: Client):
    LoadRunFactory(run_id="r1", status="failed", reason="first")
    assert send(operator, "post", "load-runs/r1/again/", {SAYS_WHY: WHY}).status_code == 202
    assert LoadRun.objects.get().reason == "first"
    (line,) = get(operator, "load-runs/r1/events/")["results"]
    assert line["message"] == f"asked for again by eve: {WHY}"


def test_scheduled_run_stores_its_reason(operator: Client, airport: TargetDataset):
    schedule = create_schedule(name="nightly", cron="0 6 * * *")
    answer = send(operator, "post", f"schedules/{schedule.key}/run/", {SAYS_WHY: WHY})
    assert answer.status_code == 202, answer.content
    assert LoadRun.objects.get(run_id=answer.json()["run_id"]).reason == WHY
