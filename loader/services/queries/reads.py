"""Reads: questions of pages to the warehouse, answered by the runner, stored as rows."""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from architecture.domain.history_layout import ends_inclusive
from architecture.domain.states.tables import TableSpec, history_table, raw_table, rawcore_table
from architecture.selectors import described_state
from architecture.services import current_environment
from architecture.services.states.refresh_results import keep_what_was_seen
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.attempts import Attempt, Fenced
from elevata.jobs.models import Job
from elevata.jobs.services import claim, withdraw
from elevata.jobs.submission import Submitted
from loader.domain.historization.history import DELETED
from loader.domain.queries.masking import must_not_tell
from loader.domain.runs.failure_causes import worker_accident
from loader.domain.runs.manifest import CheckManifest, ObserveManifest, ReadManifest, SizesManifest, SourceSpec
from loader.domain.runs.refusals import Refusal
from loader.models import ReadRequest
from loader.services.queries.read_work import masking_for, must_read, record_read
from loader.services.runner.conversation import SupportsRequests
from loader.services.runs.manifests import source_datasets, source_of, source_spec
from loader.services.runs.table_checks import check_manifest
from metadata.domain.history_policy import TOMBSTONE, HistoryPolicy
from metadata.domain.state import DatasetState
from metadata.models import SourceDataset, TargetDataset
from metadata.selectors import dataset_state

log = logging.getLogger(__name__)

CHECK, OBSERVE = "check", "observe"
KINDS = ("sample", "key_search", "versions", "as_of", "changes", "discover", CHECK, OBSERVE)
# These ask for versions, so they go to the history where there is one.
_OF_HISTORY = ("key_search", "versions", "as_of", "changes")
TIMEOUT_SECONDS = 60.0
# Thousands of tables are observed one after another.
OBSERVE_TIMEOUT_SECONDS = 600.0
# A check reads a history whole.
CHECK_TIMEOUT_SECONDS = 3600.0
CHECK_SAMPLES, MOST_CHECK_SAMPLES = 5, 1000
# Seconds beyond the runner's own limit before the worker stops waiting for it.
_GRACE_SECONDS = 15.0
# A read that has no answer by then fails.
GIVEN_UP_AFTER = timedelta(minutes=5)
CHECK_GIVEN_UP_AFTER = timedelta(seconds=CHECK_TIMEOUT_SECONDS) + GIVEN_UP_AFTER
KEPT_FOR = timedelta(days=1)


class RequestedRead(Submitted[ReadRequest]):
    """A requested read."""

    @property
    def read(self) -> ReadRequest:
        return self.job


def request_read(
    *,
    kind: str,
    dataset: TargetDataset | None = None,
    source: SourceDataset | None = None,
    arguments: Mapping[str, Any] | None = None,
    user: Any = None,
    wake_worker: bool = True,
    reason: str = "",
) -> RequestedRead:
    """Request a read; its row holds the reason, and later the answer. ``discover`` reads a source dataset.

    ``observe`` reads the state of tables (``tables``: stable keys; ``sizes``: measured, too), which is
    stored as observations.
    """
    if kind not in KINDS:
        raise Refusal("UNKNOWN_READ", f"there is no read of kind {kind}", hint=f"known: {', '.join(KINDS)}")
    if kind != OBSERVE and (source if kind == "discover" else dataset) is None:
        what = "source dataset" if kind == "discover" else "dataset"
        raise Refusal("NO_DATASET", f"a read of kind {kind} needs a {what}")
    for row in (dataset, source):
        if row is not None:
            must_read(user, row)
    asked = dict(arguments or {})
    if source is not None:
        asked["source_dataset"] = str(source.key)
    with transaction.atomic():
        read = ReadRequest.objects.create(
            environment=current_environment(),
            kind=kind,
            dataset=dataset,
            arguments=asked,
            requested_by=user,
            reason=reason,
        )
        result = RequestedRead(read)
        if wake_worker:
            result.wake_after_commit()
    return result


