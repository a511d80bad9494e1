"""Local REST API over real sockets: pages, tokens, limits and failures."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from loader.contract.manifest.sources import ApiSpec, DeliveredColumn, SourceSpec
from metadata.domain.sources.rest_addresses import parse_api

HERE = ("127.0.0.1",)
RECORDS = tuple({"id": number, "name": f"n{number}"} for number in range(1, 8))
COLUMNS = (
    DeliveredColumn("00000000-0000-0000-0000-000000000001", "id", "integer", nullable=False, business_key=True),
    DeliveredColumn("00000000-0000-0000-0000-000000000002", "name", "string"),
)


@dataclass
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: str = ""


@dataclass
class Answer:
    """Answer of the server; ``cut``: the connection ends after so many bytes of the body, ``drips``: one in 0.1 s."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    drips: bool = False

    @classmethod
    def of(cls, value: Any, status: int = 200, **headers: str) -> "Answer":
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(json.dumps(value).encode(), status, {"Content-Type": "application/json"} | named)


class ApiServer:
    """Server whose answers are functions by path; ``requests`` has all that were made.

    With a ``certificate`` and its key it speaks TLS.
    """

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        self.requests: list[Request] = []
        self.routes: dict[str, Callable[[Request], Answer]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(parts.path, dict(parse_qsl(parts.query)), headers, body)
                outer.requests.append(request)
                answer = outer.routes.get(parts.path, lambda _: Answer.of({"error": "none"}, 404))(request)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if answer.drips:
                    for byte in answer.body:
                        self.wfile.write(bytes([byte]))
                        time.sleep(0.1)
                    return
                with suppress(BrokenPipeError, ConnectionResetError):  # the client died
                    self.wfile.write(answer.body[: answer.cut])
                if answer.cut is not None:
                    self.close_connection = True

            do_GET = do_POST = _serve  # noqa: N815  names of the standard library

            def log_message(self, *args: object) -> None:
                """Keep the output of tests clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def serve(self, path: str, *answers: Answer) -> None:
        """Return these answers one after the other, and the last one for all later requests."""
        remaining = list(answers)
        self.routes[path] = lambda _: remaining.pop(0) if len(remaining) > 1 else remaining[0]

    def source(self, location: str = "items", *, base: str = "", api: dict[str, Any] | None = None, **options: Any):
        """Return the source of an endpoint; ``api`` has the fields of ``ApiSpec``."""
        place = ApiSpec(parse_api(base or self.url), **(api or {}))
        return SourceSpec("shop.items", location, "rest", COLUMNS, options, api=place)


@contextmanager
def api_server(certificate: tuple[Path, Path] | None = None) -> Iterator[ApiServer]:
    server = ApiServer(certificate)
    try:
        yield server
    finally:
        server.stop()


def by_number(request: Request) -> Answer:
    """Answer the page with the number in ``page``, of three records each."""
    start = (int(request.query["page"]) - 1) * 3
    return Answer.of({"items": RECORDS[start : start + 3], "pages": 3})


def by_offset(request: Request) -> Answer:
    start, count = int(request.query["offset"]), int(request.query["limit"])
    return Answer.of({"items": RECORDS[start : start + count], "total": len(RECORDS)})


def by_cursor(request: Request) -> Answer:
    start = int(request.query.get("after", 0))
    following = str(start + 3) if start + 3 < len(RECORDS) else None
    return Answer.of({"items": RECORDS[start : start + 3], "meta": {"next": following}})


def by_next_url(request: Request) -> Answer:
    start = int(request.query.get("start", 0))
    following = f"{request.path}?start={start + 3}" if start + 3 < len(RECORDS) else ""
    return Answer.of({"items": RECORDS[start : start + 3], "next": following})


def by_link(request: Request) -> Answer:
    start = int(request.query.get("start", 0))
    link = {"Link": f'<{request.path}?start={start + 3}>; rel="next"'} if start + 3 < len(RECORDS) else {}
    return Answer.of(list(RECORDS[start : start + 3]), **link)
