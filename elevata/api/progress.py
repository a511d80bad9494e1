"""Progress and logs of long work, as Server-Sent Events or pages.

A stream sends the lines of a log as they come (``log``, whose id is the line's, so that ``Last-Event-ID``
continues after it), the state of the work whenever that changes (``status``), and its end (``end``), which is
the last event. It takes a thread of the web server, so the number of streams is limited, altogether and for
each user, and so is their duration: a client whose stream ends without ``end`` connects again, as browsers do by
themselves. A client that does not read loses the connection.
"""

import json
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder

from elevata.accounts.models import ServiceAccount
from elevata.api.openapi import PROBLEM_TYPE, ProblemSerializer
from elevata.core.errors import ProductError

EVENT_STREAM = "text/event-stream"
LINES_AT_ONCE = 200


class TooManyStreams(ProductError):
    """Error raised when a user, or the process, follows as many streams as it may."""

    code = "TOO_MANY_STREAMS"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = f"{message}; poll the status instead, or try again later"


@dataclass(frozen=True)
class Patience:
    """Times of a stream, in seconds.

    ``look`` is between checks of the work, ``silence`` between signs of life, ``whole`` until the stream ends,
    ``retry`` until a client connects again, ``hear`` how long it may take to read what is sent at once.
    ``now`` and ``wait`` are the clock.
    """

    look: float = 1.0
    silence: float = 10.0
    whole: float = 120.0
    retry: float = 2.0
    hear: float = 30.0
    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Work:
    """Work under way: its state and whether it is finished; the log's lines after the one with an id."""

    standing: Callable[[], tuple[dict[str, Any], bool]]
    lines: Callable[[int], list[dict[str, Any]]]


def told(work: Work, after: int = 0, patience: Patience | None = None) -> Iterator[str]:
    """Yield the stream's text, event by event, until the work or the stream's time is over."""
    clock = patience or Patience()
    started = last = clock.now()
    shown: dict[str, Any] | None = None
    yield f"retry: {int(clock.retry * 1000)}\n\n"
    while True:
        # The state is read before the lines, so that all lines logged before the end are sent before it.
        standing, finished = work.standing()
        lines = work.lines(after)
        for line in lines:
            # A client that reads every line slowly has no more time than others.
            if clock.now() - started >= clock.whole:
                return
            after = int(line["id"])
            yield _event("log", line, after)
        changed, silent = standing != shown, clock.now() - last >= clock.silence
        if changed:
            shown = standing
            yield _event("status", standing)
        elif silent and not lines:
            yield ": still at work\n\n"
        if changed or silent or lines:
            last = clock.now()
        if len(lines) >= LINES_AT_ONCE:
            continue
        if finished:
            yield _event("end", standing)
            return
        if clock.now() - started >= clock.whole:
            return
        clock.wait(clock.look)


def _event(name: str, values: dict[str, Any], number: int | None = None) -> str:
    known = f"id: {number}\n" if number is not None else ""
    return f"{known}event: {name}\ndata: {json.dumps(values, cls=JSONEncoder, ensure_ascii=False)}\n\n"


@dataclass
class Places:
    """Open streams of this process, limited altogether and for each user (``each`` None: by the total alone).

    A place that is not given back becomes free after ``seconds``.
    """

    most: int
    seconds: float
    each: int | None = None
    _taken: dict[object, tuple[float, Hashable]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, user: Hashable = None) -> object:
        """Take and return a place for this user. Raise TooManyStreams if there is none."""
        now = time.monotonic()
        with self._lock:
            self._taken = {place: held for place, held in self._taken.items() if held[0] > now}
            count = sum(1 for _, holder in self._taken.values() if holder == user)
            if self.each is not None and count >= self.each:
                raise TooManyStreams("you have too many open streams")
            if len(self._taken) >= self.most:
                raise TooManyStreams(f"{len(self._taken)} event streams are already open")
            place = object()
            self._taken[place] = (now + self.seconds, user)
        return place

    def give_back(self, place: object) -> None:
        with self._lock:
            self._taken.pop(place, None)


class _Stream:
    """Iterator of text that gives its place back at its end, or when the client disconnects."""

    def __init__(self, text: Iterator[str], leave: Callable[[], None]) -> None:
        self._text, self._leave = text, leave

    def __iter__(self) -> "_Stream":
        return self

    def __next__(self) -> str:
        return next(self._text)

    def close(self) -> None:
        self._leave()


_PATIENCE = Patience()
# Longer than a stream may last, since a slow client delays its end.
PLACES = Places(settings.API_STREAMS, _PATIENCE.whole * 2, settings.API_STREAMS_EACH)


def is_wanted(request: Request) -> bool:
    """Return whether the client asks for events rather than for a page of the log."""
    return request._request.get_preferred_type(("application/json", EVENT_STREAM)) == EVENT_STREAM


def stream(request: Request, work: Work) -> StreamingHttpResponse:
    """Return the work as a stream of events, after ``Last-Event-ID`` or ``?after=``."""
    after = line_after(request)
    place = PLACES.take(_who_listens(request))
    _limit_sending(request)
    text = _Stream(told(work, after, _PATIENCE), lambda: PLACES.give_back(place))
    sent = StreamingHttpResponse(text, content_type=f"{EVENT_STREAM}; charset=utf-8")
    sent.headers["Cache-Control"] = "no-cache"
    # A proxy that buffers an answer would send everything at the end.
    sent.headers["X-Accel-Buffering"] = "no"
    return sent


def _who_listens(request: Request) -> int:
    """Return the ID of the user; of a service account, that of its owner, whose limit it shares."""
    user = request.user
    owner = ServiceAccount.objects.filter(user_id=user.pk).values_list("owner_id", flat=True).first()
    return int(owner or user.pk)


def _limit_sending(request: Request) -> None:
    """Limit the time of a send: a client that reads nothing would keep the thread that waits for it."""
    connection = request.META.get("gunicorn.socket")
    if connection is not None:
        connection.settimeout(_PATIENCE.hear)


def line_after(request: Request) -> int:
    """Return the id of the last line that the client has; 0 for none."""
    for name, given in (
        ("Last-Event-ID", request.headers.get("Last-Event-ID", "")),
        ("after", request.query_params.get("after", "")),
    ):
        if given:
            if not (given.isascii() and given.isdigit() and len(given) < 19):
                raise ValidationError({name: ["Must be the id of a line."]})
            return int(given)
    return 0


# Logs of load runs and executions, in pages or as streams of events.


_AFTER = OpenApiParameter("after", int, description="Only lines after the one with this id.")
_LAST = OpenApiParameter(
    "Last-Event-ID", int, OpenApiParameter.HEADER, description="Of a stream: go on after the line with this id."
)


def as_followed(lines: Any) -> Any:
    """Describe the endpoint of a log: it comes in pages, or as a stream of events by ``Accept``."""
    return extend_schema(
        responses={
            (200, "application/json"): lines(many=True),
            (200, EVENT_STREAM): OpenApiTypes.STR,
            (429, PROBLEM_TYPE): OpenApiResponse(
                ProblemSerializer, "Of a stream: too many are open, or too many of yours. `Retry-After` says when."
            ),
        },
        filters=False,
        parameters=[_AFTER, _LAST],
    )
