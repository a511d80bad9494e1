"""Reads and refreshes performed on the runner."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db import transaction

from architecture.domain.refusals import Refused
from architecture.domain.scope import Scope
from architecture.models import Refresh
from architecture.permissions import must_build, on_behalf_of
from architecture.services.drift import settle_if_in_sync
from architecture.services.observations import keep_what_was_seen
from architecture.services.previews import build_previewed_report, make_preview
from elevata.audit.services.transactions import writing
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.core.words import counted
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.services import Attempt, Fenced, claim
from loader.contract.manifest.executions import ObserveManifest, SizesManifest
from loader.contract.manifest.publication import PublishManifest
from loader.contract.manifest.reads import CheckManifest, ReadManifest
from loader.contract.refusals import READS_ENDED, Refusal
from loader.domain.spark_failures import worker_accident
from loader.models import ReadRequest
from loader.runner.conversation import SupportsExchange, SupportsRequests
from loader.services.publication import PUBLISH
from loader.services.quality_results import store_profile, store_read_results
from loader.services.reads.manifests import read_manifest
from loader.services.reads.queries import SQL, query_answer, record_query
from loader.services.reads.read_permissions import record_read
from loader.services.reads.read_requests import CHECK, OF_TEXTS, PROFILE, QUALITY, is_of_user
from loader.services.reads.trials import TRY_MODEL, record_trial, trial_answer

log = logging.getLogger(__name__)

_REQUESTS = {CheckManifest: CHECK, ObserveManifest: "observe", PublishManifest: PUBLISH, SizesManifest: "sizes"}
# Tables are observed one after another, and there may be thousands.
_OBSERVE_TIMEOUT_SECONDS = 600.0
# Seconds for which the worker waits longer than the runner's own limit.
_GRACE_SECONDS = 15.0
# Kinds whose answers and entries in the change log follow from a text with permissions of its own.
_ANSWERS = {SQL: query_answer, TRY_MODEL: trial_answer}
_RECORDS = {SQL: record_query, TRY_MODEL: record_trial}


@dataclass(frozen=True)
class ReadAttempt(Attempt):
    """Attempt of a read or refresh."""

    def finish(self, read: ReadRequest, *, answer: dict) -> None:
        """End the read with an answer, unless it was withdrawn meanwhile."""
        retried(lambda: self._finish(read, answer))

    @transaction.atomic
    def _finish(self, read: ReadRequest, answer: dict) -> None:
        if self.end(wanted=states.SUCCEEDED) == states.SUCCEEDED:
            ReadRequest.objects.filter(pk=read.pk).update(answer=answer)
            if read.kind == PROFILE:
                store_profile(read, answer)
            if read.kind == QUALITY:
                store_read_results(read, answer)
            if answer:
                _RECORDS.get(read.kind, record_read)(read, answer)

    @transaction.atomic
    def end_with(self, error: dict) -> None:
        """End the job as failed, unless it was withdrawn meanwhile."""
        self.end(wanted=states.FAILED, error=error)


def perform_read(
    *,
    read_pk: int,
    worker: str,
    runner: SupportsRequests,
    stopping: threading.Event | None = None,
    timeout_seconds: float | None = None,
) -> ReadRequest | None:
    """Answer one read; return None if it could not be claimed. It always ends with an answer or an error.

    ``timeout_seconds`` is the kind's own by default.
    """
    claimed = retried(lambda: claim(job_pk=read_pk, worker=worker))
    if claimed is None:
        return None
    attempt, read = ReadAttempt(claimed.job_pk, claimed.number), retried(lambda: _read_with_relations(read_pk))

    def answer() -> None:
        manifest = retried(lambda: read_manifest(read=read, timeout_seconds=timeout_seconds))
        answer = _answer_of_read(read, partial(_ask, attempt, runner, manifest, stopping or threading.Event()))
        if read.kind in _ANSWERS:
            answer = retried(partial(_ANSWERS[read.kind], read, answer))
        attempt.finish(read, answer=answer)

    try:
        error = _error_of(answer, read)
        if error is not None:
            retried(partial(attempt.end_with, error))
    except Fenced:
        log.warning("read %s was withdrawn or given up", read_pk)
    return retried(ReadRequest.objects.filter(pk=read_pk).first)


def perform_refresh(
    *, refresh_pk: int, worker: str, runner: SupportsRequests, stopping: threading.Event | None = None
) -> Refresh | None:
    """Observe the tables of a refresh and serve its purpose; return None if it could not be claimed.

    It always ends with a result or an error.
    """
    claimed = retried(lambda: claim(job_pk=refresh_pk, worker=worker))
    if claimed is None:
        return None
    attempt = ReadAttempt(claimed.job_pk, claimed.number)
    related = ("environment", "report__environment", "requested_by")
    refresh = retried(lambda: Refresh.objects.select_related(*related).get(pk=refresh_pk))
    try:
        error = _error_of(partial(_refresh, attempt, refresh, runner, stopping or threading.Event()), refresh)
        if error is not None:
            retried(partial(attempt.end_with, error))
    except Fenced:
        log.warning("refresh %s was withdrawn or given up", refresh_pk)
    return retried(Refresh.objects.filter(pk=refresh_pk).first)


def _refresh(attempt: "ReadAttempt", refresh: Refresh, runner: SupportsRequests, stopping: threading.Event) -> None:
    asked, sizes = refresh.tables, None
    observe = ObserveManifest(tuple(asked), dropped=True, skip_unreadable=True)
    finished = _ask(attempt, runner, observe, stopping)
    tables, unreadable = _answer(finished), finished.get("unreadable") or {}
    asked = [key for key in asked if key not in unreadable]
    if refresh.sizes and tables:
        sizes = _answer(_ask(attempt, runner, SizesManifest(tuple(sorted(tables))), stopping))
    retried(partial(keep_what_was_seen, environment=refresh.environment, asked=asked, tables=tables, sizes=sizes))
    retried(partial(settle_if_in_sync, refresh.environment))
    if unreadable:
        raise _not_observed([Refusal.from_json(unreadable[key]) for key in sorted(unreadable)])
    with attempt.beating(), on_behalf_of(refresh.requested_by):
        links = retried(partial(_serve_purpose, refresh))

    @transaction.atomic
    def end() -> None:
        if attempt.end(wanted=states.SUCCEEDED) is None:
            raise Fenced
        Refresh.objects.filter(pk=refresh.pk).update(found=len(tables), **links)

    retried(end)


def _not_observed(refusals: list[Refusal]) -> Refusal:
    """Return the refusal of a refresh, from those of the tables that cannot be read; the others were observed."""
    first, others = refusals[0], len(refusals) - 1
    more = f"; {counted(others, 'other table')} cannot be read either" if others else ""
    return replace(first, message=f"{first.message}{more}", count=len(refusals))


def _serve_purpose(refresh: Refresh) -> dict[str, Any]:
    """Create the report or preview of the refresh on behalf of its user; return the fields that link it."""
    if refresh.purpose not in (Refresh.Purpose.REPORT, Refresh.Purpose.PREVIEW):
        return {}
    user = refresh.requested_by
    with writing(refresh.reason):
        if refresh.purpose == Refresh.Purpose.PREVIEW:
            assert refresh.report is not None
            return {"preview": make_preview(report=refresh.report, user=user)}
        assert refresh.scope is not None
        scope = Scope(**refresh.scope)
        must_build(user, scope, refresh.environment.name)
        return {"report": build_previewed_report(environment=refresh.environment, scope=scope, user=user)}


def _answer_of_read(read: ReadRequest, ask: Callable[..., dict]) -> dict[str, Any]:
    """Return the runner's answer to a read; ask again once if the runner of reads ended while it answered.

    A text of a user is not asked again, since it may be the reason of the end.
    """
    ask = partial(ask, may_kill=is_of_user(read))
    try:
        return _answer(ask())
    except Refusal as refusal:
        if refusal.code != READS_ENDED or read.kind in OF_TEXTS:
            raise
    log.info("read %s is asked again: the runner of reads ended", read.pk)
    return _answer(ask())


def _answer(finished: dict) -> dict[str, Any]:
    """Return the runner's answer. Raise its error as a Refusal."""
    if finished.get("error"):
        raise Refusal.from_json(finished["error"])
    if finished["status"] != states.SUCCEEDED:
        raise Refusal("READ_FAILED", "the read was cancelled")
    return finished.get("answer") or {}


