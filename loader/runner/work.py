"""Skeleton of every job that uses the runner or reads sources: claim, perform, map errors, record the end.

A kind of job is a subclass of ``Work`` with the parts in which it differs.
"""

import logging
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

from django.db import transaction
from django.db.models import QuerySet

from architecture.permissions import on_behalf_of
from elevata.core.database import retried
from elevata.core.errors import MetadataError, ProductError
from elevata.core.log_context import about
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.registry import handler_of
from elevata.jobs.services import WAITING_FOR_SPARK, Attempt, Fenced, claim
from loader.contract.refusals import Refusal
from loader.domain.spark_failures import worker_accident
from loader.runner.conversation import Conversation, Stopped, SupportsRequests

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Job)


class Blocked(Exception):
    """Error raised when a job needs a user's decision."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass
class Work(ABC, Generic[J]):
    """Work of one attempt at a job."""

    phase: ClassVar[str] = WAITING_FOR_SPARK

    job: J
    attempt: Attempt
    talk: Conversation = field(init=False)

    @classmethod
    @abstractmethod
    def jobs(cls) -> QuerySet[J]:
        """Return a query for jobs of the kind, with the relations that the work needs."""

    @classmethod
    def claim(cls, job_pk: int, worker: str) -> Self | None:
        """Claim a job; return None if it could not be claimed."""
        attempt = retried(partial(claim, job_pk=job_pk, worker=worker, phase=cls.phase))
        return cls(retried(partial(cls.jobs().get, pk=job_pk)), attempt) if attempt is not None else None

    def log_context(self) -> dict[str, Any]:
        """Return the fields of every line that is logged during the work."""
        return {}

    @abstractmethod
    def perform(self) -> dict[str, Any] | None:
        """Do the work; return the error of work that failed as JSON. Exceptions are its error, too."""

    @transaction.atomic
    def end(self, wanted: str, error: dict[str, Any] | None) -> None:
        """Record the end: succeeded, failed or blocked. It may be repeated until the database answers."""
        self.attempt.end(wanted=wanted, error=error)

    def follow_up(self) -> None:
        """Do what follows the end of work that was performed, successfully or not."""
        return


def perform_job(
    kind: type[Work[J]],
    job_pk: int,
    *,
    worker: str,
    runner: SupportsRequests,
    stopping: threading.Event | None = None,
) -> J | None:
    """Perform one job from claim to end; return None if it could not be claimed, or waits for a lease.

    It runs on behalf of the requesting user, in any thread. It always ends in a final state; only if its worker dies
    is it marked as lost later.
    """
    work = kind.claim(job_pk, worker)
    if work is None:
        return None
    work.talk = Conversation(work.attempt, runner, stopping or threading.Event())
    try:
        with about(**work.log_context()), on_behalf_of(retried(lambda: work.job.requested_by)):
            _perform_and_end(work, worker)
    except Fenced:
        number = work.attempt.number
        log.warning("%s, attempt %s was withdrawn or given up, claimed again, or lost a lease", work.job, number)
    return retried(kind.jobs().filter(pk=job_pk).first)


def _perform_and_end(work: Work[J], worker: str) -> None:
    """Perform the work and record its end. Raise Fenced."""
    try:
        error = work.perform()
        retried(partial(work.end, states.FAILED if error else states.SUCCEEDED, error))
    except Fenced:
        raise
    except Blocked as blocked:
        retried(partial(work.end, states.BLOCKED, blocked.refusal.as_json()))
    except Exception as failure:
        retried(partial(work.end, states.FAILED, _error_of(failure, work.job, worker)))
    else:
        work.follow_up()


def _error_of(failure: Exception, job: Job, worker: str) -> dict[str, Any]:
    """Return the exception as an error of a job, which must never stay "running" without a worker."""
    if isinstance(failure, Stopped):
        hint = handler_of(job.kind).lost_hint or "repeat it"
        return Refusal("WORKER_STOPPED", f"worker {worker} was stopped before this ended", hint=hint).as_json()
    if isinstance(failure, MetadataError):
        return Refusal(failure.code.upper(), failure.one_line()).as_json()
    if isinstance(failure, ProductError):
        return failure.as_json()
    log.error("%s failed", job, exc_info=failure)
    return worker_accident(failure).as_json()
