"""Submission of a job: its row is added, and the wake-up is sent after the commit."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db import transaction

from elevata.core.database import retried
from elevata.jobs.models import Job
from elevata.jobs.wake_ups import note_wake_failed, wake

J = TypeVar("J", bound=Job)


@dataclass
class Submitted(Generic[J]):
    """Result of submitting a job. ``wakeup_sent`` is None until the transaction commits.

    ``requested`` is False if nothing changed, because the job is active or has succeeded.
    """

    job: J
    requested: bool = True
    wakeup_sent: bool | None = None
    reason: str = ""

    def send_wakeup(self) -> None:
        """Send the wake-up now; if that fails, store the reason in the job's row."""
        self.reason = wake(self.job.pk)
        self.wakeup_sent = not self.reason
        if self.reason:
            retried(lambda: note_wake_failed(job_pk=self.job.pk, reason=self.reason))

    def wake_after_commit(self) -> None:
        """Send the wake-up after the commit, if the submission changed anything."""
        if self.requested:
            transaction.on_commit(self.send_wakeup)

    @property
    def notice(self) -> str:
        """Return a message for the user if the wake-up could not be sent; else an empty string."""
        if self.wakeup_sent is not False:
            return ""
        return f"queued; the broker does not answer: {self.reason}; the scheduler sends it again"
