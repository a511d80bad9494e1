"""Reads, refreshes and history checks: requests to the runner."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from architecture.domain.report import Scope
from architecture.domain.tables import (
    TableSpec,
    current_table,
    event_log_table,
    history_table,
    raw_table,
    rawcore_table,
)
from architecture.domain.workflow import Refused
from architecture.models import Refresh
from architecture.permissions import on_behalf_of
from architecture.selectors.environments import described_state
from architecture.selectors.report_details import may_build
from architecture.services.previews import build_previewed_report, make_preview
from architecture.services.states import current_environment, keep_what_was_seen
from elevata.audit.services.change_log import writing
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.services import Attempt, Fenced, Submitted, claim, withdraw
from loader.domain.dependencies import named_dataset
from loader.domain.historization.history import DELETED
from loader.domain.historization.layers import entity_key_components, row_hash_components
from loader.domain.manifest.executions import ObserveManifest, SizesManifest
from loader.domain.manifest.history_checks import CheckManifest
from loader.domain.manifest.publication import PublishManifest
from loader.domain.manifest.reads import ReadManifest
from loader.domain.manifest.sources import SourceSpec
from loader.domain.queries.masking import must_not_tell
from loader.domain.queries.query_results import ORIGIN
from loader.domain.refusals import Refusal, worker_accident
from loader.models import ReadRequest
from loader.services.manifests import leading_table, newest_applied, source_datasets, source_of, source_spec
from loader.services.publication import PUBLISH, publish_manifest
from loader.services.quality import quality_arguments, store_profile, store_read_results, stored_profile
from loader.services.reads.origins import origin_manifest
from loader.services.reads.queries import SQL, query_answer, query_arguments, query_manifest, record_query
from loader.services.reads.read_permissions import masking_for, must_read, record_read
from loader.services.reads.trials import (
    TRY_MODEL,
    must_be_tried,
    record_trial,
    trial_answer,
    trial_arguments,
    trial_manifest,
)
from loader.services.runner.worker import SupportsRequests
from metadata.domain.history_columns import ends_inclusive
from metadata.domain.history_policy import TOMBSTONE, HistoryPolicy
from metadata.domain.state import DatasetState
from metadata.models import SourceDataset, TargetDataset
from metadata.selectors.classification import classification
from metadata.selectors.datasets import dataset_state, dataset_states

# Selection of the histories to check, and the manifest of a check.


def historized(names: Iterable[str] = ()) -> list[TargetDataset]:
    """Return the named datasets (by their own or their history's name), or all historized ones, by name.

    Raise Refusal ``UNKNOWN_DATASET``, ``RETIRED`` or ``NO_HISTORY`` for a name without one.
    """
    states = dataset_states()
    by_key = {state.key: state for state in states}
    chosen = [named_dataset(by_key, name) for name in names] or [state for state in states if _has_history(state)]
    for state in chosen:
        if not _has_history(state):
            raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    rows = {str(row.key): row for row in TargetDataset.objects.filter(key__among=[state.key for state in chosen])}
    return [rows[key] for key in dict.fromkeys(state.key for state in chosen)]


def _has_history(state: DatasetState) -> bool:
    return state.active and state.historize and state.materialization == "table" and state.history_key is not None


def check_manifest(*, dataset: TargetDataset, samples: int, timeout_seconds: float) -> CheckManifest:
    """Return the manifest of a check of a dataset's history. Raise Refusal ``NO_HISTORY``."""
    state = described_state(dataset, environment=current_environment())
    if not _has_history(state):
        raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    leading = {state.key: leading_table(state)}
    applied = newest_applied(environment=current_environment(), leading=leading).get(state.key)
    return CheckManifest(
        name=state.qualified_name,
        history=history_table(state),
        rawcore=rawcore_table(state),
        entity_key=entity_key_components(state),
        row_hash=row_hash_components(state),
        policy=dict(state.history_policy),
        samples=samples,
        timeout_seconds=timeout_seconds,
        newest_applied=applied.sequence if applied else None,
        sensitive=tuple(sorted(classification(dataset).sensitive_names)),
        event_log=event_log_table(state),
    )


log = logging.getLogger(__name__)

CHECK, SOURCE_CHECK = "check", "source_check"
PROFILE, QUALITY, QUARANTINED = "profile", "quality", "quarantine"
# Kinds that read a whole table.
LONG = (CHECK, PROFILE, QUALITY)
KINDS = (
    *("sample", "key_search", "versions", "as_of", "changes", ORIGIN, "discover"),
    *(*LONG, QUARANTINED, SQL, TRY_MODEL, PUBLISH),
)
# Kinds of reads without a dataset.
_WITHOUT_DATASET = (SQL, TRY_MODEL, PUBLISH)
# Kinds that read the history if there is one, because they need versions.
_OF_HISTORY = ("key_search", "versions", "as_of", "changes", ORIGIN)
TIMEOUT_SECONDS = 60.0
SQL_TIMEOUT_SECONDS = 180.0
# Tables are observed one after another, and there may be thousands.
OBSERVE_TIMEOUT_SECONDS = 600.0
# A check reads the whole history.
CHECK_TIMEOUT_SECONDS = 3600.0
CHECK_SAMPLES, MOST_CHECK_SAMPLES = 5, 1000
_REQUESTS = {CheckManifest: CHECK, ObserveManifest: "observe", PublishManifest: PUBLISH, SizesManifest: "sizes"}
# Seconds for which the worker waits longer than the runner's own limit.
_GRACE_SECONDS = 15.0
# A read without an answer fails after this time.
GIVEN_UP_AFTER = timedelta(minutes=5)
CHECK_GIVEN_UP_AFTER = timedelta(seconds=CHECK_TIMEOUT_SECONDS) + GIVEN_UP_AFTER
KEPT_FOR = timedelta(days=1)


class RequestedRead(Submitted[ReadRequest]):
    """Result of requesting a read."""

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
    """Request a read; its row has the reason, and later the answer. ``discover`` reads a source dataset."""
    if kind not in KINDS:
        raise Refusal("UNKNOWN_READ", f"there is no read of kind {kind}", hint=f"known: {', '.join(KINDS)}")
    if kind not in _WITHOUT_DATASET and (source if kind == "discover" else dataset) is None:
        what = "source dataset" if kind == "discover" else "dataset"
        raise Refusal("NO_DATASET", f"a read of kind {kind} needs a {what}")
    for row in (dataset, source):
        if row is not None:
            must_read(user, row)
    stored_arguments = dict(arguments or {})
    if source is not None:
        stored_arguments["source_dataset"] = str(source.key)
    with transaction.atomic():
        read = ReadRequest.objects.create(
            environment=current_environment(),
            kind=kind,
            dataset=dataset,
            arguments=stored_arguments,
            requested_by=user,
            reason=reason,
        )
        result = RequestedRead(read)
        if wake_worker:
            result.wake_after_commit()
    return result


def request_query(text: str, limit: int, *, user: Any, wake_worker: bool = True, reason: str = "") -> RequestedRead:
    """Request one read-only query (``loader.services.reads.queries.must_run``) with at most ``limit`` rows."""
    arguments = query_arguments(text, limit)
    return request_read(kind=SQL, arguments=arguments, user=user, wake_worker=wake_worker, reason=reason)


def request_trial(
    text: str,
    *,
    dataset: TargetDataset | None = None,
    limit: int = 50,
    sample: Mapping[str, Any] | None = None,
    compare: bool = False,
    user: Any,
    wake_worker: bool = True,
) -> RequestedRead:
    """Request a trial of a SELECT, for a model (``dataset``) or for one that is not saved yet.

    ``sample`` is a part of each table (``share`` or ``rows``); ``compare`` asks for the difference to the model's
    table. Raise Refusal, with line and column for an error of the SELECT.
    """
    arguments = trial_arguments(text, limit=limit, sample=sample or {}, compare=compare)
    must_be_tried(text, dataset=dataset, user=user, compare=compare, sample=arguments["sample"])
    return request_read(kind=TRY_MODEL, dataset=dataset, arguments=arguments, user=user, wake_worker=wake_worker)


# Kinds whose manifests, answers and entries in the change log follow from a text with permissions of its own.
_ANSWERS = {SQL: query_answer, TRY_MODEL: trial_answer}
_MANIFESTS = {SQL: query_manifest, TRY_MODEL: trial_manifest}
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
        answer = _answer(_ask(attempt, runner, manifest, stopping or threading.Event()))
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
    tables = _answer(_ask(attempt, runner, ObserveManifest(tuple(asked), dropped=True), stopping))
    if refresh.sizes and tables:
        sizes = _answer(_ask(attempt, runner, SizesManifest(tuple(sorted(tables))), stopping))
    retried(partial(keep_what_was_seen, environment=refresh.environment, asked=asked, tables=tables, sizes=sizes))
    with attempt.beating(), on_behalf_of(refresh.requested_by):
        links = retried(partial(_serve_purpose, refresh))

    @transaction.atomic
    def end() -> None:
        if attempt.end(wanted=states.SUCCEEDED) is None:
            raise Fenced
        Refresh.objects.filter(pk=refresh.pk).update(found=len(tables), **links)

    retried(end)


def _serve_purpose(refresh: Refresh) -> dict[str, Any]:
    """Create the report or preview of the refresh on behalf of its user; return the fields that link it."""
    if refresh.purpose not in (Refresh.Purpose.REPORT, Refresh.Purpose.PREVIEW):
        return {}
    user = refresh.requested_by
    with writing(refresh.reason):
        if refresh.purpose == Refresh.Purpose.PREVIEW:
            return {"preview": make_preview(report=refresh.report, user=user)}
        if not may_build(user):
            raise Refused("NOT_PERMITTED")
        scope = Scope(**refresh.scope)
        return {"report": build_previewed_report(environment=refresh.environment, scope=scope, user=user)}


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
) -> dict:
    """Return the runner's ``finished`` event.

    Raise Refusal WORKER_STOPPED or READ_TIMEOUT, Fenced for a withdrawn read. The runner limits the time itself; the
    worker's limit is a safeguard.
    """
    kind = _REQUESTS.get(type(manifest), "read")
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
        hint="read less, or try again when no load is running",
    )


