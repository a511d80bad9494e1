"""Paging of an endpoint: the request of each page by the options of the source and the page before.

``loader.domain.sources.completeness`` decides if another page is asked for, and if all of them came.
"""

import hashlib
import json
from typing import Any

from dlt.sources.helpers.rest_client.paginators import BasePaginator
from requests import Request, Response

from loader.contract.refusals import Refusal
from loader.domain.sources.answer_claims import claims_of, value_at, whole_number
from loader.domain.sources.completeness import BY_REFERENCE, Completeness, PageFacts
from loader.readers.rest.session import joined_url
from metadata.domain.sources.formats import REST
from metadata.domain.sources.reading_options import options_of

_NO_CONTENT = 204
_FLAGS = {"true": True, "false": False, "1": True, "0": False}


def endpoint_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an endpoint, with the defaults of those that are not given."""
    return {name: given.get(name, option.default_of(REST)) for name, option in options_of(REST).items()}


def records_of(document: Any, path: str | None) -> list[Any]:
    """Return the records of a page; null at the path is a page without any. Raise Refusal NO_SUCH_PATH."""
    is_there, value = value_at(document, path)
    if not is_there:
        hint = "Correct the option path: names from the top, joined by dots."
        raise Refusal("NO_SUCH_PATH", f"has no {path} where the option path looks for it", hint=hint)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


class Pager(BasePaginator):
    """Requests of the pages of an endpoint. Each page is counted in ``completeness``."""

    def __init__(self, options: dict[str, Any], completeness: Completeness):
        super().__init__()
        self._options, self._completeness = options, completeness
        self._paging, self._offset = options["paging"], 0
        self._reference: str | None = None
        self._before: frozenset[bytes] = frozenset()
        self._pages: dict[bytes, int] = {}

    def init_request(self, request: Request) -> None:
        self.update_request(request)

    def update_request(self, request: Request) -> None:
        options, parameters = self._options, {}
        match self._paging:
            case "page":
                parameters = {options["page_parameter"] or "page": options["first_page"] + self._completeness.pages}
            case "offset":
                parameters = {options["page_parameter"] or "offset": self._offset}
                parameters[options["page_size_parameter"]] = options["page_size"]
            case "cursor" if self._reference is not None:
                parameters = {options["page_parameter"] or "cursor": self._reference}
            case "next_url" | "link" if self._reference is not None:
                # The URL has its parameters.
                request.url, request.params = _next_url(str(request.url), self._reference), None
        if parameters:
            former: Any = request.params or {}  # an object: nothing else is ever given
            request.params = {**former, **parameters}

    def update_state(self, response: Response, data: list[Any] | None = None) -> None:
        document, options = response.json(), self._options
        is_page = response.status_code != _NO_CONTENT
        records = records_of(document, options["path"]) if is_page else []
        is_there, following = self._following(response, document)
        self._reference = _reference(following, self._paging) if following else None
        link = response.links.get("next", {}).get("url")
        facts = PageFacts(
            records=len(records),
            repeated=self._repeated(records),
            total=self._total(document) if is_page else None,
            more=self._more(document) if is_page else None,
            names_next=is_there,
            has_next=self._reference is not None,
            claims=claims_of(
                document,
                response.headers,
                response.status_code,
                options["path"],
                is_paged=self._paging != "none",
                has_link=bool(link),
            ),
        )
        self._completeness.take(facts)
        # The offset grows by the records that came: a server may send fewer than were asked for.
        self._offset += len(records) or options["page_size"] or 0
        self._has_next_page = self._completeness.continues
        if not self._has_next_page:
            self._completeness.finish()

    def _following(self, response: Response, document: Any) -> tuple[bool, Any]:
        if self._paging == "link":
            return True, response.links.get("next", {}).get("url")
        return value_at(document, self._options["next_path"]) if self._paging in BY_REFERENCE else (False, None)

    def _repeated(self, records: list[Any]) -> int:
        """Return the number of records that the page before has, too. Raise Refusal CURSOR_REPEATS for equal pages."""
        if self._paging == "none":
            return 0
        digests = [_digest(json.dumps(record, sort_keys=True).encode()) for record in records]
        whole, number = _digest(b"".join(digests)), self._completeness.pages + 1
        if records and (other := self._pages.setdefault(whole, number)) != number:
            hint = "The API may not know the option page_parameter. Correct the paging options of the source."
            raise Refusal("CURSOR_REPEATS", f"has the same records as page {other}", hint=hint)
        repeated = sum(digest in self._before for digest in digests)
        self._before = frozenset(digests)
        return repeated

    def _total(self, document: Any) -> int | None:
        path = self._options["total_path"]
        if not path:
            return None
        _, value = value_at(document, path)
        if value is None and self._completeness.total is not None:
            return None  # Many APIs have the number on the first page only.
        number = whole_number(value)
        if number is None:
            hint = "Correct the option total_path of the source."
            raise Refusal("BAD_PAGE", "has no number at total_path", hint=hint)
        return number

    def _more(self, document: Any) -> bool | None:
        path = self._options["has_more_path"]
        if not path:
            return None
        _, value = value_at(document, path)
        flag = value if isinstance(value, bool) else _FLAGS.get(str(value).lower())
        if flag is None:
            hint = "Correct the option has_more_path of the source."
            raise Refusal("BAD_PAGE", "has neither true nor false at has_more_path", hint=hint)
        return flag


def _next_url(url: str, reference: str) -> str:
    """Return the URL of the next page. Raise Refusal BAD_LOCATION."""
    try:
        return joined_url(url, reference)
    except ValueError:
        hint = "Report it to the operator of the API, or correct the paging options of the source."
        raise Refusal("BAD_LOCATION", "has a next page that is no URL of HTTP", hint=hint) from None


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _reference(value: Any, paging: str) -> str:
    """Return the reference to the next page. Raise Refusal BAD_PAGE for lists, objects and true."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) or (paging == "cursor" and is_number):
        return str(value)
    kind = "cursor" if paging == "cursor" else "URL"
    hint = "Correct the option next_path of the source."
    raise Refusal("BAD_PAGE", f"has no {kind} at next_path, but a value of type {type(value).__name__}", hint=hint)
