"""Access to every route, by role."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client

from architecture.models import Environment, Preview
from architecture.services.environments import current_environment
from architecture.services.previews import make_preview
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.audit.services import recorded_heads
from elevata.web.middleware import CONTENT_SECURITY_POLICY
from metadata.models import TargetDataset
from metadata.services.lifecycle import rename_column
from tests.architecture.world import Warehouse, World, put_policy_in_force
from tests.elevata.web.addresses import Addresses
from tests.elevata.web.forms import unexplained
from tests.elevata.web.html import html_of
from tests.elevata.web.routes import RULES, SIGN_IN, Rule, route_names

PAGES = sorted(name for name, rule in RULES.items() if rule.page)
# Fixtures of the clients that send requests.
VISITORS = ("client", "reader", "operator")
READING = [name for name, rule in RULES.items() if rule.method == "get"]


@pytest.fixture
def controlled(warehouse: TargetDataset, starter: User) -> Preview:
    """Return the preview of an open report that needs an approval, after an execution with a record."""
    world = World(
        ensure_user(name="mia", roles=[Role.EDITOR]),
        ensure_user(name="bob", roles=[Role.APPROVER]),
        ensure_user(name="olga", roles=[Role.OPERATOR]),
        Warehouse(current_environment()),
    )
    world.executed()
    put_policy_in_force(Environment.objects.get(), {"approvals": {"safe": {"count": 1}}})
    with acting_as(world.author):
        column = warehouse.columns.get(name="name")
        rename_column(column=column, name="title", expected_version=column.version)
    return make_preview(report=world.report(), user=starter)


@pytest.fixture
def addresses(warehouse: TargetDataset, person: User, request: pytest.FixtureRequest) -> Addresses:
    return Addresses(warehouse, person, lambda: request.getfixturevalue("controlled"))


def ask(client: Client, rule: Rule, address: str, **options: Any) -> HttpResponse:
    """Send the request of a rule; requests to the API have a JSON body."""
    if rule.method == "post" and address.startswith("/api/"):
        options["content_type"] = "application/json"
    return getattr(client, rule.method)(address, rule.data, **options)


@dataclass(frozen=True)
class Answer:
    """Answer to a request of one user."""

    status_code: int
    url: str
    headers: Mapping[str, str]
    text: str
    # Tables that the request wrote to.
    written: frozenset[str]

    @classmethod
    def of(cls, answer: HttpResponse, written: Iterable[str]) -> "Answer":
        text = "" if answer.streaming else html_of(answer)
        return cls(answer.status_code, getattr(answer, "url", ""), dict(answer.headers), text, frozenset(written))


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str], Answer]:
    """Return a dict that collects the answers by visitor and route."""
    return {}


@pytest.fixture
def answer_of(
    db: None, answers: dict[tuple[str, str], Answer], request: pytest.FixtureRequest
) -> Callable[[str, str], Answer]:
    """Return a function that returns the answer to a visitor (see ``VISITORS``) at a route.

    The first test requests every route as every visitor: the objects are created once, and the effects of each request
    are rolled back.
    """
    if not answers:
        request.getfixturevalue("controlled")
        warehouse, person = request.getfixturevalue("warehouse"), request.getfixturevalue("person")
        for visitor in VISITORS:
            cookies = request.getfixturevalue(visitor).cookies.copy()
            for name, rule in RULES.items():
                with rolled_back():
                    visitor_client = Client()
                    visitor_client.cookies.update(cookies)
                    addresses = Addresses(warehouse, person, lambda: request.getfixturevalue("controlled"))
                    address = addresses[name]
                    with written_tables() as written:
                        answer = ask(visitor_client, rule, address)
                    answers[visitor, name] = Answer.of(answer, written)
    return lambda visitor, name: answers[visitor, name]


@contextmanager
def written_tables() -> Iterator[set[str]]:
    """Collect the names of the tables that are written to inside the context."""
    tables = set[str]()

    def collect(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if match := _WRITE.match(sql):
            tables.add(match[1])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(collect):
        yield tables


_WRITE = re.compile(r'\s*(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE|DELETE\s+FROM)\s+"?(\w+)', re.IGNORECASE)


@contextmanager
def rolled_back() -> Iterator[None]:
    """Roll back all writes inside the context: database, cache and the file of recorded heads."""
    heads = recorded_heads.path()
    content = heads.read_bytes() if heads.exists() else None
    block = transaction.atomic()
    block._from_testcase = True  # sealing must be outermost, except for a test's transaction
    with block:
        yield
        transaction.set_rollback(True)
    cache.clear()
    heads.unlink(missing_ok=True)
    if content is not None:
        heads.write_bytes(content)


def check(answer: Answer, expected: object) -> None:
    if isinstance(expected, int):
        assert answer.status_code == expected, answer.text[:300]
    else:
        assert answer.status_code == 302
        assert answer.url.startswith("/sign-in/?next=" if expected == SIGN_IN else str(expected))


def test_every_route_has_a_rule():
    assert route_names() == sorted(RULES)


@pytest.mark.full
@pytest.mark.parametrize("name", RULES)
def test_route_answers_an_anonymous_user_as_its_rule_expects(answer_of: Callable[[str, str], Answer], name: str):
    check(answer_of("client", name), RULES[name].anonymous)


@pytest.mark.parametrize("name", RULES)
def test_route_answers_a_reader_as_its_rule_expects(answer_of: Callable[[str, str], Answer], name: str):
    check(answer_of("reader", name), RULES[name].reader)


@pytest.mark.parametrize("name", RULES)
def test_route_answers_an_operator_as_its_rule_expects(answer_of: Callable[[str, str], Answer], name: str):
    check(answer_of("operator", name), RULES[name].operator)


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_no_inline_code_and_no_foreign_resources(answer_of: Callable[[str, str], Answer], name: str):
    """Check for inline code, which the content policy forbids and which only browsers would report."""
    for visitor in ("operator", "client"):
        answer = answer_of(visitor, name)
        text = answer.text
        assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert not re.search(r"\sstyle\s*=", text)
        assert not re.search(r"<style|\son[a-z]+\s*=|javascript:", text)
        # The content policy permits JSON data of a graph.
        assert not re.search(r"""<script(?![^>]*\s(?:src=|type="application/json"))""", text)
        # A link loads nothing until a user follows it.
        assert not re.search(r"""(?:src|action)=["'](?:https?:)?//|<(?!a\s)[^>]*\shref=["'](?:https?:)?//""", text)


def test_answers_have_a_request_id(answer_of: Callable[[str, str], Answer]):
    names = sorted(set(RULES) - {"sign_out"})
    own = {name: answer_of("operator", name).headers["X-Request-ID"] for name in names}
    assert {name: request_id for name, request_id in own.items() if not re.fullmatch(r"[0-9a-f]{32}", request_id)} == {}


@pytest.mark.parametrize("address", ["/healthz", "/", "/api/v1/datasets/", "/nowhere/"])
def test_request_id_of_a_proxy_is_kept(operator: Client, address: str):
    assert operator.get(address, headers={"X-Request-ID": "from-the-proxy.7"}).headers["X-Request-ID"] == (
        "from-the-proxy.7"
    )


@pytest.mark.parametrize("visitor", VISITORS)
def test_no_answer_is_kept_by_a_cache(answer_of: Callable[[str, str], Answer], visitor: str):
    cacheable = {}
    for name in RULES:
        headers = answer_of(visitor, name).headers
        wanted = "private, no-cache" if "ETag" in headers else "private, no-store"
        if headers["Cache-Control"] != wanted:
            cacheable[name] = headers["Cache-Control"]
    assert cacheable == {}


def test_answers_with_data_have_no_etag(answer_of: Callable[[str, str], Answer]):
    with_data = [name for name in READING if "read" in name or "_data" in name or "_history" in name]
    assert with_data
    assert [name for name in with_data if "ETag" in answer_of("reader", name).headers] == []


def test_invalid_request_id_is_replaced(client: Client):
    answer = client.get("/healthz", headers={"X-Request-ID": "a b<c>"})
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["X-Request-ID"])


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"sign_in"}))
def test_form_fields_of_pages_are_explained(answer_of: Callable[[str, str], Answer], name: str):
    answer = answer_of("operator", name)
    if answer.status_code == 200:
        assert unexplained(answer.text) == []


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_well_formed_html(answer_of: Callable[[str, str], Answer], name: str):
    """Check for unrendered template syntax, unclosed tags and duplicate ids."""
    answer = answer_of("operator", name)
    if answer.status_code != 200:
        return
    text = answer.text
    assert "{%" not in text
    assert "{#" not in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    labelled = set(re.findall(r'<label[^>]*\sfor="([^"]+)"', text))
    assert labelled <= set(ids)
    for tag in ("div", "section", "table", "form", "details", "svg", "ul", "ol", "dl", "a", "span", "p"):
        assert len(re.findall(rf"<{tag}[\s>]", text)) == text.count(f"</{tag}>"), tag


