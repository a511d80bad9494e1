"""Health of the control database, the broker, a worker and the warehouse.

Each is asked in a thread of its own with a time limit, so one that hangs holds nobody up; one that still
hangs is not asked a second time. What was found is kept for a moment: anybody may ask.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from celery import current_app
from django.conf import settings
from django.db import connections
from django.utils import timezone

from elevata.jobs.selectors import live_workers

log = logging.getLogger(__name__)

UP, DOWN = "up", "down"
LIMIT_SECONDS = 3.0
KEPT_SECONDS = 2.0


class NotReady(Exception):
    """Error raised when a component cannot be used; for the log, not for the caller."""


@dataclass(frozen=True)
class Finding:
    """Result for one component: whether it answers, and after how many seconds."""

    name: str
    status: str
    seconds: float
    asked_at: float

    def as_json(self) -> dict[str, Any]:
        return {"status": self.status, "seconds": round(self.seconds, 3)}


# --- what is asked -----------------------------------------------------------------------------


def _database() -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT 1")


def _broker() -> None:
    if settings.CELERY_BROKER_URL.startswith("filesystem://"):
        folder = Path(settings.BROKER_FOLDER) / "messages"
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise NotReady("the broker's folder can't be written to")
        return
    with current_app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=LIMIT_SECONDS)


def _worker() -> None:
    if not live_workers().exists():
        raise NotReady("no worker has a fresh heartbeat")


def _warehouse() -> None:
    """The folder of the tables; a place that only Spark can reach is the runner's to judge."""
    place = settings.WAREHOUSE
    if urlsplit(place).scheme not in ("", "file"):
        if not live_workers().filter(runner_pid__isnull=False).exists():
            raise NotReady("no worker has a runner")
        return
    folder = Path(urlsplit(place).path)
    # The first load makes it.
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        raise NotReady("the warehouse's folder can't be read")


PROBES: dict[str, Callable[[], None]] = {
    "database": _database,
    "broker": _broker,
    "worker": _worker,
    "warehouse": _warehouse,
}


# --- asking ------------------------------------------------------------------------------------

_guard = threading.Lock()
_asking: dict[str, Future[Finding]] = {}
_found: dict[str, Finding] = {}
_process = 0


def findings(names: Collection[str] | None = None, *, limit: float = LIMIT_SECONDS) -> list[Finding]:
    """Return the results of these components (all, if none is named), within ``limit`` seconds in all."""
    deadline = time.monotonic() + limit
    asked = {name: _ask(name) for name in PROBES if names is None or name in names}
    found = []
    for name, asking in asked.items():
        try:
            found.append(asking.result(timeout=max(0.0, deadline - time.monotonic())))
        except TimeoutError:
            log.warning("%s does not answer within %s s", name, limit)
            found.append(Finding(name, DOWN, limit, time.monotonic()))
    return found


def _ask(name: str) -> Future[Finding]:
    """The question that is under way already, the answer that is fresh, or a new question."""
    global _process
    with _guard:
        if _process != os.getpid():
            # A process that was forked has none of its parent's threads.
            _process = os.getpid()
            _asking.clear()
        under_way = _asking.get(name)
        if under_way is not None and not under_way.done():
            return under_way
        fresh = _found.get(name)
        if fresh is not None and time.monotonic() - fresh.asked_at < KEPT_SECONDS:
            kept: Future[Finding] = Future()
            kept.set_result(fresh)
            return kept
        _asking[name] = asking = Future()
        # A daemon: a thing that hangs must not keep the process from ending.
        threading.Thread(target=_answer, args=(name, asking), name=f"readiness-{name}", daemon=True).start()
        return asking


def _answer(name: str, asking: Future[Finding]) -> None:
    started = time.monotonic()
    try:
        PROBES[name]()
        status = UP
    except Exception as problem:  # whatever it is, the thing does not answer
        log.warning("%s is not ready: %s", name, problem)
        status = DOWN
    finally:
        connections.close_all()
    now = time.monotonic()
    _found[name] = Finding(name, status, now - started, now)
    asking.set_result(_found[name])


def forget() -> None:
    """Ask anew the next time, whatever was found a moment ago."""
    with _guard:
        _found.clear()


def as_json(found: Collection[Finding]) -> dict[str, Any]:
    """Return the results for anybody: without host names and reasons."""
    ready = all(one.status == UP for one in found)
    return {
        "status": "ready" if ready else "not_ready",
        "at": timezone.now().isoformat(timespec="seconds"),
        "checks": {one.name: one.as_json() for one in found},
    }
