"""Process names and liveness, log context, garbage collector."""

import gc
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


def process_name() -> str:
    """Return the name of this process, unique among machines: ``host:pid``."""
    return f"{socket.gethostname()}:{os.getpid()}"


def lives(pid: int) -> bool:
    """Return whether a process of that number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_gone(name: str) -> bool:
    """Return whether a process of that name ran on this machine and has ended. False where that is unknown."""
    host, _, pid = name.rpartition(":")
    return host == socket.gethostname() and pid.isdigit() and not lives(int(pid))


# Context of log lines: fields added to every line logged inside a block, per thread. Pages, API, commands and workers
# set it around their work; threads start with an empty one.


_said: ContextVar[dict[str, Any] | None] = ContextVar("log_context", default=None)


@contextmanager
def about(**fields: Any) -> Iterator[None]:
    """Add these fields to every line logged inside, beside those of outer blocks."""
    before = _said.set(what_about() | fields)
    try:
        yield
    finally:
        _said.reset(before)


def what_about() -> dict[str, Any]:
    """Return the fields of a line logged here."""
    return dict(_said.get() or {})


# Tuning of Python's garbage collector: cyclic garbage is collected less often.


_NEW, _YOUNG, _OLD = 50_000, 20, 50


def collect_less() -> None:
    """Collect cyclic garbage less often, in a process that works on the whole metadata.

    That is millions of objects without a cycle. With Python's own thresholds a third of a plan's time went into
    collections, and an ordinary page occasionally waited half a second. Cycles are collected after 50,000 new
    objects.
    """
    gc.set_threshold(_NEW, _YOUNG, _OLD)


def keep_what_is_loaded() -> None:
    """Exclude loaded objects from collection, in a process that has started and will serve requests."""
    gc.collect()
    gc.freeze()
