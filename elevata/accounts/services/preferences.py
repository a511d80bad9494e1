"""Settings of a user's own pages. The session has a copy, so that pages need no query for it."""

from typing import Any
from zoneinfo import available_timezones

from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest

from elevata.accounts.models import Preference
from elevata.accounts.permissions import must_write
from elevata.core.errors import MetadataError

SESSION_KEY = "time_zone"


def choose_time_zone(*, user: Any, time_zone: str, session: SessionBase) -> Preference:
    """Store the time zone of a user's pages; empty for the browser's. Raise MetadataError ``bad_time_zone``."""
    must_write()
    if time_zone and time_zone not in available_timezones():
        raise MetadataError("bad_time_zone", "is no time zone; write it like Europe/Berlin or UTC", "time_zone")
    preference, _ = Preference.objects.update_or_create(user=user, defaults={"time_zone": time_zone})
    session[SESSION_KEY] = time_zone
    return preference


def copy_to_session(*, request: HttpRequest, user: Any) -> None:
    """Copy the user's time zone into the session at sign-in."""
    preference = Preference.objects.filter(user=user).first()
    if preference is not None:
        request.session[SESSION_KEY] = preference.time_zone
