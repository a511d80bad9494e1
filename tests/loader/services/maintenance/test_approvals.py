"""Approvals of maintenance runs: another user than the requester approves by the environment's policy."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.services.environments import current_environment
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_service_account, create_user, grant_role
from elevata.audit.models import ChangeLogEntry
from elevata.jobs.models import Job
from elevata.jobs.services import give_up
from loader.models import LoadRun
from loader.services.loads.attempts import claim
from loader.services.loads.load_runs import request_cancel, request_load_run
from loader.services.loads.load_work import perform_load_run
from loader.services.maintenance import approvals
from loader.services.maintenance.acceptances import request_accept
from loader.services.maintenance.approvals import approve_maintenance, missing_approvals
from loader.services.maintenance.prunes import request_prune
from loader.services.maintenance.quarantine import request_quarantine
from loader.services.maintenance.reverts import request_revert
from loader.services.maintenance.vacuums import request_vacuum
from tests.architecture.world import put_policy_in_force
from tests.database.row_cache import remembered

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT = "rawcore.rc_air_airport"
COMMON = {"dataset": AIRPORT, "reason": "the source sent test data", "wake_worker": False}


@pytest.fixture(autouse=True)
def required_approvals(airports: Any) -> None:
    remembered("four eyes for maintenance", approvals_of_maintenance)


def approvals_of_maintenance() -> None:
    put_policy_in_force(current_environment(), {"maintenance": {"count": 1}})


@pytest.fixture
def eve(airports: Any) -> Any:
    """Return an operator with the approver role."""
    return remembered("eve", lambda: create_user(name="eve", roles=["operator", "editor", "approver"]))


@pytest.fixture
def bob(eve: Any) -> Any:
    return create_user(name="bob", roles=["approver"])


def prune(user: Any, **more: Any) -> LoadRun:
    return request_prune(ended_before="2020-01-01", user=user, **COMMON | more).run


REQUESTS: dict[str, Callable[[Any], LoadRun]] = {
    "prune": prune,
    "revert": lambda user: request_revert(of_run="r1", user=user, **COMMON).run,
    "accept": lambda user: request_accept(user=user, **COMMON).run,
    "release": lambda user: request_quarantine(decision="release", user=user, **COMMON).run,
    "drop": lambda user: request_quarantine(decision="drop", user=user, **COMMON).run,
}


def perform(run: LoadRun, runner: Any) -> LoadRun | None:
    return perform_load_run(run.pk, worker="w1", runner=runner)


def refused(function: Callable, **arguments: Any) -> str:
    with pytest.raises(Refused) as caught:
        function(**arguments)
    return caught.value.code


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_run_waits_until_another_user_approves_it(kind: str, eve: Any, bob: Any, runner: Any) -> None:
    if kind == "revert":
        perform(request_load_run(run_id="r1", user=eve, wake_worker=False).run, runner)
    run = REQUESTS[kind](eve)
    assert (run.status, run.error["code"]) == ("blocked", "RUN_UNAPPROVED")
    assert run.error["hint"] == "ask another user to approve it on the run's page"
    assert perform(run, runner) is None
    assert refused(approve_maintenance, run=run, user=eve) == "OWN_RUN"
    assert REQUESTS[kind](eve).status == "blocked"
    assert approve_maintenance(run=run, user=bob, note="checked")
    run.refresh_from_db()
    assert (run.status, run.error) == ("queued", None)
    perform(run, runner)
    run.refresh_from_db()
    assert (run.error or {}).get("code") != "RUN_UNAPPROVED"
    entry = ChangeLogEntry.objects.get(subject_kind="maintenance")
    assert (entry.actor, entry.action, entry.reason) == ("bob", "approved", "checked")


def test_operator_without_the_approver_role_cannot_approve(eve: Any, bob: Any) -> None:
    olga = create_user(name="olga", roles=["operator"])
    assert refused(approve_maintenance, run=prune(eve), user=olga) == "NOT_PERMITTED"


def test_a_run_of_another_environment_is_neither_approved_repeated_nor_cancelled(
    eve: Any, bob: Any, runner: Any, settings: Any
) -> None:
    perform(request_load_run(run_id="r1", user=eve, wake_worker=False).run, runner)
    blocked, queued = prune(eve), request_load_run(run_id="r2", user=eve, wake_worker=False).run
    LoadRun.objects.filter(pk=queued.pk).update(status="canceled")
    settings.ENVIRONMENT = "prod"
    pia = create_user(name="pia", roles=[])
    for role in ("approver", "operator"):
        grant_role(user=pia, role=role, environment="prod")
    assert refused(approve_maintenance, run=blocked, user=pia) == "NOT_PERMITTED"
    assert refused(approve_maintenance, run=blocked, user=bob) == "OTHER_ENVIRONMENT"
    again = {"run_id": "r2", "allow_deletes": True, "wake_worker": False}
    assert refused(request_load_run, user=pia, **again) == "OTHER_ENVIRONMENT"
    assert refused(request_load_run, user=eve, **again) == "OTHER_ENVIRONMENT"
    assert refused(request_revert, of_run="r1", user=pia, **COMMON) == "OTHER_ENVIRONMENT"
    LoadRun.objects.filter(pk=queued.pk).update(status="queued")
    assert refused(request_cancel, run=queued, user=pia) == "OTHER_ENVIRONMENT"
    queued.refresh_from_db()
    assert (queued.status, queued.allow_deletes) == ("queued", False)
    client = Client()
    client.force_login(eve)
    page = client.get(f"/load-runs/{queued.run_id}/").content.decode()
    assert 'id="cancel"' not in page
    assert "in the installation of environment" in client.get(f"/load-runs/{blocked.run_id}/").content.decode()


@pytest.mark.parametrize("end", ["canceled", "failed", "lost"])
def test_a_run_that_is_repeated_after_its_end_needs_new_approvals(
    end: str, eve: Any, bob: Any, runner: Any, script: Any
) -> None:
    perform(request_load_run(run_id="r1", user=eve, wake_worker=False).run, runner)
    run = prune(eve)
    approve_maintenance(run=run, user=bob)
    if end == "canceled":
        request_cancel(run=run, user=eve)
    elif end == "failed":
        script.add(fail={AIRPORT: {"code": "NOT_ARCHIVED", "message": "no room"}})
        perform(run, runner)
    else:
        claim(run_pk=run.pk, worker="w1")
        give_up(job=Job.objects.get(pk=run.pk), error={"code": "WORKER_LOST", "message": "it is silent"})
    run.refresh_from_db()
    assert run.status == end
    assert refused(approve_maintenance, run=run, user=bob) == "NOT_APPROVABLE"
    again = request_load_run(run_id=run.run_id, user=eve, wake_worker=False)
    assert (again.requested, again.run.status, again.run.error["code"]) == (False, "blocked", "RUN_UNAPPROVED")
    assert perform(run, runner) is None
    assert not request_load_run(run_id=run.run_id, user=eve, wake_worker=False).requested
    assert approve_maintenance(run=run, user=bob)
    script.add(fail={})
    assert perform(run, runner).status == "succeeded"


def test_user_who_repeats_the_run_of_another_cannot_approve_it(eve: Any, bob: Any) -> None:
    olga = create_user(name="olga", roles=["operator"])
    run = prune(olga)
    approve_maintenance(run=run, user=bob)
    request_cancel(run=run, user=olga)
    request_load_run(run_id=run.run_id, user=eve, wake_worker=False)
    assert refused(approve_maintenance, run=run, user=eve) == "OWN_RUN"
    assert approve_maintenance(run=run, user=bob)


def test_api_answers_that_a_repeated_run_waits_for_approvals(eve: Any, bob: Any) -> None:
    run = prune(eve)
    approve_maintenance(run=run, user=bob)
    request_cancel(run=run, user=eve)
    client, address = Client(), f"/api/v1/load-runs/{run.run_id}/again/"
    client.force_login(eve)
    answer = client.post(address, {}, content_type="application/json")
    assert (answer.status_code, answer.json()["status"]) == (202, "blocked")
    assert client.post(address, {}, content_type="application/json").json()["code"] == "RUN_FINISHED"


def test_vacuum_needs_no_approval(eve: Any) -> None:
    assert request_vacuum(user=eve, **COMMON).run.status == "queued"


@pytest.mark.parametrize("policies", [{"maintenance": {"count": 0}}, {}])
def test_run_is_queued_at_once_in_an_environment_without_approvals(policies: dict, eve: Any, bob: Any) -> None:
    put_policy_in_force(current_environment(), policies)
    run = prune(eve)
    assert run.status == "queued"
    assert refused(approve_maintenance, run=run, user=bob) == "NOT_APPROVABLE"


def test_policy_sets_the_number_and_role_of_approvers(eve: Any, bob: Any) -> None:
    put_policy_in_force(current_environment(), {"maintenance": {"count": 2, "role": "admin"}})
    run = prune(eve)
    assert not approve_maintenance(run=run, user=bob)
    assert refused(approve_maintenance, run=run, user=bob) == "ALREADY_DECIDED"
    assert missing_approvals(run) == 2
    for name, queued in (("ann", False), ("art", True)):
        assert approve_maintenance(run=run, user=create_user(name=name, roles=["admin"])) == queued


def test_a_run_that_was_queued_by_sql_is_not_performed(eve: Any, runner: Any) -> None:
    run = prune(eve)
    LoadRun.objects.filter(pk=run.pk).update(status="queued", error=None)
    assert perform(run, runner).error["code"] == "RUN_UNAPPROVED"


def test_approval_is_invalid_for_a_changed_request(eve: Any, bob: Any, runner: Any) -> None:
    run = prune(eve)
    approve_maintenance(run=run, user=bob)
    LoadRun.objects.filter(pk=run.pk).update(details={"asked": run.details["asked"] | {"ended_before": "2026-01-01"}})
    assert perform(run, runner).error["code"] == "RUN_UNAPPROVED"


def test_approval_inserted_by_sql_is_ignored(eve: Any, bob: Any) -> None:
    approved = prune(eve, run_id="p1")
    approve_maintenance(run=approved, user=bob)
    entry = ChangeLogEntry.objects.get(subject_kind="maintenance")
    run = prune(eve, run_id="p2")
    entry.pk, entry.subject_key, entry.at = None, run.run_id, timezone.now()
    ChangeLogEntry.objects.bulk_create([entry])
    assert missing_approvals(run) == 1


def test_approve_command_refuses_the_requester_and_accepts_another_user(
    eve: Any, bob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prune(eve)
    for user, code in ((eve, "OWN_RUN"), (None, "NO_PERSON")):
        monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=user)[1] if user else "")
        with pytest.raises(CommandExit) as caught:
            call_command("approve_maintenance", run.run_id)
        assert (caught.value.returncode, caught.value.code) == (2, code)
    monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=bob)[1])
    call_command("approve_maintenance", run.run_id, "--note", "checked")
    run.refresh_from_db()
    assert run.status == "queued"


def test_api_approves_the_run_of_another_user(eve: Any, bob: Any) -> None:
    run = prune(eve)
    client, address = Client(), f"/api/v1/load-runs/{run.run_id}/approve/"
    client.force_login(eve)
    assert client.post(address, {}, content_type="application/json").status_code == 409
    client.force_login(bob)
    answer = client.post(address, {}, content_type="application/json")
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")


def test_the_page_of_the_run_offers_the_approval_to_others(eve: Any, bob: Any) -> None:
    run = prune(eve)
    client = Client()
    client.force_login(eve)
    page = client.get(f"/load-runs/{run.run_id}/").content.decode()
    assert "You requested this run; another user must approve it" in page
    assert 'id="again"' not in page
    client.force_login(bob)
    assert f"/load-runs/{run.run_id}/approve/" in client.get(f"/load-runs/{run.run_id}/").content.decode()
    assert "2020-01-01" in client.get(f"/load-runs/{run.run_id}/approve/").content.decode()
    client.post(f"/load-runs/{run.run_id}/approve/", {"note": "checked"})
    run.refresh_from_db()
    assert run.status == "queued"


def test_service_account_cannot_replace_the_second_approver(eve: Any, bob: Any) -> None:
    run, robot = prune(eve), create_service_account(name="robot", owner=eve, roles=["operator"])
    robot.groups.add(*eve.groups.all())
    assert refused(approve_maintenance, run=run, user=robot) == "SERVICE_ACCOUNT"
    with acting_as(robot):
        run = prune(robot, run_id="p2")
    assert refused(approve_maintenance, run=run, user=eve) == "OWN_RUN"
    assert missing_approvals(run) == 1


def test_the_second_of_two_approvals_at_the_same_time_queues_the_run(
    eve: Any, bob: Any, in_threads: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_policy_in_force(current_environment(), {"maintenance": {"count": 2}})
    run, ann = prune(eve), create_user(name="ann", roles=["approver"])

    def count_slowly(run: LoadRun) -> int:
        time.sleep(0.5)
        return missing_approvals(run)

    monkeypatch.setattr(approvals, "missing_approvals", count_slowly)
    queued = in_threads(*(partial(approve_maintenance, run=run, user=user) for user in (ann, bob)))
    assert sorted(queued) == [False, True]
    run.refresh_from_db()
    assert run.status == "queued"


def test_a_run_that_needs_no_approval_any_more_is_run_again(eve: Any, bob: Any) -> None:
    run = prune(eve)
    put_policy_in_force(current_environment(), {"maintenance": {"count": 0}})
    client, address = Client(), f"/load-runs/{run.run_id}/"
    client.force_login(eve)
    assert 'id="again"' in client.get(address).content.decode()
    client.post(f"{address}again/")
    run.refresh_from_db()
    assert (run.status, run.error) == ("queued", None)
