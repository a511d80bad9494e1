"""Runner supervisor with a scripted runner: death, hanging, parallel requests, one folder."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from architecture.domain.tables import TableSpec
from loader.contract.manifest.loads import LoadManifest, RawLoad
from loader.contract.manifest.sources import DatabaseSpec, SourceSpec
from loader.contract.refusals import Refusal
from loader.runner.folder_lock import FolderLock
from loader.runner.supervisor import READS
from metadata.domain.sources.database_locations import DatabasePlace
from tests.loader.processes import lives, wait_until

OBSERVE = {"tables": []}
READ = {"kind": "sample"}


def finished(exchange, seconds=15.0) -> dict:
    while (event := exchange.next(timeout=seconds)) is not None:
        if event["event"] == "finished":
            return event
    raise AssertionError("the exchange was never finished")


def test_runner_starts_with_the_first_request_and_is_reused(runner):
    assert runner.pid is None
    assert finished(runner.request("observe", OBSERVE))["answer"] == {}
    pid = runner.pid
    assert runner.wait_until_ready(1)["pid"] == pid
    finished(runner.request("observe", OBSERVE))
    assert runner.pid == pid


def test_an_idle_runner_whose_secret_changed_is_started_again(make_runner, settings, tmp_path, monkeypatch, script):
    file = tmp_path / "spark.conf"
    file.write_text("spark.hadoop.fs.s3a.secret.key {{ secret ELEVATA_SPARK_SECRET_S3 }}")
    settings.SPARK_CONF = str(file)
    monkeypatch.setenv("ELEVATA_SPARK_SECRET_S3", "first")
    script.tell(hang_on=["read"])
    runner = make_runner()
    finished(runner.request("observe", OBSERVE))
    first = runner.pid
    waiting = runner.request("read", READ)
    monkeypatch.setenv("ELEVATA_SPARK_SECRET_S3", "second")
    finished(runner.request("observe", OBSERVE))
    assert runner.pid == first
    waiting.cancel()
    finished(waiting)
    assert finished(runner.request("observe", OBSERVE))["status"] == "succeeded"
    assert runner.pid != first
    assert not lives(first)


def test_concurrent_requests_get_their_own_events(runner, script):
    script.tell(answers={"sample": {"rows": [1]}}, hang_on=["execute"])
    slow = runner.request("execute", {"operations": []})
    reads = [runner.request("read", READ) for _ in range(5)]
    assert [finished(read)["answer"] for read in reads] == [{"rows": [1]}] * 5
    assert slow.next(timeout=0.1) is None
    slow.cancel()
    assert finished(slow)["status"] == "canceled"


def test_manifest_larger_than_a_pipe_does_not_block_the_request(runner, script):
    script.tell(answers={"sample": {}})
    large = runner.request("read", READ | {"arguments": {"text": "x" * 2_000_000}})
    assert finished(large)["status"] == "succeeded"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_dead_runner_fails_all_waiting_requests_and_is_restarted(runner, script, number):
    script.tell(hang_on=["read"])
    waiting = [runner.request("read", READ) for _ in range(3)]
    wait_until(lambda: len(script.seen("read")) == 3)
    dead = runner.pid
    os.kill(dead, number)
    for exchange in waiting:
        error = finished(exchange)["error"]
        assert error["code"] == "RUNNER_DIED"
        assert f"signal {int(number)}" in error["message"]
        assert "runner.log" in error["hint"]
    script.tell()
    assert finished(runner.request("observe", OBSERVE))["status"] == "succeeded"
    assert runner.pid != dead


def test_start_failure_of_the_runner_is_returned_to_the_request(runner, script):
    script.tell(fatal={"code": "SPARK_DID_NOT_START", "message": "no Java", "hint": "install it"})
    error = finished(runner.request("observe", OBSERVE))["error"]
    assert (error["code"], error["message"]) == ("SPARK_DID_NOT_START", "no Java")


def test_missing_runner_program_raises_an_error_at_the_start(make_runner):
    runner = make_runner()
    runner._command = ("/does/not/exist",)
    with pytest.raises(OSError, match="exist"):
        runner.request("observe", OBSERVE)


def test_runner_start_beyond_its_timeout_fails(make_runner, script):
    script.tell(mute=True, hang_on=["observe"])
    runner = make_runner(start=0.3)
    assert finished(runner.request("observe", OBSERVE))["error"]["code"] == "SPARK_DID_NOT_START"


def test_a_runner_that_answers_no_ping_is_ended(make_runner, script):
    script.tell(hang_on=["read"], ignore_ping=True)
    runner = make_runner(silence=0.2, ping=0.3)
    assert finished(runner.request("read", READ))["error"]["code"] == "RUNNER_HUNG"


def test_runner_that_answers_pings_is_kept_during_a_long_request(make_runner, script):
    script.tell(hang_on=["read"])
    runner = make_runner(silence=0.1, ping=5.0)
    exchange = runner.request("read", READ)
    wait_until(lambda: len(script.seen("ping")) >= 3)
    exchange.cancel()
    assert finished(exchange)["status"] == "canceled"


def test_idle_reads_runner_ends_and_restarts_with_the_next_read(make_runner, script):
    script.tell(answers={"sample": {}}, hang_on=["check"])
    runner = make_runner("reads", READS, idle=0.2)
    waiting = runner.request("check", {})
    finished(runner.request("read", READ))
    pid = runner.pid
    threading.Event().wait(0.5)
    assert runner.pid == pid, "a request is under way"
    waiting.cancel()
    wait_until(lambda: not lives(pid))
    assert finished(runner.request("read", READ))["status"] == "succeeded"
    assert runner.pid != pid


def test_a_runner_of_reads_needs_no_lock_and_a_runner_of_loads_does_not_end_when_idle(runner, make_runner, script):
    script.tell(answers={"sample": {}})
    loads = make_runner(idle=0.05)
    finished(loads.request("observe", OBSERVE))
    reads = make_runner("reads", READS)
    assert finished(reads.request("read", READ))["status"] == "succeeded"
    threading.Event().wait(0.3)
    assert None not in (loads.pid, reads.pid)
    assert reads.log_file != loads.log_file


def test_close_ends_the_runner_and_releases_the_folder(runner, make_runner, tmp_path):
    finished(runner.request("observe", OBSERVE))
    pid = runner.pid
    runner.close()
    assert not lives(pid)
    finished(make_runner("the next").request("observe", OBSERVE))
    with pytest.raises(Refusal) as refused:
        runner.request("observe", OBSERVE)
    assert refused.value.code == "RUNNER_CLOSED"


def test_second_runner_of_a_folder_is_refused_naming_the_holder(runner, make_runner):
    finished(runner.request("observe", OBSERVE))
    with pytest.raises(Refusal) as refused:
        make_runner("the second").start()
    assert refused.value.code == "warehouse_busy"
    assert f"in use by the test (process {os.getpid()})" in refused.value.message


HOLDER = """
import subprocess, sys
from pathlib import Path
from loader.runner.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
lock.acquire("a worker")
child = subprocess.Popen(["sleep", sys.argv[2]], pass_fds=[lock.descriptor])
print(child.pid, flush=True)
input()
"""


def test_a_killed_workers_runner_holds_the_folder_until_it_ends(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        runner_pid = int(holder.stdout.readline())
        lock = FolderLock(tmp_path)
        with pytest.raises(Refusal, match="a worker"):
            lock.acquire("us")
        holder.kill()
        holder.wait()
        assert lives(runner_pid)
        lock.acquire("us")
        assert not lives(runner_pid)
        lock.release()


SECRETS = (
    "ELEVATA_SECRET_KEY",
    "ELEVATA_TOKEN",
    "ELEVATA_SOURCE_ERP_PASSWORD",
    "ELEVATA_WEBHOOK_SECRET_TEAM",
    "ELEVATA_OIDC_CLIENT_SECRET",
    "ELEVATA_AUDIT_KEY",
    "ELEVATA_EMAIL_URL",
    "DATABASE_URL",
    "CELERY_BROKER_URL",
    "POSTGRES_PASSWORD",
    "GITHUB_TOKEN",
)
NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "JAVA_HOME", "SPARK_LOCAL_DIRS", "HADOOP_CONF_DIR", "PYSPARK_PYTHON")


def test_runner_environment_excludes_the_variables_of_the_product(runner, script, monkeypatch):
    for name in SECRETS:
        monkeypatch.setenv(name, "canary")
    for name in NEEDED:
        monkeypatch.setenv(name, os.environ.get(name, "needed"))
    finished(runner.request("observe", OBSERVE))
    environment = Path(f"/proc/{runner.pid}/environ").read_bytes().decode().split("\0")
    variables = dict(line.split("=", 1) for line in environment if line)
    assert "canary" not in variables.values()
    assert {name for name in variables if name.startswith("ELEVATA_")} == {
        "ELEVATA_EVENTS_FD",
        "ELEVATA_RUNNER_CONFIG",
    }
    assert set(NEEDED) <= set(variables)


def load_of(secret: str) -> LoadManifest:
    database = DatabaseSpec(DatabasePlace("db", 5432, "erp"), secret)
    source = SourceSpec("erp.orders", "shop.orders", "table", (), database=database)
    raw = RawLoad("key", "raw.orders", TableSpec("key", "raw", "orders", "raw", ()), source, ())
    return LoadManifest("r1", "2024-05-01T00:00:00+00:00", 1, (raw,), ())


def test_database_passwords_are_sent_only_with_their_load_and_never_logged(
    runner, script, monkeypatch, caplog, tmp_path
):
    password = tmp_path / "password"
    password.write_text("hunter2\n")
    monkeypatch.setenv("ELEVATA_SOURCE_ERP_FILE", str(password))
    monkeypatch.setenv("ELEVATA_SOURCE_OTHER", "canary")
    with caplog.at_level("DEBUG"):
        finished(runner.request("load", load_of("ELEVATA_SOURCE_ERP")))
        finished(runner.request("load", load_of("ELEVATA_SOURCE_MISSING")))
    first, second = script.seen("load")
    assert first["secrets"] == {"ELEVATA_SOURCE_ERP": "hunter2"}
    assert "secrets" not in second
    assert "ELEVATA_SOURCE_MISSING" in caplog.text
    assert "hunter2" not in caplog.text + json.dumps(first["body"])


OWNER = """
import sys
sys.argv = ["x"]
import django; django.setup()
from pathlib import Path
from loader.runner.supervisor import Runner
runner = Runner(holder="owner", folder=Path({folder!r}), command=[sys.executable, {fake!r}, {script!r}])
runner.request("observe", {{"tables": []}}).next(10)
print(runner.pid, flush=True)
input()
"""


def test_a_runner_does_not_outlive_a_killed_owner(tmp_path, script):
    from tests.fixtures.jobs import FAKE

    code = OWNER.format(folder=str(tmp_path), fake=str(FAKE), script=str(script.path))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        pid = int(owner.stdout.readline())
        assert lives(pid)
        owner.kill()
        owner.wait()
        wait_until(lambda: not lives(pid))
