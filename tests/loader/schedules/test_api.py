"""Schedules by the API: the same services as the pages, with ETags, reasons and the change log."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from elevata.audit.models import ChangeLogEntry
from loader.models import LoadRun, Schedule
from loader.schedules.runs import check_waiting, start_due
from metadata.models import TargetDataset
from tests.elevata.api.requests import get, send

pytestmark = pytest.mark.django_db

NIGHTLY = {"name": "nightly", "cron": "30 6 * * 1-5", "time_zone": "Europe/Berlin"}


@pytest.fixture
def nightly(operator: Client, airport: TargetDataset) -> dict[str, Any]:
    answer = send(operator, "post", "schedules/", NIGHTLY)
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_schedule_returns_its_scope_time_zone_and_next_time(operator: Client, nightly: dict[str, Any]):
    assert nightly["scope"] == {"kind": "all", "name": "", "target_only": False, "exclude": ""}
    assert (nightly["time_zone"], nightly["next_at"] is not None, nightly["version"]) == ("Europe/Berlin", True, 1)
    assert "06:30" in nightly["words"]
    assert get(operator, "schedules/?q=night&ordering=-name")["results"] == [nightly]


def test_schedule_change_refuses_an_old_etag_and_logs_its_reason(operator: Client, nightly: dict[str, Any]):
    path = f"schedules/{nightly['key']}/"
    etag = operator.get(f"/api/v1/{path}").headers["ETag"]
    body = {"scope": {"kind": "schema", "name": "rawcore"}, "changelog_message": "The rest is not ready"}
    changed = send(operator, "patch", path, body, **{"If-Match": etag})
    assert changed.json()["scope"]["name"] == "rawcore"
    assert send(operator, "patch", path, {"active": False}, **{"If-Match": etag}).status_code == 412
    assert ChangeLogEntry.objects.filter(subject_kind="schedule").latest("pk").reason == "The rest is not ready"


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"cron": "every day"}, 422, "cron"),
        ({"scope": {"kind": "schema"}}, 400, "name"),
        ({"scope": {"name": "rawcore"}}, 400, "kind"),
        ({"scope": {"kind": "schema", "name": "nowhere"}}, 422, "schema"),
        ({"colour": "blue"}, 400, "colour"),
    ],
)
def test_invalid_schedule_change_is_refused_naming_the_field(
    operator: Client, nightly: dict[str, Any], body: dict, status: int, field: str
):
    answer = send(operator, "patch", f"schedules/{nightly['key']}/", body)
    assert answer.status_code == status, answer.content
    assert field in str(answer.json()["errors"])


@pytest.fixture
def condition(airport: TargetDataset) -> dict[str, Any]:
    return {"for": "files", "source": str(airport.generated_from.key), "minutes": 30, "then": "start"}


def test_wait_condition_is_set_and_removed(operator: Client, nightly: dict[str, Any], condition: dict[str, Any]):
    path = f"schedules/{nightly['key']}/"
    assert nightly["wait"] == {}
    assert send(operator, "patch", path, {"wait": condition}).json()["wait"] == condition
    assert send(operator, "patch", path, {"wait": {}}).json()["wait"] == {}


@pytest.mark.parametrize(
    ("over", "status", "field"),
    [
        ({"for": "moon"}, 400, "for"),
        ({"source": "nonsense"}, 400, "source"),
        ({"minutes": 0}, 400, "minutes"),
        ({"for": "rows"}, 422, "wait.for"),
        ({"newer": "at"}, 422, "wait.newer"),
    ],
)
def test_invalid_wait_condition_is_refused_naming_the_field(
    operator: Client, nightly: dict[str, Any], condition: dict[str, Any], over: dict, status: int, field: str
):
    answer = send(operator, "patch", f"schedules/{nightly['key']}/", {"wait": condition | over})
    assert answer.status_code == status, answer.content
    assert field in str(answer.json()["errors"])


def test_waiting_schedule_returns_its_last_check(operator: Client, nightly: dict[str, Any], condition: dict[str, Any]):
    path = f"schedules/{nightly['key']}/"
    send(operator, "patch", path, {"wait": condition})
    Schedule.objects.update(next_at=timezone.now())
    start_due()
    check_waiting()
    waiting = get(operator, path)["waiting"]
    assert sorted(waiting) == ["answer", "checked_at", "due"]
    assert waiting["answer"]


def test_a_schedule_is_run_now(operator: Client, nightly: dict[str, Any]):
    answer = send(operator, "post", f"schedules/{nightly['key']}/run/")
    run = LoadRun.objects.get()
    assert (answer.status_code, answer.json()["run_id"]) == (202, run.run_id)
    assert answer.headers["Location"].endswith(f"/api/v1/load-runs/{run.run_id}/")
    again = send(operator, "post", f"schedules/{nightly['key']}/run/")
    assert again.json()["code"] == "STILL_GOING"


def test_a_schedule_is_deleted(operator: Client, nightly: dict[str, Any]):
    assert send(operator, "delete", f"schedules/{nightly['key']}/").status_code == 204
    assert not Schedule.objects.exists()


def test_schedule_creation_requires_the_permission_to_start_loads(reader: Client):
    assert send(reader, "post", "schedules/", NIGHTLY).status_code == 403