def read_manifest(
    *, read: ReadRequest, timeout_seconds: float | None = None
) -> ReadManifest | CheckManifest | PublishManifest:
    """Return the manifest of a read.

    Raise Refusal MASKED_COLUMN or MetadataError ``not_permitted`` for data that its user may not read.
    """
    for row in (read.dataset, read.arguments.get("source_dataset") and _source_dataset(read)):
        if row:
            must_read(read.requested_by, row)
    if read.kind == CHECK:
        return check_manifest(
            dataset=read.dataset,
            samples=read.arguments.get("samples", CHECK_SAMPLES),
            timeout_seconds=timeout_seconds or CHECK_TIMEOUT_SECONDS,
        )
    if read.kind == PUBLISH:
        return publish_manifest(environment=read.environment, check=read.arguments["check"])
    if read.kind in _MANIFESTS:
        return _MANIFESTS[read.kind](read, timeout_seconds=timeout_seconds or SQL_TIMEOUT_SECONDS)
    timeout_seconds = timeout_seconds or (CHECK_TIMEOUT_SECONDS if read.kind in LONG else TIMEOUT_SECONDS)
    arguments = {name: value for name, value in read.arguments.items() if name != "source_dataset"}
    if read.kind == "discover":
        return ReadManifest("discover", source=_source(read), arguments=arguments, timeout_seconds=timeout_seconds)
    state = described_state(read.dataset, environment=read.environment)
    table = read_table(read.dataset, read.kind, state)
    if read.kind in ("as_of", "changes"):
        arguments |= _interval_arguments(read.dataset)
    masking = masking_for(read.requested_by, read.dataset, table)
    if read.kind == QUALITY:
        arguments = quality_arguments(state, environment=read.environment)
        arguments["sensitive"] = sorted(classification(read.dataset).sensitive_names)
    if read.kind == PROFILE:
        known = stored_profile(read.dataset, read.environment, masked=masking is not None)
        arguments = {"known_version": known.table_version} if known is not None else {}
    if masking is not None:
        must_not_tell(read.kind, arguments, table, masking)
    if read.kind == ORIGIN:
        return origin_manifest(read, state, table, timeout_seconds=timeout_seconds)
    return ReadManifest(read.kind, table=table, arguments=arguments, timeout_seconds=timeout_seconds, masking=masking)


