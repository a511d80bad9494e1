"""Child process that exchanges JSON lines.

Standard output and standard error of the process are read as log records: a line with a head, and the lines after it
without one.
"""

import contextlib
import json
import logging
import os
import queue
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from elevata.core.words import counted
from loader.contract.protocol import Said, heard

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
# Seconds without a further line after which a record is passed on; else it is passed on when the next one begins.
_QUIET = 0.3
_CHUNK = 65_536
_LONGEST_LINE = 256 * 1024
_MOST_LINES = 1000
_LONGEST_RECORD = 256 * 1024


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


class ChildOutput:
    """Reader of a descriptor, in a thread of its own that calls ``on_said`` for each log record."""

    def __init__(self, descriptor: int, on_said: Callable[[Said], None]):
        self._descriptor, self._on_said = descriptor, on_said
        self._open: Said | None = None
        self._more = self._left_out = 0
        self._thread = threading.Thread(target=self._read, name="runner-output", daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until all output was passed on, for at most the given seconds."""
        self._thread.join(seconds)

    def _read(self) -> None:
        lines = Lines()
        try:
            while True:
                if self._open is not None and not select.select([self._descriptor], [], [], _QUIET)[0]:
                    self._tell()
                chunk = os.read(self._descriptor, _CHUNK)
                for line in lines.of(chunk):
                    self._take(line)
                if not chunk:
                    break
        finally:
            self._tell()
            os.close(self._descriptor)

    def _take(self, line: str) -> None:
        head = heard(line)
        if head is None and self._open is not None and self._more < _MOST_LINES:
            if len(self._open.message) + len(line) > _LONGEST_RECORD:
                self._left_out += 1
            else:
                self._open = self._open.followed_by(line)
            self._more += 1
            return
        self._tell()
        if head is not None or line.strip():
            self._open = head or Said(line)

    def _tell(self) -> None:
        record, left_out, self._open, self._more, self._left_out = self._open, self._left_out, None, 0, 0
        if record is None:
            return
        try:
            self._on_said(record.followed_by(f"[{counted(left_out, 'line')} left out]") if left_out else record)
        except Exception:  # a child blocks if its pipe is not read
            log.exception("output of the runner could not be logged")


class Lines:
    """Splitter of bytes into lines of text. Too long lines are left out, since a cut line could end within a secret."""

    def __init__(self) -> None:
        self._rest, self._left_out = b"", 0

    def of(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines that ``chunk`` completes; an empty chunk ends the last line."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and (self._rest or self._left_out):
            whole, self._rest = [self._rest], b""
        for line in whole:
            yield self._text(line)
        if len(self._rest) > _LONGEST_LINE:
            self._left_out, self._rest = self._left_out + len(self._rest), b""

    def _text(self, line: bytes) -> str:
        length, self._left_out = self._left_out + len(line), 0
        if length > _LONGEST_LINE:
            return f"[a line of {length} bytes is left out]"
        return line.decode("utf-8", "replace").rstrip("\r")
