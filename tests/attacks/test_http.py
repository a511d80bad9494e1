"""Attacks with unusual HTTP: every response is the right one or a problem document, never a crash or a page."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.roles import Role
from metadata.models import TargetDataset
from tests.architecture.world import person
from tests.attacks.requests import send

pytestmark = pytest.mark.django_db

MART = {"name": "mart", "layer": "serving"}
PROBLEM = "application/problem+json"
ADDRESSES = (
    "",
    "systems/",
    "systems/air/",
    "datasets/{key}/",
    "search/?q=a",
    "schema/",
    "metadata/export/",
    "nowhere/",
)

BODIES = (
    b"",
    b"null",
    b"[]",
    b"1",
    b'"text"',
    b"{",
    b'{"name": "mart", "name": "other", "layer": "serving"}',
    b'{"name": NaN, "layer": "serving"}',
    b'{"name": "mart", "layer": "serving", "ordinal": NaN}',
    b'{"name": "mart", "layer": "serving", "ordinal": Infinity}',
    b'{"name": "mart", "layer": "serving", "ordinal": -Infinity}',
    b'{"name": "mart", "layer": "serving", "ordinal": 1e400}',
    b'{"name": "mart", "layer": "serving", "ordinal": 1' + b"0" * 400 + b"}",
    b'{"name": "mart", "layer": "serving", "ordinal": 1' + b"0" * 9000 + b"}",
    b'{"name": "mart", "layer": "serving", "ordinal": 9223372036854775808}',
    b'{"name": "mart", "layer": "serving", "ordinal": 2147483648}',
    '{"name": "mart", "layer": "serving", "ordinal": "١٢"}'.encode(),
    b'{"name": "mart", "layer": "serving", "ordinal": true}',
    b'{"name": "mart", "layer": "serving", "tags": {"a": 1}}',
    b'{"name": ["mart"], "layer": {"a": []}}',
    b'{"name": "mart\\u0000", "layer": "serving"}',
    b'{"name": "mart\\ud800", "layer": "serving"}',
    b'{"mart\\ud800": 1}',
    b'{"name": "\xff\xfe", "layer": "serving"}',
    b"\xef\xbb\xbf" + json.dumps(MART).encode(),
    json.dumps(MART).encode("utf-16"),
    b"[" * 5000 + b"]" * 5000,
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b"<xml/>",
    b"name=mart&layer=serving",
)
KEYS = (
    "0",
    "-1",
    "9" * 18,
    "9" * 19,
    "9" * 400,
    "1e3",
    "١٢",
    "x",
    "..",
    "%2e%2e",
    "a%2Fb",
    "%00",
    "%ff",
    "%0a",
    " ",
    "*",
)


def must_be_sound(answer: HttpResponse, *statuses: int) -> None:
    """Check that a response is no server error, and that a refusal is a JSON problem document."""
    kind = answer.headers.get("Content-Type", "")
    assert answer.status_code < 500, (answer.status_code, answer.content[:300])
    assert "html" not in kind or not answer.content, (answer.status_code, kind)
    if answer.status_code >= 400 and answer.request["REQUEST_METHOD"] != "HEAD":
        assert kind == PROBLEM
        assert answer.json()["status"] == answer.status_code
    if statuses:
        assert answer.status_code in statuses, (answer.status_code, answer.content[:300])


@pytest.fixture
def quiet(operator: Client) -> Client:
    operator.raise_request_exception = False
    return operator


@pytest.mark.parametrize("address", ADDRESSES)
def test_unusual_http_methods_cause_no_server_error(quiet: Client, airport: TargetDataset, address: str):
    for method in ("HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "PROPFIND", "get", "G=T"):
        must_be_sound(quiet.generic(method, f"/api/v1/{address.format(key=airport.key)}"))


@pytest.mark.parametrize(
    "tag", ["*", 'W/"1"', '"1", "2"', "1", '"', "", " ", ",,,", '"\x00"', '"é"', '"' + "1" * 5000 + '"', '"1" garbage']
)
def test_unusual_preconditions_cause_no_server_error(quiet: Client, airport: TargetDataset, tag: str):
    path = f"datasets/{airport.key}/"
    for header in ("If-Match", "If-None-Match"):
        must_be_sound(quiet.get(f"/api/v1/{path}", headers={header: tag}))
    must_be_sound(send(quiet, "patch", path, {"description": "x"}, **{"If-Match": tag}))
    must_be_sound(send(quiet, "post", f"{path}rename/", {"name": "other"}, **{"If-Match": tag}))


@pytest.mark.parametrize("key", ["", " ", "k" * 255, "k" * 256, "k" * 4000, "ключ", "a\x00b", "a\tb", "'; --", "\x7f"])
def test_unusual_idempotency_keys_are_accepted_or_refused(quiet: Client, key: str):
    must_be_sound(send(quiet, "post", "schemas/", MART, **{"Idempotency-Key": key}), 201, 400)


def test_idempotency_key_of_another_user_is_independent(quiet: Client):
    assert send(quiet, "post", "schemas/", MART, **{"Idempotency-Key": "k"}).status_code == 201
    other = Client()
    other.force_login(person("ed", Role.EDITOR))
    answer = send(other, "post", "schemas/", MART, **{"Idempotency-Key": "k"})
    assert "Idempotent-Replayed" not in answer.headers
    must_be_sound(answer, 403, 409, 422)


@pytest.mark.parametrize("path", ["schemas/", "schemas/bulk/", "metadata/import/", "reads/", "load-runs/", "users/"])
def test_malformed_request_bodies_cause_no_server_error(quiet: Client, path: str):
    for number, body in enumerate(BODIES):
        for headers in ({}, {"Idempotency-Key": f"k{number}"}):
            answer = quiet.generic("POST", f"/api/v1/{path}", body, content_type="application/json", headers=headers)
            must_be_sound(answer)
            assert path == "load-runs/" or answer.status_code >= 400, (body, answer.content)


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=b",
        "application/json; charset=utf-8",
        "application/json;;;",
        "x",
        "/",
    ],
)
@pytest.mark.parametrize("path", ["schemas/", "history-batches/"])
def test_unusual_media_types_are_refused(quiet: Client, path: str, kind: str):
    for body in (b"{}", b"--b\r\n", b"--b\r\nContent-Disposition: form-data; name*=utf-9''a\r\n\r\nx\r\n--b--\r\n"):
        must_be_sound(quiet.generic("POST", f"/api/v1/{path}", body, content_type=kind), 400, 415, 422)


@pytest.mark.parametrize("path", ["", "systems/", "schema/", "nowhere/", "changes/export/"])
def test_unusual_accept_headers_cause_no_server_error(quiet: Client, path: str):
    for accept in ("text/html", "application/xml", "*/*;q=0", "", "a/b/c", ";;;", "application/yaml", "x" * 3000):
        must_be_sound(quiet.get(f"/api/v1/{path}", headers={"Accept": accept}))


@pytest.mark.parametrize(
    "path",
    ["systems", "schemas", "datasets", "changes", "notices", "executions", "load-runs", "reads", "users", "records"],
)
def test_unusual_keys_in_addresses_are_redirected_or_not_found(quiet: Client, path: str):
    for key in KEYS:
        for address in (f"/api/v1/{path}/{key}/", f"/api/v1/{path}/{key}", f"/api/v1/{path}//{key}/"):
            must_be_sound(quiet.get(address), 301, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-HTTP-Method-Override": "DELETE"},
        {"X-HTTP-Method": "DELETE"},
        {"X-Forwarded-Host": "evil.example"},
        {"X-Forwarded-Proto": "https"},
        {"X-Forwarded-For": "1.2.3.4, ::1, x"},
        {"X-Original-URL": "/api/v1/users/"},
        {"X-Request-ID": "a\r\nSet-Cookie: b"},
        {"X-Request-ID": "é" * 300},
        {"Forwarded": "host=evil.example"},
        {"Range": "bytes=0-1"},
        {"Expect": "100-continue"},
        {"Authorization": "Token " + "x" * 5000},
        {"Authorization": "Token elv_\x00"},
        {"Last-Event-ID": "١٢"},
        {"HX-Request": "true"},
        {"Cookie": "sessionid=\x00; csrftoken=x"},
    ],
)
def test_unusual_headers_are_ignored_or_refused(quiet: Client, airport: TargetDataset, headers: dict[str, str]):
    answer = quiet.get("/api/v1/columns/?page_size=1", headers=headers)
    must_be_sound(answer, 200, 401)
    if answer.status_code == 200:
        assert answer.json()["next"].startswith("http://testserver/api/v1/columns/?")


@pytest.mark.parametrize("host", ["evil.example", "testserver:x", "[::1", "a b", "", "testserver.", "é.example"])
def test_unusual_host_headers_are_accepted_or_refused(quiet: Client, settings: Any, host: str):
    settings.ALLOWED_HOSTS = ["testserver"]
    must_be_sound(quiet.get("/api/v1/systems/", headers={"Host": host}), 200, 400)


@pytest.mark.parametrize(
    "ordering", ["name", "-name", "short_name,name", "name,name", ",", "-", "--name", "?", "pk", "name__x"]
)
def test_unusual_orders_and_cursors_are_accepted_or_refused(quiet: Client, airport: TargetDataset, ordering: str):
    for cursor in ("", "x", ":", "a:b:c", "=" * 3000, quote("\x00"), quote("ü"), ".eJx:1t:sig"):
        must_be_sound(quiet.get(f"/api/v1/datasets/?ordering={ordering}&cursor={cursor}"), 200, 400)


def test_a_cursor_of_another_list_is_refused(quiet: Client, airport: TargetDataset):
    following = quiet.get("/api/v1/columns/?cursor=&page_size=1").json()["next"]
    cursor = following.split("cursor=")[1].split("&")[0]
    for path in ("datasets", "systems", "changes", "users"):
        must_be_sound(quiet.get(f"/api/v1/{path}/?cursor={cursor}"), 400)
    must_be_sound(quiet.get(f"/api/v1/columns/?cursor={cursor}&ordering=-name"), 400)
