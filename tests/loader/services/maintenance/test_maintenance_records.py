"""Maintenance runs: each has a responsible user, and each attempt leaves a sealed record."""

import io
import json

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client

from architecture.domain.artifacts import verify
from architecture.domain.refusals import Refused
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_user
from elevata.audit.append_only import guard
from elevata.audit.services import chain
from elevata.audit.services.verification import verify_chain
from elevata.jobs.services import mark_lost
from loader.management import run_command
from loader.models import LoadRun, MaintenanceRecord
from loader.services.loads.load_runs import request_load_run
from loader.services.loads.load_work import perform_load_run
from loader.services.maintenance.history_batches import request_history_batch
from loader.services.maintenance.prunes import request_prune
from loader.services.maintenance.records import record_artifact
from loader.services.maintenance.reverts import request_revert
from metadata.models import TargetDataset

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT = "rawcore.rc_air_airport"
WHY = "the source sent test data"
ASKING = {
    "revert": lambda **more: request_revert(of_run="r1", dataset=AIRPORT, reason=WHY, wake_worker=False, **more),
    "prune": lambda **more: request_prune(dataset=AIRPORT, reason=WHY, older_than_days=30, wake_worker=False, **more),
    "history_batch": lambda **more: request_history_batch(
        dataset=AIRPORT, files={"upsert": ["/in/u.csv"]}, wake_worker=False, **more
    ),
}


@pytest.fixture
def eve(db):
    return create_user(name="eve", roles=["operator"])


@pytest.fixture
def load(airports, runner):
    return perform(request_load_run(run_id="r1", wake_worker=False).run, runner)


def perform(run: LoadRun, runner) -> LoadRun:
    return perform_load_run(run.pk, worker="w1", runner=runner)


def pruned(runner, eve, **more) -> LoadRun:
    return perform(ASKING["prune"](user=eve, **more).run, runner)


# --- requester -----------------------------------------------------------------------------------


def refusal_of(kind: str, **more) -> str:
    with pytest.raises(Refused) as caught:
        ASKING[kind](**more)
    return caught.value.code


def can_be_asked(kind: str) -> None:
    if kind == "history_batch":
        policy = {"input": "batch_files", "time": "_fivetran_start"}
        TargetDataset.objects.filter(name="rc_air_airport").update(history_policy=policy)


@pytest.mark.full
@pytest.mark.parametrize("kind", ASKING)
def test_maintenance_run_without_a_user_is_refused(load, kind):
    can_be_asked(kind)
    assert refusal_of(kind) == "NO_PERSON"
    assert not LoadRun.objects.filter(kind=kind).exists()


@pytest.mark.full
@pytest.mark.parametrize("kind", ASKING)
def test_maintenance_run_without_the_permission_is_refused(load, kind):
    can_be_asked(kind)
    assert refusal_of(kind, user=create_user(name="ada", roles=["viewer", "editor"])) == "NOT_PERMITTED"


def test_maintenance_run_is_requested_by_the_acting_user(load, eve):
    with acting_as(eve):
        request = ASKING["revert"]()
    assert (request.run.requested_by, request.run.who) == (eve, "eve")


def test_reason_of_a_history_batch_is_optional(load, eve):
    can_be_asked("history_batch")
    assert ASKING["history_batch"](user=eve, reason=WHY).run.reason == WHY
    assert ASKING["history_batch"](user=eve).run.reason == ""


def test_repetition_of_a_maintenance_run_without_a_user_is_refused(load, runner, script, eve):
    script.add(fail={AIRPORT: {"code": "NOT_ARCHIVED", "message": "no room"}})
    assert pruned(runner, eve, run_id="p1").status == "failed"
    with pytest.raises(Refused) as caught:
        request_load_run(run_id="p1", wake_worker=False)
    assert caught.value.code == "NO_PERSON"


def test_record_names_the_repeating_user_beside_the_requester(load, runner, script, eve):
    script.add(fail={AIRPORT: {"code": "NOT_ARCHIVED", "message": "no room"}})
    pruned(runner, eve, run_id="p1")
    script.add(fail={})
    bob = create_user(name="bob", roles=["operator"])
    perform(request_load_run(run_id="p1", user=bob, wake_worker=False).run, runner)
    newest = MaintenanceRecord.objects.first().document
    assert (newest["requested_by"], newest["repeated_by"], newest["attempt"]) == ("eve", "bob", 2)


# --- sealed records ------------------------------------------------------------------------------


def test_record_of_a_finished_run_contains_user_reason_versions_counts_and_commit_path(load, runner, script, eve):
    path = {"name": "public", "reason": "ELEVATA_COMMITS is public"}
    script.add(commits=path)
    run = pruned(runner, eve)
    (record,) = run.records.all()
    body = record.document
    assert (record.outcome, body["kind"], body["requested_by"], body["reason"]) == ("succeeded", "prune", "eve", WHY)
    assert body["asked"] == run.details["asked"]
    assert body["tables"] == {AIRPORT: {"version_before": 4, "version_after": 5}}
    assert body["commits"] == path
    (row,) = run.datasets.all()
    assert body["datasets"][0]["counts"] == row.counts
    assert verify_chain().intact


