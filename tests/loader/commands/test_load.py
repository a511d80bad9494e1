"""``manage.py load``: exit codes, one-line errors, one JSON document."""

import io
import json
import sys
import threading

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection

from elevata.accounts.cli import CommandExit
from elevata.jobs import states
from elevata.jobs.models import Worker
from elevata.jobs.waiting import NoWorker
from loader.management import run_command as command
from loader.management import waiting
from loader.models import LoadRun
from loader.services.loads.load_runs import request_cancel, request_load_run
from loader.services.loads.load_work import perform_load_run
from metadata.domain.scope import Scope

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def local(monkeypatch, make_runner):
    """Make --local use the scripted runner."""
    monkeypatch.setattr(command, "Runner", make_runner)


@pytest.fixture
def worker(monkeypatch, runner):
    """Live worker that performs its jobs in a thread."""
    from django.utils import timezone

    now = timezone.now()
    Worker.objects.create(name="w", started_at=now, heartbeat_at=now)
    working = []

    def do(run_pk):
        try:
            perform_load_run(run_pk, worker="w", runner=runner)
        finally:
            connection.close()

    def wake(run_pk):
        thread = threading.Thread(target=do, args=(run_pk,))
        thread.start()
        working.append(thread)
        return ""

    monkeypatch.setattr("elevata.jobs.submission.wake", wake)
    yield
    for thread in working:
        thread.join(20)


