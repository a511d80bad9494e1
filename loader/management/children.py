"""Child processes of one command."""

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from elevata.jobs.registry import LANES

_PR_SET_PDEATHSIG = 1
_ENDS_WITHIN = 20.0

# Operators of containers often run processes as root on purpose.
_NO_ROOT_WARNING = ("-W", "ignore:You're running the worker with superuser privileges")
CELERY = (sys.executable, *_NO_ROOT_WARNING, "-m", "celery", "-A", "elevata.celery", "--quiet")


def worker_command(*, log_level: str = "WARNING") -> list[str]:
    """Return the command of a worker, with threads, because they share its runners: one for each slot of its lanes."""
    threads = sum(slots.total for slots in LANES.values())
    return [
        *CELERY,
        "worker",
        *("--pool", "threads", "--concurrency", str(threads), "--loglevel", log_level),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        # Two workers on one machine need different names.
        *("--hostname", f"elevata-{os.getpid()}@%h"),
    ]


def beat_command(*, schedule: str, log_level: str = "WARNING") -> list[str]:
    """Return the command of the scheduler."""
    return [*CELERY, "beat", "--schedule", schedule, "--pidfile", "", "--loglevel", log_level]


class Family:
    """Child processes that end together; their output is relayed line by line."""

    def __init__(self, say: Callable[[str, str], None]):
        """Set the function ``say(name, line)``, which threads call with one line at a time."""
        self._say = say
        self._guard = threading.Lock()
        self._children: dict[str, subprocess.Popen] = {}
        self._ended: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._relays: list[threading.Thread] = []

    def start(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None, folder=None
    ) -> None:
        """Start a child. The kernel ends it if this process is killed."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"},
            cwd=folder,
            # Only the parent gets Ctrl-C, and ends the children in order.
            start_new_session=True,
            preexec_fn=_die_with_parent(),
            text=True,
            errors="replace",
        )
        self._children[name] = process
        relay = threading.Thread(target=self._relay, args=(name, process.stdout), name=f"output of {name}")
        relay.daemon = True
        relay.start()
        threading.Thread(target=self._notice_end, args=(name, process), daemon=True).start()
        self._relays.append(relay)

    def pid(self, name: str) -> int:
        return self._children[name].pid

    def ended(self, timeout: float | None = None) -> tuple[str, int] | None:
        """Wait for the next child to end; return its name and exit code, or None at the time limit."""
        try:
            return self._ended.get(timeout=timeout)
        except queue.Empty:
            return None

    def stop(self) -> None:
        """Send SIGTERM to all children, and kill the ones that do not end."""
        for process in self._children.values():
            self._signal(process, signal.SIGTERM)
        for process in self._children.values():
            try:
                process.wait(_ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for relay in self._relays:
            relay.join(2)

    @staticmethod
    def _signal(process: subprocess.Popen, number: signal.Signals) -> None:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def _relay(self, name: str, output: TextIO) -> None:
        with output:
            for line in output:
                with self._guard:
                    self._say(name, line.rstrip("\n"))

    def _notice_end(self, name: str, process: subprocess.Popen) -> None:
        self._ended.put((name, process.wait()))


def _die_with_parent() -> Callable[[], None] | None:
    """Return a function for ``preexec_fn`` by which Linux ends the child when its parent is killed.

    A killed parent cannot end its children itself. Return None on other systems.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:
            os._exit(1)

    return before_exec
