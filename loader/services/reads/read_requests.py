"""Requests for reads and history checks, and the end of old ones."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from architecture.models import Refresh
from architecture.services.environments import current_environment
from elevata.accounts.quotas import shared_rows
from elevata.core.words import counted
from elevata.jobs.models import Job
from elevata.jobs.services import withdraw
from elevata.jobs.submission import Submitted
from loader.contract.refusals import Refusal
from loader.domain.queries.answers import COMPARE, DESCENDANTS, EXPORT, ORIGIN
from loader.models import ReadRequest
from loader.services.publication import PUBLISH
from loader.services.reads.exports import remove_old_exports
from loader.services.reads.queries import SQL, query_arguments
from loader.services.reads.read_permissions import must_read
from loader.services.reads.trials import TRY_MODEL, must_be_tried, trial_arguments
from metadata.models import SourceDataset, TargetDataset

CHECK, SOURCE_CHECK = "check", "source_check"
PROFILE, QUALITY, QUARANTINED = "profile", "quality", "quarantine"
# Kinds that read a whole table.
LONG = (CHECK, PROFILE, QUALITY, EXPORT, COMPARE)
KINDS = (
    *("sample", "key_search", "versions", "as_of", "changes", ORIGIN, DESCENDANTS, "discover"),
    *(*LONG, QUARANTINED, SQL, TRY_MODEL, PUBLISH),
)
# Kinds whose statement a user wrote.
OF_TEXTS = (SQL, TRY_MODEL)
# Kinds of reads without a dataset.
_WITHOUT_DATASET = (SQL, TRY_MODEL, PUBLISH)
# A check reads the whole history.
CHECK_TIMEOUT_SECONDS = 3600.0
CHECK_SAMPLES, MOST_CHECK_SAMPLES = 5, 1000
# A read without an answer fails after this time.
GIVEN_UP_AFTER = timedelta(minutes=5)
CHECK_GIVEN_UP_AFTER = timedelta(seconds=CHECK_TIMEOUT_SECONDS) + GIVEN_UP_AFTER
KEPT_FOR = timedelta(days=1)
# Queries of a user whose texts are stored longer than their answers.
LAST_QUERIES = 20


def is_of_user(job: Job) -> bool:
    """Return True for a read of a user, or of a text that anyone wrote, which gets the runner of reads.

    Reads of the system itself, by commands without a user, are bounded by the product's own code and share the runner
    of loads.
    """
    return job.requested_by_id is not None or job.kind in OF_TEXTS


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
    """Request a read; its row has the reason, and later the answer. ``discover`` reads a source dataset.

    Raise Refusal TOO_MANY_READS if too many reads of the user are unfinished.
    """
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
        if user is not None:
            _refuse_too_many(user)
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


def _refuse_too_many(user: Any) -> None:
    """Raise Refusal TOO_MANY_READS for a user with too many unfinished reads. Call in a transaction.

    A user and their service accounts share the limit.
    """
    own = ReadRequest.objects.filter(shared_rows(user, "requested_by"))
    unfinished = own.exclude(status__in=ReadRequest.FINISHED).count()
    if unfinished >= settings.READS_PER_USER:
        raise Refusal(
            "TOO_MANY_READS",
            f"you have {counted(unfinished, 'unfinished read')}, the most that is permitted",
            hint="Wait for some to finish, or cancel a query.",
        )


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
    check: bool = False,
    key: Sequence[str] | None = None,
    user: Any,
    wake_worker: bool = True,
) -> RequestedRead:
    """Request a trial of a SELECT, for a model (``dataset``) or for one that is not saved yet.

    ``sample`` is a part of each table (``share`` or ``rows``); ``compare`` asks for the difference to the model's
    table, ``check`` for the declared key (``key``, by default that of the model) and the quality checks of the model.
    Raise Refusal, with line and column for an error of the SELECT.
    """
    arguments = trial_arguments(text, limit=limit, sample=sample or {}, compare=compare, check=check, key=key)
    must_be_tried(text, dataset=dataset, user=user, compare=compare, sample=arguments["sample"])
    return request_read(kind=TRY_MODEL, dataset=dataset, arguments=arguments, user=user, wake_worker=wake_worker)


def end_old_reads() -> None:
    """Fail overdue reads and refreshes, and delete old ones with the files of exports."""
    now = timezone.now()
    _delete_old_reads(now - KEPT_FOR)
    Refresh.objects.filter(requested_at__lt=now - KEPT_FOR).delete()
    remove_old_exports(KEPT_FOR)
    short = ~Q(kind__in=(*LONG, SOURCE_CHECK, Refresh.KIND)) & Q(requested_at__lt=now - GIVEN_UP_AFTER)
    too_old = Q(requested_at__lt=now - CHECK_GIVEN_UP_AFTER) | short
    error = Refusal("NO_ANSWER", "no worker responded in time", hint="is a worker running?").as_json()
    withdraw(Job.objects.filter(too_old, kind__in=(*KINDS, SOURCE_CHECK, Refresh.KIND)), error=error)


def _delete_old_reads(before: datetime) -> None:
    """Delete reads that were requested before a time. The last queries of each user stay, without their answers."""
    place = Window(RowNumber(), partition_by="requested_by", order_by="-pk")
    queries = ReadRequest.objects.filter(kind=SQL, requested_by__isnull=False).order_by()
    last = queries.annotate(place=place).filter(place__lte=LAST_QUERIES)
    old = ReadRequest.objects.filter(requested_at__lt=before).order_by()
    old.exclude(pk__in=last.values("pk")).delete()
    old.filter(answer__isnull=False).update(answer=None)


def withdraw_read(*, read: ReadRequest) -> None:
    """End an unfinished read whose answer is not needed any more."""
    error = Refusal("WITHDRAWN", "the request was abandoned").as_json()
    withdraw(Job.objects.filter(pk=read.pk), error=error)
