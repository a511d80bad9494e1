"""Tests of requests to REST endpoints against a real local server: paging, authentication, limits, refusals."""

import base64
import gzip
import html
import json
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, quote_plus

import pytest

from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.readers.rest.endpoint import pages_of
from loader.readers.rest.session import Limits
from tests.loader.readers.rest import api_server
from tests.loader.readers.rest.api_server import HERE, RECORDS, Answer, ApiServer, Request
from tests.services.certificates import self_signed

TOKEN = "tok-correct-horse"
TIME_WAIT = "06"
QUICK = Limits(seconds=20, tries=3)


def records(source: SourceSpec, *, hosts=HERE, limits: Limits = QUICK, path: str | None = "items", **given: Any):
    """Return the records of all pages; waits between tries take no time."""
    pages = pages_of(source, hosts=hosts, limits=limits, **{"pause": lambda _: None} | given)
    documents = [json.loads(page.content) for page in pages]
    return [record for document in documents for record in (document[path] if path else document)]


def refusal(source: SourceSpec, **given: Any) -> Refusal:
    with pytest.raises(Refusal) as refused:
        records(source, **given)
    assert refused.value.hint
    return refused.value


@pytest.mark.parametrize(
    ("answer", "options", "requests"),
    [
        (api_server.by_number, {"paging": "page"}, 4),
        (api_server.by_number, {"paging": "page", "total_path": "pages"}, 3),
        (api_server.by_offset, {"paging": "offset", "page_size": 3}, 4),
        (api_server.by_offset, {"paging": "offset", "page_size": 3, "total_path": "total"}, 3),
        (api_server.by_cursor, {"paging": "cursor", "next_path": "meta.next", "page_parameter": "after"}, 3),
        (api_server.by_next_url, {"paging": "next_url"}, 3),
    ],
)
def test_every_paging_gives_each_record_once(api: ApiServer, answer, options, requests):
    api.routes["/items"] = answer
    assert records(api.source(path="items", **options)) == list(RECORDS)
    assert len(api.requests) == requests


def test_pages_follow_the_header_link(api: ApiServer):
    api.routes["/items"] = api_server.by_link
    assert records(api.source(paging="link"), path=None) == list(RECORDS)


def test_an_endpoint_without_paging_is_one_request_below_the_base_url(api: ApiServer):
    api.serve("/v1/all/items", Answer.of({"items": RECORDS}))
    assert records(api.source("/all/items", base=f"{api.url}/v1/")) == list(RECORDS)
    assert api.paths() == ["/v1/all/items"]


def test_parameters_headers_page_size_and_the_mark_are_sent(api: ApiServer):
    api.serve("/items", Answer.of({"items": []}))
    source = api.source(
        parameters="status=open&sort=id",
        headers="X-Version: 2\nAccept: application/hal+json",
        page_size=50,
        page_size_parameter="per_page",
        incremental_parameter="updated_since",
    )
    records(source, since="2024-01-31T10:00:00+00:00")
    records(source)
    first, second = api.requests
    assert first.query == {
        **{"status": "open", "sort": "id", "per_page": "50"},
        "updated_since": "2024-01-31T10:00:00+00:00",
    }
    assert "updated_since" not in second.query
    assert (first.headers["x-version"], first.headers["accept"]) == ("2", "application/hal+json")


# --- authentication ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "header", "value"),
    [
        ({}, "authorization", f"Bearer {TOKEN}"),
        ({"authentication": "api_key"}, "x-api-key", TOKEN),
        ({"authentication": "api_key", "header": "Api-Token"}, "api-token", TOKEN),
        (
            {"authentication": "basic", "user": "reader"},
            "authorization",
            "Basic " + base64.b64encode(f"reader:{TOKEN}".encode()).decode(),
        ),
    ],
)
def test_secret_is_sent_in_the_header_of_the_configured_authentication(api: ApiServer, options, header, value):
    api.serve("/items", Answer.of({"items": []}))
    records(api.source(api={"options": options, "secret": "ELEVATA_SOURCE_SHOP", "password": TOKEN}))
    assert api.requests[0].headers[header] == value


