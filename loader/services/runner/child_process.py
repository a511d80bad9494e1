"""Child process that exchanges JSON lines: threads, output reader, runner log.

Standard output and standard error of the process are read as log records.
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
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from elevata.core.processes import about
from elevata.core.words import counted
from loader.domain.protocol import Said, heard
from loader.domain.spark_messages import without_quoted_values

# Reader of a child process's output: a log record is a line with a head, and the lines after it without one.


log = logging.getLogger(__name__)

# Seconds without a further line after which a record is passed on; else it is passed on when the next one begins.
_QUIET = 0.3
_CHUNK = 65_536
_LONGEST_LINE = 256 * 1024
_MOST_LINES = 1000
_LONGEST_RECORD = 256 * 1024


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


# Log of a runner: the output of its process and its JVM, as log lines of the product. The lines have the format of
# the settings (plain, or one JSON object each), name their run, and contain no secret and no message of Spark that
# quotes values of rows. They are written to a file in the data folder. If the format is JSON, the worker logs them,
# too, for log collectors.


_LONGEST_FILE = 20_000_000
# Seconds for which a finished request is still known, since its lines, and Spark's, may be read after its last event.
_KNOWN_FOR, _ALONE_FOR = 60.0, 2.0
_WORKERS_OWN = logging.getLogger("loader.spark")


class RunnerLog:
    """Log file, rotated by size with one backup. Only one thread may write at a time."""

    def __init__(self, file: Path):
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = RotatingFileHandler(file, maxBytes=_LONGEST_FILE, backupCount=1, encoding="utf-8", delay=True)
        self._file.setFormatter(import_string(settings.LOGGING["formatters"]["lines"]["()"])())
        self._is_collected = settings.LOG_FORMAT == "json"

    def write(self, line: Said, fields: Mapping[str, Any]) -> None:
        """Write a log record with the fields of its request."""
        record = _record(line)
        with about(**fields):
            self._file.handle(record)
            if self._is_collected and _WORKERS_OWN.isEnabledFor(record.levelno):
                _WORKERS_OWN.handle(record)

    def close(self) -> None:
        self._file.close()


class Subjects:
    """Log fields of a runner's lines, by active request. Safe to use from any thread.

    The runner's own threads are named by their request (``load-3``, ``load-3/dataset_0``). Spark's are not: their
    lines get the fields of the only active request, and none if several are active.
    """

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, Any]] = {}
        self._ended: dict[str, float] = {}
        self._guard = threading.Lock()

    def begin(self, request: str, fields: Mapping[str, Any]) -> None:
        """Register a request that was sent, with its fields."""
        now = time.monotonic()
        with self._guard:
            for old in [ended for ended, at in self._ended.items() if now - at > _KNOWN_FOR]:
                del self._ended[old], self._fields[old]
            self._fields[request] = {**fields, "runner_request": request}

    def end(self, request: str) -> None:
        """Mark a request as finished."""
        with self._guard:
            if request in self._fields:
                self._ended[request] = time.monotonic()

    def of(self, line: Said) -> dict[str, Any]:
        """Return the fields of a line."""
        now = time.monotonic()
        with self._guard:
            named = self._fields.get(line.thread.partition("/")[0])
            active = [field for field in self._fields if now - self._ended.get(field, now) <= _ALONE_FOR]
            return named or (self._fields[active[0]] if len(active) == 1 else {})


def _record(line: Said) -> logging.LogRecord:
    message, trace = without_quoted_values(line.message), without_quoted_values(line.trace)
    record = logging.LogRecord(line.logger, line.level, "", 0, message, None, None)
    record.threadName = line.thread or None
    # The formatter writes ``exc_text`` as it writes the traceback of a Python exception.
    record.exc_text = trace or None
    if line.at is not None:
        record.created, record.msecs = line.at, (line.at % 1) * 1000
    return record
