"""Log of a runner: the output of its process and its JVM, as log lines of the product.

The lines have the format of the settings (plain, or one JSON object each), name the run they are about, and hold
no secret. They are written to a file in the data folder; where logs are JSON, which programs collect, the
worker logs them, too.
"""

import logging
import threading
import time
from collections.abc import Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from elevata.core.log_context import about
from loader.domain.runs.log_lines import Said

_LONGEST_FILE = 20_000_000
# Seconds that a finished request still counts: its own lines, and Spark's, may be read after its last event.
_KNOWN_FOR, _ALONE_FOR = 60.0, 2.0
_WORKERS_OWN = logging.getLogger("loader.spark")


class RunnerLog:
    """Log file, and the one before it when it has grown too long. Written by one thread at a time."""

    def __init__(self, file: Path):
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = RotatingFileHandler(file, maxBytes=_LONGEST_FILE, backupCount=1, encoding="utf-8", delay=True)
        self._file.setFormatter(import_string(settings.LOGGING["formatters"]["lines"]["()"])())
        self._is_collected = settings.LOG_FORMAT == "json"

    def write(self, said: Said, fields: Mapping[str, Any]) -> None:
        """Write a line for a record, with the fields of its subject."""
        record = _record(said)
        with about(**fields):
            self._file.handle(record)
            if self._is_collected and _WORKERS_OWN.isEnabledFor(record.levelno):
                _WORKERS_OWN.handle(record)

    def close(self) -> None:
        self._file.close()


class Subjects:
    """Log fields of a runner's lines, by the requests under way. May be used from any thread.

    The runner's own threads are named by their request (``load-3``, ``load-3/dataset_0``). Spark's are not, so
    its lines get the fields of the request that was alone under way, and none where several were.
    """

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, Any]] = {}
        self._ended: dict[str, float] = {}
        self._guard = threading.Lock()

    def begin(self, request: str, fields: Mapping[str, Any]) -> None:
        """Register a request that was sent, with its fields."""
        now = time.monotonic()
        with self._guard:
            for old in [one for one, at in self._ended.items() if now - at > _KNOWN_FOR]:
                del self._ended[old], self._fields[old]
            self._fields[request] = {**fields, "runner_request": request}

    def end(self, request: str) -> None:
        """Mark a request as finished."""
        with self._guard:
            if request in self._fields:
                self._ended[request] = time.monotonic()

    def of(self, said: Said) -> dict[str, Any]:
        """Return the fields of a line."""
        now = time.monotonic()
        with self._guard:
            named = self._fields.get(said.thread.partition("/")[0])
            lately = [one for one in self._fields if now - self._ended.get(one, now) <= _ALONE_FOR]
            return named or (self._fields[lately[0]] if len(lately) == 1 else {})


def _record(said: Said) -> logging.LogRecord:
    record = logging.LogRecord(said.logger, said.level, "", 0, said.message, None, None)
    record.threadName = said.thread or None
    # The formatter writes it like the traceback of an exception of our own.
    record.exc_text = said.trace or None
    if said.at is not None:
        record.created, record.msecs = said.at, (said.at % 1) * 1000
    return record
