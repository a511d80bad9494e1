"""Claims of an API's answer about the whole result: number of records, number of pages, and if more follow.

Options of the source name some places (``total_path``, ``has_more_path``, ``next_path``). Beside these, widespread
names and headers are recognised, so that an answer that is only a part is noticed when no option names its claim.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Names without their case and signs between words.
_PARTS = frozenset(
    ("meta", "metadata", "pagination", "paging", "paginginfo", "paginator", "pager", "page", "pageinfo", "links")
    + ("responsemetadata", "searchmetadata", "resultinfo", "cursor", "cursors")
)
_RECORDS = frozenset(
    ("total", "count", "totalcount", "totalrecords", "totalresults", "totalelements", "totalhits", "recordsfiltered")
    + ("odatacount", "numfound")
)
_PAGES = frozenset(("pages", "totalpages", "pagecount", "numpages", "nbpages", "lastpage"))
_MORE = frozenset(("hasmore", "hasnext", "hasnextpage", "hasmoreitems", "incompleteresults", "istruncated"))
_ENDED = frozenset(("islast", "islastpage"))
_NEXT = frozenset(
    ("nextpagetoken", "nextcursor", "nextlink", "odatanextlink", "nextpageurl", "nexttoken", "nextrecordsurl")
    + ("nexturl", "nexthref", "continuationtoken", "nextmarker")
)
# Names that also occur in documents without pages: they count beside a sign of pages only.
_PLAIN_RECORDS = frozenset(("totalitems", "totalsize"))
_PLAIN_MORE, _PLAIN_ENDED = frozenset(("more", "truncated")), frozenset(("last", "done"))
_PLAIN_NEXT = frozenset(("next", "nextpage", "continue"))
_SIGNS = frozenset(
    ("offset", "limit", "startat", "maxresults", "skip", "page", "perpage", "pagesize", "pagenumber", "currentpage")
    + ("pageindex", "next", "previous", "prev", "nextpage", "cursor", "startindex", "itemsperpage")
).union(_PAGES, _MORE, _ENDED, _NEXT)
_RECORD_HEADERS = frozenset(("xtotalcount", "xtotal", "xtotalrecords", "xwptotal", "totalcount", "xtotalresults"))
_PAGE_HEADERS = frozenset(("xtotalpages", "xwptotalpages", "xpages", "xpagecount", "totalpages"))
_NEXT_HEADERS = frozenset(("xnextpage", "xnextcursor", "xnextpagetoken"))
_RANGE = re.compile(r"\s*(?!bytes\b)(?:[a-z-]+\s+)?(?:\d+-\d+|\*)/(\d+)\s*", re.IGNORECASE | re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True)
class Claim:
    """Claim of an answer, and its place: names in the document with dots between, or a header."""

    value: int
    place: str


@dataclass(frozen=True)
class Claims:
    """Claims of one answer. ``more`` is 1 if more pages follow, 0 if not. ``following`` refers to a next page.

    ``failure`` is the place of errors that the answer reports beside its records.
    """

    records: Claim | None = None
    pages: Claim | None = None
    more: Claim | None = None
    following: Claim | None = None
    failure: str = ""


def value_at(document: Any, path: str | None) -> tuple[bool, Any]:
    """Return True and the value at a path like ``meta.next``, or False and None. Without a path, the document."""
    for name in path.split(".") if path else ():
        if not isinstance(document, Mapping) or name not in document:
            return False, None
        document = document[name]
    return True, document


def whole_number(value: Any) -> int | None:
    """Return a number from 0, which may be a text of digits; None for other values."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None


