"""Refusals of the loader as problem responses, whose status tells a program how to go on."""

from collections.abc import Iterator
from contextlib import contextmanager

from architecture.api import errors
from loader.domain.runs.refusals import Refusal
from metadata.api.errors import RefusedRequest

# Conflicts with a state; the same request may succeed later.
_CONFLICTS = frozenset({"RUN_ID_TAKEN", "RUN_REVERTED", "RUN_FINISHED", "READ_UNFINISHED", "NO_ROWS", "STILL_GOING"})
_NOT_PERMITTED = frozenset({"NOT_PERMITTED", "MASKED_COLUMN"})
_TOO_LARGE = frozenset({"TOO_LARGE_UNPACKED"})
_TOO_MANY = frozenset({"TOO_MANY_READS", "TOO_MANY_STREAMS", "TOO_MANY_BATCHES"})
_AGAIN = frozenset({"READ_UNFINISHED", *_TOO_MANY})
RETRY_AFTER = 2


def status_of(refusal: Refusal) -> int:
    """Return 403 for a missing permission, 409 for a conflict, 413 for too large, 429 for too many, else 422."""
    if refusal.code in _NOT_PERMITTED:
        return 403
    if refusal.code in _CONFLICTS:
        return 409
    if refusal.code in _TOO_LARGE:
        return 413
    return 429 if refusal.code in _TOO_MANY else 422


def problem_of(refusal: Refusal) -> RefusedRequest:
    """Return the refusal as a problem response with its own code."""
    retry = RETRY_AFTER if refusal.code in _AGAIN else 0
    return RefusedRequest(refusal.one_line(), code=refusal.code, status=status_of(refusal), retry=retry)


@contextmanager
def refusals() -> Iterator[None]:
    """Answer refusals of the loader and of the workflow as problem responses."""
    with errors.refusals():
        try:
            yield
        except Refusal as refusal:
            raise problem_of(refusal) from None
