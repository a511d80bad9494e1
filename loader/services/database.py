"""Writing while the database hiccups: a long run must not die of a short outage."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 90.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

T = TypeVar("T")


def retried(write: Callable[[], T], *, patience: float = PATIENCE_SECONDS) -> T:
    """Do ``write``, again and again while the database is away, for ``patience`` seconds.

    ``write`` must be a whole transaction of its own that may be repeated.
    """
    deadline = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError) as error:
            if connection.in_atomic_block or time.monotonic() + pause > deadline:
                raise
            log.warning("the control database does not answer (%s); trying again in %.1f s", error, pause)
            connection.close()
        threading.Event().wait(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
