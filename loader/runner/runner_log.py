"""Log of a runner: the output of its process and its JVM, as log lines of the product.

The lines have the format of the settings (plain, or one JSON object each), name their run, and contain no secret and no
message of Spark that quotes values of rows. They are written to a file in the data folder. If the format is JSON, the
worker logs them, too, for log collectors.
"""

import logging
import sys
import threading
import time
from collections.abc import Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from elevata.core.log_context import about
from loader.contract.protocol import Said
from loader.domain.spark_messages import without_quoted_values

_LONGEST_FILE = 20_000_000
# Seconds for which a finished request is still known, since its lines, and Spark's, may be read after its last event.
_KNOWN_FOR, _ALONE_FOR = 60.0, 2.0
_WORKERS_OWN = logging.getLogger("loader.engine")


log = logging.getLogger(__name__)


class LogFile(RotatingFileHandler):
    """Log file that warns once if it cannot be written, as on a full disk, instead of a traceback for each line."""

    _has_failed = _was_failing = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self._was_failing, self._has_failed = self._has_failed, False
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is that of logging
        """Warn of an error that the record before did not have."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._has_failed = True
        if not self._was_failing:
            log.warning("the runner's log %s cannot be written: %s", self.baseFilename, error)


class RunnerLog:
    """Log file, rotated by size with one backup. Only one thread may write at a time."""

    def __init__(self, file: Path):
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = LogFile(file, maxBytes=_LONGEST_FILE, backupCount=1, encoding="utf-8", delay=True)
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
