"""Deliveries performed as by a worker."""

from elevata.jobs.registry import MESSAGES, next_work
from elevata.notifications.deliveries import perform_delivery


def send_due() -> int:
    """Perform all due deliveries and return the number of attempts."""
    count = 0
    while (job := next_work(lane=MESSAGES)) is not None:
        if perform_delivery(delivery_pk=job.pk, worker="test") is not None:
            count += 1
    return count
