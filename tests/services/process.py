"""Server processes of a test session, which end with it."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_ATTEMPTS = 3
_STARTS_WITHIN = 30.0


class ServerProblem(Exception):
    """Failure to start a server, with the server's output as the message."""


class Server:
    """Server process on a free loopback port."""

    def __init__(
        self,
        name: str,
        command: Callable[[int], list[str]],
        is_ready: Callable[[int], bool],
        *,
        log: Path,
        stop_signal: signal.Signals,
        user: str | None = None,
    ):
        self.name = name
        self.log = log
        self._command, self._is_ready = command, is_ready
        self._stop_signal = stop_signal
        self._user = user
        self.port, self._process = self._start()

    def _start(self) -> tuple[int, subprocess.Popen]:
        """Start on a free port; try again if another process takes the port first."""
        for _ in range(_ATTEMPTS):
            port = free_port()
            process = self._start_on(port)
            if process is not None:
                return port, process
        raise ServerProblem(f"{self.name} did not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def _start_on(self, port: int) -> subprocess.Popen | None:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self._command(port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent(self._stop_signal),
                **as_user(self._user),
            )
        deadline = time.monotonic() + _STARTS_WITHIN
        while process.poll() is None and time.monotonic() < deadline:
            if self._is_ready(port):
                return process
            time.sleep(0.05)
        process.kill()
        process.wait()
        return None

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        """Start the server again with its port and data."""
        deadline = time.monotonic() + _STARTS_WITHIN
        while (process := self._start_on(self.port)) is None:  # the killed process may still block the port
            if time.monotonic() > deadline:
                raise ServerProblem(f"{self.name} did not start again:\n{self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
        self._process = process

    def stop(self) -> None:
        """Terminate the server; kill it if it does not end in time."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def as_user(user: str | None) -> dict:
    """Return arguments for subprocess to run as another user of the machine."""
    return {"user": user, "group": user, "extra_groups": []} if user else {}


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _die_with_parent(signal_number: signal.Signals) -> Callable[[], None]:
    """Return a function that lets the kernel signal the server when pytest dies without cleaning up."""
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal_number))
        if os.getppid() != parent:
            os._exit(1)

    return before_exec