def oauth2(api: ApiServer, **options: Any) -> dict[str, Any]:
    options = {"authentication": "oauth2", "user": "elevata", "token_url": f"{api.url}/token"} | options
    return {"options": options, "secret": "ELEVATA_SOURCE_SHOP", "password": "client-secret"}


def test_oauth2_token_is_requested_once_for_all_pages(api: ApiServer):
    api.routes["/items"] = api_server.by_number
    api.serve("/token", Answer.of({"access_token": TOKEN, "expires_in": 300}))
    assert records(api.source(api=oauth2(api, scope="read"), paging="page", path="items")) == list(RECORDS)
    assert api.paths().count("/token") == 1
    form = parse_qs(next(request.body for request in api.requests if request.path == "/token"))
    assert form == {
        **{"client_id": ["elevata"], "client_secret": ["client-secret"], "scope": ["read"]},
        "grant_type": ["client_credentials"],
    }
    assert api.requests[-1].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "answer",
    [
        Answer.of({"error": "invalid_client", "echo": "client-secret"}, 400),
        Answer.of({"error": "invalid_client"}, 401),
        Answer.of({"no": "token"}),
        Answer(status=302, headers={"Location": "/elsewhere"}),
    ],
)
def test_a_refused_oauth2_client_cannot_sign_in(api: ApiServer, answer):
    api.serve("/token", answer)
    refused = refusal(api.source(api=oauth2(api)))
    assert (refused.code, api.paths()) == ("SIGN_IN_REFUSED", ["/token"])
    assert "client-secret" not in str(refused.as_json())


def test_token_url_is_compared_regardless_of_the_case_of_its_host(api: ApiServer):
    api.serve("/token", Answer(status=302, headers={"Location": "/elsewhere"}))
    source = api.source(api=oauth2(api, token_url=f"http://LOCALHOST:{api.port}/token"))
    refused = refusal(source, hosts=("localhost", "127.0.0.0/8", "::1"))
    assert (refused.code, api.paths()) == ("SIGN_IN_REFUSED", ["/token"])


@pytest.mark.parametrize("authentication", ["bearer", "api_key"])
def test_secret_with_a_line_break_is_refused_without_showing_it(api: ApiServer, authentication):
    given = {"options": {"authentication": authentication}, "secret": "S", "password": f"{TOKEN}\nX-Other: 1"}
    refused = refusal(api.source(api=given))
    assert (refused.code, api.requests) == ("BAD_SECRET", [])
    assert TOKEN not in str(refused.as_json())


def test_oauth2_token_with_a_line_break_is_refused_without_showing_it(api: ApiServer):
    api.serve("/token", Answer.of({"access_token": f"{TOKEN}\r\nX-Other: 1"}))
    refused = refusal(api.source(api=oauth2(api)))
    assert (refused.code, api.paths()) == ("SIGN_IN_REFUSED", ["/token"])
    assert TOKEN not in str(refused.as_json())


def test_refusal_masks_every_encoding_of_a_secret_in_an_answer(api: ApiServer):
    secret = "päss word/1"
    basic = base64.b64encode(f"reader:{secret}".encode()).decode()
    repeated = {"a": secret, "b": basic, "c": quote(secret), "d": quote_plus(secret)}
    api.serve("/items", Answer(json.dumps(repeated, ensure_ascii=False).encode(), 400))
    options = {"authentication": "basic", "user": "reader"}
    refused = refusal(api.source(api={"options": options, "secret": "S", "password": secret}))
    assert refused.samples == ('{"a": "***", "b": "***", "c": "***", "d": "***"}',)
    secret_at_the_cut = Answer(b"x" * 90 + secret.encode(), 400)
    api.serve("/items", secret_at_the_cut)
    refused = refusal(api.source(api={"options": options, "secret": "S", "password": secret}))
    assert refused.samples == ("x" * 90 + "***",)


