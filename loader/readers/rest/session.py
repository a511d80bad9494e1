"""HTTP session for sources: retries, pace, redirects, limits of size and time, and JSON that is checked."""

import random
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin

from requests import PreparedRequest, Request, Response, Session
from requests.exceptions import ContentDecodingError, RequestException, SSLError, Timeout

from elevata.core import strict_json
from loader.contract.refusals import Refusal
from loader.readers.rest.connections import CONNECT_SECONDS, Gate, GateAdapter
from loader.readers.rest.refusals import RequestContext
from metadata.domain.sources.rest_addresses import origin_of

READ_SECONDS = 60.0
REDIRECTS = 5
_RETRIED = (408, 429, 500, 502, 503, 504)
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_CHUNK = 1 << 16
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of one source: total seconds, tries of a request, bytes of a page (as sent, and unpacked)."""

    seconds: float = 3600.0
    tries: int = 5
    page_bytes: int = 64 * _MEGABYTE


class RateLimiter:
    """Times of the requests to one API, at most ``per_minute`` a minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0.0

    def reserve(self, per_minute: int) -> float:
        """Reserve the time of the next request, and return the seconds until then."""
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + 60 / per_minute
            return at - now


_limiters: dict[tuple[str, str, int], RateLimiter] = {}
_limiters_lock = threading.Lock()


def limiter_of(origin: tuple[str, str, int]) -> RateLimiter:
    """Return the rate limiter that all requests of this process to an API share."""
    with _limiters_lock:
        return _limiters.setdefault(origin, RateLimiter())


