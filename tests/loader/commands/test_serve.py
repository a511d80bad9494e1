"""``manage.py serve``: three processes that start and stop together."""

import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.loader.processes import below, lives, manage, start, wait_until
from tests.services.process import free_port

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
# A web server, a worker and a scheduler.
pytestmark = [pytest.mark.spark, pytest.mark.servers]


@pytest.fixture
def installation(tmp_path):
    """Yield process, port and output of an installation started as a background job, where SIGINT is ignored."""
    port = free_port()
    output = tmp_path / "serve.log"
    ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with output.open("w") as file:
            process = start(tmp_path / "data", "serve", "--port", str(port), output=file)
    finally:
        signal.signal(signal.SIGINT, ours)
    try:
        wait_until(lambda: "elevata is at" in output.read_text() or process.poll() is not None, 60)
        yield process, port, output
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def answers(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_interrupt_stops_all_processes_of_serve(installation):
    process, port, output = installation
    folder = Path(output.parent / "data")
    assert f"http://localhost:{port}/" in output.read_text()
    assert str(folder) in output.read_text()
    assert answers(port) < 500
    wait_until(lambda: manage(folder, "worker_health").returncode == 0, 60)
    busy = manage(folder, "serve", "--port", str(free_port()))
    assert (busy.returncode, "is in use by worker" in busy.stderr) == (1, True)
    family = below(process.pid)
    assert len(family) >= 4
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    wait_until(lambda: not any(lives(pid) for pid in family), 15)
    assert manage(folder, "worker_health").returncode == 1


def test_death_of_one_process_stops_the_others_and_is_reported(installation):
    process, _, output = installation
    family = below(process.pid)
    beat = next(pid for pid in family if b"\0beat\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(beat, signal.SIGKILL)
    assert process.wait(60) == 1
    assert "the scheduler ended with code -9, so everything was stopped" in output.read_text()
    wait_until(lambda: not any(lives(pid) for pid in family), 15)


def test_killed_parent_leaves_no_process_running(installation):
    process, _, _ = installation
    family = below(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    wait_until(lambda: not any(lives(pid) for pid in family), 40)


def test_port_in_use_is_reported_in_one_line(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        refused = manage(tmp_path, "serve", "--port", str(port))
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"cannot listen at 127.0.0.1:{port}")
    assert refused.stderr.count("\n") == 1