@dataclass(frozen=True)
class ReadAttempt(Attempt):
    """One worker's hold on one read."""

    def finish(self, read: ReadRequest, *, answer: dict | None = None, error: dict | None = None) -> None:
        """End the read with an answer or an error, unless it was withdrawn meanwhile."""
        retried(lambda: self._finish(read, answer, error))

    @transaction.atomic
    def _finish(self, read: ReadRequest, answer: dict | None, error: dict | None) -> None:
        ended = self.end(wanted=states.FAILED if error else states.SUCCEEDED, error=error)
        if ended == states.SUCCEEDED:
            ReadRequest.objects.filter(pk=read.pk).update(answer=answer)
            if answer:
                record_read(read, answer)


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
    attempt, read = ReadAttempt(claimed.job_pk, claimed.number), retried(lambda: _claimed(read_pk))
    stopping = stopping or threading.Event()
    try:
        manifest = retried(lambda: read_manifest(read=read, timeout_seconds=timeout_seconds))
        finished = _ask(attempt, runner, manifest, stopping)
        if finished.get("error") or finished["status"] != states.SUCCEEDED:
            error = finished.get("error") or Refusal("READ_FAILED", "the read was cancelled").as_json()
            attempt.finish(read, error=error)
        else:
            answer = finished.get("answer") or {}
            if read.kind == OBSERVE:
                answer = _observed(attempt, read, answer, runner, stopping)
            attempt.finish(read, answer=answer)
    except Fenced:
        log.warning("read %s was withdrawn or given up", read_pk)
    except MetadataError as refused:
        attempt.finish(read, error=Refusal(refused.code.upper(), refused.one_line()).as_json())
    except Refusal as refusal:
        attempt.finish(read, error=refusal.as_json())
    except Exception as failure:  # a page waits for this row: it must end
        log.exception("read %s failed", read_pk)
        attempt.finish(read, error=worker_accident(failure).as_json())
    return retried(ReadRequest.objects.filter(pk=read_pk).first)


def _observed(
    attempt: ReadAttempt,
    read: ReadRequest,
    answer: dict[str, Any],
    runner: SupportsRequests,
    stopping: threading.Event,
) -> dict[str, Any]:
    """Store the observations for architecture; the read's own answer only counts them."""
    asked, sizes = read.arguments["tables"], None
    if read.arguments.get("sizes") and answer:
        sized = _ask(attempt, runner, SizesManifest(tuple(sorted(answer))), stopping)
        if sized.get("error"):
            raise Refusal.from_json(sized["error"])
        sizes = sized.get("answer") or {}
    keep = partial(keep_what_was_seen, environment=read.environment, asked=asked, tables=answer, sizes=sizes)
    retried(keep)
    return {"asked": len(asked), "found": len(answer)}


def _ask(
    attempt: ReadAttempt,
    runner: SupportsRequests,
    manifest: ReadManifest | CheckManifest | ObserveManifest | SizesManifest,
    stopping: threading.Event,
) -> dict:
    """Return the runner's ``finished``. Raise Refusal WORKER_STOPPED or READ_TIMEOUT, Fenced for a withdrawn read.

    The runner limits the time itself; the worker only makes sure that the wait ends.
    """
    kind = {CheckManifest: CHECK, ObserveManifest: OBSERVE, SizesManifest: "sizes"}.get(type(manifest), "read")
    exchange = runner.request(kind, manifest)
    seconds = getattr(manifest, "timeout_seconds", OBSERVE_TIMEOUT_SECONDS)
    deadline = time.monotonic() + seconds + _GRACE_SECONDS
    while not stopping.is_set() and (left := deadline - time.monotonic()) > 0:
        event = exchange.next(timeout=min(left, states.HEARTBEAT_SECONDS))
        if event is not None and event["event"] == "finished":
            return event
        try:
            retried(attempt.heartbeat)
        except Fenced:
            exchange.cancel()
            raise
    exchange.cancel()
    if stopping.is_set():
        raise Refusal("WORKER_STOPPED", "the worker was stopped before it answered", hint="ask again")
    raise Refusal(
        "READ_TIMEOUT",
        f"there was no answer within {seconds:.0f} seconds",
        hint="ask for less, or ask again when no load is running",
    )


