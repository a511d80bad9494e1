"""Retries during database outages, and heartbeats that are too old."""

import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection
from django.db.migrations.operations.base import Operation
from django.db.models import Q, QuerySet
from django.utils import timezone

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 90.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# A longer call has waited for a lock of the database.
_SLOW_SECONDS = 5.0
# Earlier than every heartbeat.
_EARLIEST = datetime.min.replace(tzinfo=UTC)
# Later than every heartbeat.
_LATEST = datetime.max.replace(tzinfo=UTC)

T = TypeVar("T")

# Time of the last outage that this process noticed, by the monotonic clock.
_outage_at = float("-inf")
# Seconds by which the clock is ahead of the monotonic one. It changes if the clock is set, or the machine slept.
_ahead: float | None = None
_CLOCK_MOVED_SECONDS = 5.0
# Time of the database server, and the time by the monotonic clock at which it was read.
_server_time: tuple[datetime, float] | None = None
_SERVER_TIME_KEPT_SECONDS = 10.0
# Heartbeats in the future by row, each with the time by the monotonic clock when it was first seen.
_seen_ahead: dict[tuple[str, int], tuple[datetime, float]] = {}
_MOST_AHEAD = 10_000


# Messages of PostgreSQL and SQLite. SQLite reports a full disk in some places as an error of the disk.
_FULL = re.compile(r"disk is full|No space left on device|disk quota", re.IGNORECASE)
_MAYBE_FULL = "disk I/O error"
_LEAST_BYTES = 1 << 20


def is_disk_full(error: BaseException) -> bool:
    """Return True if an error of the control database is due to a full disk."""
    message = str(error)
    if _FULL.search(message):
        return True
    name = str(connection.settings_dict["NAME"])
    if _MAYBE_FULL not in message or connection.vendor != "sqlite" or not os.path.isfile(name):
        return False
    return shutil.disk_usage(os.path.dirname(name)).free < _LEAST_BYTES


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


def shared_now() -> datetime:
    """Return the time by the clock that all processes share: that of the database server.

    Heartbeats are written and compared by it, because clocks of several machines differ. All processes that use a
    SQLite database are on one machine, and so have one clock.
    """
    global _server_time
    if connection.vendor == "sqlite":
        return timezone.now()
    known = _server_time
    if known is None or time.monotonic() - known[1] > _SERVER_TIME_KEPT_SECONDS:
        known, before = _read_server_time(), known
        if before is not None and abs(_elapsed(known) - _elapsed(before)) > timedelta(seconds=_CLOCK_MOVED_SECONDS):
            log.warning("the database server's clock moved; no work counts as lost for a while")
            _note_outage()
        _server_time = known
    return _elapsed(known)


def _read_server_time() -> tuple[datetime, float]:
    # Read every few seconds at most, and so left out of the queries that Django counts for a page.
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        read_at = time.monotonic()
        return cursor.execute("SELECT clock_timestamp()").fetchone()[0], read_at


def _elapsed(known: tuple[datetime, float]) -> datetime:
    """Return the server's time now, from the time that was read from it."""
    return known[0] + timedelta(seconds=time.monotonic() - known[1])


def silent_before(limit: timedelta) -> datetime:
    """Return the time before which heartbeats are older than ``limit``.

    For the same period after an outage that this process noticed, no heartbeat is too old, because none could be
    written. A clock that was set counts as an outage, as does a machine that slept.
    """
    return _EARLIEST if _was_out(limit) else shared_now() - limit


def ahead_of(limit: timedelta) -> datetime:
    """Return the time after which heartbeats are in the future by more than ``limit``.

    Such heartbeats were written before the clock was set back (``is_silent``).
    """
    return _LATEST if _was_out(limit) else shared_now() + limit


def is_silent(row: Any, limit: timedelta) -> bool:
    """Return True if the heartbeat (``heartbeat_at``) of a row is older than ``limit``, or stays in the future.

    A heartbeat that is in the future by more than ``limit`` may stay the same for ``limit`` after this process first
    saw it: a process that lives has written another one since, though its clock is ahead.
    """
    heartbeat: datetime = row.heartbeat_at
    if heartbeat <= ahead_of(limit):
        return heartbeat < silent_before(limit)
    now = time.monotonic()
    if len(_seen_ahead) > _MOST_AHEAD:
        _seen_ahead.clear()
    key = (row._meta.label, row.pk)
    seen, since = _seen_ahead.setdefault(key, (heartbeat, now))
    if seen != heartbeat:
        _seen_ahead[key] = heartbeat, now
        return False
    return now - since > limit.total_seconds()


def silent(rows: QuerySet[Any], limit: timedelta) -> Q:
    """Return the condition of the rows that are silent (``is_silent``)."""
    condition = Q(heartbeat_at__lt=silent_before(limit))
    for row in rows.filter(heartbeat_at__gt=ahead_of(limit)):
        if is_silent(row, limit):
            condition |= Q(pk=row.pk, heartbeat_at=row.heartbeat_at)
    return condition


def _was_out(limit: timedelta) -> bool:
    global _ahead
    ahead = time.time() - time.monotonic()
    if _ahead is not None and abs(ahead - _ahead) > _CLOCK_MOVED_SECONDS:
        log.warning("the clock moved by %.0f s; no work counts as lost for %s", ahead - _ahead, limit)
        _note_outage()
    _ahead = ahead
    return time.monotonic() - _outage_at < limit.total_seconds()


def _note_outage() -> None:
    global _outage_at
    _outage_at = time.monotonic()


# Released migrations import it from here.
class TrigramIndexes(Operation):
    """Migration that creates the indexes of searches for parts of texts, on PostgreSQL.

    Each index fits the SQL of ``icontains``. Other databases search without them.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, model: str, fields: tuple[str, ...]) -> None:
        self.model, self.fields = model, fields

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Leave the state of models as it is."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return
        schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        table = to_state.apps.get_model(app_label, self.model)._meta.db_table
        for field in self.fields:
            schema_editor.execute(
                f"CREATE INDEX {self._name(table, field)} ON {table} USING gin (UPPER({field}::text) gin_trgm_ops)"
                " WITH (fastupdate = off)"
            )

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return
        table = from_state.apps.get_model(app_label, self.model)._meta.db_table
        for field in self.fields:
            schema_editor.execute(f"DROP INDEX IF EXISTS {self._name(table, field)}")

    def describe(self) -> str:
        return f"Create trigram indexes of {self.model} on {', '.join(self.fields)}"

    @staticmethod
    def _name(table: str, field: str) -> str:
        return f"{table}_{field}_trigrams"
