"""Runner of users' reads: separate from that of loads, restarted after a kill, shared fairly."""

import threading

import pytest
from django.contrib.auth.models import User
from django.db import connection

from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from loader import tasks
from loader.models import LoadRun, ReadRequest
from loader.runner import conversation
from loader.runner.worker import Workplace
from loader.services.loads.load_runs import request_load_run
from loader.services.reads import manifests
from loader.services.reads.attempts import perform_read
from loader.services.reads.read_requests import request_query, request_read
from tests.loader.airports import target
from tests.loader.processes import lives, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

AIRPORT = "rawcore.rc_air_airport"
SAMPLE = {"columns": ["icao"], "rows": [["EDDF"]], "table_version": 3, "truncated": False}
QUERY = f"SELECT icao FROM {AIRPORT}"


@pytest.fixture
def workplace(airports, make_runner, monkeypatch):
    place = Workplace(make_runner=make_runner)
    monkeypatch.setattr(tasks, "_workplace", place)
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda _: "")
    yield place
    place.close()


def reader(name: str = "vera") -> User:
    return ensure_user(name=name, roles=[Role.VIEWER])


def sample(user: User | None) -> ReadRequest:
    return request_read(kind="sample", dataset=target(AIRPORT), user=user).read


def perform(read: ReadRequest) -> ReadRequest:
    tasks.perform(read.pk)
    return ReadRequest.objects.get(pk=read.pk)


def in_thread(function, *arguments) -> threading.Thread:
    def call():
        try:
            function(*arguments)
        finally:
            connection.close()

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_a_read_of_a_user_never_goes_to_the_runner_of_loads(workplace, script):
    script.tell(answers={"sample": SAMPLE})
    tasks.perform(request_load_run(run_id="first").run.pk)
    assert workplace.reads_runner.pid is None, "it starts with the first read"
    assert perform(sample(reader())).status == "succeeded"
    perform(request_query(QUERY, 5, user=None).read)
    perform(sample(None))
    pids = [request["pid"] for request in script.seen("read")]
    assert pids == [workplace.reads_runner.pid, workplace.reads_runner.pid, workplace.runner.pid]


def test_read_that_kills_its_runner_does_not_affect_a_load(workplace, script):
    script.tell(paused=True, die_on="read")
    loading = in_thread(tasks.perform, request_load_run(run_id="first").run.pk)
    wait_until(lambda: script.seen("load"))
    loads_pid = workplace.runner.pid
    read = perform(request_query(QUERY, 5, user=reader()).read)
    assert LoadRun.objects.get().status == "running"
    script.tell()
    loading.join(20)
    assert (read.status, read.error["code"]) == ("failed", "READS_ENDED")
    assert "was killed by signal 9" in read.error["message"]
    assert "ELEVATA_READS_MEMORY" in read.error["hint"]
    assert len(script.seen("read")) == 1, "a query may be the reason"
    run = LoadRun.objects.get()
    assert (run.status, run.attempt, workplace.runner.pid) == ("succeeded", 1, loads_pid)


def test_read_beyond_its_timeout_is_ended_with_its_runner(workplace, script, monkeypatch):
    monkeypatch.setattr(conversation, "GRACE_SECONDS", 0.1)
    script.tell(deaf_on=["read"])
    runner = workplace.reads_runner
    read = sample(reader())
    runner.start()
    pid = runner.pid
    monkeypatch.setattr(manifests, "_TIMEOUT_SECONDS", 0.1)
    ended = perform_read(read.pk, worker="w", runner=runner)
    assert ended.error["code"] == "READ_TIMEOUT"
    wait_until(lambda: not lives(pid))


def test_withdrawn_read_that_continues_is_ended_with_its_runner(workplace, script, monkeypatch):
    monkeypatch.setattr(conversation, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr("elevata.jobs.states.HEARTBEAT_SECONDS", 0.05)
    script.tell(deaf_on=["read"])
    read = sample(reader())
    reading = in_thread(tasks.perform, read.pk)
    wait_until(lambda: script.seen("read"))
    pid = workplace.reads_runner.pid
    ReadRequest.objects.filter(pk=read.pk).update(status="failed")
    wait_until(lambda: not lives(pid))
    reading.join(20)


def test_read_without_sql_of_a_user_is_retried_once(workplace, script):
    script.tell(die_on="read")
    assert perform(sample(reader())).error["code"] == "READS_ENDED"
    assert len(script.seen("read")) == 2


def test_reads_of_one_user_leave_a_slot_to_others(workplace, script):
    script.tell(hang_on=["read"])
    first = [sample(reader()) for _ in range(4)]
    other = sample(reader("willi"))
    threads = [in_thread(tasks.perform, read.pk) for read in (*first, other)]
    wait_until(lambda: len(script.seen("read")) == 3)
    running = ReadRequest.objects.filter(status="running").values_list("requested_by__username", flat=True)
    assert sorted(running) == ["vera", "vera", "willi"]
    workplace.stop()
    for thread in threads:
        thread.join(20)
