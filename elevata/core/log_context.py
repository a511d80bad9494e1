"""Context of log lines: fields that everything logged inside carries, in this thread.

Pages, API, commands and workers say it once, around what they do (as ``services.actor`` does for who
acts); threads start with nothing said.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_said: ContextVar[dict[str, Any] | None] = ContextVar("log_context", default=None)


@contextmanager
def about(**fields: Any) -> Iterator[None]:
    """Let every line that is logged inside carry these fields, beside those that were said outside."""
    before = _said.set(what_about() | fields)
    try:
        yield
    finally:
        _said.reset(before)


def what_about() -> dict[str, Any]:
    """The fields that a line logged here carries."""
    return dict(_said.get() or {})