def test_each_attempt_leaves_a_record_even_if_it_failed(load, runner, script, eve):
    script.add(fail={AIRPORT: {"code": "NOT_ARCHIVED", "message": "no room"}})
    pruned(runner, eve, run_id="p1")
    script.add(fail={})
    run = pruned(runner, eve, run_id="p1")
    assert [(entry.attempt, entry.outcome) for entry in run.records.order_by("pk")] == [(1, "failed"), (2, "succeeded")]


def test_attempt_of_a_lost_worker_leaves_a_record_with_outcome_lost(load, eve):
    run = ASKING["prune"](user=eve).run
    LoadRun.objects.filter(pk=run.pk).update(
        status="running", attempt=1, claimed_by="w1", heartbeat_at="2024-01-01T00:00:00Z"
    )
    assert [job.pk for job in mark_lost()] == [run.pk]
    assert run.records.get().outcome == "lost"


def test_load_leaves_no_maintenance_record(load):
    assert not MaintenanceRecord.objects.exists()


def test_a_record_that_was_changed_breaks_the_chain(load, runner, eve):
    record = pruned(runner, eve).records.get()
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE loader_maintenancerecord SET document = '{}'")
    chain.seal(wait=True)
    changed = {**record.document, "reason": "another"}
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ALTER TABLE loader_maintenancerecord DISABLE TRIGGER USER")
        else:
            cursor.execute(
                "SELECT name FROM sqlite_master WHERE type='trigger' AND tbl_name='loader_maintenancerecord'"
            )
            for (name,) in cursor.fetchall():
                cursor.execute(f'DROP TRIGGER "{name}"')
        cursor.execute("UPDATE loader_maintenancerecord SET document = %s", [json.dumps(changed)])
    try:
        problem = verify_chain().problem
        assert (problem.code, problem.kind, problem.subject) == ("row_changed", "maintenance_run", record.pk)
    finally:
        restore_triggers()


def restore_triggers() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE loader_maintenancerecord ENABLE TRIGGER USER")
        return
    guard(connection, [MaintenanceRecord])


def test_an_exported_record_verifies_and_a_changed_one_does_not(load, runner, eve):
    exported = json.loads(json.dumps(record_artifact(pruned(runner, eve).records.get())))
    assert verify(exported) == ()
    exported["document"]["reason"] = "another"
    assert [finding.code for finding in verify(exported)] == ["DIGEST"]


# --- commands and pages --------------------------------------------------------------------------


@pytest.fixture
def local(monkeypatch, make_runner):
    monkeypatch.setattr(run_command, "Runner", make_runner)


def command(*arguments: str) -> tuple[int, str, str]:
    out = io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=io.StringIO())
    except CommandExit as end:
        return end.returncode, out.getvalue(), end.code
    return 0, out.getvalue(), ""


COMMANDS = {
    "revert": ("revert_run", "r1", AIRPORT, "--reason", WHY, "--local"),
    "prune": ("prune_history", AIRPORT, "--older-than-days", "30", "--reason", WHY, "--local"),
    "history_batch": ("load_history_batch", AIRPORT, "--upsert", "/in/u.csv", "--local"),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_without_a_personal_token_is_refused(load, local, monkeypatch, kind):
    monkeypatch.delenv("ELEVATA_TOKEN", raising=False)
    code, _, why = command(*COMMANDS[kind])
    assert (code, why) == (2, "NO_PERSON")
    assert not LoadRun.objects.filter(kind=kind).exists()


def test_command_takes_the_requester_from_the_token(load, local, runner, eve, monkeypatch):
    runner.close()  # the folder is one runner's
    monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=eve)[1])
    code, out, _ = command(*COMMANDS["revert"], "--json")
    assert (code, json.loads(out)["requested_by"]) == (0, "eve")


def test_maintenance_records_command_lists_and_exports_records(load, runner, eve, tmp_path):
    run = pruned(runner, eve)
    code, out, _ = command("maintenance_records")
    assert (code, run.run_id in out, "by eve" in out) == (0, True, True)
    file = tmp_path / "record.json"
    assert command("maintenance_records", run.run_id, "--artifact", str(file))[0] == 0
    assert command("verify_artifact", str(file))[0] == 0
    assert command("maintenance_records", "nothing")[0] == 4
    assert command("maintenance_records", "--artifact", str(file))[0] == 4


def test_run_page_shows_and_exports_the_record(load, runner, eve):
    run = pruned(runner, eve)
    client = Client()
    client.force_login(eve)
    record = run.records.get()
    page = client.get(f"/load-runs/{run.run_id}/").content.decode()
    assert record.digest in page
    answer = client.get(f"/load-runs/{run.run_id}/records/{record.record_id}/")
    assert verify(json.loads(answer.content)) == ()
