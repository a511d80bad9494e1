"""Patience with a control database that is away for a while."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 90.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# A call that takes longer has waited for a lock of the database.
_SLOW_SECONDS = 5.0
# Later than every heartbeat: nothing is older.
_NEVER = datetime.min.replace(tzinfo=UTC)

T = TypeVar("T")

# When this process last noticed an outage, by its monotonic clock.
_outage_at = float("-inf")


def retried(write: Callable[[], T], *, patience: float = PATIENCE_SECONDS) -> T:
    """Call ``write``, again and again while the database is away, for ``patience`` seconds.

    ``write`` must be a whole transaction of its own that may be repeated.
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
    """Return the time before which a heartbeat is older than ``limit``.

    For as long after an outage that this process noticed, no heartbeat is too old: none could be written.
    """
    if time.monotonic() - _outage_at < limit.total_seconds():
        return _NEVER
    return timezone.now() - limit


def _note_outage() -> None:
    global _outage_at
    _outage_at = time.monotonic()