@pytest.mark.parametrize(
    "repeated",
    [
        json.dumps("päss&wo/rd=='"),
        json.dumps("päss&wo/rd=='").replace("/", r"\/"),
        json.dumps("päss&wo/rd=='", ensure_ascii=False).replace("/", r"\/"),
        html.escape("päss&wo/rd=='"),
        html.escape("päss&wo/rd=='").replace("/", "&#x2F;").replace("=", "&#x3D;").replace("&#x27;", "&#39;"),
        quote("päss&wo/rd=='", safe="").lower(),
    ],
)
def test_refusal_masks_a_secret_as_json_and_html_write_it(api: ApiServer, repeated):
    api.serve("/items", Answer(repeated.encode(), 400))
    options = {"authentication": "basic", "user": "reader"}
    refused = refusal(api.source(api={"options": options, "secret": "S", "password": "päss&wo/rd=='"}))
    assert refused.samples[0].strip('"') == "***"


def test_refusal_masks_an_oauth2_token_as_json_writes_it(api: ApiServer):
    api.serve("/token", Answer.of({"access_token": "ab/cd/ef/gh"}))
    api.serve("/items", Answer(json.dumps("ab/cd/ef/gh").replace("/", r"\/").encode(), 400))
    assert refusal(api.source(api=oauth2(api))).samples == ('"***"',)


@pytest.mark.parametrize("expires", ["1e999", "-1", "1e300", "true"])
def test_oauth2_token_with_an_unusual_expiration_is_used(api: ApiServer, expires):
    api.serve("/token", Answer(f'{{"access_token": "{TOKEN}", "expires_in": {expires}}}'.encode()))
    api.serve("/items", Answer.of({"items": [1]}))
    assert records(api.source(api=oauth2(api))) == [1]


@pytest.mark.parametrize("header", ["Mon, 01 Jan 99999999999 00:00:00 GMT", "9" * 400, "soon"])
def test_invalid_retry_after_header_is_ignored(api: ApiServer, header):
    api.serve("/items", *[Answer.of({}, 503, Retry_After=header)] * 5)
    assert refusal(api.source()).code == "SOURCE_FAILED"


def test_a_secret_that_is_not_set_is_refused_before_any_request(api: ApiServer):
    refused = refusal(api.source(api={"secret": "ELEVATA_SOURCE_SHOP"}))
    assert (refused.code, api.requests) == ("SECRET_NOT_SET", [])


# --- hosts -------------------------------------------------------------------------------------


def test_a_host_that_is_not_listed_is_never_connected(api: ApiServer):
    refused = refusal(api.source(), hosts=("api.example.org",))
    assert (refused.code, api.requests) == ("HOST_NOT_ALLOWED", [])


def test_listed_host_with_an_internal_address_requires_the_address_to_be_listed(api: ApiServer):
    api.serve("/items", Answer.of({"items": []}))
    source = api.source(base=f"http://localhost:{api.port}")
    refused = refusal(source, hosts=("localhost",))
    assert (refused.code, api.requests) == ("HOST_NOT_ALLOWED", [])
    assert records(source, hosts=("localhost", "127.0.0.0/8", "::1")) == []