class SourceSession(Session):
    """Session of one source. Use it as a context: its connections are shut down after ``limits.seconds``.

    ``per_minute`` limits the requests to the API at ``origin``; ``pause`` waits for some seconds, and may raise to
    cancel. Requests to ``token_url`` do not count as pages: messages give them no number, and they may be repeated.
    """

    def __init__(
        self,
        context: RequestContext,
        *,
        hosts: Collection[str],
        limits: Limits,
        credentials: Collection[str] = (),
        origin: tuple[str, str, int],
        per_minute: int | None = None,
        token_url: str | None = None,
        pause: Callable[[float], None] = time.sleep,
    ):
        super().__init__()
        self.trust_env = False  # no proxies, no .netrc
        self._context, self._limits, self._credentials = context, limits, credentials
        self._origin, self._per_minute, self._pause = origin, per_minute, pause
        # Prepared, so that it equals the URL of a request, whose host is in lower case.
        self._token_url = Request("POST", token_url).prepare().url if token_url else None
        self._gate = Gate(hosts)
        self._deadline = time.monotonic() + limits.seconds
        self._seen: set[str] = set()
        self._answer_began = False
        self._timer = threading.Timer(min(limits.seconds, threading.TIMEOUT_MAX), self._gate.shut)
        self._timer.daemon = True
        self.mount("https://", GateAdapter(self._gate))
        self.mount("http://", GateAdapter(self._gate))
        self.headers.update({"User-Agent": "elevata", "Accept": "application/json", "Accept-Encoding": "gzip, deflate"})

    def __enter__(self) -> "SourceSession":
        self._timer.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._timer.cancel()
        self._gate.shut()
        self.close()
        self._gate.close()

    def send(self, request: PreparedRequest, **given: Any) -> Response:
        """Return the whole answer to a request, with redirects followed and its JSON checked. Raise Refusal."""
        is_token, page = request.url == self._token_url, self._context.page
        if is_token:
            self._context.page = 0
        else:
            self._refuse_repeated(request.url or "")
        for _ in range(REDIRECTS + 1):
            self._context.url = request.url or ""
            response = self._answer(request)
            if not response.is_redirect:
                break
            if is_token:
                hint = "Correct the token URL in the system; its requests carry the secret and follow no redirect."
                raise self._context.refusal("SIGN_IN_REFUSED", "answered with a redirect", hint)
            request = self._redirected(request, response)
        else:
            raise self._context.refusal("SOURCE_FAILED", f"redirected {REDIRECTS} times", "Correct the location.")
        self._check_status(response, is_token=is_token)
        _set_json(response, self._context)
        self._context.page = page
        return response

    def status_of(self, request: Request) -> int:
        """Return the status of an answer. Raise Refusal for 401, 403, 429, and for an error of the server (5xx)."""
        prepared = self.prepare_request(request)
        self._context.url = prepared.url or ""
        response = self._answer(prepared)
        if response.status_code in (401, 403, 429) or response.status_code >= 500:
            raise self._context.of_status(response.status_code, 1, response.content)
        return response.status_code

    def _refuse_repeated(self, url: str) -> None:
        self._context.url = url
        if url in self._seen:
            hint = (
                "The pages would never end. Correct the paging options: where a cursor is always there, has_more_path "
                "names the end. Or report it to the operator of the API."
            )
            raise self._context.refusal("CURSOR_REPEATS", "was requested before", hint)
        self._seen.add(url)

    def _check_status(self, response: Response, *, is_token: bool) -> None:
        if response.ok:
            return
        refusal = self._context.of_status(response.status_code, getattr(response, "tries", 1), response.content)
        if is_token and response.status_code < 429:
            refusal.code, refusal.hint = "SIGN_IN_REFUSED", "Correct user, scope and secret of the system."
        raise refusal

    def _redirected(self, request: PreparedRequest, response: Response) -> PreparedRequest:
        """Return the request to the place of a redirect; another host gets no credentials."""
        following = request.copy()
        try:
            following.url = joined_url(request.url or "", response.headers["location"])
        except ValueError:
            raise self._context.refusal("BAD_LOCATION", *REDIRECT_PROBLEM) from None
        if origin_of_request(following, self._context) != origin_of_request(request, self._context):
            for name in self._credentials:
                following.headers.pop(name, None)
        return following

    # --- one request, with retries -------------------------------------------------------------

    def _answer(self, request: PreparedRequest) -> Response:
        origin_of_request(request, self._context)
        for attempt in range(1, self._limits.tries + 1):
            is_last = attempt == self._limits.tries
            self._wait(limiter_of(self._origin).reserve(self._per_minute) if self._per_minute else 0.0)
            try:
                response = self._attempt(request)
            except (RequestException, OSError) as error:
                if self._seconds_left() <= 0:
                    raise self._context.slow(self._limits.seconds) from None
                if is_last or isinstance(error, SSLError | ContentDecodingError):
                    raise self._refusal_of(error, attempt) from None
                self._wait(_backoff(attempt))
                continue
            vars(response)["tries"] = attempt
            if is_last or response.status_code not in _RETRIED:
                return response
            wait = _retry_after(response)
            if wait is not None and wait > self._seconds_left():
                return response
            self._wait(_backoff(attempt) if wait is None else wait)
        raise AssertionError("the last try returns or raises")

    def _attempt(self, request: PreparedRequest) -> Response:
        timeout = (CONNECT_SECONDS, max(0.1, min(READ_SECONDS, self._seconds_left())))
        self._answer_began = False
        # ``Session.send`` would read the whole body of a redirect.
        response = self.get_adapter(request.url or "").send(request, stream=True, timeout=timeout, verify=True)
        self._answer_began = True
        with response:
            vars(response).update(_content=self._body(response), _content_consumed=True)
        return response

    def _body(self, response: Response) -> bytes:
        """Return the unpacked body. Raise Refusal TOO_LARGE as soon as it has more than ``page_bytes``."""
        chunks, size, limit = [], 0, self._limits.page_bytes
        declared = response.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared) > limit:
            raise self._too_large(limit)
        for chunk in response.iter_content(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise self._too_large(limit)
            chunks.append(chunk)
        if self._seconds_left() <= 0:  # the timer closes the socket, which looks like the end of the body
            raise self._context.slow(self._limits.seconds)
        return b"".join(chunks)

    def _too_large(self, limit: int) -> Refusal:
        hint = "Ask for smaller pages: the options paging and page_size."
        return self._context.refusal("TOO_LARGE", f"has more than {limit // _MEGABYTE} MB, unpacked", hint)

    def _refusal_of(self, error: Exception, tries: int) -> Refusal:
        if isinstance(error, Timeout):
            return self._context.slow(READ_SECONDS)
        if isinstance(error, ContentDecodingError):
            return self._context.not_json("its compression is broken", b"")
        return self._context.lost(_reason(error), tries, started=self._answer_began)

    def _seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    def _wait(self, seconds: float) -> None:
        if seconds > self._seconds_left():
            raise self._context.slow(self._limits.seconds)
        self._pause(seconds)


REDIRECT_PROBLEM = ("redirects to no URL of HTTP", "Report it to the operator of the API, or correct the location.")


def joined_url(url: str, reference: str) -> str:
    """Return the URL of a redirect or next page as it is requested. Raise ValueError for one that is not HTTP.

    The URL is in the form in which all parsers read the same host in it.
    """
    request = PreparedRequest()
    request.prepare_url(urljoin(url, reference), None)  # its InvalidURL is a ValueError
    origin_of(request.url or "")
    return request.url or ""


def origin_of_request(request: PreparedRequest, context: RequestContext) -> tuple[str, str, int]:
    """Return scheme, host and port. Raise Refusal BAD_LOCATION for a redirect or page that is no URL of HTTP."""
    try:
        return origin_of(request.url or "")
    except ValueError as error:
        hint = "Report it to the operator of the API, or correct the paging options of the source."
        raise context.refusal("BAD_LOCATION", f"leads to another place: {error}", hint) from None


def _set_json(response: Response, context: RequestContext) -> None:
    """Parse the body once, strictly, for ``Response.json``. Raise Refusal NOT_JSON."""
    value = None
    if response.status_code != 204:
        try:
            value = strict_json.loads(response.content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise context.not_json(f"byte {error.start + 1:,} is not UTF-8", response.content) from None
        except strict_json.BadJson as error:
            reason = str(error) if response.content.strip() else "it is empty"
            raise context.not_json(reason, response.content) from None
    vars(response)["json"] = lambda **_: value


def _backoff(attempt: int) -> float:
    return min(_FIRST_WAIT * 2 ** (attempt - 1), _LONGEST_WAIT) * (0.75 + 0.5 * random.random())


def _retry_after(response: Response) -> float | None:
    """Return the seconds of the header Retry-After, given as a number or a date; None without one."""
    given = response.headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit():
        return float(given)
    try:
        at = parsedate_to_datetime(given)
    except (ValueError, OverflowError):  # a year that no date has
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _reason(error: BaseException) -> str:
    """Return the innermost reason of an error of the connection."""
    while True:
        candidates = (getattr(error, "reason", None), *error.args, error.__cause__)
        inner = next((candidate for candidate in candidates if isinstance(candidate, BaseException)), None)
        if inner is None:
            return str(error)[:200] or type(error).__name__
        error = inner
