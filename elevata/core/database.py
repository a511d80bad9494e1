"""Retries during database outages, and a custom lookup."""

import json
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import InterfaceError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Lookup
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 90.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# A longer call has waited for a lock of the database.
_SLOW_SECONDS = 5.0
# Earlier than every heartbeat.
_EARLIEST = datetime.min.replace(tzinfo=UTC)

T = TypeVar("T")

# Time of the last outage that this process noticed, by the monotonic clock.
_outage_at = float("-inf")


def retried(write: Callable[[], T], *, patience: float = PATIENCE_SECONDS) -> T:
    """Return the result of ``write``; repeat it while the database does not answer, for ``patience`` seconds.

    ``write`` must be a transaction that can be repeated.
    """
    deadline = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while True:
        began = time.monotonic()
        try:
            answer = write()
        except (OperationalError, InterfaceError) as error:
            _note_outage()
            if connection.in_atomic_block or time.monotonic() + pause > deadline:
                raise
            log.warning("the control database does not answer (%s); trying again in %.1f s", error, pause)
            connection.close()
        else:
            if time.monotonic() - began > _SLOW_SECONDS:
                _note_outage()
            return answer
        threading.Event().wait(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def silent_before(limit: timedelta) -> datetime:
    """Return the time before which heartbeats are older than ``limit``.

    For the same period after an outage that this process noticed, no heartbeat is too old, because none could be
    written.
    """
    if time.monotonic() - _outage_at < limit.total_seconds():
        return _EARLIEST
    return timezone.now() - limit


def _note_outage() -> None:
    global _outage_at
    _outage_at = time.monotonic()


# Lookup that Django does not have; the app registers it for every field.


class Among(Lookup):
    """Lookup ``key__among=keys``: like ``key__in=list(keys)``, with all values in one parameter.

    A statement with some thousand parameters takes longer to build than to execute, and SQLite and PostgreSQL both
    limit their number.
    """

    lookup_name = "among"

    def get_prep_lookup(self) -> list[Any]:
        """Return the values as a list without duplicates, because a statement may be prepared more than once."""
        return list(dict.fromkeys(self.rhs))

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """Return SQLite's SQL: a JSON array of the values as stored."""
        column, parameters = self.process_lhs(compiler, connection)
        field = self.lhs.output_field
        values = json.dumps([field.get_db_prep_value(value, connection) for value in self._values()])
        return f"{column} IN (SELECT value FROM json_each(%s))", (*parameters, values)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """Return PostgreSQL's SQL: an array of texts cast to the column's type."""
        column, parameters = self.process_lhs(compiler, connection)
        kind = self.lhs.output_field.db_type(connection)
        return f"{column} = ANY(%s::{kind}[])", (*parameters, [str(value) for value in self._values()])

    def _values(self) -> list[Any]:
        if not self.rhs:
            raise EmptyResultSet
        return self.rhs