def test_host_name_is_resolved_only_once_against_dns_rebinding(api: ApiServer, monkeypatch):
    resolved_hosts, leads = [], ["127.0.0.1", "127.0.0.2"]
    resolve = socket.getaddrinfo

    def getaddrinfo(host: str, *given: Any, **options: Any) -> list:
        if host != "rebinding.example.org":
            return resolve(host, *given, **options)
        resolved_hosts.append(host)
        return resolve(leads.pop(0), *given, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    api.serve("/items", Answer.of({"items": []}))
    source = api.source(base=f"http://rebinding.example.org:{api.port}")
    assert records(source, hosts=("rebinding.example.org", "127.0.0.1")) == []
    assert (resolved_hosts, api.requests[0].headers["host"]) == (
        ["rebinding.example.org"],
        f"rebinding.example.org:{api.port}",
    )


def test_proxies_and_netrc_of_the_environment_are_not_used(api: ApiServer, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    api.serve("/items", Answer.of({"items": []}))
    records(api.source())
    assert "authorization" not in api.requests[0].headers


def test_plain_http_is_sent_to_listed_addresses_only(api: ApiServer, monkeypatch):
    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    refused = refusal(api.source(base="http://api.example.org"), hosts=("api.example.org",))
    assert (refused.code, "without TLS" in refused.message) == ("HOST_NOT_ALLOWED", True)


def test_certificates_of_the_system_are_read_once_for_all_connections_with_tls(api: ApiServer, tmp_path, monkeypatch):
    read: list[ssl.SSLContext] = []
    default_context = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: read.append(context := default_context()) or context)
    api.routes["/items"] = api_server.by_number
    records(api.source(path="items", paging="page"))
    assert read == []
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with api_server.api_server(certificate) as secured:
        secured.routes["/items"] = api_server.by_number
        assert records(secured.source(path="items", paging="page")) == list(RECORDS)
        assert (len(secured.requests), len(read)) == (4, 1)


def test_server_with_an_untrusted_certificate_is_refused(tmp_path, monkeypatch):
    certificate = self_signed(tmp_path)
    with api_server.api_server(certificate) as api:
        api.serve("/items", Answer.of({"items": [1]}))
        refused = refusal(api.source())
        assert (refused.code, "certificate" in refused.message, api.requests) == ("NOT_REACHED", True, [])
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert records(api.source()) == [1]


def test_trusted_certificate_of_another_host_is_refused(tmp_path, monkeypatch):
    certificate, resolve = self_signed(tmp_path), socket.getaddrinfo
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *given, **options: resolve("127.0.0.1", *given, **options))
    with api_server.api_server(certificate) as api:
        hosts = ("localhost", "api.example.org", "127.0.0.1")
        api.serve("/items", Answer.of({"items": [1]}))
        assert records(api.source(base=f"https://localhost:{api.port}"), hosts=hosts) == [1]
        refused = refusal(api.source(base=f"https://api.example.org:{api.port}"), hosts=hosts)
        assert (refused.code, "certificate" in refused.message, len(api.requests)) == ("NOT_REACHED", True, 1)


@pytest.mark.parametrize("place", ["http://localhost:{port}/other", "//localhost:{port}/other"])
def test_redirects_and_next_pages_to_other_hosts_are_refused(api: ApiServer, place):
    place = place.format(port=api.port)
    api.serve("/items", Answer(status=302, headers={"Location": place}))
    api.serve("/pages", Answer.of({"items": [1], "next": place}))
    for source in (api.source(), api.source("pages", paging="next_url", path="items")):
        assert refusal(source).code == "HOST_NOT_ALLOWED"
    assert api.paths() == ["/items", "/pages"]


@pytest.mark.parametrize(
    "place",
    [
        *("file:///etc/passwd", "ftp://127.0.0.1/x", "http://[::1/x?key=canary", "http://127.0.0.1:99999/x?key=canary"),
        "http://own.example.org%00.example.org/?key=canary",
    ],
)
def test_redirects_and_next_pages_with_an_invalid_http_url_are_refused(api: ApiServer, place):
    api.serve("/items", Answer(status=302, headers={"Location": place}))
    api.serve("/pages", Answer.of({"items": [1], "next": place}))
    for source in (api.source(), api.source("pages", paging="next_url", path="items")):
        refused = refusal(source)
        assert refused.code == "BAD_LOCATION"
        assert "canary" not in str(refused.as_json())


@pytest.mark.parametrize("authentication", ["bearer", "api_key"])
def test_another_host_that_is_allowed_gets_no_credentials(api: ApiServer, authentication):
    hosts = (*HERE, "localhost", "::1")
    elsewhere = f"http://localhost:{api.port}/other"
    api.serve("/items", Answer(status=302, headers={"Location": elsewhere}))
    api.serve("/pages", Answer.of({"items": [1], "next": elsewhere}))
    api.serve("/other", Answer.of({"items": []}))
    given = {"options": {"authentication": authentication}, "secret": "S", "password": TOKEN}
    records(api.source(api=given), hosts=hosts)
    records(api.source("pages", api=given, paging="next_url", path="items"), hosts=hosts)
    sent = {request.path: str(request.headers) for request in api.requests}
    assert api.paths() == ["/items", "/other", "/pages", "/other"]
    assert (TOKEN in sent["/items"], TOKEN in sent["/other"]) == (True, False)