def read_manifest(
    *, read: ReadRequest, timeout_seconds: float | None = None
) -> ReadManifest | CheckManifest | ObserveManifest:
    """Return the manifest of a read.

    Raise Refusal MASKED_COLUMN or MetadataError ``not_permitted`` where its reader may not read that.
    """
    for row in (read.dataset, read.arguments.get("source_dataset") and _source_dataset(read)):
        if row:
            must_read(read.requested_by, row)
    if read.kind == OBSERVE:
        return ObserveManifest(tuple(read.arguments["tables"]), dropped=True)
    if read.kind == CHECK:
        return check_manifest(
            dataset=read.dataset,
            samples=read.arguments.get("samples", CHECK_SAMPLES),
            timeout_seconds=timeout_seconds or CHECK_TIMEOUT_SECONDS,
        )
    timeout_seconds = timeout_seconds or TIMEOUT_SECONDS
    arguments = {name: value for name, value in read.arguments.items() if name != "source_dataset"}
    if read.kind == "discover":
        return ReadManifest("discover", source=_source(read), arguments=arguments, timeout_seconds=timeout_seconds)
    known = described_state(read.dataset, environment=read.environment)
    table = read_table(read.dataset, read.kind, known)
    if read.kind in ("as_of", "changes"):
        arguments |= _interval_arguments(read.dataset)
    masking = masking_for(read.requested_by, read.dataset, table)
    if masking is not None:
        must_not_tell(read.kind, arguments, table, masking)
    return ReadManifest(read.kind, table=table, arguments=arguments, timeout_seconds=timeout_seconds, masking=masking)


def must_be_askable(user: Any, dataset: TargetDataset, kind: str, arguments: Mapping[str, Any]) -> None:
    """Raise Refusal for a read that cannot be answered: NO_TABLE, NO_HISTORY, MASKED_COLUMN."""
    table = read_table(dataset, kind)
    masking = masking_for(user, dataset, table)
    if masking is not None:
        must_not_tell(kind, arguments, table, masking)


def _interval_arguments(dataset: TargetDataset) -> dict[str, Any]:
    """Return the arguments for a policy with inclusive ends or tombstones, which a reader of intervals must know."""
    policy = HistoryPolicy.from_dict((dataset.history_of or dataset).history_policy)
    found: dict[str, Any] = {"inclusive_ends": True} if ends_inclusive(policy) else {}
    return found | ({"tombstone": policy.label(DELETED)} if policy.deletes == TOMBSTONE else {})


def read_table(dataset: TargetDataset, kind: str, known: DatasetState | None = None) -> TableSpec:
    """Return the table that a read of a dataset goes to. Raise Refusal NO_TABLE for a view, or NO_HISTORY.

    ``known`` is the dataset under the keys of its tables; without it the names are right, the keys metadata's.
    """
    state = known or dataset_state(dataset)
    if state.materialization != "table":
        raise Refusal("NO_TABLE", f"{state.qualified_name} is a view, it holds no rows of its own")
    if state.layer == "raw":
        return raw_table(state)
    if state.historize and (dataset.history_of_id is not None or kind in _OF_HISTORY):
        return history_table(state)
    if dataset.history_of_id is not None or kind in ("versions", "as_of", "changes"):
        raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    return rawcore_table(state)


def _source(read: ReadRequest) -> SourceSpec:
    key = read.arguments.get("source_dataset")
    if key is not None:
        return source_spec(_source_dataset(read))
    state = dataset_state(read.dataset)
    return source_of(state, {key: source_spec(one) for key, one in source_datasets([state]).items()})


def _source_dataset(read: ReadRequest) -> SourceDataset:
    sources = SourceDataset.objects.select_related("system").prefetch_related("columns")
    return sources.get(key=read.arguments["source_dataset"])


def _claimed(pk: int) -> ReadRequest:
    related = ("dataset__schema", "dataset__history_of__schema", "environment", "requested_by")
    return ReadRequest.objects.select_related(*related).get(pk=pk)


def end_old_reads() -> None:
    """Fail reads without an answer in time, and delete old ones."""
    now = timezone.now()
    ReadRequest.objects.filter(requested_at__lt=now - KEPT_FOR).delete()
    at_once = ~Q(kind__in=(CHECK, OBSERVE)) & Q(requested_at__lt=now - GIVEN_UP_AFTER)
    too_old = Q(requested_at__lt=now - CHECK_GIVEN_UP_AFTER) | at_once
    error = Refusal("NO_ANSWER", "no worker answered in time", hint="is a worker running?").as_json()
    withdraw(Job.objects.filter(too_old, kind__in=KINDS), error=error)


def withdraw_read(*, read: ReadRequest) -> None:
    """End a read whose answer is not wanted any more, unless it is finished."""
    error = Refusal("WITHDRAWN", "nobody waited for the answer any more").as_json()
    withdraw(Job.objects.filter(pk=read.pk), error=error)
