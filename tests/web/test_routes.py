"""Who may see and do what, for every route there is."""

import re

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from elevata.middleware import CONTENT_SECURITY_POLICY
from metadata.models import TargetDataset
from tests.loader_factories import ReadRequestFactory
from tests.web.routes import RULES, SIGN_IN, route_names

PAGES = sorted(name for name, rule in RULES.items() if rule.page)


@pytest.fixture
def addresses(warehouse: TargetDataset, person: User) -> dict[str, str]:
    """The address of every route, filled with things that exist."""
    read = ReadRequestFactory(dataset=warehouse, requested_by=person)
    things = {
        "key": ("key", warehouse.key),
        "source_key": ("key", warehouse.generated_from.key),
        "entity_key": ("entity_key", "a" * 64),
        "run_id": ("run_id", "bad"),
        "pk": ("pk", read.pk),
        "system": ("short_name", "air"),
        "schema": ("name", "rawcore"),
    }
    return {name: reverse(name, kwargs=dict(things[value] for value in rule.values)) for name, rule in RULES.items()}


def check(answer: HttpResponse, expected: object) -> None:
    if isinstance(expected, int):
        assert answer.status_code == expected, answer.content[:300]
    else:
        assert answer.status_code == 302
        assert answer.url.startswith("/sign-in/?next=" if expected == SIGN_IN else str(expected))


def test_every_route_has_a_rule():
    assert route_names() == sorted(RULES)


@pytest.mark.parametrize("name", RULES)
def test_anonymous(client: Client, addresses: dict[str, str], name: str):
    rule = RULES[name]
    check(getattr(client, rule.method)(addresses[name], rule.data), rule.anonymous)


@pytest.mark.parametrize("name", RULES)
def test_signed_in(reader: Client, addresses: dict[str, str], name: str):
    rule = RULES[name]
    check(getattr(reader, rule.method)(addresses[name], rule.data), rule.reader)


@pytest.mark.parametrize("name", RULES)
def test_with_permission(operator: Client, addresses: dict[str, str], name: str):
    rule = RULES[name]
    check(getattr(operator, rule.method)(addresses[name], rule.data), rule.operator)


@pytest.mark.parametrize("name", PAGES)
def test_pages_hold_nothing_inline(operator: Client, client: Client, addresses: dict[str, str], name: str):
    """What the content policy forbids would only break in a browser, so it is looked for here."""
    for visitor in (operator, client):
        answer = visitor.get(addresses[name])
        text = answer.content.decode()
        assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert not re.search(r"\sstyle\s*=", text)
        assert not re.search(r"<style|\son[a-z]+\s*=|javascript:", text)
        assert not re.search(r"<script(?![^>]*\ssrc=)", text)
        assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", text)


@pytest.mark.parametrize("name", sorted(set(RULES) - {"sign_out"}))
def test_every_answer_names_its_request(operator: Client, addresses: dict[str, str], name: str):
    rule = RULES[name]
    send = getattr(operator, rule.method)
    assert re.fullmatch(r"[0-9a-f]{32}", send(addresses[name], rule.data).headers["X-Request-ID"])
    given = send(addresses[name], rule.data, headers={"X-Request-ID": "from-the-proxy.7"})
    assert given.headers["X-Request-ID"] == "from-the-proxy.7"


def test_an_odd_request_id_is_not_taken(client: Client):
    answer = client.get("/healthz", headers={"X-Request-ID": "a b<c>"})
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["X-Request-ID"])


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_whole(operator: Client, addresses: dict[str, str], name: str):
    """No template variable stands there unfilled, no tag is left open, no id is there twice."""
    answer = operator.get(addresses[name])
    if answer.status_code != 200:
        return
    text = answer.content.decode()
    assert "{%" not in text
    assert "{#" not in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    labelled = set(re.findall(r'<label[^>]*\sfor="([^"]+)"', text))
    assert labelled <= set(ids)
    for tag in ("div", "section", "table", "form", "details", "svg", "ul", "ol", "dl", "a", "span", "p"):
        assert len(re.findall(rf"<{tag}[\s>]", text)) == text.count(f"</{tag}>"), tag
