"""Calls to addresses that users entered: the connected address is checked, and every call has a timeout."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from elevata.core import permitted_addresses
from elevata.core.networks import networks
from elevata.core.permitted_addresses import NotResolved, resolved
from elevata.notifications import safe_http
from elevata.notifications.safe_http import CannotCall, judged, post

HERE = networks(["127.0.0.0/8"])


class Receiver(ThreadingHTTPServer):
    """Local HTTP server that records its requests."""

    daemon_threads = True

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        received = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                answer(self)

            def log_message(self, *_: object) -> None:
                """Suppress the log output."""

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def port(self) -> int:
        return self.server_address[1]


def says(code: int, text: str = "", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(text.encode())

    return answer


@contextmanager
def receiver(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[Receiver]:
    server = Receiver(answer)
    thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that sets the addresses of successive name lookups and returns the names looked up."""
    names: list[str] = []

    def resolve_to(*answers: list[str]) -> list[str]:
        remaining = list(answers)

        def getaddrinfo(host: str, port: int, *_: object, **__: object) -> list:
            if host[0].isdigit():
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]
            names.append(host)
            addresses = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        monkeypatch.setattr(safe_http.socket, "getaddrinfo", getaddrinfo)
        return names

    return resolve_to


def test_post_sends_body_and_headers_to_the_url(resolves: Callable):
    resolves(["127.0.0.1"])
    with receiver(says(202, "taken")) as server:
        url = f"http://hooks.example.org:{server.port}/in?team=a"
        answer = post(url, b'{"a":1}', {"webhook-id": "7"}, allowed=HERE)
    assert (answer.code, answer.text) == (202, "taken")
    path, headers, body = server.requests[0]
    assert (path, body) == ("/in?team=a", b'{"a":1}')
    assert (headers["host"], headers["webhook-id"]) == (f"hooks.example.org:{server.port}", "7")


INSIDE = ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "::ffff:192.168.0.1", "0.0.0.0"]


@pytest.mark.parametrize("address", INSIDE)
def test_host_name_with_a_private_address_is_refused_finally(resolves: Callable, address: str):
    resolves([address])
    with pytest.raises(CannotCall, match="no public address") as refused:
        post("https://hooks.example.org/", b"", {})
    assert refused.value.is_final


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "https://2130706433/", "https://0x7f000001/", "https://[::1]/"])
def test_loopback_address_is_refused_in_any_notation(url: str):
    with pytest.raises(CannotCall, match="no public address"):
        post(url, b"", {})


def test_host_name_with_public_and_private_addresses_is_refused(resolves: Callable):
    resolves(["93.184.215.14", "10.0.0.7"])
    with pytest.raises(CannotCall, match=r"10\.0\.0\.7"):
        judged("hooks.example.org", 443)


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Yield an event that releases a blocking resolver, which then raises an error."""
    speak = threading.Event()

    def getaddrinfo(host: str, *_: object, **__: object) -> list:
        speak.wait(30)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(safe_http.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(permitted_addresses, "_slots", threading.BoundedSemaphore(2))
    yield speak
    speak.set()
    lookups_are_over()


def lookups_are_over() -> None:
    for thread in threading.enumerate():
        if thread.name == "resolve":
            thread.join(5)


def test_call_fails_after_the_time_limit_of_name_resolution(mute: threading.Event, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resolved, "__kwdefaults__", {"seconds": 0.1})
    began = time.monotonic()
    with pytest.raises(CannotCall, match="the resolver took longer than") as refused:
        post("https://hooks.example.org/", b"", {})
    assert time.monotonic() - began < 5
    assert not refused.value.is_final


def test_name_resolution_is_refused_while_all_slots_are_busy(mute: threading.Event):
    for _ in range(2):
        with pytest.raises(NotResolved, match="took longer"):
            resolved("hooks.example.org", 443, seconds=0.05)
    with pytest.raises(NotResolved, match="still being looked up"):
        resolved("hooks.example.org", 443)


def test_name_resolution_resumes_after_the_resolver_answers(mute: threading.Event):
    for _ in range(2):
        with pytest.raises(NotResolved, match="took longer"):
            resolved("hooks.example.org", 443, seconds=0.05)
    mute.set()
    lookups_are_over()
    with pytest.raises(NotResolved, match="Name or service not known"):
        resolved("hooks.example.org", 443)


def test_host_name_is_resolved_once_for_check_and_connection(resolves: Callable):
    names = resolves(["127.0.0.1"], ["127.0.0.2"])
    with receiver(says(200)) as server:
        post(f"http://rebinding.example.org:{server.port}/", b"", {}, allowed=HERE)
    assert names == ["rebinding.example.org"]
    assert len(server.requests) == 1


def test_plain_http_is_refused_outside_the_listed_networks(resolves: Callable):
    resolves(["93.184.215.14"])
    with pytest.raises(CannotCall, match="without TLS"):
        post("http://hooks.example.org/", b"", {})


def test_a_proxy_of_the_environment_is_not_used(resolves: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    resolves(["127.0.0.1"])
    with receiver(says(200)) as server:
        assert post(f"http://hooks.example.org:{server.port}/", b"", {}, allowed=HERE).code == 200


def test_a_redirect_is_an_answer_and_is_not_followed(resolves: Callable):
    resolves(["127.0.0.1"])
    with receiver(says(200)) as inside, receiver(says(302, Location=f"http://127.0.0.1:{inside.port}/")) as server:
        assert post(f"http://hooks.example.org:{server.port}/", b"", {}, allowed=HERE).code == 302
    assert inside.requests == []


def test_only_the_beginning_of_an_answer_is_read(resolves: Callable):
    resolves(["127.0.0.1"])
    with receiver(says(500, "x" * 1_000_000)) as server:
        answer = post(f"http://hooks.example.org:{server.port}/", b"", {}, allowed=HERE)
    assert len(answer.text) == safe_http.ANSWER_BYTES


def test_call_to_a_slow_server_ends_after_the_time_limit(resolves: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(safe_http, "WHOLE_SECONDS", 0.5)
    resolves(["127.0.0.1"])
    ended = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(200):
            if ended.wait(0.1):
                return
            handler.wfile.write(f"X-Slow-{number}: 1\r\n".encode())

    with receiver(drip) as server:
        began = time.monotonic()
        with pytest.raises(CannotCall, match="took longer"):
            post(f"http://hooks.example.org:{server.port}/", b"", {}, allowed=HERE)
        took = time.monotonic() - began
        ended.set()
    assert took < 5


def test_a_server_that_cannot_prove_its_name_is_refused(resolves: Callable):
    resolves(["127.0.0.1"])
    with receiver(says(200)) as server, pytest.raises(CannotCall, match="did not answer"):
        post(f"https://hooks.example.org:{server.port}/", b"", {}, allowed=HERE)
    assert server.requests == []


def test_unreachable_server_raises_an_error_that_is_not_final(resolves: Callable):
    resolves(["127.0.0.1"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(CannotCall, match="cannot be reached") as refused:
        post(f"http://hooks.example.org:{port}/", b"", {}, allowed=HERE)
    assert not refused.value.is_final
