"""Safe HTTP requests to addresses that users entered."""

import http.client
import queue
import socket
import ssl
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from elevata.core.networks import Network, is_listed, is_public

# Names are resolved within a time limit. The system's resolver has no time limit and cannot be interrupted, so each
# name is resolved in a thread that may be abandoned. The number of concurrent lookups is limited; further ones are
# refused.


RESOLVE_SECONDS = 5.0
_MAX_LOOKUPS = 8
_slots = threading.BoundedSemaphore(_MAX_LOOKUPS)


class NotResolved(OSError):
    """Error of a name without an address, at present."""


def resolved(host: str, port: int, *, seconds: float = RESOLVE_SECONDS) -> list[str]:
    """Return the distinct addresses of a host. Raise NotResolved for an unknown name or after the time limit."""
    if not _slots.acquire(blocking=False):
        raise NotResolved(f"{_MAX_LOOKUPS} other names are still being looked up: the resolver does not answer")
    answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()
    try:
        threading.Thread(target=_look_up, args=(host, port, answers), name="resolve", daemon=True).start()
    except RuntimeError:
        _slots.release()
        raise
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise NotResolved(f"the resolver took longer than {seconds:.0f} seconds") from None
    if isinstance(answer, Exception):
        raise NotResolved(str(answer)) from answer
    return answer


def _look_up(host: str, port: int, answers: "queue.SimpleQueue[list[str] | Exception]") -> None:
    """Resolve a name; release its slot when the resolver has answered, also after the time limit."""
    try:
        results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answers.put(list(dict.fromkeys(str(result[4][0]) for result in results)))
    except Exception as error:  # the caller waits for any result
        answers.put(error)
    finally:
        _slots.release()


# A host name is resolved once; its addresses are checked, and the connection is made to a checked address. Redirects
# are not followed, and proxies of the environment are not used. TLS is verified against the host name. The lookup and
# the request end at their time limits, also if the other side responds slowly.


CONNECT_SECONDS = 5.0
WHOLE_SECONDS = 15.0
# Maximum number of bytes that are read of a response.
ANSWER_BYTES = 2000
_TOO_LONG = "{} took longer than {:.0f} seconds"


class CannotCall(Exception):
    """Error of a request without a response. ``is_final``: a retry would fail in the same way."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


@dataclass(frozen=True)
class Answer:
    """Response: status code, beginning of the text, and duration in milliseconds."""

    code: int
    text: str
    milliseconds: int


def post(url: str, body: bytes, headers: Mapping[str, str], *, allowed: Collection[Network] = ()) -> Answer:
    """Send a POST request and return the response. Raise CannotCall with the reason if there is none.

    ``allowed`` are networks that are permitted although they are not public; plain http is permitted only there.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    addresses = judged(host, port, allowed=allowed, plain=parts.scheme == "http")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    began = time.monotonic()
    connection = _connect(host, port, addresses, tls=parts.scheme == "https")
    timer = threading.Timer(WHOLE_SECONDS, _shut_down, [connection])
    timer.daemon = True
    timer.start()
    try:
        if connection.tls is not None:
            # The handshake follows the wrapping, so that the timer always closes the socket in use.
            connection.sock = connection.tls.wrap_socket(
                connection.sock, server_hostname=host, do_handshake_on_connect=False
            )
            connection.sock.do_handshake()
        connection.request("POST", target, body, {"Connection": "close", **headers})
        response = connection.getresponse()
        text = response.read(ANSWER_BYTES).decode("utf-8", "replace")
        # Headers of a response that the timer interrupted look complete.
        if _milliseconds_since(began) >= WHOLE_SECONDS * 1000:
            raise CannotCall(_TOO_LONG.format(host, WHOLE_SECONDS))
        return Answer(response.status, text, _milliseconds_since(began))
    except ssl.SSLCertVerificationError as error:
        raise CannotCall(f"{host} could not prove who it is: {error.verify_message}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() - began >= WHOLE_SECONDS:
            raise CannotCall(_TOO_LONG.format(host, WHOLE_SECONDS)) from None
        raise CannotCall(f"{host} did not answer: {_describe_error(error)}") from None
    finally:
        timer.cancel()
        connection.close()


def judged(host: str, port: int, *, allowed: Collection[Network] = (), plain: bool = False) -> list[str]:
    """Return the addresses of a host, if all are permitted. Raise CannotCall for a refused one.

    A name with internal and public addresses is therefore refused. The message names the setting that permits an
    address.
    """
    try:
        addresses = resolved(host, port)
    except NotResolved as error:
        raise CannotCall(f"the name {host} is not known: {_describe_error(error)}") from None
    for address in addresses:
        if is_listed(address, allowed):
            continue
        if not is_public(address):
            raise CannotCall(
                f"{host} is at {address}, which is no public address. An administrator can allow its network in "
                f"ELEVATA_WEBHOOK_ALLOW",
                is_final=True,
            )
        if plain:
            raise CannotCall(
                f"{host} is to be called without TLS: only addresses in ELEVATA_WEBHOOK_ALLOW may be. Write https",
                is_final=True,
            )
    return addresses


class _OpenConnection(http.client.HTTPConnection):
    """HTTP connection over an open socket; it never connects by itself."""

    def __init__(self, host: str, port: int, open_socket: socket.socket, tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port)
        # The default port is omitted from the Host header, with TLS, too.
        self.default_port = 443 if tls is not None else 80
        self.sock, self.tls = open_socket, tls

    def connect(self) -> None:
        raise http.client.NotConnected


def _connect(host: str, port: int, addresses: list[str], *, tls: bool) -> _OpenConnection:
    context = ssl.create_default_context() if tls else None
    last_error: Exception | None = None
    for address in addresses:
        try:
            open_socket = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
        except OSError as error:
            last_error = error
            continue
        open_socket.settimeout(WHOLE_SECONDS)
        return _OpenConnection(host, port, open_socket, context)
    raise CannotCall(f"{host} cannot be reached: {_describe_error(last_error)}")


def _shut_down(connection: _OpenConnection) -> None:
    """Shut the socket down after the time limit, which ends the wait for it."""
    open_socket = connection.sock
    if open_socket is not None:
        try:
            open_socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already


def _milliseconds_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _describe_error(error: Exception | None) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    return text[:200] or type(error).__name__