def test_a_redirect_on_the_same_host_keeps_the_credentials(api: ApiServer):
    api.serve("/items", Answer(status=307, headers={"Location": "/v2/items"}))
    api.serve("/v2/items", Answer.of({"items": []}))
    records(api.source(api={"secret": "S", "password": TOKEN}))
    assert api.requests[-1].headers["authorization"] == f"Bearer {TOKEN}"


def connections_to(port: int) -> int:
    """Return the number of client connections from this machine to a local port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = [(fields[2], fields[3]) for fields in map(str.split, lines)]
    return sum(remote.endswith(f":{port:04X}") and state != TIME_WAIT for remote, state in ends)


def test_pages_on_separate_connections_leave_no_connections_open(api: ApiServer):
    counts = []

    def closing(request: Request) -> Answer:
        counts.append(connections_to(api.port))
        answer = (
            api_server.by_number(request) if int(request.query["page"]) > 20 else Answer.of({"items": [len(counts)]})
        )
        answer.headers["Connection"] = "close"
        return answer

    api.routes["/items"] = closing
    records(api.source(paging="page", path="items"))
    assert len(counts) == 21
    assert counts[0] >= 1
    assert max(counts) <= 3


def test_endless_redirects_are_refused(api: ApiServer):
    api.serve("/items", Answer(status=302, headers={"Location": "/items"}))
    assert refusal(api.source()).code == "SOURCE_FAILED"


# --- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "requests"),
    [
        (401, "SIGN_IN_REFUSED", 1),
        (403, "NOT_ALLOWED", 1),
        (404, "NO_SUCH_ENDPOINT", 1),
        (410, "NO_SUCH_ENDPOINT", 1),
        (400, "SOURCE_FAILED", 1),
        (429, "RATE_LIMITED", 3),
        (500, "SOURCE_FAILED", 3),
        (503, "SOURCE_FAILED", 3),
    ],
)
def test_refusal_of_an_error_status_names_page_and_url(api: ApiServer, status, code, requests):
    api.routes["/items"] = lambda request: (
        Answer.of({"error": "broken"}, status) if request.query["page"] == "2" else api_server.by_number(request)
    )
    refused = refusal(api.source(paging="page", path="items", parameters="api_key=hidden"))
    assert (refused.code, len(api.requests)) == (code, requests + 1)
    assert f"page 2, {api.url}/items?api_key=***&page=2" in refused.message
    assert str(status) in refused.message


@pytest.mark.parametrize(
    "answer",
    [
        Answer.of({}, 503),
        Answer.of({}, 429, Retry_After="7"),
        Answer(b'{"items": []}', cut=5),
        Answer(b'{"items": []}', 502),
    ],
)
def test_request_is_retried_after_a_temporary_failure(api: ApiServer, answer):
    api.serve("/items", answer, Answer.of({"items": [1]}))
    waits: list[float] = []
    assert records(api.source(), pause=waits.append) == [1]
    longest = max(waits)
    assert longest == 7 if answer.headers.get("Retry-After") else 0.7 < longest < 1.3


def test_retry_waits_until_the_date_of_the_retry_after_header(api: ApiServer):
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=19), usegmt=True)
    api.serve("/items", Answer.of({}, 503, Retry_After=at), Answer.of({"items": [1]}))
    waits: list[float] = []
    assert records(api.source(), pause=waits.append) == [1]
    assert 2 < max(waits) <= 19


def test_a_wait_beyond_the_time_limit_refuses_at_once(api: ApiServer):
    api.serve("/items", Answer.of({}, 429, Retry_After="3600"))
    assert (refusal(api.source()).code, len(api.requests)) == ("RATE_LIMITED", 1)


def test_a_connection_that_breaks_off_is_refused_after_the_last_try(api: ApiServer):
    api.serve("/items", Answer(b'{"items": []}', cut=5))
    assert (refusal(api.source()).code, len(api.requests)) == ("SOURCE_GONE", 3)


def test_refused_connection_raises_not_reached(api: ApiServer):
    source = api.source()
    api.stop()
    refused = refusal(source)
    assert refused.code == "NOT_REACHED"
    assert "Connection refused" in refused.message


def test_an_unknown_host_is_not_reached(api: ApiServer):
    name = "nowhere.invalid"
    assert refusal(api.source(base=f"https://{name}"), hosts=(name,)).code == "NOT_REACHED"


@pytest.mark.parametrize(
    "body",
    [b"<html><body>Sign in " + TOKEN.encode(), b'{"items": [NaN]}', b'{"a": 1, "a": 2}', b"", b'{"items": [', b"\xff"],
)
def test_a_page_that_is_no_json_is_refused_with_its_beginning(api: ApiServer, body):
    api.serve("/items", Answer(body))
    refused = refusal(api.source(api={"secret": "S", "password": TOKEN}))
    assert refused.code == "NOT_JSON"
    assert (len(refused.samples[0]) <= 100, TOKEN in str(refused.as_json())) == (True, False)


def test_a_cursor_that_repeats_is_refused(api: ApiServer):
    api.serve("/items", Answer.of({"items": [1], "next": "a"}))
    refused = refusal(api.source(paging="cursor", path="items"))
    assert (refused.code, len(api.requests)) == ("CURSOR_REPEATS", 2)


def test_a_page_number_that_the_api_ignores_is_refused(api: ApiServer):
    api.serve("/items", Answer.of({"items": [1]}))
    assert (refusal(api.source(paging="page", path="items")).code, len(api.requests)) == ("CURSOR_REPEATS", 2)


@pytest.mark.parametrize("following", [["a"], {"a": 1}, True])
def test_next_cursor_that_is_no_text_or_number_is_refused(api: ApiServer, following):
    api.serve("/items", Answer.of({"items": [1], "next": following}))
    assert refusal(api.source(paging="cursor", path="items")).code == "BAD_PAGE"


def test_a_total_that_is_no_number_is_refused_without_the_document(api: ApiServer):
    api.serve("/items", Answer.of({"items": [TOKEN], "pages": "many"}))
    refused = refusal(api.source(paging="page", path="items", total_path="pages"))
    assert (refused.code, TOKEN in str(refused.as_json())) == ("BAD_PAGE", False)


def test_more_pages_than_allowed_are_refused(api: ApiServer):
    api.routes["/items"] = api_server.by_number
    assert refusal(api.source(paging="page", path="items", max_pages=2)).code == "TOO_MANY_PAGES"
    assert len(api.requests) == 2


@pytest.mark.parametrize("packed", [False, True])
def test_page_over_the_size_limit_is_refused_also_if_compressed(api: ApiServer, packed):
    body = json.dumps({"items": ["x" * 3_000_000]}).encode()
    answer = Answer(gzip.compress(body), headers={"Content-Encoding": "gzip"}) if packed else Answer(body)
    api.serve("/items", answer)
    limits = Limits(seconds=20, tries=1, page_bytes=1 << 20)
    assert refusal(api.source(), limits=limits).code == "TOO_LARGE"


def test_compressed_pages_are_decompressed(api: ApiServer):
    body = json.dumps({"items": [1]}).encode()
    api.serve("/items", Answer(gzip.compress(body), headers={"Content-Encoding": "gzip"}))
    assert [page.content for page in pages_of(api.source(), hosts=HERE)] == [body]


def silent(request: Request) -> Answer:
    time.sleep(5)
    return Answer.of({"items": []})


@pytest.mark.parametrize("answer", [silent, lambda _: Answer(b" " * 100 + b"[]", drips=True)])
def test_silent_or_dripping_api_is_refused_at_the_time_limit(api: ApiServer, answer):
    api.routes["/items"] = answer
    began = time.monotonic()
    refused = refusal(api.source(), limits=Limits(seconds=0.5, tries=3))
    assert (refused.code, time.monotonic() - began < 3) == ("TOO_SLOW", True)


def test_requests_observe_the_requests_per_minute_of_the_system(api: ApiServer):
    api.routes["/items"] = api_server.by_number
    waits: list[float] = []
    source = api.source(paging="page", path="items", api={"options": {"requests_per_minute": 60}})
    records(source, pause=waits.append)
    assert [round(wait) for wait in waits] == [0, 1, 2, 3]


def test_answer_without_content_yields_no_page(api: ApiServer):
    api.serve("/items", Answer(status=204))
    assert list(pages_of(api.source(path="items"), hosts=HERE)) == []
