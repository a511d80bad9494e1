"""S3 server behind a proxy, by which a test can refuse requests as a store does."""

import base64
import hashlib
import hmac
import http.client
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from elevata.bootstrap.java import java_home
from elevata.bootstrap.places import OBJECT_STORE
from tests.services.process import Server, ServerProblem

ACCESS_KEY, SECRET_KEY = "shop-access", "sesame-of-the-object-store"
BUCKET = "warehouse"
JARS = OBJECT_STORE / "spark-jars"
_SERVER_JARS = OBJECT_STORE / "s3proxy"


class ObjectStore:
    """S3 server whose buckets are folders in ``folder``, reached through a gate at ``endpoint``."""

    def __init__(self, folder: Path):
        if not _SERVER_JARS.is_dir():
            raise ServerProblem("there is no S3 server: run make test-services, or setup --with-object-store")
        self.folder = folder
        (folder / BUCKET).mkdir(parents=True)
        self._properties = folder.parent / "s3proxy.properties"
        self._server = Server(
            "S3Proxy", self._command, _answers, log=folder.parent / "s3proxy.log", stop_signal=signal.SIGTERM
        )
        self._gate = _Gate(("127.0.0.1", 0), _Handler)
        self._gate.behind, self._gate.refusal, self._gate.left = self._server.port, None, 0
        threading.Thread(target=self._gate.serve_forever, name="s3-gate", daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._gate.server_address[1]}"

    def _command(self, port: int) -> list[str]:
        self._properties.write_text(
            "s3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.endpoint=http://127.0.0.1:{port}\n"
            f"s3proxy.identity={ACCESS_KEY}\ns3proxy.credential={SECRET_KEY}\n"
            f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={self.folder}\n"
        )
        # The server's libraries need a newer version of these annotations than some of them depend on.
        first = next(_SERVER_JARS.glob("*jackson-annotations-*.jar"))
        java = Path(java_home() or "/usr", "bin", "java")
        words = [java, "-cp", f"{first}:{_SERVER_JARS}/*", "org.gaul.s3proxy.Main", "--properties", self._properties]
        return [str(word) for word in words]

    def put(self, key: str, content: str) -> None:
        """Upload an object by the API, because only then it has an entity tag."""
        path, date = f"/{BUCKET}/{key}", formatdate(usegmt=True)
        signed = hmac.new(SECRET_KEY.encode(), f"PUT\n\n\n{date}\n{path}".encode(), hashlib.sha1).digest()
        headers = {"Date": date, "Authorization": f"AWS {ACCESS_KEY}:{base64.b64encode(signed).decode()}"}
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=30)
        try:
            connection.request("PUT", path, content.encode(), headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
        finally:
            connection.close()

    @contextmanager
    def refusing(self, status: int, code: str, *, after_writes: int = 0) -> Iterator[None]:
        """Answer every request with an S3 error after so many writes."""
        self._gate.left, self._gate.refusal = after_writes, (status, code)
        try:
            yield
        finally:
            self._gate.refusal = None

    def stop(self) -> None:
        self._gate.shutdown()
        self._gate.server_close()
        self._server.stop()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


class _Gate(ThreadingHTTPServer):
    daemon_threads = True
    behind: int
    refusal: tuple[int, str] | None
    left: int


class _Handler(BaseHTTPRequestHandler):
    """Proxy that forwards a request unchanged, including its signed Host header, or refuses it."""

    protocol_version = "HTTP/1.1"
    server: _Gate

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.refusal and self.server.left <= 0:
            status, code = self.server.refusal
            error = f"<Error><Code>{code}</Code><Message>The request is refused: {code}</Message></Error>".encode()
            self._answer(status, {"Content-Type": "application/xml"}, error)
            return
        if self.command == "PUT":
            self.server.left -= 1
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            self._answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = headers.get("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815  names of the library

    def log_message(self, *_: object) -> None:
        """Write nothing: the server has a log of its own."""
