"""Limits of the API: sizes, permission checks before parsing, known parameters and logged lines."""

import io
import json
import logging
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from rest_framework.parsers import MultiPartParser

from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import create_token
from elevata.api.parsers import StrictJson
from elevata.ops.logging import OneLine
from elevata.wsgi import application
from loader.api.maintenance import BatchViewSet
from metadata.models import TargetDataset
from tests.architecture.world import person
from tests.elevata.api.requests import get, send
from tests.elevata.api.test_description import one_connection  # noqa: F401  a fixture

pytestmark = pytest.mark.django_db

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def problem(answer: HttpResponse, status: int, code: str = "") -> dict[str, Any]:
    """Return the body of a problem+json response with this status."""
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json"), answer.content
    body = answer.json()
    assert code in ("", body["code"])
    return body


# --- permissions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Token elv_wrong"},
        {"Authorization": "Token"},
        {"Authorization": "Token \xff"},
        {"Authorization": "Bearer elv_wrong"},
        {"Authorization": "Basic eDp5"},
        {"Accept": "text/event-stream"},
    ],
)
@pytest.mark.parametrize("path", ["", "systems/", "load-runs/x/events/", "search/?q=a", "metadata/export/"])
def test_request_without_a_valid_token_returns_401_and_the_scheme(client: Client, path: str, headers: dict[str, str]):
    answer = client.get(f"/api/v1/{path}", headers=headers)
    problem(answer, 401)
    assert answer.headers["WWW-Authenticate"] == "Token"


def test_session_without_permission_is_refused_with_403_and_the_required_role(reader: Client):
    body = problem(send(reader, "post", "schemas/", {"name": "mart", "layer": "serving"}), 403, "permission_denied")
    assert body["detail"] == "Changing metadata needs the editor role."


def test_page_without_permission_names_the_required_role_and_no_code_name(reader: Client):
    answer = reader.get("/datasets/new/")
    if answer.status_code == 404:
        pytest.fail("the address of the form moved")
    text = answer.content.decode()
    assert answer.status_code == 403
    assert "Changing metadata needs the editor role." in text
    assert "change_metadata" not in text


