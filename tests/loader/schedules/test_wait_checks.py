"""Schedules that wait for data: from the due time to the run, or to the deadline."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from elevata.accounts.roles import Role
from elevata.core.errors import MetadataError
from elevata.notifications.models import Notice
from loader import tasks
from loader.models import LoadRun, Schedule
from loader.schedules import runs as schedule_runs
from loader.schedules.runs import check_waiting, run_now, start_due
from loader.schedules.services import create_schedule, update_schedule
from loader.schedules.waits import Wait
from metadata.domain.scope import DATASET, Scope
from metadata.models import SourceDataset, System
from metadata.services.datasets.generation import generate_targets
from tests.architecture.world import person
from tests.factories import SourceColumnFactory, SourceDatasetFactory, SystemFactory
from tests.loader.factories import LoadRunFactory

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def no_broker(monkeypatch) -> None:
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda pk: "")


@pytest.fixture
def orders(db, tmp_path: Path, settings) -> SourceDataset:
    """Return the orders of a shop in a folder that is still empty."""
    settings.SOURCE_ROOTS = [str(tmp_path)]
    shop = SystemFactory(short_name="shop", location=str(tmp_path))
    source = SourceDatasetFactory(system=shop, name="orders", location="orders_*.csv")
    SourceColumnFactory(dataset=source, name="order_no", key_ordinal=1)
    generate_targets(source_dataset=source)
    return source


def waiting_schedule(source: SourceDataset, /, **wait) -> Schedule:
    """Return a schedule that became due a moment ago and waits for data."""
    wait = {"for": "files", "source": str(source.key), "minutes": 60} | wait
    schedule = create_schedule(name="nightly", cron="0 6 * * *", wait=wait)
    become_due(schedule)
    return reload(schedule)


def become_due(schedule: Schedule) -> None:
    Schedule.objects.filter(pk=schedule.pk).update(next_at=timezone.now().replace(microsecond=0) - MINUTE)
    assert start_due() == []


def reload(schedule: Schedule) -> Schedule:
    return Schedule.objects.get(pk=schedule.pk)


def deliver(source: SourceDataset, name: str = "orders_1.csv", text: str = "order_no\n1\n") -> None:
    (Path(source.system.location) / name).write_text(text)


def check_twice() -> list[LoadRun]:
    """Check as two ticks of the scheduler do: files are complete once the second finds them unchanged."""
    return check_waiting() + check_waiting()


# --- conditions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wait", "field", "message"),
    [
        ({"for": "rows"}, "wait.for", "has files: wait for them instead"),
        ({"source": "00000000-0000-0000-0000-000000000000"}, "wait.source", "no active source"),
        ({"source": "nonsense"}, "wait.source", "no active source"),
        ({"minutes": 0}, "wait.minutes", "from 1 to"),
    ],
)
def test_a_condition_that_cannot_be_checked_is_refused(orders: SourceDataset, wait: dict, field: str, message: str):
    with pytest.raises(MetadataError) as problem:
        waiting_schedule(orders, **wait)
    assert problem.value.field == field
    assert message in problem.value.message


@pytest.mark.full
def test_a_source_that_the_runs_do_not_read_is_refused(orders: SourceDataset, airports):
    wait = {"for": "files", "source": str(orders.key)}
    with pytest.raises(MetadataError, match="is not read by the runs of this schedule"):
        create_schedule(name="n", cron="0 6 * * *", scope=Scope(DATASET, "rawcore.rc_air_airport"), wait=wait)


def test_wait_for_messages_of_a_topic_is_refused(orders: SourceDataset):
    System.objects.update(kind="kafka")
    SourceDataset.objects.update(format="kafka")
    with pytest.raises(MetadataError, match="only files and database tables can be waited for") as problem:
        waiting_schedule(orders)
    assert problem.value.field == "wait.source"


def test_wait_condition_of_a_vacuum_schedule_is_refused(orders: SourceDataset):
    with pytest.raises(MetadataError, match="goes with loads only"):
        create_schedule(name="n", cron="0 6 * * *", kind="vacuum", wait={"for": "files", "source": str(orders.key)})


@pytest.fixture
def table(db, settings) -> SourceDataset:
    """Return a source table of a database whose host is permitted."""
    settings.SOURCE_HOSTS = ["10.0.0.1"]
    erp = SystemFactory(short_name="erp", kind="jdbc", location="postgresql://a@10.0.0.1/erp")
    source = SourceDatasetFactory(system=erp, name="t", location="t", format="table")
    SourceColumnFactory(dataset=source, name="id", key_ordinal=1)
    generate_targets(source_dataset=source)
    return source


@pytest.mark.parametrize(
    ("wait", "field"),
    [
        ({}, "wait.for"),
        ({"for": "rows", "newer": "nope"}, "wait.newer"),
        ({"for": "rows", "newer": "id"}, "wait.newer"),
    ],
)
def test_invalid_wait_for_a_database_table_is_refused(table: SourceDataset, wait: dict, field: str):
    with pytest.raises(MetadataError) as problem:
        waiting_schedule(table, **wait)
    assert problem.value.field == field


def test_wait_for_a_database_outside_the_permitted_hosts_is_refused(table: SourceDataset, settings):
    settings.SOURCE_HOSTS = []
    with pytest.raises(MetadataError, match="10.0.0.1") as problem:
        waiting_schedule(table, **{"for": "rows"})
    assert problem.value.field == "wait.source"


# --- waiting -------------------------------------------------------------------------------------


def test_due_schedule_waits_and_starts_no_run(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    assert (schedule.outcome, LoadRun.objects.count()) == ("waiting", 0)
    assert schedule.next_at > timezone.now()
    assert schedule.waiting["due"] == schedule.last_due_at.isoformat()


def test_wait_check_without_files_stores_its_answer(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    assert check_waiting() == []
    state = reload(schedule).waiting
    assert "matches no file" in state["answer"]
    assert datetime.fromisoformat(state["checked_at"]).tzinfo is not None


def test_the_run_starts_once_the_files_are_complete(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    check_waiting()
    deliver(orders)
    assert check_waiting() == []
    (run,) = check_waiting()
    schedule = reload(schedule)
    assert (schedule.outcome, schedule.waiting, schedule.last_run) == ("started", None, run)
    assert run.requester == "schedule nightly"


def test_run_is_not_started_while_a_file_grows(orders: SourceDataset):
    waiting_schedule(orders)
    for size in range(1, 4):
        deliver(orders, text="order_no\n" + "1\n" * size)
        assert check_waiting() == []


def test_the_same_files_start_no_second_run(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    deliver(orders)
    (run,) = check_twice()
    LoadRun.objects.filter(pk=run.pk).update(status="succeeded")
    become_due(schedule)
    assert check_twice() == []
    assert "the same as at the last run" in reload(schedule).waiting["answer"]
    deliver(orders, "orders_2.csv")
    assert len(check_twice()) == 1


def test_schedule_waits_while_its_previous_run_is_active(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    LoadRunFactory(schedule=schedule, status="queued", run_id="before")
    deliver(orders)
    assert check_twice() == []
    assert "load run before is still queued" in reload(schedule).waiting["answer"]


def test_due_time_during_a_wait_starts_no_second_wait(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    become_due(schedule)
    assert reload(schedule).waiting == schedule.waiting


def test_two_schedulers_start_one_run(orders: SourceDataset, monkeypatch):
    waiting_schedule(orders)
    deliver(orders)
    check_waiting()
    check_data = schedule_runs.check_data
    others: list = []

    def overtaken(*args, **options):
        answer = check_data(*args, **options)
        if not others:
            others.append("now")
            others.extend(check_waiting())
        return answer

    monkeypatch.setattr(schedule_runs, "check_data", overtaken)
    assert check_waiting() == []
    assert LoadRun.objects.count() == 1


def test_sweep_checks_waiting_schedules_once_for_messages_that_waited_for_the_worker(orders, monkeypatch):
    schedule, checks = waiting_schedule(orders), []
    monkeypatch.setattr(tasks, "_swept_at", float("-inf"))
    monkeypatch.setattr(schedule_runs, "check_waiting", lambda: checks.append(check_waiting()))
    for _ in range(3):
        tasks.sweep()
    assert (bool(reload(schedule).waiting["checked_at"]), len(checks)) == (True, 1)


def test_wait_check_with_an_error_is_logged_and_stored(orders: SourceDataset, monkeypatch, caplog):
    schedule = waiting_schedule(orders)
    monkeypatch.setattr(schedule_runs, "check_data", lambda *_, **__: 1 / 0)
    assert check_waiting() == []
    assert "was not checked" in caplog.text
    assert reload(schedule).waiting["answer"] == "The check failed; the log of the worker has the reason."


def test_rows_are_counted_at_most_once_a_minute(table: SourceDataset, monkeypatch):
    counts = iter([4, 10])
    monkeypatch.setattr("loader.schedules.wait_checks.count_rows", lambda *_, **__: next(counts))
    schedule = waiting_schedule(table, **{"for": "rows", "rows": 10})
    now = timezone.now()
    assert check_waiting(now=now) == []
    assert reload(schedule).waiting["answer"] == "4 of 10 rows"
    assert check_waiting(now=now + MINUTE / 2) == []
    assert len(check_waiting(now=now + MINUTE)) == 1


# --- deadline ------------------------------------------------------------------------------------


def at_deadline(schedule: Schedule) -> list[LoadRun]:
    due = datetime.fromisoformat(schedule.waiting["due"])
    return check_waiting(now=Wait.from_json(schedule.wait).deadline(due))


def test_run_is_skipped_with_a_notice_at_the_deadline(orders: SourceDataset):
    olga = person("olga", Role.OPERATOR)
    schedule = waiting_schedule(orders)
    assert at_deadline(schedule) == []
    schedule = reload(schedule)
    assert (schedule.outcome, schedule.waiting) == ("skipped", None)
    assert "did not arrive within 60 minutes" in schedule.remark["message"]
    notice = Notice.objects.get(user=olga)
    assert notice.event.kind == "schedule.late"
    assert notice.event.link == f"/schedules/{schedule.key}/"


def test_the_notice_is_settled_when_the_data_is_in_time_again(orders: SourceDataset):
    person("olga", Role.OPERATOR)
    schedule = waiting_schedule(orders)
    at_deadline(schedule)
    become_due(schedule)
    deliver(orders)
    assert len(check_twice()) == 1
    assert not Notice.objects.filter(read_at__isnull=True).exists()


def test_run_is_started_at_the_deadline_if_declared(orders: SourceDataset):
    olga = person("olga", Role.OPERATOR)
    schedule = waiting_schedule(orders, then="start")
    (run,) = at_deadline(schedule)
    assert reload(schedule).last_run == run
    assert "the run was started anyway" in Notice.objects.get(user=olga).event.title


def test_wait_check_with_an_error_at_the_deadline_skips_the_run(orders: SourceDataset, monkeypatch):
    schedule = waiting_schedule(orders)
    monkeypatch.setattr(schedule_runs, "check_data", lambda *_, **__: 1 / 0)
    assert at_deadline(schedule) == []
    assert (reload(schedule).outcome, reload(schedule).waiting) == ("skipped", None)


def test_files_of_a_run_that_was_skipped_are_still_new(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    deliver(orders)
    assert at_deadline(schedule) == []
    become_due(schedule)
    assert len(check_twice()) == 1


def test_complete_files_at_the_deadline_start_the_run(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    deliver(orders)
    check_waiting()
    assert len(at_deadline(schedule)) == 1
    assert not Notice.objects.exists()


# --- changes while waiting -----------------------------------------------------------------------


def test_manual_run_ends_the_wait(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    run_now(schedule=schedule, user=person("olga", Role.OPERATOR))
    assert reload(schedule).waiting is None


def test_files_read_by_a_manual_run_start_no_second_run(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    deliver(orders)
    check_waiting()
    requested = run_now(schedule=schedule, user=person("olga", Role.OPERATOR))
    LoadRun.objects.filter(pk=requested.run.pk).update(status="succeeded")
    become_due(schedule)
    assert check_twice() == []


@pytest.mark.parametrize("changes", [{"active": False}, {"wait": {}}])
def test_deactivation_or_removal_of_the_condition_ends_the_wait(orders: SourceDataset, changes: dict):
    schedule = waiting_schedule(orders)
    update_schedule(schedule=schedule, expected_version=schedule.version, **changes)
    assert (reload(schedule).waiting, reload(schedule).outcome) == (None, "")


def test_rename_of_a_schedule_keeps_its_wait(orders: SourceDataset):
    schedule = waiting_schedule(orders)
    update_schedule(schedule=schedule, expected_version=schedule.version, name="other")
    assert reload(schedule).waiting == schedule.waiting


def test_due_time_of_a_wait_is_in_utc(orders: SourceDataset):
    assert datetime.fromisoformat(waiting_schedule(orders).waiting["due"]).utcoffset() == datetime.now(UTC).utcoffset()
