"""Log lines of a runner: their format, and a parser that also reads Spark's own lines.

The runner's own log records are one JSON object a line. The JVM below it prints Spark's log4j lines
(``26/01/31 12:00:00 ERROR TaskSetManager: …``), and both print lines that have no head at all: traces,
warnings of Java itself, output of libraries.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, replace

MARK = "elevata_log"
_JAVA = re.compile(
    r"(?:\d{2,4}[/-]\d\d[/-]\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ([^\s:]{1,200}): ?(.*)"
)
_LEVELS = {"TRACE": logging.DEBUG, "WARN": logging.WARNING, "FATAL": logging.CRITICAL}
_OF_SPARK = "spark"


@dataclass(frozen=True)
class Said:
    """A log record of a child process: message, level (as ``logging`` counts), logger name and thread.

    ``at`` is in seconds since 1970; None means the time of reading. ``trace`` is a traceback, or empty.
    """

    message: str
    level: int = logging.INFO
    logger: str = _OF_SPARK
    thread: str = ""
    at: float | None = None
    trace: str = ""

    def followed_by(self, line: str) -> Said:
        """Return the record with a line that belongs to it appended."""
        return replace(self, message=f"{self.message}\n{line}")


class MarkedLines(logging.Formatter):
    """Formatter of log records as the JSON lines that ``heard`` parses."""

    def format(self, record: logging.LogRecord) -> str:
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        told = {
            "level": record.levelno,
            "logger": record.name,
            "thread": record.threadName or "",
            "at": record.created,
            "message": record.getMessage(),
            "trace": trace,
        }
        return json.dumps({MARK: told})


def heard(line: str) -> Said | None:
    """Return the record that begins with this line; None for a line without a head, which may continue the last one."""
    return _marked(line) or _java(line)


def _marked(line: str) -> Said | None:
    if not line.startswith('{"' + MARK):
        return None
    try:
        told = json.loads(line)[MARK]
        return Said(
            message=str(told["message"]),
            level=int(told["level"]),
            logger=str(told["logger"]),
            thread=str(told["thread"]),
            at=float(told["at"]),
            trace=str(told["trace"]),
        )
    except (ValueError, KeyError, TypeError):
        return None  # a line that was cut off, or written by another program


def _java(line: str) -> Said | None:
    found = _JAVA.match(line)
    if found is None:
        return None
    level, logger, message = found.groups()
    return Said(message, _LEVELS.get(level) or getattr(logging, level), f"{_OF_SPARK}.{logger}")