@pytest.mark.parametrize("name", PAGES)
def test_headings_of_pages_skip_no_level(answer_of: Callable[[str, str], Answer], name: str):
    answer = answer_of("operator", name)
    if answer.status_code == 200:
        levels = [int(level) for level in re.findall(r"<h([1-6])[\s>]", answer.text.partition("<main")[2])]
        assert [(level, after) for level, after in pairwise([0, *levels]) if after > level + 1] == []


CHAIN = {"audit_chainhead", "audit_chainlink", "audit_chainpending"}
# Tables that a GET request may write to, by route.
GET_WRITES = {
    # Waiting links of the chain are sealed before a record is shown.
    "run_record": CHAIN,
    "api-maintenance-record-detail": CHAIN,
    # Opening an own notice marks it as read.
    "notice_go": {"notifications_notice"},
    # A preview makes the changes and rolls them back.
    "change_undo": {"metadata_targetcolumn"},
    "source_proposal": {
        *("audit_chainpending", "audit_changelogentry", "audit_rowseal"),
        *("metadata_columninput", "metadata_sourcecolumn", "metadata_targetcolumn"),
    },
}


@pytest.mark.parametrize("visitor", VISITORS)
def test_get_requests_have_no_effects(answer_of: Callable[[str, str], Answer], visitor: str):
    """Check GET requests, because links and images of other sites send them without a CSRF token."""
    written = {name: answer_of(visitor, name).written - GET_WRITES.get(name, set()) for name in READING}
    assert {name: tables for name, tables in written.items() if tables} == {}
