"""Names to addresses, within a time. The system's resolver has no limit of its own, and cannot be interrupted.

So each name is looked up in a thread that nobody need wait for. A resolver that answers none of them is not
given more and more to do: there are so many lookups at once, then the next is refused at once.
"""

import queue
import socket
import threading

RESOLVE_SECONDS = 5.0
_MOST = 8
_places = threading.BoundedSemaphore(_MOST)


class NotResolved(OSError):
    """There is no address for the name, for now."""


def resolved(host: str, port: int, *, seconds: float = RESOLVE_SECONDS) -> list[str]:
    """The addresses of a host, each once. NotResolved if the name is not known, or nobody says so in time."""
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
    """Its place is free again when the resolver has answered, however late."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answers.put(list(dict.fromkeys(str(one[4][0]) for one in found)))
    except Exception as error:  # whatever it is, somebody waits for it
        answers.put(error)
    finally:
        _places.release()
