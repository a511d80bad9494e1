"""Log context: fields of every line that is logged inside a block, per thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

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