def must_be_askable(user: Any, dataset: TargetDataset, kind: str, arguments: Mapping[str, Any]) -> None:
    """Raise Refusal for a read that cannot be answered: NO_TABLE, NO_HISTORY, NO_KEY, MASKED_COLUMN."""
    table = read_table(dataset, kind)
    masking = masking_for(user, dataset, table)
    if masking is not None:
        must_not_tell(kind, arguments, table, masking)


def _interval_arguments(dataset: TargetDataset) -> dict[str, Any]:
    """Return the arguments that describe the policy's inclusive ends and tombstones to readers of intervals."""
    policy = HistoryPolicy.from_dict((dataset.history_of or dataset).history_policy)
    arguments: dict[str, Any] = {"inclusive_ends": True} if ends_inclusive(policy) else {}
    return arguments | ({"tombstone": policy.label(DELETED)} if policy.deletes == TOMBSTONE else {})


def read_table(dataset: TargetDataset, kind: str, known: DatasetState | None = None) -> TableSpec:
    """Return the table that a read of a dataset uses. Raise Refusal NO_TABLE for a view, NO_HISTORY or NO_KEY.

    ``known`` is the dataset's state with the keys of its tables. Without it, the table's keys are those of the
    metadata.
    """
    state = known or dataset_state(dataset)
    if state.materialization != "table":
        raise Refusal("NO_TABLE", f"{state.qualified_name} is a view, it holds no rows of its own")
    if kind == ORIGIN and not state.business_key:
        raise Refusal("NO_KEY", f"{state.qualified_name} has no business key by which delivered rows could be found")
    if state.layer == "raw":
        return raw_table(state)
    if state.historize and (dataset.history_of_id is not None or kind in _OF_HISTORY):
        return history_table(state)
    if dataset.history_of_id is not None or kind in ("versions", "as_of", "changes"):
        raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    if kind == "key_search" and not state.business_key:
        raise Refusal("NO_KEY", f"{state.qualified_name} has no business key to search")
    return current_table(state)


