"""Schedules: edited by users, started at their due times, one run for each due time."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from elevata.accounts.actors import acting_as
from elevata.accounts.services.users import deactivate_user, ensure_user
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError, StaleVersion
from loader import tasks
from loader.contract.refusals import Refusal
from loader.models import LoadRun, Schedule
from loader.schedules import runs as schedule_runs
from loader.schedules import services as schedules
from loader.schedules.runs import run_now, start_due
from loader.schedules.services import create_schedule, delete_schedule, update_schedule
from loader.services.loads.load_runs import must_still_start
from metadata.domain.scope import DATASET, SCHEMA, Scope
from tests.loader.factories import EnvironmentFactory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture(autouse=True)
def wakeups(monkeypatch) -> list:
    """Return the wake-ups that were sent."""
    messages: list = []
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda pk: messages.append(pk) or "")
    return messages


def nightly(**described) -> Schedule:
    return create_schedule(**{"name": "nightly", "cron": "0 6 * * *", **described})


def due(schedule: Schedule, ago: timedelta = timedelta(seconds=5)) -> datetime:
    """Make the schedule due and return the due time."""
    at = timezone.now().replace(microsecond=0) - ago
    Schedule.objects.filter(pk=schedule.pk).update(next_at=at)
    return at


def reload(schedule: Schedule) -> Schedule:
    return Schedule.objects.select_related("last_run").get(pk=schedule.pk)


def refused(call, **described) -> tuple[str, str]:
    with pytest.raises(MetadataError) as error:
        call(**described)
    return error.value.field, error.value.message


# --- edits by users ---------------------------------------------------------------------------------


def test_new_schedule_has_its_next_due_time(airports):
    schedule = nightly(time_zone="Europe/Berlin")
    assert schedule.next_at > timezone.now()
    assert schedule.next_at.astimezone(schedules.timetable_of(schedule).zone).hour == 6
    assert Scope.from_json(schedule.scope) == Scope()


def test_inactive_schedule_has_no_due_time(airports):
    assert nightly(active=False).next_at is None


@pytest.mark.parametrize(
    ("described", "field", "expected"),
    [
        ({"name": " "}, "name", "needs a name"),
        ({"name": "n" * 101}, "name", "is longer than 100"),
        ({"cron": "0 25 * * *"}, "cron", "the hour"),
        ({"time_zone": "Berlin"}, "time_zone", "Europe/Berlin"),
        ({"scope": Scope(SCHEMA, "nope")}, "schema", "there is no schema nope"),
        ({"scope": Scope(DATASET, "rawcore.rc_air_airprt")}, "dataset", "did you mean rawcore.rc_air_airport"),
    ],
)
def test_invalid_schedule_is_refused_naming_the_field(airports, described, field, expected):
    at, message = refused(nightly, **described)
    assert at == field
    assert expected in message
    assert not Schedule.objects.exists()


def test_schedule_name_is_unique_in_its_environment(airports):
    nightly()
    assert refused(nightly) == ("name", "there is a schedule nightly already")
    elsewhere = EnvironmentFactory(name="elsewhere")
    Schedule.objects.update(environment=elsewhere)
    assert nightly().environment != elsewhere


def test_change_of_the_cron_line_computes_a_new_due_time(airports):
    schedule = nightly()
    due(schedule, timedelta(hours=3))
    edited = update_schedule(schedule=schedule, expected_version=1, cron="0 7 * * *")
    assert (edited.version, edited.next_at > timezone.now()) == (2, True)


def test_rename_of_a_schedule_keeps_the_due_time(airports):
    schedule = nightly()
    at = due(schedule)
    update_schedule(schedule=schedule, expected_version=1, name="each morning")
    assert reload(schedule).next_at == at


def test_due_times_missed_while_inactive_start_no_run(airports):
    schedule = nightly()
    due(schedule, timedelta(days=3))
    update_schedule(schedule=schedule, expected_version=1, active=False)
    assert reload(schedule).next_at is None
    update_schedule(schedule=schedule, expected_version=2, active=True)
    assert start_due() == []
    assert reload(schedule).next_at > timezone.now()


def test_edit_or_deletion_of_an_old_version_is_refused(airports):
    schedule = nightly()
    update_schedule(schedule=schedule, expected_version=1, cron="0 7 * * *")
    with pytest.raises(StaleVersion):
        update_schedule(schedule=schedule, expected_version=1, cron="0 8 * * *")
    with pytest.raises(StaleVersion):
        delete_schedule(schedule=schedule, expected_version=1)
    assert reload(schedule).cron == "0 7 * * *"


def test_start_of_a_due_run_does_not_change_the_version_of_the_schedule(airports):
    schedule = nightly()
    due(schedule)
    start_due()
    assert update_schedule(schedule=schedule, expected_version=1, allow_empty=True).version == 2


def test_schedule_edits_are_recorded_in_the_change_log(airports, django_user_model):
    with acting_as(django_user_model.objects.create_user("olga")):
        schedule = nightly()
        update_schedule(schedule=schedule, expected_version=1, cron="0 7 * * *", scope=Scope(SCHEMA, "raw"))
        update_schedule(schedule=schedule, expected_version=2, cron="0 7 * * *")
        update_schedule(schedule=schedule, expected_version=2, name="each morning")
        delete_schedule(schedule=schedule, expected_version=3)
    entries = ChangeLogEntry.objects.filter(subject_kind="schedule", subject_key=str(schedule.key)).order_by("pk")
    assert [(entry.actor, entry.action) for entry in entries] == [
        ("olga", "created"),
        ("olga", "changed"),
        ("olga", "renamed"),
        ("olga", "deleted"),
    ]
    assert '"cron":{"after":"0 7 * * *","before":"0 6 * * *"}' in entries[1].changes
    assert '"scope":{"after":"schema raw","before":"all datasets"}' in entries[1].changes


def test_runs_of_a_deleted_schedule_are_kept(airports):
    schedule = nightly()
    due(schedule)
    (run,) = start_due()
    delete_schedule(schedule=schedule, expected_version=1)
    run.refresh_from_db()
    assert (run.schedule, run.who) == (None, "schedule nightly")


# --- start at the due time --------------------------------------------------------------------------


def test_schedule_starts_no_run_before_its_due_time(airports):
    nightly()
    assert start_due() == []


def test_a_due_schedule_starts_its_run_and_wakes_a_worker(airports, wakeups):
    schedule = nightly(scope=Scope(SCHEMA, "raw"), allow_empty=True)
    at = due(schedule)
    (run,) = start_due()
    assert (run.status, run.scope["name"], run.allow_empty) == ("queued", "raw", True)
    assert (run.who, run.schedule) == ("schedule nightly", schedule)
    assert run.run_id.startswith(f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-")
    assert wakeups == [run.pk]
    row = reload(schedule)
    assert (row.outcome, row.last_run, row.last_due_at) == ("started", run, at)
    assert row.next_at > timezone.now()


def test_schedule_of_a_deactivated_user_still_starts_its_run(airports):
    """Check that a schedule belongs to its environment, not to its author."""
    eve = ensure_user(name="eve", roles=["operator"])
    with acting_as(eve):
        schedule = nightly()
    deactivate_user(user=eve)
    due(schedule)
    (run,) = start_due()
    must_still_start(run)
    assert run.requested_by is None


def test_load_timestamp_of_a_scheduled_run_is_its_start_time(airports):
    due(nightly(), timedelta(hours=5))
    (run,) = start_due()
    assert timezone.now() - run.load_timestamp < timedelta(minutes=1)


def test_sweep_starts_due_schedules(airports, monkeypatch):
    monkeypatch.setattr("elevata.jobs.submission._send", lambda task, pk: "")
    monkeypatch.setattr(tasks, "_swept_at", float("-inf"))
    due(nightly())
    tasks.sweep()
    assert LoadRun.objects.count() == 1


def test_many_missed_due_times_start_one_run(airports):
    schedule = nightly(cron="*/5 * * * *")
    due(schedule, timedelta(days=2))
    assert len(start_due()) == 1
    assert start_due() == []
    assert reload(schedule).next_at > timezone.now()


def test_due_time_handled_by_another_scheduler_starts_no_second_run(airports):
    schedule = nightly()
    at = due(schedule)
    assert len(schedule_runs._start_due(schedule.pk, at, timezone.now())) == 1
    assert schedule_runs._start_due(schedule.pk, at, timezone.now()) == []
    assert LoadRun.objects.count() == 1


def test_concurrent_schedulers_start_one_run_for_each_schedule(airports, in_threads):
    due(nightly())
    due(nightly(name="other"))
    started = in_threads(*[start_due] * 6)
    assert sorted(run.who for runs in started for run in runs) == ["schedule nightly", "schedule other"]
    assert LoadRun.objects.count() == 2


def test_due_time_repeated_after_the_clock_was_set_back_starts_no_second_run(airports):
    schedule = nightly()
    at = due(schedule)
    (run,) = start_due()
    LoadRun.objects.update(status="failed")
    Schedule.objects.update(next_at=at)
    start_due()
    assert (LoadRun.objects.count(), reload(schedule).last_run) == (1, run)
    assert LoadRun.objects.get().status == "failed"


@pytest.mark.parametrize("status", ["queued", "running", "canceling"])
def test_due_time_is_skipped_while_the_previous_run_is_unfinished(airports, status):
    schedule = nightly()
    due(schedule)
    (run,) = start_due()
    LoadRun.objects.update(status=status, heartbeat_at=timezone.now())
    at = due(schedule)
    assert start_due() == []
    row = reload(schedule)
    assert (row.outcome, row.last_due_at, row.last_run) == ("skipped", at, run)
    assert row.remark["message"] == f"load run {run.run_id} was still {status}"
    assert row.next_at > timezone.now()


def test_lost_run_does_not_block_the_next_scheduled_run(airports):
    schedule = nightly()
    due(schedule, timedelta(minutes=10))
    start_due()
    LoadRun.objects.update(status="running", heartbeat_at=timezone.now() - timedelta(minutes=5))
    due(schedule)
    assert len(start_due()) == 1
    assert set(LoadRun.objects.values_list("status", flat=True)) == {"lost", "queued"}


def test_due_time_after_a_skipped_due_time_starts_a_run(airports):
    schedule = nightly()
    due(schedule, timedelta(minutes=10))
    start_due()
    due(schedule, timedelta(minutes=5))
    start_due()
    LoadRun.objects.update(status="succeeded")
    due(schedule)
    assert len(start_due()) == 1
    assert (reload(schedule).outcome, reload(schedule).remark) == ("started", None)


def test_schedules_of_other_environments_are_not_started(airports):
    schedule = nightly()
    due(schedule)
    Schedule.objects.update(environment=EnvironmentFactory(name="elsewhere"))
    assert start_due() == []


def test_schedule_with_an_error_does_not_block_others(airports, caplog):
    due(nightly(name="broken"), timedelta(hours=1))
    Schedule.objects.update(time_zone="Mars")
    due(nightly())
    assert [run.who for run in start_due()] == ["schedule nightly"]
    assert "was not started" in caplog.text


def test_due_schedule_with_a_missing_scope_still_queues_its_run(airports):
    schedule = nightly()
    Schedule.objects.update(scope=Scope(SCHEMA, "gone").as_json())
    due(schedule)
    (run,) = start_due()
    assert run.status == "queued"


# --- immediate runs -----------------------------------------------------------------------------------


def test_run_now_is_requested_by_the_user_and_keeps_the_due_time(airports):
    user = ensure_user(name="olga", roles=["operator"])
    schedule = nightly(active=False)
    run = run_now(schedule=schedule, user=user).run
    assert (run.requested_by, run.schedule) == (user, schedule)
    assert (reload(schedule).last_run, reload(schedule).next_at) == (run, None)


def test_run_now_is_refused_while_the_previous_run_is_unfinished(airports):
    schedule = nightly()
    first = run_now(schedule=schedule, user=None).run
    with pytest.raises(Refusal) as error:
        run_now(schedule=schedule, user=None)
    assert error.value.code == "STILL_GOING"
    assert first.run_id in error.value.message


def test_run_now_with_a_missing_scope_is_refused(airports):
    schedule = nightly()
    Schedule.objects.update(scope=Scope(SCHEMA, "gone").as_json())
    with pytest.raises(Refusal, match="there is no schema gone"):
        run_now(schedule=schedule, user=None)
    assert not LoadRun.objects.exists()
