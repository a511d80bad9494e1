"""Safe calls of addresses that users typed."""

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

# Name resolution within a time limit. The system's resolver has no limit of its own and cannot be interrupted, so
# each name is resolved in a thread that may be abandoned. The number of concurrent lookups is limited, and further
# ones are refused at once.


RESOLVE_SECONDS = 5.0
_MOST = 8
_places = threading.BoundedSemaphore(_MOST)


class NotResolved(OSError):
    """Error raised if there is no address for a name, for now."""


def resolved(host: str, port: int, *, seconds: float = RESOLVE_SECONDS) -> list[str]:
    """Return the addresses of a host, each once. Raise NotResolved if the name is unknown or the time is up."""
    if not _places.acquire(blocking=False):
        raise NotResolved(f"{_MOST} other names are still being looked up: the resolver does not answer")
    answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()
    try:
        threading.Thread(target=_look_up, args=(host, port, answers), name="resolve", daemon=True).start()
    except RuntimeError:
        _places.release()
        raise
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise NotResolved(f"the resolver took longer than {seconds:.0f} seconds") from None
    if isinstance(answer, Exception):
        raise NotResolved(str(answer)) from answer
    return answer


def _look_up(host: str, port: int, answers: "queue.SimpleQueue[list[str] | Exception]") -> None:
    """Resolve a name, and release its slot when the resolver has answered, however late."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answers.put(list(dict.fromkeys(str(one[4][0]) for one in found)))
    except Exception as error:  # the caller waits for any result
        answers.put(error)
    finally:
        _places.release()


# Calls of addresses that users typed: resolved once, checked, and connected to exactly the checked address. Redirects
# are not followed, proxies of the environment are not used, and the name is not resolved a second time. TLS is
# verified against the typed name. A call ends at its time limit, however slowly the other side responds, and so does
# the lookup of its address.


CONNECT_SECONDS = 5.0
WHOLE_SECONDS = 15.0
# Bytes of an answer that are read.
ANSWER_BYTES = 2000
_TOO_LONG = "{} took longer than {:.0f} seconds"


class CannotCall(Exception):
    """Error of a call without an answer. ``is_final``: a retry would fail in the same way."""

    def __init__(self, said: str, *, is_final: bool = False) -> None:
        super().__init__(said)
        self.is_final = is_final


@dataclass(frozen=True)
class Answer:
    """Status code and text of an answer, with its time in milliseconds."""

    code: int
    text: str
    milliseconds: int


def post(url: str, body: bytes, headers: Mapping[str, str], *, allowed: Collection[Network] = ()) -> Answer:
    """Send a body to a URL. Raise CannotCall with the reason if it could not be sent or was not answered.

    ``allowed`` are networks that may be reached although they are not public; only there plain http is
    permitted, too.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    addresses = judged(host, port, allowed=allowed, plain=parts.scheme == "http")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    began = time.monotonic()
    connection = _connected(host, port, addresses, tls=parts.scheme == "https")
    watch = threading.Timer(WHOLE_SECONDS, _cut, [connection])
    watch.daemon = True
    watch.start()
    try:
        if connection.tls is not None:
            # The handshake comes after wrapping, so the timer always closes the socket in use.
            connection.sock = connection.tls.wrap_socket(
                connection.sock, server_hostname=host, do_handshake_on_connect=False
            )
            connection.sock.do_handshake()
        connection.request("POST", target, body, {"Connection": "close", **headers})
        response = connection.getresponse()
        text = response.read(ANSWER_BYTES).decode("utf-8", "replace")
        # Headers that the timer cut off look complete.
        if _since(began) >= WHOLE_SECONDS * 1000:
            raise CannotCall(_TOO_LONG.format(host, WHOLE_SECONDS))
        return Answer(response.status, text, _since(began))
    except ssl.SSLCertVerificationError as error:
        raise CannotCall(f"{host} could not prove who it is: {error.verify_message}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() - began >= WHOLE_SECONDS:
            raise CannotCall(_TOO_LONG.format(host, WHOLE_SECONDS)) from None
        raise CannotCall(f"{host} did not answer: {_named(error)}") from None
    finally:
        watch.cancel()
        connection.close()


def judged(host: str, port: int, *, allowed: Collection[Network] = (), plain: bool = False) -> list[str]:
    """Return the addresses of a host, if all may be called. Raise CannotCall naming the refused one.

    A name that has internal as well as public addresses is refused altogether. The error names the setting that
    allows an address.
    """
    try:
        addresses = resolved(host, port)
    except NotResolved as error:
        raise CannotCall(f"the name {host} is not known: {_named(error)}") from None
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


class _Pinned(http.client.HTTPConnection):
    """Connection over a socket that is already open; it never connects by itself."""

    def __init__(self, host: str, port: int, opened: socket.socket, tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port)
        # As for TLS, the default port is left out of the Host header.
        self.default_port = 443 if tls is not None else 80
        self.sock, self.tls = opened, tls

    def connect(self) -> None:
        raise http.client.NotConnected


def _connected(host: str, port: int, addresses: list[str], *, tls: bool) -> _Pinned:
    context = ssl.create_default_context() if tls else None
    problem: Exception | None = None
    for address in addresses:
        try:
            opened = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
        except OSError as error:
            problem = error
            continue
        opened.settimeout(WHOLE_SECONDS)
        return _Pinned(host, port, opened, context)
    raise CannotCall(f"{host} cannot be reached: {_named(problem)}")


def _cut(connection: _Pinned) -> None:
    """Shut the socket down, which ends the wait for it: its time is up."""
    opened = connection.sock
    if opened is not None:
        try:
            opened.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _named(error: Exception | None) -> str:
    said = (str(error).strip().splitlines() or [""])[0]
    return said[:200] or type(error).__name__
