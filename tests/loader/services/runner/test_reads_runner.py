"""Runner of users' reads: apart from that of loads, killed without harm, shared fairly, bounded for each user."""

import threading

import pytest
from django.contrib.auth.models import User
from django.db import connection

from elevata.accounts.models import ServiceAccount
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.jobs.registry import ASIDE, LANES, READS, next_work
from loader import tasks
from loader.domain.refusals import Refusal
from loader.models import LoadRun, ReadRequest
from loader.services.loads.load_runs import request_load_run
from loader.services.reads import attempts
from loader.services.reads.attempts import perform_read
from loader.services.reads.read_requests import request_query, request_read
from loader.services.runner import supervisor
from loader.services.runner.supervisor import reads_config, runner_config
from loader.services.runner.worker import Workplace
from tests.loader.airports import target
from tests.loader.processes import lives, wait_until

AIRPORT = "rawcore.rc_air_airport"
SAMPLE = {"columns": ["icao"], "rows": [["EDDF"]], "table_version": 3, "truncated": False}
QUERY = f"SELECT icao FROM {AIRPORT}"
database = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture
def workplace(airports, make_runner, monkeypatch):
    place = Workplace(make_runner=make_runner)
    monkeypatch.setattr(tasks, "_workplace", place)
    monkeypatch.setattr("elevata.jobs.services.wake", lambda _: "")
    yield place
    place.close()


def reader(name: str = "vera") -> User:
    return ensure_user(name=name, roles=[Role.VIEWER])


def sample(user: User | None) -> ReadRequest:
    return request_read(kind="sample", dataset=target(AIRPORT), user=user).read


def done(read: ReadRequest) -> ReadRequest:
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


class TestRunner:
    pytestmark = database

    def test_a_read_of_a_user_never_goes_to_the_runner_of_loads(self, workplace, script):
        script.tell(answers={"sample": SAMPLE})
        tasks.perform(request_load_run(run_id="first").run.pk)
        assert workplace.reads_runner.pid is None, "it starts with the first read"
        assert done(sample(reader())).status == "succeeded"
        done(request_query(QUERY, 5, user=None).read)
        done(sample(None))
        pids = [request["pid"] for request in script.seen("read")]
        assert pids == [workplace.reads_runner.pid, workplace.reads_runner.pid, workplace.runner.pid]

    def test_a_read_that_ends_its_runner_leaves_a_load_alone(self, workplace, script):
        script.tell(pause=0.3, die_on="read")
        loading = in_thread(tasks.perform, request_load_run(run_id="first").run.pk)
        wait_until(lambda: script.seen("load"))
        loads_pid = workplace.runner.pid
        read = done(request_query(QUERY, 5, user=reader()).read)
        assert LoadRun.objects.get().status == "running"
        loading.join(20)
        assert (read.status, read.error["code"]) == ("failed", "READS_ENDED")
        assert "was killed by signal 9" in read.error["message"]
        assert "ELEVATA_READS_MEMORY" in read.error["hint"]
        run = LoadRun.objects.get()
        assert (run.status, run.attempt, workplace.runner.pid) == ("succeeded", 1, loads_pid)

    def test_only_a_read_without_a_users_text_is_asked_again(self, workplace, script):
        tasks.perform(request_load_run(run_id="first").run.pk)
        script.add(die_on="read")
        assert done(request_query(QUERY, 5, user=reader()).read).error["code"] == "READS_ENDED"
        assert len(script.seen("read")) == 1
        assert done(sample(reader())).error["code"] == "READS_ENDED"
        assert len(script.seen("read")) == 3

    def test_a_read_that_goes_on_after_its_time_is_ended_with_its_runner(self, workplace, script, monkeypatch):
        monkeypatch.setattr(attempts, "_GRACE_SECONDS", 0.1)
        script.tell(deaf_on=["read"])
        runner = workplace.reads_runner
        read = sample(reader())
        runner.start()
        pid = runner.pid
        ended = perform_read(read_pk=read.pk, worker="w", runner=runner, timeout_seconds=0.1)
        assert ended.error["code"] == "READ_TIMEOUT"
        wait_until(lambda: not lives(pid))

    def test_a_withdrawn_read_that_goes_on_is_ended_with_its_runner(self, workplace, script, monkeypatch):
        monkeypatch.setattr(attempts, "_GRACE_SECONDS", 0.1)
        monkeypatch.setattr("elevata.jobs.states.HEARTBEAT_SECONDS", 0.05)
        script.tell(deaf_on=["read"])
        read = sample(reader())
        reading = in_thread(tasks.perform, read.pk)
        wait_until(lambda: script.seen("read"))
        pid = workplace.reads_runner.pid
        ReadRequest.objects.filter(pk=read.pk).update(status="failed")
        wait_until(lambda: not lives(pid))
        reading.join(20)

    def test_an_idle_runner_ends_and_starts_again_with_the_next_read(self, workplace, make_runner, script):
        script.tell(answers={"sample": SAMPLE})
        runner = workplace.reads_runner = make_runner("reads", supervisor.READS, idle=0.3)
        assert done(sample(reader())).status == "succeeded"
        pid = runner.pid
        wait_until(lambda: runner.pid is None)
        assert not lives(pid)
        assert done(sample(reader())).status == "succeeded"
        assert len({request["pid"] for request in script.seen("read")}) == 2


