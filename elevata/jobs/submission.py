"""Submission of a job: a row, and a wake-up once the transaction around it commits."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db import transaction

from elevata.core.database import retried
from elevata.jobs import services, wakeup
from elevata.jobs.models import Job

J = TypeVar("J", bound=Job)


@dataclass
class Submitted(Generic[J]):
    """Result of submitting a job. ``wakeup_sent`` is None until the transaction around it commits.

    ``requested`` says whether it changed anything: a job that is active or succeeded stays as it is.
    """

    job: J
    requested: bool = True
    wakeup_sent: bool | None = None
    reason: str = ""

    def send_wakeup(self) -> None:
        """Wake a worker now; the job's row says it if that fails."""
        self.reason = wakeup.wake(self.job.pk)
        self.wakeup_sent = not self.reason
        if self.reason:
            retried(lambda: services.note_wake_failed(job_pk=self.job.pk, reason=self.reason))

    def wake_after_commit(self) -> None:
        """Wake a worker when the transaction commits, if the submission changed anything."""
        if self.requested:
            transaction.on_commit(self.send_wakeup)

    @property
    def notice(self) -> str:
        """A message for the user if the wake-up could not be sent; else empty."""
        if self.wakeup_sent is not False:
            return ""
        return f"queued; the broker does not answer: {self.reason}; the scheduler sends it again"
