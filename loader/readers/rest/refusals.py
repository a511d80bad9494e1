"""Refusals of requests: the request with its page, the answer, and a hint."""

import re
from dataclasses import dataclass, field
from http import HTTPStatus

from loader.contract.refusals import Refusal
from metadata.domain.sources.rest_addresses import shown_url

_EXCERPT, _SEARCHED = 100, 1 << 16
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_SHORTEST_SECRET = 4
_SIGN_IN_HINT = "Correct the authentication in the system, or the secret in its variable."
_WAIT_HINT = "Nothing was loaded. Run again under the same id when it has less to do."


@dataclass
class RequestContext:
    """Request as refusals name it. ``secrets`` are replaced in every text; ``page`` counts from 1, 0 for none."""

    source: str
    endpoint: str
    url: str = ""
    page: int = 0
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def refusal(self, code: str, problem: str, hint: str, *, excerpt: bytes | None = None) -> Refusal:
        """Return a refusal; ``excerpt`` is the body whose first characters become a sample."""
        page = f"page {self.page}, " if self.page else ""
        samples = () if excerpt is None else (self._beginning(excerpt),)
        return Refusal(
            code,
            self._without_secrets(f"{self.source}: {page}{shown_url(self.url)} {problem}"),
            hint=hint,
            file=self.endpoint if self.endpoint.strip("/") else "",
            samples=samples,
        )

    def of_status(self, status: int, tries: int, body: bytes) -> Refusal:
        """Return the refusal for a status that is no success."""
        answered = f"answered {status} {_phrase(status)}".rstrip()
        again = f"{answered}, {tries} times" if tries > 1 else answered
        if status == HTTPStatus.UNAUTHORIZED:
            return self.refusal("SIGN_IN_REFUSED", answered, _SIGN_IN_HINT)
        if status == HTTPStatus.FORBIDDEN:
            hint = "The secret's owner needs permission to read it, or the authentication in the system is another."
            return self.refusal("NOT_ALLOWED", answered, hint)
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            hint = "Correct the source's location, or the base URL of its system."
            return self.refusal("NO_SUCH_ENDPOINT", answered, hint)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            hint = "Set requests_per_minute in the system to the limit of the API, and run again under the same id."
            return self.refusal("RATE_LIMITED", again, hint)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return self.refusal("SOURCE_FAILED", again, _WAIT_HINT, excerpt=body)
        hint = "Correct the options of the source; the sample has the API's own message."
        return self.refusal("SOURCE_FAILED", answered, hint, excerpt=body)

    def slow(self, seconds: float) -> Refusal:
        hint = f"{_WAIT_HINT} Or give the option timeout, or ask for fewer pages."
        return self.refusal("TOO_SLOW", f"had no whole answer within {seconds:,.0f} seconds", hint)

    def lost(self, reason: str, tries: int, *, started: bool) -> Refusal:
        """Return the refusal for a connection that failed; ``started``: an answer had begun."""
        if started:
            return self.refusal("SOURCE_GONE", f"broke off, {tries} times: {reason}", _WAIT_HINT)
        hint = "Is it running, and may this machine reach it?"
        return self.refusal("NOT_REACHED", f"cannot be reached: {reason}", hint)

    def not_json(self, reason: str, body: bytes) -> Refusal:
        hint = "The address may be a web page, or a sign-in page. Correct the location or the authentication."
        return self.refusal("NOT_JSON", f"is no JSON document: {reason}", hint, excerpt=body)

    def _beginning(self, body: bytes) -> str:
        """Return the first characters of a body on one line; secrets are replaced before they could be cut."""
        text = self._without_secrets(body[:_SEARCHED].decode("utf-8", "replace"))
        return _CONTROL.sub(" ", text[: 8 * _EXCERPT]).strip()[:_EXCERPT]

    def _without_secrets(self, text: str) -> str:
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return text


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