@pytest.fixture
def unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a body is parsed, by the API or by Django itself."""

    def parse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the body was parsed")

    for parser in (MultiPartParser, StrictJson):
        monkeypatch.setattr(parser, "parse", parse)
    monkeypatch.setattr("django.core.handlers.wsgi.WSGIRequest._load_post_and_files", parse)


@pytest.mark.usefixtures("unparsed")
@pytest.mark.parametrize("address", ["history-batches/", "schemas/", "columns/bulk/", "metadata/import/"])
@pytest.mark.parametrize("kind", ["session", "token", "nobody"])
def test_permission_is_checked_before_the_body_is_parsed(kind: str, address: str):
    vera = person("vera", Role.VIEWER)
    client = Client(enforce_csrf_checks=True)
    headers = {}
    if kind == "session":
        client.force_login(vera)
        client.cookies["csrftoken"] = "a" * 32
        headers = {"X-CSRFToken": "a" * 32}
    if kind == "token":
        headers = {"Authorization": f"Token {create_token(user=vera)[1]}"}
    sent = {"upsert": io.BytesIO(b"x" * 1000)} if address == "history-batches/" else "{}"
    options = {} if address == "history-batches/" else {"content_type": "application/json"}
    answer = client.post(f"/api/v1/{address}", sent, headers=headers, **options)
    problem(answer, 401 if kind == "nobody" else 403)


def test_a_session_needs_the_csrf_token_in_its_header():
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("ed", Role.EDITOR))
    client.cookies["csrftoken"] = "a" * 32
    body, path = {"name": "mart", "layer": "serving"}, "/api/v1/schemas/"
    problem(client.post(path, body, content_type="application/json"), 403)
    problem(client.post(path, {"csrfmiddlewaretoken": "a" * 32, **body}), 403)
    answer = client.post(path, body, content_type="application/json", headers={"X-CSRFToken": "a" * 32})
    assert answer.status_code == 201


# --- limits --------------------------------------------------------------------------------------


def claiming(client: Client, path: str, length: int, content_type: str, method: str = "POST") -> HttpResponse:
    """Send a request with a Content-Length header and no body."""
    return client.generic(method, path, b"", content_type=content_type, CONTENT_LENGTH=str(length))


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
)
@pytest.mark.parametrize("path", ["/api/v1/schemas/", "/api/v1/columns/bulk/", "/api/v1/metadata/import/"])
def test_body_above_the_limit_is_refused_with_413_for_every_content_type(
    operator: Client, settings, path: str, content_type: str
):
    length = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1
    body = problem(claiming(operator, path, length, content_type), 413, "body_too_big")
    assert str(length - 1) in body["detail"]


def test_body_limit_is_eight_mebibytes_except_for_batches(settings):
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == 8 * 2**20
    assert BatchViewSet.most_bytes() == settings.BATCH_MAX_BYTES


def test_json_body_of_three_megabytes_is_read(operator: Client):
    body = {"name": "mart", "layer": "serving", "description": "x" * 3_000_000}
    answer = send(operator, "post", "schemas/", body, **{"Idempotency-Key": "long"})
    assert answer.status_code in (201, 400, 422), answer.content
    assert "body_too_big" not in answer.content.decode()


def test_page_form_above_the_limit_is_refused_with_413(operator: Client, settings, caplog):
    length = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1
    for content_type in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=b"):
        answer = claiming(operator, "/datasets/new/", length, content_type)
        assert answer.status_code == 413
        assert "Body too big" in answer.content.decode()
    assert not [record for record in caplog.records if record.exc_info]


def test_batch_fields_above_the_limit_are_refused_with_413(operator: Client, airport: TargetDataset, settings, caplog):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    sent = {"dataset": str(airport.key), "changelog_message": "x" * 2000}
    problem(operator.post("/api/v1/history-batches/", sent), 413, "body_too_big")
    assert not [record for record in caplog.records if record.exc_info]


def chunked(client: Client, path: str, body: bytes, *, ends: bool = True) -> HttpResponse:
    """Send a chunked body, as gunicorn passes it on."""
    environ = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": ""}
    environ |= {"wsgi.input_terminated": True} if ends else {}
    return client.generic("POST", path, b"", content_type="application/json", **environ)


def test_chunked_body_is_read_up_to_the_limit(operator: Client, settings):
    body = json.dumps({"name": "mart", "layer": "serving"}).encode()
    assert chunked(operator, "/api/v1/schemas/", body).status_code == 201
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    problem(chunked(operator, "/api/v1/schemas/", b" " * 1001), 413, "body_too_big")
    assert chunked(operator, "/datasets/new/", b" " * 1001).status_code == 413
    problem(chunked(operator, "/api/v1/schemas/", body, ends=False), 411, "length_required")


@pytest.mark.parametrize("path", ["/api/v1/systems/?q=", "/api/v1/", "/api/v1/nowhere/"])
def test_api_address_above_the_limit_is_refused_with_414(operator: Client, settings, path: str):
    problem(operator.get(path + "x" * settings.LONGEST_ADDRESS), 414, "address_too_long")


def test_page_address_above_the_limit_is_refused_with_414(operator: Client, settings):
    answer = operator.get("/datasets/?q=" + "x" * settings.LONGEST_ADDRESS)
    assert answer.status_code == 414
    assert answer.headers["Content-Security-Policy"]


def by_wsgi(path: str, content_type: str) -> tuple[str, dict[str, str], bytes]:
    """Return status, headers and body through WSGI, as gunicorn gets them: the test client skips some checks."""
    got: list[Any] = []
    address, _, query = path.partition("?")
    environ = RequestFactory()._base_environ(PATH_INFO=address, QUERY_STRING=query, CONTENT_TYPE=content_type)
    body = b"".join(application(environ, lambda status, headers: got.extend((status, dict(headers)))))
    return got[0], got[1], body


@pytest.mark.parametrize(
    "content_type",
    [
        *(f"application/json; charset={name}" for name in ("utf-16", "zlib", "rot13", "idna", "undefined", "latin-1")),
        "application/json; charset*=undefined''%ff",
        "application/json; charset*=nothing''utf-8",
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/systems/?q=%ff", "/datasets/?q=%ff"])
def test_charset_other_than_utf_8_is_refused_with_415(one_connection, path: str, content_type: str):  # noqa: F811
    status, headers, body = by_wsgi(path, content_type)
    assert status.startswith("415"), (status, body)
    if path.startswith("/api/"):
        assert headers["Content-Type"] == "application/problem+json"


def test_charset_utf_8_is_accepted(one_connection):  # noqa: F811
    assert by_wsgi("/api/v1/systems/?q=%ff", 'application/json; charset="UTF-8"')[0].startswith("401")


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path_and_query",
    [
        "systems/?fields=",
        "systems/?fields=,",
        "systems/?fields=name,,kind",
        "systems/?fields=name,nothing",
        "systems/?fields=name&fields=kind",
        "systems/?kind=files&kind=jdbc",
        "systems/?kind=",
        "systems/?q=",
        "systems/?q=+",
        "systems/?q=%00",
        "systems/?kind=nothing",
        "systems/?active=yes",
        "systems/?active=True",
        "systems/?ordering=",
        "systems/?ordering=secret",
        "systems/?ordering=,",
        "systems/?ordering=name,,short_name",
        "systems/?page=",
        "systems/?page=0",
        "systems/?page=-1",
        "systems/?page=x",
        "systems/?page=1.5",
        "systems/?page=last",
        "systems/?page=%D9%A1",
        "systems/?page_size=0",
        "systems/?page_size=-5",
        "systems/?page_size=all",
        "systems/?page_size=%D9%A1",
        "systems/?cursor=&page=1",
        "systems/?cursor=forged",
        "systems/?cursor=eyJhIjoxfQ:abc",
        "systems/?nothing=1",
        f"references/?child={UNKNOWN}",
        f"references/?parent={UNKNOWN}",
        "references/?child=",
        "references/?child=x",
        f"columns/?dataset={UNKNOWN}",
        "columns/?type=nothing",
        f"source-columns/?source_dataset={UNKNOWN}",
        "source-datasets/?system=nothing",
        "datasets/?schema=nothing",
        "users/?role=nothing",
        "changes/?kind=nothing",
        "changes/?action=nothing",
        "changes/?actor=nothing",
        "changes/?since=yesterday",
        "changes/export/?kind=nothing",
        "changes/export/?since=",
        "changes/export/?nothing=1",
        "reports/?author=nothing",
        "reports/?environment=nothing",
        "executions/?requested_by=nothing",
        "executions/?dataset=nothing",
        f"dry-runs/?report={UNKNOWN}",
        "load-runs/?requested_by=nothing",
        "load-runs/?dataset=raw.nothing",
        "maintenance-records/?run=nothing",
        "maintenance-records/?outcome=nothing",
        f"deliveries/?webhook={UNKNOWN}",
        "search/?q=a&nothing=1",
        "search/?q=a&q=b",
        "search/?q=a&limit=",
        "search/?q=a&kind=",
        "metadata/export/?nothing=1",
        "drift/?nothing=1",
        "reads/?nothing=1",
        "refreshes/?nothing=1",
    ],
)
def test_unknown_or_malformed_query_parameters_are_refused(operator: Client, path_and_query: str):
    operator.raise_request_exception = False
    body = problem(operator.get(f"/api/v1/{path_and_query}"), 400)
    assert body["errors"]


@pytest.mark.parametrize("action", ["", "lineage/", "impact/?change=retire&"])
def test_unknown_or_repeated_parameters_of_a_dataset_are_refused(operator: Client, airport: TargetDataset, action: str):
    for more in ("nothing=1", "fields=", "depth=1&depth=2"):
        path = f"/api/v1/datasets/{airport.key}/{action}"
        problem(operator.get(f"{path}{'' if '?' in path else '?'}{more}"), 400)
    problem(send(operator, "patch", f"datasets/{airport.key}/?nothing=1"), 400)
    problem(send(operator, "post", f"datasets/{airport.key}/retire/?nothing=1"), 400)


def test_filters_with_known_values_are_accepted(operator: Client, airport: TargetDataset):
    for path_and_query in (
        f"references/?child={airport.key}",
        f"columns/?dataset={airport.key}&type=string&active=true",
        "datasets/?schema=rawcore&fields=name",
        "changes/?kind=webhook&action=deleted",
        "changes/?actor=eve",
        "load-runs/?requested_by=eve&dataset=rawcore.rc_air_airport",
        "load-runs/?requested_by=system",
        "systems/?cursor=&page_size=1000000",
    ):
        get(operator, path_and_query)


# --- log lines -----------------------------------------------------------------------------------


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Capture the log records that pass the filter of the product."""
    caplog.handler.addFilter(OneLine())
    return caplog


def formatted(lines: pytest.LogCaptureFixture) -> list[str]:
    return [logging.Formatter("%(message)s").format(record) for record in lines.records]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/datasets/new/", {}, 403),
        ("/nowhere/%0Asecond line", {}, 404),
        ("/api/v1/nowhere/%0Asecond line/", {}, 404),
        ("/api/v1/users/", {}, 403),
        ("/datasets/", {"Host": "elsewhere.example"}, 400),
        ("/api/v1/systems/", {"Host": "elsewhere.example"}, 400),
    ],
)
def test_refused_request_logs_at_most_one_line(reader: Client, lines, settings, path: str, headers: dict, status: int):
    settings.ALLOWED_HOSTS = ["testserver"]
    answer = reader.get(path, headers=headers)
    assert answer.status_code == status
    if path.startswith("/api/"):
        problem(answer, status)
    logged = formatted(lines)
    assert len(logged) <= 1
    assert not any("\n" in line or "Traceback" in line for line in logged)
