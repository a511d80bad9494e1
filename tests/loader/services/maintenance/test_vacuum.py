"""Vacuums: requests with a reason, refusals for required files, sealed records, schedules."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from architecture.services.environments import current_environment
from elevata.accounts.actors import acting_as
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_user
from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.domain.vacuum import Need
from loader.management import run_command
from loader.models import DatasetRun, LoadRun, MaintenanceRecord, Schedule
from loader.schedules.runs import run_now, start_due
from loader.schedules.services import create_schedule
from loader.selectors.loads import disk_use, last_loads
from loader.services.loads.load_runs import request_load_run
from loader.services.loads.load_work import perform_load_run
from loader.services.maintenance import vacuums
from loader.services.maintenance.reverts import request_revert
from loader.services.maintenance.vacuums import request_vacuum
from metadata.domain.scope import DATASET, Scope
from metadata.models import TargetDataset
from tests.architecture.older_states import store_as_older_release
from tests.database.seals import seal_as_written
from tests.loader.services.maintenance.test_maintenance_runs import command

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT = "rawcore.rc_air_airport"
USE = {
    "current_files": 3,
    "current_bytes": 3000,
    "former_files": 2,
    "former_bytes": 2000,
    "log_files": 9,
    "log_bytes": 900,
}


@pytest.fixture(autouse=True)
def eve(airports, monkeypatch):
    """Yield an operator, the requester of the runs."""
    person = create_user(name="eve", roles=["operator", "editor"])
    with acting_as(person):
        monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=person)[1])
        yield person


def vacuum(**more):
    return request_vacuum(**{"dataset": AIRPORT, "reason": "the disk is full", "wake_worker": False} | more).run


def perform(run, runner) -> LoadRun:
    return perform_load_run(run.pk, worker="w1", runner=runner)


def key() -> str:
    return str(TargetDataset.objects.get(schema__name="rawcore", name="rc_air_airport").key)


def test_vacuum_sends_its_tables_to_the_runner_and_leaves_a_record(airports, runner, script):
    script.add(disk_use=USE)
    run = perform(vacuum(retention_hours=200, dry_run=True), runner)
    assert (run.status, run.kind) == ("succeeded", "vacuum")
    body = script.seen("vacuum")[0]["body"]
    assert (body["retention_hours"], body["dry_run"], body["name"]) == (200, True, AIRPORT)
    assert [table["name"] for table in body["tables"]] == ["rc_air_airport", "rc_air_airport_hist"]
    document = MaintenanceRecord.objects.get(run=run).document
    assert document["asked"] == {"retention_hours": 200, "dry_run": True}
    assert (document["requested_by"], document["reason"]) == ("eve", "the disk is full")
    assert document["tables"][AIRPORT]["former_bytes"] == 2000


def test_vacuum_of_a_raw_dataset_applies_its_retention(airports, runner, script):
    raw = TargetDataset.objects.get(schema__name="raw", name="raw_air_airport")
    TargetDataset.objects.filter(pk=raw.pk).update(keep="all", keep_days=30, keep_deliveries=9)
    script.add(disk_use=USE)
    perform(vacuum(dataset="raw.raw_air_airport"), runner)
    body = script.seen("vacuum")[0]["body"]
    assert body["keeping"] == {"mode": "all", "days": 30, "deliveries": 9}
    assert [table["name"] for table in body["tables"]] == ["raw_air_airport"]


def test_vacuum_applies_the_executed_retention_instead_of_a_pending_change(airports, runner, script):
    raw = TargetDataset.objects.get(schema__name="raw", name="raw_air_airport")
    TargetDataset.objects.filter(pk=raw.pk).update(keep="all", keep_days=30)
    seal_as_written()
    perform(request_load_run(run_id="r1", wake_worker=False).run, runner)
    TargetDataset.objects.filter(pk=raw.pk).update(keep_days=1)
    script.add(disk_use=USE)
    perform(vacuum(dataset="raw.raw_air_airport"), runner)
    assert script.seen("vacuum")[0]["body"]["keeping"] == {"mode": "all", "days": 30, "deliveries": None}


def test_vacuum_applies_the_retention_of_the_metadata_if_an_older_release_recorded_none(airports, runner, script):
    raw = TargetDataset.objects.get(schema__name="raw", name="raw_air_airport")
    TargetDataset.objects.filter(pk=raw.pk).update(keep="all", keep_days=30)
    seal_as_written()
    perform(request_load_run(run_id="r1", wake_worker=False).run, runner)
    store_as_older_release()
    script.add(disk_use=USE)
    perform(vacuum(dataset="raw.raw_air_airport"), runner)
    assert script.seen("vacuum")[0]["body"]["keeping"] == {"mode": "all", "days": 30, "deliveries": None}


def test_dry_run_vacuum_measures_disk_use_without_replacing_the_last_load(airports, runner, script):
    perform(request_load_run(run_id="r1", wake_worker=False).run, runner)
    loaded = last_loads([key()])[key()].counts
    assert disk_use(key()) is None
    script.add(disk_use=USE)
    run = perform(vacuum(dry_run=True), runner)
    row = disk_use(key())
    assert (row.run, row.counts) == (run, USE)
    assert row.finished_at is not None
    assert last_loads([key()])[key()].counts == loaded


def test_prune_updates_version_counts_but_not_the_last_load(airports, runner, script):
    perform(request_load_run(run_id="r1", wake_worker=False).run, runner)
    loaded = last_loads([key()])[key()]
    same = {"environment": loaded.newest.run.environment, "load_timestamp": loaded.newest.run.load_timestamp}
    prune = LoadRun.objects.create(run_id="p1", kind="prune", status="succeeded", scope={}, **same)
    counts = {"open": 1, "versions": 2, "removed": 3}
    given = {"qualified_name": AIRPORT, "kind": "rawcore", "ordinal": 0, "status": "succeeded", "counts": counts}
    DatasetRun.objects.create(run=prune, dataset_key=key(), **given)
    after = last_loads([key()])[key()]
    assert (after.newest, after.counts) == (loaded.newest, loaded.counts | counts)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"retention_hours": 24}, "RETENTION_TOO_SHORT"),
        ({"reason": " "}, "NO_REASON"),
        ({"dataset": "rawcore.nothing"}, "UNKNOWN_DATASET"),
    ],
)
def test_invalid_vacuum_is_refused_without_a_run(airports, arguments, code):
    with pytest.raises(Refusal) as caught:
        vacuum(**arguments)
    assert caught.value.code == code
    assert not LoadRun.objects.exists()


def test_a_queued_revert_keeps_the_files_that_it_needs(airports, runner):
    run = perform(request_load_run(run_id="r1", wake_worker=False).run, runner)
    LoadRun.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(days=10))
    revert = request_revert(of_run="r1", dataset=AIRPORT, reason="test data", wake_worker=False).run
    with pytest.raises(Refusal, match=f"revert {revert} needs the files of 242 hours ago"):
        vacuum(retention_hours=200)
    assert vacuum(retention_hours=250).kind == "vacuum"


def test_vacuum_fails_if_a_revert_requested_meanwhile_needs_the_files(airports, runner, script):
    run = perform(request_load_run(run_id="r1", wake_worker=False).run, runner)
    request = vacuum()
    LoadRun.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(days=10))
    request_revert(of_run="r1", dataset=AIRPORT, reason="test data", wake_worker=False)
    ended = perform(request, runner)
    assert (ended.status, ended.error["code"]) == ("failed", "RETENTION_TOO_SHORT")
    assert script.seen("vacuum") == []


def test_vacuum_command_prints_the_disk_use_and_refuses_a_short_retention(airports, make_runner, monkeypatch, script):
    monkeypatch.setattr(run_command.RunningCommand, "make_runner", lambda self, holder: make_runner())
    script.add(disk_use=USE)
    code, out, _ = command("vacuum", AIRPORT, "--dry-run", "--reason", "weekly", "--local", "--json")
    document = json.loads(out)
    assert (code, document["kind"], document["status"]) == (0, "vacuum", "succeeded")
    assert document["datasets"][0]["counts"] == USE
    code, _, message = command("vacuum", AIRPORT, "--retention-hours", "1", "--reason", "weekly", "--local")
    assert (code != 0, "cannot be kept for 1 hours" in message) == (True, True)


# --- schedules -----------------------------------------------------------------------------------


@pytest.fixture
def weekly(airports, monkeypatch) -> Schedule:
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda pk: "")
    scope = Scope(DATASET, AIRPORT, target_only=True)
    return create_schedule(name="weekly", cron="0 3 * * 0", kind="vacuum", scope=scope, retention_hours=336)


def make_due(schedule: Schedule) -> None:
    Schedule.objects.filter(pk=schedule.pk).update(next_at=timezone.now() - timedelta(seconds=5))


def test_due_vacuum_schedule_starts_a_run_without_a_user_and_leaves_a_record(weekly, runner):
    make_due(weekly)
    with acting_as(None):
        (run,) = start_due()
    assert (run.kind, run.scope["name"], run.details["asked"]["retention_hours"]) == ("vacuum", AIRPORT, 336)
    assert (run.requested_by, run.requester, run.reason) == (None, "schedule weekly", "schedule weekly")
    assert perform(run, runner).status == "succeeded"
    assert MaintenanceRecord.objects.get(run=run).document["requested_by"] == "schedule weekly"


def test_due_vacuum_is_not_started_while_the_previous_one_is_unfinished(weekly):
    make_due(weekly)
    assert len(start_due()) == 1
    make_due(weekly)
    assert start_due() == []
    assert Schedule.objects.get().remark["code"] == "STILL_GOING"


def test_a_refused_vacuum_is_skipped_with_its_reason(weekly, monkeypatch):
    since = timezone.now() - timedelta(days=30)
    monkeypatch.setattr(vacuums, "_needs", lambda state: [Need(since, "undo")])
    make_due(weekly)
    assert start_due() == []
    schedule = Schedule.objects.get()
    assert (schedule.outcome, schedule.remark["code"]) == ("skipped", "RETENTION_TOO_SHORT")


def test_vacuum_schedule_of_all_datasets_starts_one_run_for_each(airports, monkeypatch, eve):
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda pk: "")
    schedule = create_schedule(name="all", cron="0 3 * * 0", kind="vacuum")
    run_now(schedule=schedule, user=eve)
    runs = LoadRun.objects.filter(schedule=schedule, environment=current_environment())
    names = {run.scope["name"] for run in runs}
    assert AIRPORT in names
    assert len(names) == runs.count() > 1


def test_vacuum_schedule_with_a_short_retention_is_refused(airports):
    with pytest.raises(MetadataError, match="cannot be kept for 24 hours"):
        create_schedule(name="short", cron="0 3 * * 0", kind="vacuum", retention_hours=24)
