"""Refreshes on a user's behalf: a worker observes tables, and then something is made from the observations.

The web process never observes itself. It asks a worker (a read of kind ``observe``), and the purpose is stored
in the read's row: only the user who asked can go on with it.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import QuerySet

from architecture.domain.reports.workflow import Refused
from loader.domain.runs.refusals import Refusal
from loader.models import ReadRequest
from loader.selectors import read_requests
from loader.services.queries.reads import OBSERVE, request_read

# Purposes of a refresh.
REPORT, PREVIEW, DRIFT = "report", "preview", "drift"


def request_look(
    *, keys: Collection[str], then: Mapping[str, Any], user: Any, sizes: bool = False, reason: str = ""
) -> ReadRequest:
    """Request a refresh of these tables (``sizes``: measured, too); ``then["do"]`` is its purpose."""
    arguments = {"tables": sorted(keys), "sizes": sizes, "then": dict(then)}
    return request_read(kind=OBSERVE, arguments=arguments, user=user, reason=reason).read


def looks_of(user: Any) -> QuerySet[ReadRequest]:
    """Return the refreshes that a user requested by page or REST."""
    return read_requests().filter(kind=OBSERVE, requested_by=user)


def must_have_seen(look: ReadRequest, keys: Collection[str]) -> None:
    """Raise Refused unless the refresh has succeeded and covered all of these tables."""
    if not look.is_finished:
        raise Refused("LOOK_UNFINISHED")
    if look.status == ReadRequest.Status.FAILED:
        said = Refusal.from_json(look.error).one_line() if look.error else "nobody looked at the warehouse"
        raise Refused("LOOK_FAILED", said)
    if not set(keys) <= set(look.arguments["tables"]):
        raise Refused("OTHER_LOOK")
