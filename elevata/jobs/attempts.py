"""Writes of one attempt of a job. Each checks that the attempt still holds the job.

A worker whose job was marked as lost may still be alive, and slow. Its attempt number is outdated by then, so none of
its writes finds a row any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from elevata.jobs import states
from elevata.jobs.models import Job


class Fenced(Exception):
    """Error raised when an attempt no longer holds its job: it was lost, claimed again, or lost a lease."""


@dataclass(frozen=True)
class Attempt:
    """One worker's hold on one job."""

    job_pk: int
    number: int

    def held(self) -> QuerySet[Job]:
        """Return the job's row while this attempt holds it; else nothing."""
        return Job.objects.filter(pk=self.job_pk, attempt=self.number, status__in=states.HELD)

    def must_hold(self) -> None:
        """Lock the job's row until the transaction ends. Raise Fenced if the attempt does not hold it."""
        if not self.held().select_for_update().exists():
            raise Fenced

    def write(self, **fields: Any) -> None:
        """Write fields of the job, and a heartbeat. Raise Fenced."""
        if not self.held().update(heartbeat_at=timezone.now(), **fields):
            raise Fenced

    def heartbeat(self) -> str:
        """Record a heartbeat and return the job's status: it may be canceling. Raise Fenced."""
        self.write()
        return Job.objects.values_list("status", flat=True).get(pk=self.job_pk)

    def enter(self, phase: str) -> None:
        """Set the job's phase, which pages show. Raise Fenced."""
        self.write(phase=phase[:200])

    def end(self, *, wanted: str, error: Mapping | None = None) -> str | None:
        """End the job as ``wanted``, or as canceled if that was requested; return the status. Call in a transaction.

        Return None if the attempt no longer holds the job.
        """
        job = self.held().select_for_update().first()
        if job is None:
            return None
        status, now = states.ends_as(status=job.status, wanted=wanted), timezone.now()
        self.held().update(
            status=status,
            # A cancelled job keeps the error that says who cancelled it.
            error=job.error if status == states.CANCELED else error,
            finished_at=now,
            heartbeat_at=now,
            phase="",
            exclusive=None,
        )
        return status
