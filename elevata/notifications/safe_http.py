"""Safe HTTP requests to addresses that users entered."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from elevata.core.networks import Network
from elevata.core.permitted_addresses import AddressRefused, NotResolved, permitted_addresses

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
        return permitted_addresses(host, port, allowed=allowed, plain=plain, setting="ELEVATA_WEBHOOK_ALLOW")
    except NotResolved as error:
        raise CannotCall(f"the name {host} is not known: {_describe_error(error)}") from None
    except AddressRefused as error:
        raise CannotCall(str(error), is_final=True) from None


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
