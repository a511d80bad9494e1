"""Process names and liveness, log context, garbage collector."""

import gc
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


def process_name() -> str:
    """Return the name of this process, unique across machines: ``host:pid``."""
    return f"{socket.gethostname()}:{os.getpid()}"


def lives(pid: int) -> bool:
    """Return True if a process with this id runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_gone(name: str) -> bool:
    """Return True if the process of this name ran on this machine and has ended; False for other machines."""
    host, _, pid = name.rpartition(":")
    return host == socket.gethostname() and pid.isdigit() and not lives(int(pid))


# Log context: fields of every line that is logged inside a block, per thread. Pages, API, commands and workers set it
# around their work; new threads start without fields.


_log_context: ContextVar[dict[str, Any] | None] = ContextVar("log_context", default=None)


@contextmanager
def about(**fields: Any) -> Iterator[None]:
    """Add these fields, and those of outer blocks, to every line logged inside the block."""
    before = _log_context.set(what_about() | fields)
    try:
        yield
    finally:
        _log_context.reset(before)


def what_about() -> dict[str, Any]:
    """Return the current fields of the log context."""
    return dict(_log_context.get() or {})


# Tuning of Python's garbage collector.


_NEW, _YOUNG, _OLD = 50_000, 20, 50


def collect_less() -> None:
    """Collect cyclic garbage less often, in a process that works on the whole metadata.

    The metadata is millions of objects without cycles. With Python's default thresholds, collections took a third of
    the time of a plan, and some pages waited half a second for one. With these, cycles are collected after 50,000 new
    objects.
    """
    gc.set_threshold(_NEW, _YOUNG, _OLD)


def keep_what_is_loaded() -> None:
    """Exclude the existing objects from collection, when a process has started and before it serves requests."""
    gc.collect()
    gc.freeze()
