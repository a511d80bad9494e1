"""Protocol between worker and runner: JSON messages and log lines.

Requests go to the runner's standard input:
    {"id": …, "kind": "ping" | "observe" | "sizes" | "dry-run" | "execute" | "load" | "revert" | "prune" | "accept"
                  | "compact" | "vacuum" | "quarantine_decision" | "copy" | "read" | "check" | "replay"
                  | "model_tests",
     "body": manifest}
    {"id": …, "kind": "cancel"}          cancels the request of that id
    {"id": …, "kind": "ping"}            answered at once with ``finished``, even during other requests
The runner ends when the pipe is closed, and so with its worker.

Events are written to a descriptor of their own, since libraries print to standard output. Each has the ``id``
of its request (none for ``ready`` and ``fatal``) and an ``event``:

    ready               pid, spark_version, seconds, commits (name and reason of the commits' path):
                        the session is ready for requests
    fatal               error: the runner cannot continue
    log                 level, message, dataset (optional)
    dataset_started     dataset
    dataset_phase       dataset, phase
    dataset_checked     dataset, results: those of its quality checks (loader.contract.check_outcomes)
    dataset_finished    dataset, status, counts, drift, warnings, error, skipped_because, window,
                        faults: refusal that names the quarantined rows of a delivery,
                        unchanged_since: run whose rows a model kept, as no input changed,
                        version_before, version_after, seconds,
                        schema: columns of the delivery (loader.engine.sources.schemas), also of a refused one,
                        crowded: names of tables with too many small files
    step_started        ordinal, statement, version_before
    step_finished       ordinal, status, observed, version_after, error, seconds, rows (of a step that rewrites)
    case_finished       outcome (loader.domain.reference.cases.Outcome as JSON; of model_tests
                        loader.domain.model_tests.ModelTestOutcome)
    finished            status: succeeded | failed | canceled; answer (observe, sizes, dry-run, revert, prune,
                        compact, read, check), error, unreadable (observe: refusals by table),
                        commits (load and maintenance runs: as in ready)

Every request gets exactly one ``finished``. A ``dataset`` is a stable key. ``error`` is a refusal
as JSON (``loader.contract.refusals``).
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, replace

# Log lines of a runner: their format, and a parser that also reads Spark's lines. The runner's own log records are one
# JSON object a line. The JVM prints log4j lines of Spark (``26/01/31 12:00:00 ERROR TaskSetManager: …``). Both print
# lines without a head, too: traces, warnings of Java, output of libraries.


MARK = "elevata_log"
_JAVA = re.compile(
    r"(?:\d{2,4}[/-]\d\d[/-]\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ([^\s:]{1,200}): ?(.*)"
)
_LEVELS = {"TRACE": logging.DEBUG, "WARN": logging.WARNING, "FATAL": logging.CRITICAL}
_SPARK_LOGGER = "spark"


@dataclass(frozen=True)
class Said:
    """Log record of a child process: message, level (as in ``logging``), logger name and thread.

    ``at`` is in seconds since 1970; None means the time of reading. ``trace`` is a traceback, or empty.
    """

    message: str
    level: int = logging.INFO
    logger: str = _SPARK_LOGGER
    thread: str = ""
    at: float | None = None
    trace: str = ""

    def followed_by(self, line: str) -> Said:
        """Return the record with a further line appended."""
        return replace(self, message=f"{self.message}\n{line}")


class MarkedLines(logging.Formatter):
    """Formatter of log records as the JSON lines that ``heard`` parses."""

    def format(self, record: logging.LogRecord) -> str:
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        fields = {
            "level": record.levelno,
            "logger": record.name,
            "thread": record.threadName or "",
            "at": record.created,
            "message": record.getMessage(),
            "trace": trace,
        }
        return json.dumps({MARK: fields})


def heard(line: str) -> Said | None:
    """Return the record that begins with this line; None for a line without a head, which continues a record."""
    return _own_record(line) or _java_record(line)


def _own_record(line: str) -> Said | None:
    if not line.startswith('{"' + MARK):
        return None
    try:
        record = json.loads(line)[MARK]
        return Said(
            message=str(record["message"]),
            level=int(record["level"]),
            logger=str(record["logger"]),
            thread=str(record["thread"]),
            at=float(record["at"]),
            trace=str(record["trace"]),
        )
    except (ValueError, KeyError, TypeError):
        return None  # a truncated line, or one of another program


def _java_record(line: str) -> Said | None:
    match = _JAVA.match(line)
    if match is None:
        return None
    level, logger, message = match.groups()
    return Said(message, _LEVELS.get(level) or getattr(logging, level), f"{_SPARK_LOGGER}.{logger}")