def claims_of(
    document: Any, headers: Mapping[str, str], status: int, path: str | None, *, is_paged: bool, has_link: bool
) -> Claims:
    """Return the claims of an answer whose records are at ``path``.

    ``has_link``: the header Link names a next page. Members of records are no claims. Without paging, names that any
    document may have count beside a sign of pages only.
    """
    by_kind: dict[str, list[Claim]] = {"records": [], "pages": [], "more": [], "following": []}
    for kind, claim in _in_headers(headers):
        by_kind[kind].append(claim)
    if has_link:
        by_kind["following"].append(Claim(1, "Link"))
    if path:
        for place, member, is_part in _envelopes(document, path):
            for kind, claim in _in_object(place, member, believes_all=is_paged or is_part):
                by_kind[kind].append(claim)
    if status == 206 and not is_paged and not by_kind["records"]:
        by_kind["more"].append(Claim(1, "status 206"))
    # The largest claim decides: counts of the page itself are smaller ones.
    largest = {kind: max(claims, key=lambda claim: claim.value) for kind, claims in by_kind.items() if claims}
    return Claims(**largest, failure=_failure(document) if path else "")


def _simple(name: str) -> str:
    return re.sub(r"[^0-9a-z]", "", name.lower())


def _envelopes(document: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield the objects around the records, with their place: those on the path, and parts of them about pages."""
    names, place = path.split("."), ""
    for name in names:
        if not isinstance(document, Mapping):
            return
        yield place, document, False
        for part, member in document.items():
            if _simple(part) in _PARTS and part != name and isinstance(member, Mapping):
                yield f"{place}{part}.", member, True
        document, place = document.get(name), f"{place}{name}."


def _in_object(place: str, members: Mapping[str, Any], *, believes_all: bool) -> Iterator[tuple[str, Claim]]:
    simple = {name: _simple(name) for name in members}
    for name, plain in simple.items():
        others = {other for key, other in simple.items() if key != name}
        is_believed = believes_all or not _SIGNS.isdisjoint(others)
        if claim := _claim(plain, members[name], is_believed=is_believed):
            kind, value = claim
            yield kind, Claim(value, f"{place}{name}")


def _claim(plain: str, value: Any, *, is_believed: bool) -> tuple[str, int] | None:
    """Return the kind and value of a member's claim; None if it has none. ``is_believed``: plain names count, too."""
    if isinstance(value, bool):
        if plain in _MORE or (is_believed and plain in _PLAIN_MORE):
            return "more", int(value)
        if plain in _ENDED or (is_believed and plain in _PLAIN_ENDED):
            return "more", int(not value)
        return None
    if plain in _NEXT or (plain in _PLAIN_NEXT and (is_believed or _is_url(value))):
        return ("following", 1) if _is_reference(value) else None
    number = whole_number(value)
    if number is None:
        return None
    if plain in _RECORDS or (is_believed and plain in _PLAIN_RECORDS):
        return "records", number
    return ("pages", number) if plain in _PAGES else None


def _is_reference(value: Any) -> bool:
    """Return True for a URL, cursor, page number or object that leads to a next page."""
    if isinstance(value, Mapping):
        return any(_is_reference(member) for member in value.values())
    return isinstance(value, str) and value.strip() not in ("", "0") or type(value) is int and value > 0


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://", "/", "?"))


def _in_headers(headers: Mapping[str, str]) -> Iterator[tuple[str, Claim]]:
    for name, text in headers.items():
        plain = _simple(name)
        if plain == "contentrange" and (match := _RANGE.fullmatch(text)):
            yield "records", Claim(int(match[1]), name)
        elif plain in _NEXT_HEADERS and _is_reference(text):
            yield "following", Claim(1, name)
        elif plain == "xpagination":
            yield from _in_pagination(name, text)
        elif plain in _RECORD_HEADERS | _PAGE_HEADERS and (number := whole_number(text)) is not None:
            yield "records" if plain in _RECORD_HEADERS else "pages", Claim(number, name)


def _in_pagination(name: str, text: str) -> Iterator[tuple[str, Claim]]:
    """Yield the claims of a header that is a JSON object, as ASP.NET writes it."""
    try:
        members = json.loads(text)
    except ValueError:
        return
    if isinstance(members, dict):
        yield from _in_object(f"{name}.", members, believes_all=True)


def _failure(document: Any) -> str:
    """Return the name of the member in which a document reports errors; empty if it reports none."""
    if not isinstance(document, Mapping):
        return ""
    return next((name for name in ("errors", "error") if document.get(name) not in (None, False, 0, "", [], {})), "")
