"""Completeness of an endpoint's pages: the lines of the documentation's table, and variants of public APIs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.contract.refusals import Refusal
from loader.domain.sources.completeness import Completeness
from loader.readers.rest.endpoint import pages_of
from loader.readers.rest.paging import endpoint_options, records_of
from tests.loader.readers.rest.api_server import HERE, RECORDS, Answer, ApiServer, Request

PAGE = Path(__file__).resolve().parents[4] / "docs" / "use" / "sources.md"
_, _TABLE, _ = PAGE.read_text(encoding="utf-8").replace("<!-- /", "<!-- ").split("<!-- completeness of pages -->")
LINES = [tuple(cell.strip() for cell in line.strip("| ").split(" | ")) for line in _TABLE.strip().splitlines()[2:]]
ALL = list(RECORDS)
Reply = Callable[[Request], Answer]


def by_number(*pages: Any, **members: Any) -> Reply:
    """Return answers by the query parameter page; a page beyond the last one has no records."""

    def answer(request: Request) -> Answer:
        number = int(request.query.get("page", 1))
        given = pages[number - 1] if number <= len(pages) else []
        return Answer.of((given if isinstance(given, dict) else {"items": given}) | members)

    return answer


def by_offset(cap: int = 3, stored: int = 7, headers: Callable[[int], dict] = lambda _: {}, **members: Any) -> Reply:
    """Return answers of at most ``cap`` of the first ``stored`` records from the parameter offset on."""

    def answer(request: Request) -> Answer:
        start = int(request.query["offset"])
        page = ALL[start : min(start + min(cap, int(request.query["limit"])), stored)]
        envelope = {name: value(start + len(page)) if callable(value) else value for name, value in members.items()}
        return Answer.of({"items": page} | envelope, **headers(start))

    return answer


def by_cursor(*pages: dict[str, Any]) -> Reply:
    """Return answers by the query parameter cursor, which counts from 1."""
    return lambda request: Answer.of(pages[int(request.query.get("cursor", 1)) - 1])


def by_link(total: int) -> Reply:
    def answer(request: Request) -> Answer:
        start = int(request.query.get("start", 0))
        link = {"Link": f'<{request.path}?start={start + 4}>; rel="next"'} if start + 4 < 7 else {}
        return Answer.of(ALL[start : start + 4], X_Total_Count=str(total), **link)

    return answer


def replies_of(*answers: Answer) -> list[Reply]:
    return [lambda _, answer=answer: answer for answer in answers]


COUNTED = {"paging": "page", "total_path": "pages"}
SIZED = {"paging": "offset", "page_size": 5}
TOTAL = SIZED | {"total_path": "total"}
NEXT = {"paging": "cursor", "next_path": "meta.next"}
MORE = NEXT | {"has_more_path": "meta.more"}

# Options and answers of each line of the table.
CASES: dict[tuple[str, str], tuple[dict[str, Any], list[Reply]]] = {
    ("`none`", "nothing"): ({}, replies_of(Answer.of({"items": ALL}))),
    ("`none`", "nothing, and as many records came as `page_size`, or a parameter like `limit`, asks for"): (
        {"page_size": 7},
        replies_of(Answer.of({"items": ALL})),
    ),
    ("`none`", "a next page (`Link`, `next`, `has_more`), a larger `total`, or status 206"): (
        {},
        replies_of(
            Answer.of({"items": ALL}, Link='</items?page=2>; rel="next"'),
            Answer.of({"items": ALL, "next": "/items?page=2"}),
            Answer.of({"items": ALL, "pagination": {"has_more": True}}),
            Answer.of({"items": ALL, "total": 8}),
            Answer.of({"items": ALL, "pages": 4}),
            Answer.of({"items": ALL}, 206),
            Answer.of({"items": ALL}, 206, Content_Range="items 0-6/8"),
            Answer.of({"items": ALL, "@odata.nextLink": "https://x/?$skiptoken=7"}),
            Answer.of({"items": ALL, "startAt": 0, "isLast": False}),
            Answer.of({"items": ALL}, X_Pagination='{"TotalCount": 8}'),
        ),
    ),
    ("`page`", "the number of pages at `total_path`, and some have no records"): (
        COUNTED,
        [by_number(ALL[:3], [], ALL[3:5], ALL[5:], pages=4), by_number(ALL, [], [], pages="3")],
    ),
    ("`page`", "fewer pages at `total_path` than on the page before"): (
        COUNTED,
        [by_number({"items": ALL[:3], "pages": 3}, {"items": ALL[4:], "pages": 2})],
    ),
    ("`page`", "the number of records at `total_path`"): (
        {"paging": "page", "total_path": "total"},
        [by_number(ALL[:3], ALL[3:6], ALL[6:], total=7)],
    ),
    ("`page`", "false at `has_more_path`"): (
        {"paging": "page", "has_more_path": "more"},
        [by_number({"items": ALL[:3], "more": True}, {"items": [], "more": True}, {"items": ALL[3:], "more": "false"})],
    ),
    ("`page`", "`total` records, and as many came"): (
        {"paging": "page"},
        [by_number(ALL[:3], ALL[3:], total=7), by_number(ALL[:3], ALL[3:], meta={"total_count": 7})],
    ),
    ("`page`", "`total` records or `pages`, and fewer came before a page without records"): (
        {"paging": "page"},
        [by_number(ALL[:3], [], ALL[3:], total=7), by_number(ALL[:3], [], ALL[3:], meta={"pages": 3})],
    ),
    ("`page`", "nothing; the last page has no records"): (
        {"paging": "page"},
        [by_number(ALL[:3], ALL[3:]), by_number(ALL[:3], ALL[3:], count=3)],
    ),
    ("`page`", "the records of an earlier page again"): (
        {"paging": "page"},
        [lambda request: Answer.of({"items": ALL[:2] if int(request.query["page"]) % 2 else ALL[2:]} | request.query)],
    ),
    ("`offset`", "the number of records at `total_path`, with fewer on a page than `page_size`"): (
        TOTAL,
        [by_offset(3, total=7), by_offset(1, total=7), by_offset(5, total=7)],
    ),
    ("`offset`", "more records at `total_path` than came before a page without records"): (
        TOTAL,
        [by_offset(3, total=9), by_offset(3, stored=3, total=7), by_offset(3, stored=0, total=7)],
    ),
    ("`offset`", "fewer records at `total_path` than came"): (TOTAL, [by_offset(5, total=6)]),
    ("`offset`", "fewer records at `total_path` than on the page before"): (
        TOTAL,
        [by_offset(3, total=lambda end: 8 if end <= 3 else 7)],
    ),
    ("`offset`", "the number of records in the header `Content-Range` or `X-Total-Count`"): (
        SIZED,
        [
            by_offset(3, headers=lambda start: {"Content_Range": f"items {start}-{start + 2}/7"}),
            by_offset(3, headers=lambda _: {"X_Total_Count": "7"}),
        ],
    ),
    ("`offset`", "false at `has_more_path`"): (
        SIZED | {"has_more_path": "more"},
        [by_offset(3, more=lambda end: end < 7)],
    ),
    ("`offset`", "nothing; the last page has no records"): (SIZED, [by_offset(3)]),
    ("`cursor`", "null at `next_path`, also after a page without records"): (
        NEXT,
        [by_cursor({"items": ALL[:3], "meta": {"next": 2}}, {"items": [], "meta": {"next": "3"}},
                   {"items": ALL[3:], "meta": {"next": None}})],
    ),
    ("`cursor`", "nothing at `next_path` on the last page, but on others"): (
        NEXT,
        [by_cursor({"items": ALL[:3], "meta": {"next": "2"}}, {"items": ALL[3:]})],
    ),
    ("`cursor`", "null at `next_path`, and a next page elsewhere (`Link`)"): (
        NEXT,
        replies_of(
            Answer.of({"items": ALL, "meta": {"next": None}}, Link='</items?page=2>; rel="next"'),
            Answer.of({"items": ALL, "meta": {"next": None}, "next_page_url": "/items?page=2"}),
        ),
    ),
    ("`cursor`", "nothing at `next_path` on any page"): (
        NEXT,
        replies_of(Answer.of({"items": ALL, "meta": {"nexxt": "2"}})),
    ),
    ("`cursor`", "false at `has_more_path` beside a cursor"): (
        MORE,
        [by_cursor({"items": ALL[:3], "meta": {"next": "2", "more": True}},
                   {"items": ALL[3:], "meta": {"next": "2", "more": False}})],
    ),
    ("`cursor`", "true at `has_more_path` without a cursor"): (
        MORE,
        replies_of(Answer.of({"items": ALL, "meta": {"next": None, "more": True}})),
    ),
    ("`cursor`", "more records at `total_path` than came"): (
        NEXT | {"total_path": "total"},
        replies_of(Answer.of({"items": ALL, "total": 8, "meta": {"next": None}})),
    ),
    ("`next_url`", "an empty text at `next_path`"): (
        {"paging": "next_url"},
        replies_of(Answer.of({"items": ALL, "next": ""}), Answer.of({"items": ALL, "next": None})),
    ),
    ("`next_url`", "the next page under another name than `next_path`"): (
        {"paging": "next_url"},
        replies_of(Answer.of({"items": ALL, "links": {"next": "/items?page=2"}}),
             Answer.of({"items": ALL, "next_page_url": "/items?page=2"})),
    ),
    ("`link`", "no next page in the header"): ({"paging": "link", "path": None}, [by_link(7)]),
    ("`link`", "more records in the header `X-Total-Count` than came"): (
        {"paging": "link", "path": None},
        [by_link(8)],
    ),
    ("each", "null instead of the records"): (
        {"paging": "page", "total_path": "pages"},
        [by_number(ALL, {"items": None}, pages=2)],
    ),
    ("each", "`errors` instead of records, or beside them"): (
        NEXT,
        replies_of(Answer.of({"items": [], "errors": [{"message": "timeout"}]}),
             Answer.of({"items": None, "error": {"code": 429}}),
             Answer.of({"items": ALL, "errors": [{"message": "timeout"}]})),
    ),
    ("each", "a page without the `path`"): (
        {"paging": "page"},
        [by_number(ALL[:3], {"error": {"code": 429}}), by_number({"data": None})],
    ),
}  # fmt: skip


def read(api: ApiServer, **options: Any) -> tuple[list[Any], Completeness]:
    given = {name: value for name, value in ({"path": "items"} | options).items() if value is not None}
    source = api.source(**given)
    completeness = Completeness(endpoint_options(source.options))
    pages = pages_of(source, hosts=HERE, pause=lambda _: None, completeness=completeness)
    documents = [json.loads(page.content) for page in pages]
    return [record for document in documents for record in records_of(document, given.get("path"))], completeness


def test_documented_completeness_table_equals_the_tested_cases():
    assert [line[:2] for line in LINES] == list(CASES)


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line[:2]).replace("`", ""))
def test_reading_pages_has_the_documented_outcome(api: ApiServer, line: tuple[str, str, str]):
    paging, says, outcome = line
    options, replies = CASES[paging, says]
    for reply in replies:
        api.routes["/items"] = reply
        if outcome.startswith("refused: "):
            with pytest.raises(Refusal) as refused:
                read(api, **options)
            assert f"`{refused.value.code}`" in outcome
            assert refused.value.hint
            continue
        records, completeness = read(api, **options)
        assert records == ALL
        assert (completeness.problem, bool(completeness.doubt())) == ("", outcome == "unproven")
        assert read(api, complete="trusted", **options)[1].doubt() == ""


@pytest.mark.parametrize(("options", "reply"), [(TOTAL, by_offset(3, total=9)), ({}, by_number(ALL, total=8))])
def test_contradictory_total_of_a_trusted_source_is_noted_and_not_refused(api: ApiServer, options: dict, reply: Reply):
    api.routes["/items"] = reply
    records, completeness = read(api, complete="trusted", **options)
    assert (records, "claims" in completeness.problem) == (ALL, True)


# Claims of more than seven records, as members of the envelope or as headers, beside the end that each paging has.
MORE_THAN_CAME: tuple[dict[str, Any], ...] = (
    {"total": 8},
    {"meta": {"total_count": 8}},
    {"pages": 9},
    {"has_more": True},
    {"next_page_url": "/items?page=2"},
    {"X_Total_Count": "8"},
    {"X_Total_Pages": "9"},
    {"Content_Range": "items 0-6/8"},
    {"X_Next_Page": "2"},
)
ENDED: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "none": ({}, [{"items": ALL}]),
    "page": ({"paging": "page"}, [{"items": ALL}, {"items": []}]),
    "offset": (SIZED, [{"items": ALL}, {"items": []}]),
    "cursor": (NEXT, [{"items": ALL, "cursor": {}}]),
    "next_url": ({"paging": "next_url", "next_path": "next"}, [{"items": ALL, "previous": ""}]),
    "link": ({"paging": "link"}, [{"items": ALL}]),
}


@pytest.mark.parametrize("claim", MORE_THAN_CAME, ids=lambda claim: next(iter(claim)))
@pytest.mark.parametrize("paging", ENDED)
def test_claim_of_more_records_is_refused_by_every_paging(api: ApiServer, paging: str, claim: dict[str, Any]):
    options, pages = ENDED[paging]
    headers = {name: value for name, value in claim.items() if name[0].isupper()}
    members = {} if headers else claim
    api.serve("/items", *(Answer.of(page | members, **headers) for page in pages))
    with pytest.raises(Refusal) as refused:
        read(api, **options)
    assert refused.value.code == "INCOMPLETE"


def test_offset_grows_by_the_received_records(api: ApiServer):
    api.routes["/items"] = by_offset(3, total=7)
    read(api, **TOTAL)
    assert [(request.query["offset"], request.query["limit"]) for request in api.requests] == [
        ("0", "5"),
        ("3", "5"),
        ("6", "5"),
    ]


def test_records_repeated_on_the_next_page_count_once(api: ApiServer):
    pages = {0: ALL[:3], 3: ALL[2:5], 6: ALL[5:6], 7: []}
    api.routes["/items"] = lambda request: Answer.of({"items": pages[int(request.query["offset"])], "total": 7})
    with pytest.raises(Refusal, match="6 records came, and the API claims 7 at total"):
        read(api, **TOTAL)


@pytest.mark.parametrize(
    "document",
    [
        {"items": ALL, "total": 7, "count": 7, "page": 1, "pages": 1, "next": None, "has_more": False},
        {"items": ALL, "total": 6},
        {"items": ALL, "done": False, "more": True, "last": False, "totalItems": 12, "title": "A cart"},
        {"items": ALL, "totalElements": 7, "totalPages": 1, "last": True, "first": True},
        {"items": ALL, "meta": {"after_cursor": "7", "has_more": False}},
        {"items": ALL, "links": {"next": None, "prev": None, "self": "/items"}},
        {"items": ALL, "errors": [], "error": None},
        {"items": ALL, "count": 7, "next": None, "previous": None},
    ],
)
def test_single_answer_that_claims_no_more_records_is_complete(api: ApiServer, document: dict):
    api.serve("/items", Answer.of(document))
    records, completeness = read(api)
    assert (records, completeness.problem, completeness.doubt()) == (ALL, "", "")


@pytest.mark.parametrize(
    ("parameters", "is_proven"), [("limit=7", False), ("$top=7", False), ("limit=8", True), ("year=7&limit=x", True)]
)
def test_answer_with_as_many_records_as_its_limit_is_unproven(api: ApiServer, parameters: str, is_proven: bool):
    api.serve("/items", Answer.of({"items": ALL}))
    assert (read(api, parameters=parameters)[1].doubt() == "") == is_proven


def test_paging_members_inside_records_are_ignored(api: ApiServer):
    api.serve("/items", Answer.of([{"id": 1, "has_more": True, "next": "/x"}]), Answer.of({"id": 1, "total": 9}))
    assert read(api, path=None)[1].doubt() == ""
    assert read(api, path=None)[1].doubt() == ""
