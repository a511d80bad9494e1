"""Child process that exchanges JSON lines.

Standard output and standard error of the process are read as log records.
"""

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loader.contract.protocol import Said
from loader.runner.process_output import ChildOutput

log = logging.getLogger(__name__)


EVENTS_FD = "ELEVATA_EVENTS_FD"
# Environment variables that a child inherits: those of Python, Java, Spark and Hadoop, and the credentials of object
# stores. No variable of the product is inherited; the owner of the child adds those it needs.
_VARIABLES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "LD_LIBRARY_PATH"),
        *("MALLOC_ARENA_MAX", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "KRB5_CONFIG", "KRB5CCNAME"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    )
)
_PREFIXES = ("LC_", "PYTHON", "PYSPARK_", "SPARK_", "HADOOP_", "YARN_", "AWS_", "AZURE_")
_ENDS_WITHIN = 5.0


def inherited_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``environment`` that a child may have."""
    return {name: value for name, value in environment.items() if name in _VARIABLES or name.startswith(_PREFIXES)}


class Child:
    """Child process from start to end.

    ``on_event`` and ``on_end`` are called from the thread that reads events, ``on_said`` from the thread that reads
    output.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        inherited: Sequence[int],
        on_event: Callable[[dict], None],
        on_said: Callable[[Said], None],
        on_end: Callable[["Child", int], None],
    ):
        self._on_event, self._on_end = on_event, on_end
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        events, write_end = os.pipe()
        printed, output = os.pipe()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(write_end, *inherited),
                env={**inherited_variables(os.environ), **environment, EVENTS_FD: str(write_end)},
                umask=0o077,
                cwd=folder,
                # Ctrl-C in a terminal must reach only the worker, which then ends the child.
                start_new_session=True,
            )
        except BaseException:
            os.close(events)
            os.close(printed)
            raise
        finally:
            os.close(write_end)
            os.close(output)
        self._output = ChildOutput(printed, on_said)
        self.started = time.monotonic()
        threading.Thread(target=self._write, name="runner-requests", daemon=True).start()
        self._reader = threading.Thread(target=self._read, args=(events,), name="runner-events", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Mapping) -> None:
        """Queue a message; a full pipe does not block the caller."""
        self._lines.put(json.dumps(message))

    def kill(self) -> None:
        """End the child and its children at once."""
        self._signal_group(signal.SIGKILL)

    def close(self) -> None:
        """Close the child's input, which ends it; send signals if it does not end."""
        self._lines.put(None)
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            if self._ended():
                break
            self._signal_group(signal_number)
        self._reader.join(_ENDS_WITHIN)

    def _ended(self) -> bool:
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None  # it was started with a pipe
        # The reader reports the end of the child, so a broken pipe needs no report here.
        with contextlib.suppress(BrokenPipeError, ValueError), pipe:
            while (line := self._lines.get()) is not None:
                pipe.write(line.encode() + b"\n")
                pipe.flush()

    def _read(self, events: int) -> None:
        with os.fdopen(events, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    log.error("the runner sent a line that is no event: %.200s", line)
                    continue
                try:
                    self._on_event(event)
                except Exception:  # one bad event must not stop those that follow
                    log.exception("an event of the runner could not be handled: %.200s", line)
        code = self._reap()
        self._lines.put(None)
        self._on_end(self, code)

    def _reap(self) -> int:
        """Wait for the process and its group, since a JVM may outlive its Python process; return the exit code."""
        if not self._ended():
            self.kill()
        code = self._process.wait()
        deadline = time.monotonic() + _ENDS_WITHIN
        pause = threading.Event()
        while self._group_lives() and time.monotonic() < deadline:
            pause.wait(0.05)
        self._signal_group(signal.SIGKILL)
        # The last output often has the reason, so it is logged before the end is reported.
        self._output.join(_ENDS_WITHIN)
        return code

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
