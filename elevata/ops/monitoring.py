"""Health checks, readiness and metrics endpoints."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from celery import current_app
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from elevata.accounts.authentication import PersonalTokenAuthentication
from elevata.accounts.lockouts import address_of
from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.jobs.registry import live_workers
from elevata.ops import metrics
from elevata.web import middleware

# Health of the control database, the broker, a worker and the warehouse. Each check runs in a thread of its own with
# a time limit, so that one that hangs blocks no other; it is not started a second time meanwhile. Results are cached
# for a moment, because the page is public.


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


# --- checks ------------------------------------------------------------------------------------


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
    """Check the folder of the tables; a location that only Spark reaches is the runner's to check."""
    place = settings.WAREHOUSE
    if urlsplit(place).scheme not in ("", "file"):
        if not live_workers().filter(runner_pid__isnull=False).exists():
            raise NotReady("no worker has a runner")
        return
    folder = Path(urlsplit(place).path)
    # The first load creates it.
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


# --- execution of checks -----------------------------------------------------------------------

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
    """Return the running check, the cached result, or start a check."""
    global _process
    with _guard:
        if _process != os.getpid():
            # A forked process has none of its parent's threads.
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
        # A daemon thread: a check that hangs must not keep the process from ending.
        threading.Thread(target=_answer, args=(name, asking), name=f"readiness-{name}", daemon=True).start()
        return asking


def _answer(name: str, asking: Future[Finding]) -> None:
    started = time.monotonic()
    try:
        PROBES[name]()
        status = UP
    except Exception as problem:  # any failure means that it does not answer
        log.warning("%s is not ready: %s", name, problem)
        status = DOWN
    finally:
        connections.close_all()
    now = time.monotonic()
    _found[name] = Finding(name, status, now - started, now)
    asking.set_result(_found[name])


def forget() -> None:
    """Clear the cached results."""
    with _guard:
        _found.clear()


def as_json(found: Collection[Finding]) -> dict[str, Any]:
    """Return the public results: without host names and reasons."""
    ready = all(one.status == UP for one in found)
    return {
        "status": "ready" if ready else "not_ready",
        "at": timezone.now().isoformat(timespec="seconds"),
        "checks": {one.name: one.as_json() for one in found},
    }


READ_METADATA = Permission.READ_METADATA


@never_cache
@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 if database, broker, worker and warehouse answer, else 503.

    ``?only=database&only=broker`` checks these alone; an unknown name is refused with 400.
    """
    only = request.GET.getlist("only")
    unknown = sorted(set(only) - set(PROBES))
    if unknown:
        return JsonResponse({"status": "unknown", "known": sorted(PROBES)}, status=400)
    found = findings(only or None)
    result = as_json(found)
    answer = JsonResponse(result, status=200 if result["status"] == "ready" else 503)
    if answer.status_code == 503:
        answer.headers["Retry-After"] = "5"
    return answer


@never_cache
@login_not_required
@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    """Return all metrics for Prometheus: for users with a role, their tokens, and listed addresses."""
    if not _may_see(request):
        message = "Metrics are for users with a role, their tokens, and addresses in ELEVATA_METRICS_ALLOW."
        return middleware.answer(request, status=403, title="Not allowed", detail=message, code="permission_denied")
    return HttpResponse(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


def _may_see(request: HttpRequest) -> bool:
    # The address first: a permitted address needs no database.
    return _is_allowed(address_of(request)) or _by_token(request) or may_somewhere(request.user, READ_METADATA)


def _is_allowed(address: str | None) -> bool:
    networks = [ip_network(one, strict=False) for one in settings.METRICS_ALLOW]
    return address is not None and any(ip_address(address) in network for network in networks)


def _by_token(request: HttpRequest) -> bool:
    """Return whether the request has a personal token of a user with a role, of any scope."""
    try:
        found = PersonalTokenAuthentication().authenticate(Request(request))
        return found is not None and may_somewhere(found[0], READ_METADATA)
    except APIException:
        return False
