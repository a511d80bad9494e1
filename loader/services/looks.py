"""Looks: a worker sees how tables are, on somebody's behalf, before something is made from what is seen.

The web process never looks itself. It puts the question to a worker (a read of kind ``observe``), and
what it was asked for stands in the question's row: only whoever asked can go on with it.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import QuerySet

from architecture.domain.workflow import Refused
from loader.domain.refusals import Refusal
from loader.models import ReadRequest
from loader.selectors import read_requests
from loader.services.reads import OBSERVE, request_read

# What a look may be for.
REPORT, PREVIEW, DRIFT = "report", "preview", "drift"


def request_look(
    *, keys: Collection[str], then: Mapping[str, Any], user: Any, sizes: bool = False, reason: str = ""
) -> ReadRequest:
    """Ask for these tables to be looked at (``sizes``: measured, too); ``then["do"]`` is what for."""
    arguments = {"tables": sorted(keys), "sizes": sizes, "then": dict(then)}
    return request_read(kind=OBSERVE, arguments=arguments, user=user, reason=reason).read


def looks_of(user: Any) -> QuerySet[ReadRequest]:
    """The looks that somebody asked for by page or REST."""
    return read_requests().filter(kind=OBSERVE, requested_by=user)


def must_have_seen(look: ReadRequest, keys: Collection[str]) -> None:
    """Refused unless the look has ended well and was at all of these tables."""
    if not look.is_finished:
        raise Refused("LOOK_UNFINISHED")
    if look.status == ReadRequest.Status.FAILED:
        said = Refusal.from_json(look.error).one_line() if look.error else "nobody looked at the warehouse"
        raise Refused("LOOK_FAILED", said)
    if not set(keys) <= set(look.arguments["tables"]):
        raise Refused("OTHER_LOOK")
