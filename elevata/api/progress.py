"""Progress and logs of jobs, as Server-Sent Events or pages.

A stream sends an event for each new line of a log (``log``; its id is the line's, so that ``Last-Event-ID`` continues
after it), for each change of the job's state (``status``), and last of all for its end (``end``). Each stream needs a
thread of the web server, so the number of streams is limited, in total and for each user, and so is their duration. If
a stream ends without ``end``, the client connects again; browsers do so by themselves. A client that does not read is
disconnected.
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
from elevata.web.requests import user_of

EVENT_STREAM = "text/event-stream"
LINES_AT_ONCE = 200


class TooManyStreams(ProductError):
    """Error of a stream beyond the limit of the user or the process."""

    code = "TOO_MANY_STREAMS"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = f"{message}; poll the status instead, or try again later"


@dataclass(frozen=True)
class Patience:
    """Times of a stream, in seconds.

    ``look`` is the interval of checks of the job, ``silence`` the longest time without sending, ``whole`` the longest
    duration of the stream, ``retry`` the wait of a client before it connects again, and ``hear`` the timeout of a send.
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
    """Job in progress: functions for its state (and True if finished), and for the log lines after an id."""

    state: Callable[[], tuple[dict[str, Any], bool]]
    lines: Callable[[int], list[dict[str, Any]]]


def progress_events(work: Work, after: int = 0, patience: Patience | None = None) -> Iterator[str]:
    """Yield the stream's events as text, until the job or the stream's time ends."""
    clock = patience or Patience()
    started = last = clock.now()
    last_state: dict[str, Any] | None = None
    yield f"retry: {int(clock.retry * 1000)}\n\n"
    while True:
        # The state is read before the lines, so that all lines logged before the end are sent before it.
        state, finished = work.state()
        lines = work.lines(after)
        for line in lines:
            # A client that reads slowly has no more time than others.
            if clock.now() - started >= clock.whole:
                return
            after = int(line["id"])
            yield _event("log", line, after)
        changed, silent = state != last_state, clock.now() - last >= clock.silence
        if changed:
            last_state = state
            yield _event("status", state)
        elif silent and not lines:
            yield ": still at work\n\n"
        if changed or silent or lines:
            last = clock.now()
        if len(lines) >= LINES_AT_ONCE:
            continue
        if finished:
            yield _event("end", state)
            return
        if clock.now() - started >= clock.whole:
            return
        clock.wait(clock.look)


def _event(name: str, values: dict[str, Any], number: int | None = None) -> str:
    id_line = f"id: {number}\n" if number is not None else ""
    return f"{id_line}event: {name}\ndata: {json.dumps(values, cls=JSONEncoder, ensure_ascii=False)}\n\n"


@dataclass
class Places:
    """Open streams of this process: at most ``most`` in total, and ``each`` for each user (None: no limit).

    A place that is not given back becomes free after ``seconds``.
    """

    most: int
    seconds: float
    each: int | None = None
    _taken: dict[object, tuple[float, Hashable]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, user: Hashable = None) -> object:
        """Take and return a place for this user. Raise TooManyStreams if none is free."""
        now = time.monotonic()
        with self._lock:
            self._taken = {place: entry for place, entry in self._taken.items() if entry[0] > now}
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
    """Iterator of text that gives its place back when it is closed: at its end, or when the client disconnects."""

    def __init__(self, text: Iterator[str], leave: Callable[[], None]) -> None:
        self._text, self._leave = text, leave

    def __iter__(self) -> "_Stream":
        return self

    def __next__(self) -> str:
        return next(self._text)

    def close(self) -> None:
        self._leave()


_PATIENCE = Patience()
# Places stay taken for longer than a stream may last, because a slow client delays its end.
PLACES = Places(settings.API_STREAMS, _PATIENCE.whole * 2, settings.API_STREAMS_EACH)


def is_wanted(request: Request) -> bool:
    """Return True if the client requests events instead of a page of the log."""
    return request._request.get_preferred_type(("application/json", EVENT_STREAM)) == EVENT_STREAM


def stream(request: Request, work: Work) -> StreamingHttpResponse:
    """Return the stream of a job's events, from the line after ``Last-Event-ID`` or ``?after=``."""
    after = line_after(request)
    place = PLACES.take(_stream_user(request))
    _set_send_timeout(request)
    text = _Stream(progress_events(work, after, _PATIENCE), lambda: PLACES.give_back(place))
    response = StreamingHttpResponse(text, content_type=f"{EVENT_STREAM}; charset=utf-8")
    response.headers["Cache-Control"] = "no-cache"
    # A proxy that buffers the response would send all events at the end.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _stream_user(request: Request) -> int:
    """Return the id of the user; of a service account that of its owner, because both share the limit."""
    user = user_of(request)
    owner = ServiceAccount.objects.filter(user_id=user.pk).values_list("owner_id", flat=True).first()
    return int(owner or user.pk)


def _set_send_timeout(request: Request) -> None:
    """Set the timeout of a send, because a client that does not read would block the thread."""
    connection = request.META.get("gunicorn.socket")
    if connection is not None:
        connection.settimeout(_PATIENCE.hear)


def line_after(request: Request) -> int:
    """Return the id of the last line that the client has; 0 for none."""
    for name, text in (
        ("Last-Event-ID", request.headers.get("Last-Event-ID", "")),
        ("after", request.query_params.get("after", "")),
    ):
        if text:
            if not (text.isascii() and text.isdigit() and len(text) < 19):
                raise ValidationError({name: ["Must be the id of a line."]})
            return int(text)
    return 0


# Descriptions of the log endpoints of load runs and executions.
_AFTER = OpenApiParameter("after", int, description="Only lines after the one with this id.")
_LAST = OpenApiParameter(
    "Last-Event-ID", int, OpenApiParameter.HEADER, description="Of a stream: go on after the line with this id."
)


def as_followed(lines: Any) -> Any:
    """Return the decorator that describes the endpoint of a log: pages, or a stream of events by ``Accept``."""
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
