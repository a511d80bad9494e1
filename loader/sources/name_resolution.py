"""Name resolution within a time limit. The system's resolver has no limit of its own, and cannot be interrupted.

So each name is looked up in a thread that may be abandoned. A resolver that does not answer is not
given more and more to do: the number of lookups at once is limited, and the next one is refused at once.
"""

import queue
import socket
import threading

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
    """Look a name up, and release its place when the resolver has answered, however late."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answers.put(list(dict.fromkeys(str(one[4][0]) for one in found)))
    except Exception as error:  # the caller waits for an answer, whatever it is
        answers.put(error)
    finally:
        _places.release()
