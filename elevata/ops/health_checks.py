"""Health of the control database, the broker, the workers and the warehouse.

Each check runs in its own thread with a time limit, so that a check that hangs does not block the others; it is not
started again while it runs. Results are cached for ``KEPT_SECONDS``, because the page is public.
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

from elevata.jobs.registry import live_workers

log = logging.getLogger(__name__)
UP, DOWN = "up", "down"
LIMIT_SECONDS = 3.0
KEPT_SECONDS = 2.0


class NotReady(Exception):
    """Error of a component that cannot be used; its message is logged and not returned."""


@dataclass(frozen=True)
class CheckResult:
    """Result of the check of one component: its status, and the seconds that the check took."""

    name: str
    status: str
    seconds: float
    finished_at: float

    def as_json(self) -> dict[str, Any]:
        return {"status": self.status, "seconds": round(self.seconds, 3)}


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
    if not live_workers():
        raise NotReady("no worker has a fresh heartbeat")


def _warehouse() -> None:
    """Check that the warehouse's folder is readable; of a location that only Spark can read, that a runner exists."""
    place = settings.WAREHOUSE
    if urlsplit(place).scheme not in ("", "file"):
        if all(worker.runner_pid is None for worker in live_workers()):
            raise NotReady("no worker has a runner")
        return
    folder = Path(urlsplit(place).path)
    # The first load creates it.
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        raise NotReady("the warehouse's folder can't be read")


CHECKS: dict[str, Callable[[], None]] = {
    "database": _database,
    "broker": _broker,
    "worker": _worker,
    "warehouse": _warehouse,
}
_guard = threading.Lock()
_running: dict[str, Future[CheckResult]] = {}
_results: dict[str, CheckResult] = {}
_process = 0


def check_components(names: Collection[str] | None = None, *, limit: float = LIMIT_SECONDS) -> list[CheckResult]:
    """Return the results of these components, by default of all, after at most ``limit`` seconds."""
    deadline = time.monotonic() + limit
    checks = {name: _start_check(name) for name in CHECKS if names is None or name in names}
    results = []
    for name, check in checks.items():
        try:
            results.append(check.result(timeout=max(0.0, deadline - time.monotonic())))
        except TimeoutError:
            log.warning("%s does not answer within %s s", name, limit)
            results.append(CheckResult(name, DOWN, limit, time.monotonic()))
    return results


def _start_check(name: str) -> Future[CheckResult]:
    """Return the running check or the cached result, or else start a check."""
    global _process
    with _guard:
        if _process != os.getpid():
            # The parent's threads do not run in a forked process.
            _process = os.getpid()
            _running.clear()
        running = _running.get(name)
        if running is not None and not running.done():
            return running
        result = _results.get(name)
        if result is not None and time.monotonic() - result.finished_at < KEPT_SECONDS:
            cached: Future[CheckResult] = Future()
            cached.set_result(result)
            return cached
        check: Future[CheckResult] = Future()
        _running[name] = check
        # It is a daemon thread, so that the process can end while a check hangs.
        threading.Thread(target=_run_check, args=(name, check), name=f"readiness-{name}", daemon=True).start()
        return check


def _run_check(name: str, check: Future[CheckResult]) -> None:
    started = time.monotonic()
    try:
        CHECKS[name]()
        status = UP
    except Exception as error:  # any error means that the component is down
        log.warning("%s is not ready: %s", name, error)
        status = DOWN
    finally:
        connections.close_all()
    now = time.monotonic()
    _results[name] = CheckResult(name, status, now - started, now)
    check.set_result(_results[name])


def forget() -> None:
    """Clear the cached results."""
    with _guard:
        _results.clear()


def as_json(results: Collection[CheckResult]) -> dict[str, Any]:
    """Return the results as public JSON, without host names and reasons."""
    ready = all(result.status == UP for result in results)
    return {
        "status": "ready" if ready else "not_ready",
        "at": timezone.now().isoformat(timespec="seconds"),
        "checks": {result.name: result.as_json() for result in results},
    }
