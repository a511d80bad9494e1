"""Resolution of host names, and the check of their addresses before a connection."""

import queue
import socket
import threading
from collections.abc import Collection

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


class AddressRefused(Exception):
    """Error of a host whose address may not be connected to; its message names the host and the reason."""


def permitted_addresses(host: str, port: int, *, allowed: Collection[Network], plain: bool, setting: str) -> list[str]:
    """Return the addresses of a host, if all are permitted. Raise AddressRefused, or NotResolved.

    Public addresses are permitted with TLS, those in ``allowed`` also with ``plain`` HTTP. A name with internal and
    public addresses is therefore refused. The message names the ``setting`` that permits an address.
    """
    addresses = resolved(host, port)
    for address in addresses:
        if is_listed(address, allowed):
            continue
        if not is_public(address):
            raise AddressRefused(
                f"{host} is at {address}, which is no public address. An administrator can allow its network in "
                f"{setting}"
            )
        if plain:
            raise AddressRefused(f"{host} is to be called without TLS: only addresses in {setting} may be. Write https")
    return addresses
