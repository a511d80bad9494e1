"""Death of a real runner's Java process: every waiting request fails at once, with that reason."""

import os
import signal
import time
from pathlib import Path

import pytest

from loader.contract.manifest.executions import ObserveManifest
from loader.engine.runner import _start_refusal
from loader.engine.session import RunnerConfig
from loader.runner.supervisor import Runner

SECONDS = 10


def java_of(pid: int) -> int:
    """Return the process id of the Java process among the children of a process."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split(" ")[:-1]):
            if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                return child
    raise AssertionError("there is no Java process")


@pytest.mark.spark
@pytest.mark.takes(seconds=30)
def test_a_killed_java_process_is_noticed_at_once(tmp_path: Path):
    runner = Runner(holder="a test", folder=tmp_path)
    try:
        runner.start()
        runner.wait_until_ready(120)
        exchange = runner.request("ping", ObserveManifest(()))
        assert exchange.next(SECONDS)["status"] == "succeeded"
        process = runner.pid
        killed = time.monotonic()
        os.kill(java_of(process), signal.SIGKILL)
        exchange = runner.request("ping", ObserveManifest(()))
        event = exchange.next(SECONDS)
        if event["status"] == "succeeded":  # by a new runner
            assert runner.pid != process
        else:
            assert event["error"]["code"] == "SPARK_GONE"
            assert "SIGKILL" in event["error"]["message"]
        assert time.monotonic() - killed < SECONDS
    finally:
        runner.close()


def test_java_killed_at_its_start_is_not_reported_as_missing(tmp_path: Path, monkeypatch):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\" 2023-10-17' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    failure = RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    refusal = _start_refusal(failure, RunnerConfig(warehouse=str(tmp_path)))
    assert (refusal.code, "must be on the PATH" in refusal.hint) == ("SPARK_DID_NOT_START", False)
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    assert "Java 17 or newer must be on the PATH" in _start_refusal(failure, RunnerConfig(warehouse="w")).hint
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert "Java 17 or newer must be on the PATH" in _start_refusal(failure, RunnerConfig(warehouse="w")).hint