class TestShare:
    pytestmark = database

    def test_reads_of_one_user_leave_a_slot_to_others(self, workplace, script):
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

    def test_a_user_without_a_read_under_way_comes_first(self, airports):
        vera, willi, otto = (reader(name) for name in ("vera", "willi", "otto"))
        reads = {name: sample(user) for name, user in (("vera", vera), ("willi", willi), ("otto", otto))}
        assert next_work(lane=READS).pk == reads["vera"].pk
        assert next_work(lane=READS, busy={vera.pk: 1}).pk == reads["willi"].pk
        assert next_work(lane=READS, busy=dict.fromkeys((vera.pk, willi.pk, otto.pk), 1)).pk == reads["vera"].pk
        assert next_work(lane=READS, busy={vera.pk: 2, willi.pk: 1, otto.pk: 2}).pk == reads["willi"].pk
        assert next_work(lane=READS, busy=dict.fromkeys((vera.pk, willi.pk, otto.pk), 2)) is None

    def test_unfinished_reads_of_a_user_and_their_accounts_are_bounded(self, airports, settings):
        settings.READS_PER_USER = 2
        user, program = reader(), reader("program")
        ServiceAccount.objects.create(user=program, owner=user)
        first = sample(user)
        request_query(QUERY, 5, user=program)
        for account in (user, program):
            with pytest.raises(Refusal) as refused:
                request_query(QUERY, 5, user=account)
            assert (refused.value.code, refused.value.status) == ("TOO_MANY_READS", 429)
        assert sample(reader("willi")).pk
        ReadRequest.objects.filter(pk=first.pk).update(status="succeeded")
        assert sample(user).pk

    def test_reads_requested_at_once_are_counted_one_by_one(self, airports, settings, in_threads):
        settings.READS_PER_USER = 2
        user = reader()

        def ask() -> int:
            try:
                return sample(user).pk
            except Refusal as refusal:
                return 0 if refusal.code == "TOO_MANY_READS" else -1

        assert sorted(map(bool, in_threads(*[ask] * 5))) == [False, False, False, True, True]
        assert ReadRequest.objects.count() == 2


def test_no_user_has_all_slots_of_reads():
    assert LANES[READS].of_user < LANES[READS].total
    assert READS != ASIDE


def test_the_runner_of_reads_has_its_own_memory_and_only_reads(settings):
    settings.READS_MEMORY, settings.READS_MASTER = "700m", ""
    settings.DRIVER_JAVA_OPTIONS, settings.SPARK_MASTER = "-Dx=y", "local[8]"
    config = reads_config()
    assert (config["driver_memory"], config["master"], config["reads_only"]) == ("700m", "local[8]", True)
    assert config["java_options"] == "-Dx=y -XX:+ExitOnOutOfMemoryError"
    assert runner_config()["driver_memory"] == settings.DRIVER_MEMORY
    assert "reads_only" not in runner_config()


def test_reads_of_a_cluster_work_on_this_machine_unless_a_master_is_given(settings):
    settings.SPARK_MASTER, settings.READS_MASTER = "spark://host:7077", ""
    assert reads_config()["master"] == "local[*]"
    settings.READS_MASTER = "spark://host:7078"
    assert reads_config()["master"] == "spark://host:7078"
