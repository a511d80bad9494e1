"""The chain of exceptions behind a failure, Python's and Java's, as plain values."""

from typing import Any

from loader.domain.causes import Thrown
from loader.spark.files import JAVA_ERRORS

_DEEPEST = 30


def thrown_by(failure: BaseException) -> tuple[Thrown, ...]:
    """Return the chain, outermost first; what a Java process that is gone can no longer tell is left out."""
    chain: list[Thrown] = []
    found: BaseException | None = failure
    while found is not None and len(chain) < _DEEPEST:
        kind = type(found)
        chain.append(Thrown(f"{kind.__module__}.{kind.__qualname__}", str(found)))
        chain.extend(_java_chain(getattr(found, "java_exception", None) or getattr(found, "_origin", None)))
        found = found.__cause__
    return tuple(chain)


def _java_chain(java: Any) -> list[Thrown]:
    chain: list[Thrown] = []
    try:
        while java is not None and len(chain) < _DEEPEST:
            chain.append(Thrown(java.getClass().getName(), java.getMessage() or ""))
            java = java.getCause()
    except (*JAVA_ERRORS, OSError):  # the process that holds the exception is gone: what was read is told
        return chain
    return chain