def _source(read: ReadRequest) -> SourceSpec:
    key = read.arguments.get("source_dataset")
    if key is not None:
        source = _source_dataset(read)
        if source.format == SourceDataset.Format.TABLE:
            raise Refusal("SOURCE_KIND", f"{source} is a table, whose columns its database describes")
        if source.format == SourceDataset.Format.REST:
            raise Refusal("SOURCE_KIND", f"{source} is an endpoint, whose columns its page compares")
        return source_spec(source)
    state = dataset_state(read.dataset)
    return source_of(state, {key: source_spec(row) for key, row in source_datasets([state]).items()})


def _source_dataset(read: ReadRequest) -> SourceDataset:
    sources = SourceDataset.objects.select_related("system").prefetch_related("columns")
    return sources.get(key=read.arguments["source_dataset"])


def _read_with_relations(pk: int) -> ReadRequest:
    related = ("dataset__schema", "dataset__history_of__schema", "environment", "requested_by")
    return ReadRequest.objects.select_related(*related).get(pk=pk)


def end_old_reads() -> None:
    """Fail overdue reads and refreshes, and delete old ones."""
    now = timezone.now()
    ReadRequest.objects.filter(requested_at__lt=now - KEPT_FOR).delete()
    Refresh.objects.filter(requested_at__lt=now - KEPT_FOR).delete()
    short = ~Q(kind__in=(*LONG, SOURCE_CHECK, Refresh.KIND)) & Q(requested_at__lt=now - GIVEN_UP_AFTER)
    too_old = Q(requested_at__lt=now - CHECK_GIVEN_UP_AFTER) | short
    error = Refusal("NO_ANSWER", "no worker responded in time", hint="is a worker running?").as_json()
    withdraw(Job.objects.filter(too_old, kind__in=(*KINDS, SOURCE_CHECK, Refresh.KIND)), error=error)


def withdraw_read(*, read: ReadRequest) -> None:
    """End an unfinished read whose answer is not needed any more."""
    error = Refusal("WITHDRAWN", "the request was abandoned").as_json()
    withdraw(Job.objects.filter(pk=read.pk), error=error)
