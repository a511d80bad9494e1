"""Limits of actions within a time, counted by the change log."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from elevata.accounts.quotas import shared_rows
from elevata.audit.models import ChangeLogEntry


def logged_within(user: Any, within: timedelta, **which: Any) -> int:
    """Return the number of these entries of a user and their service accounts within a time. Call in a transaction.

    The log keeps entries of what was deleted or edited since, so those count, too.
    """
    entries = ChangeLogEntry.objects.filter(shared_rows(user, "user"), at__gt=timezone.now() - within, **which)
    return entries.count()