def _error_of(work: Callable[[], None], job: Job) -> dict[str, Any] | None:
    """Call a function; return its error as JSON, or None. Raise Fenced."""
    try:
        work()
    except Fenced:
        raise
    except (Refused, Refusal) as refusal:
        return refusal.as_json()
    except MetadataError as refusal:
        return Refusal(refusal.code.upper(), refusal.one_line()).as_json()
    except Exception as failure:  # a page waits for this row: it must end
        log.exception("%s failed", job)
        return worker_accident(failure).as_json()
    return None


def _ask(
    attempt: ReadAttempt,
    runner: SupportsRequests,
    manifest: ReadManifest | CheckManifest | ObserveManifest | PublishManifest | SizesManifest,
    stopping: threading.Event,
    *,
    may_kill: bool = False,
) -> dict:
    """Return the runner's ``finished`` event.

    Raise Refusal WORKER_STOPPED or READ_TIMEOUT, Fenced for a withdrawn read. The runner limits the time itself; the
    worker's limit is a safeguard. With ``may_kill``, a runner that goes on with a read that is not wanted any more is
    killed.
    """
    kind = _REQUESTS.get(type(manifest), "read")
    exchange = runner.request(kind, manifest)
    seconds = getattr(manifest, "timeout_seconds", _OBSERVE_TIMEOUT_SECONDS)
    end = partial(_end_exchange, exchange, runner if may_kill else None)
    deadline = time.monotonic() + seconds + _GRACE_SECONDS
    while not stopping.is_set() and (left := deadline - time.monotonic()) > 0:
        event = exchange.next(timeout=min(left, states.HEARTBEAT_SECONDS))
        if event is not None and event["event"] == "finished":
            return event
        if runner.wait_until_ready(0) is None:  # the time of a read begins when Spark has started
            deadline = time.monotonic() + seconds + _GRACE_SECONDS
        try:
            retried(attempt.heartbeat)
        except Fenced:
            end()
            raise
    if stopping.is_set():
        exchange.cancel()
        raise Refusal("WORKER_STOPPED", "the worker was stopped before it answered", hint="ask again")
    end()
    raise Refusal(
        "READ_TIMEOUT",
        f"there was no answer within {seconds:.0f} seconds",
        hint="read less, or try again when no load is running",
    )


def _end_exchange(exchange: SupportsExchange, runner: SupportsRequests | None) -> None:
    """Cancel a request; kill the runner, if one is given, unless the request ends within the grace."""
    exchange.cancel()
    deadline = time.monotonic() + _GRACE_SECONDS
    while runner is not None and (left := deadline - time.monotonic()) > 0:
        event = exchange.next(timeout=left)
        if event is not None and event["event"] == "finished":
            return
    if runner is not None:
        message = f"a cancelled read was still running after {_GRACE_SECONDS:.0f} seconds"
        runner.kill(Refusal("READ_NOT_CANCELED", message))


def _read_with_relations(pk: int) -> ReadRequest:
    related = ("dataset__schema", "dataset__history_of__schema", "environment", "requested_by")
    return ReadRequest.objects.select_related(*related).get(pk=pk)