def load(*arguments: str) -> tuple[int, str, str]:
    """Run the command; return exit code, output and the line that explains a failure."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("load", *arguments, stdout=out, stderr=err)
    except CommandExit as end:
        return end.returncode, out.getvalue(), str(end)
    return 0, out.getvalue(), err.getvalue()


def test_local_loads_all_datasets_and_prints_their_counts(airports, local):
    code, out, _ = load("--local")
    assert code == 0
    assert "rawcore.rc_air_airport succeeded (3 rows, 3 new, 3 versions, 3 open, 0.1 s)" in out
    assert LoadRun.objects.get().status == "succeeded"


@pytest.mark.parametrize("scope", [("--all",), ()])
def test_exclude_stores_a_scope_of_all_but_the_excluded_dataset(airports, local, scope: tuple[str, ...]):
    load(*scope, "--exclude", "rawcore.rc_net_route", "--local")
    assert str(Scope.from_json(LoadRun.objects.get().scope)) == "datasets * without rawcore.rc_net_route"


def test_worker_loads_the_named_dataset_at_the_given_time(airports, worker):
    code, out, _ = load("--dataset", "rawcore.rc_air_airport", "--at", "2024-05-01")
    assert code == 0
    assert "rc_net_route" not in out
    run = LoadRun.objects.get()
    assert run.scope == {"kind": "dataset", "name": "rawcore.rc_air_airport", "target_only": False}
    assert run.load_timestamp.isoformat() == "2024-05-01T00:00:00+00:00"


def test_json_is_one_document_on_stdout(airports, local):
    code, out, _ = load("--local", "--json", "--run-id", "r")
    document = json.loads(out)
    assert (code, document["run_id"], document["status"]) == (0, "r", "succeeded")
    assert [entry["dataset"] for entry in document["datasets"]][:2] == ["raw.raw_air_airport", "raw.raw_net_route"]
    assert document["datasets"][2]["counts"]["new"] == 3


def test_a_failed_run_exits_1_with_the_reason_in_one_line(airports, local, script):
    script.tell(fail={"raw.raw_net_route": {"code": "MISSING_FILE", "message": "route.csv is not there"}})
    code, out, message = load("--local", "--json")
    assert (code, json.loads(out)["status"]) == (1, "failed")
    assert "1 of 4 datasets failed, 1 skipped: route.csv is not there" in message
    assert "\n" not in message


def test_a_blocked_run_exits_2(airports, local, script):
    from tests.loader.airports import target

    table = str(target("raw.raw_air_airport").key)
    columns = [{"name": "elevation", "type": "bigint"}]
    table_state = {"key": table, "qualified_name": "raw.raw_air_airport", "columns": columns, "version": 0}
    script.tell(observed={table: table_state})
    code, _, message = load("--local")
    assert (code, LoadRun.objects.get().status) == (2, "blocked")
    assert "rebuild_table raw.raw_air_airport" in message


def test_run_id_given_again_starts_no_second_load(airports, local, script):
    load("--local", "--run-id", "r")
    assert load("--local", "--run-id", "r")[0] == 0
    assert (LoadRun.objects.get().attempt, len(script.seen("load"))) == (1, 1)


def test_load_without_a_scope_is_refused_on_a_terminal(airports, local, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    code, _, message = load("--local")
    assert (code, message) == (4, "name what to load: --all for every dataset, or --schema, --dataset, --select")
    assert not LoadRun.objects.exists()
    assert load("--all", "--local")[0] == 0


def test_missing_worker_is_reported_in_one_line_and_no_run_remains(airports):
    code, _, message = load()
    assert (code, message) == (1, "no worker is running: start one with 'make serve', or use --local")
    assert not LoadRun.objects.exists()


def test_queued_run_is_cancelled_when_the_worker_disappears(airports, worker, monkeypatch):
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda _: "")
    monkeypatch.setattr(states, "WORKER_SILENT_AFTER", states.WORKER_SILENT_AFTER * 0)
    alive = iter([True])
    monkeypatch.setattr(command, "live_workers", lambda: Worker.objects.all())
    run = request_load_run().run
    with pytest.raises(NoWorker):
        waiting.follow(run, lambda *_: None, has_worker=lambda: next(alive, False))
    assert LoadRun.objects.get().status == "canceled"


def test_unreachable_broker_is_reported_in_one_line_and_the_run_is_cancelled(airports, worker, monkeypatch):
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda _: "connection refused")
    code, _, message = load()
    assert (code, message) == (1, "the broker does not answer: connection refused")
    assert LoadRun.objects.get().status == "canceled"


def test_unreachable_database_is_reported_in_one_line(monkeypatch):
    def raise_connection_error():
        raise OperationalError("connection refused")

    monkeypatch.setattr(command, "live_workers", raise_connection_error)
    code, _, message = load()
    assert (code, message) == (1, "the control database does not answer: connection refused")


def test_data_folder_in_use_is_reported_in_one_line_and_no_run_remains(airports, local, make_runner):
    make_runner("worker 7").start()
    code, _, message = load("--local")
    assert code == 1
    assert "is in use by worker 7" in message
    assert not LoadRun.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--dataset", "rawcore.rc_air_airprt"], 1, "did you mean rawcore.rc_air_airport"),
        (["--schema", "rawcor"], 1, "there is no schema rawcor"),
        (["--all", "--schema", "raw"], 4, "not allowed with argument"),
        (["--target-only"], 4, "--target-only goes with --dataset"),
        (["--at", "yesterday"], 4, "'yesterday' is not a time"),
        (["--run-id", "../x"], 1, "cannot be a run id"),
    ],
)
def test_invalid_arguments_are_refused_without_a_run(airports, local, arguments, code, message):
    result = load("--local", *arguments)
    assert result[0] == code
    assert message in result[2]
    assert not LoadRun.objects.exists()


def test_run_id_of_another_run_is_refused(airports, local):
    load("--local", "--run-id", "r", "--all")
    code, _, message = load("--local", "--run-id", "r", "--schema", "raw")
    assert (code, "run r is another one" in message) == (1, True)


def test_first_interrupt_cancels_the_run_and_the_second_stops_waiting(airports, worker, script):
    script.tell(pause=30)
    run = request_load_run().run
    statuses = []

    def interrupt(now, rows):
        statuses.append(now.status)
        if any(row.status == "running" for row in rows) and statuses.count("interrupt") == 0:
            statuses.append("interrupt")
            raise KeyboardInterrupt

    assert waiting.follow(run, interrupt).status == "canceled"
    again = request_load_run().run
    with pytest.raises(KeyboardInterrupt):
        waiting.follow(again, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    request_cancel(run=again)
