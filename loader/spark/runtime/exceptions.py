"""Exception chain of a failure, Python's and Java's, as plain values."""

from typing import Any

from pyspark.errors import PySparkException

from loader.domain.runs.failure_causes import DEEPEST, Thrown, cause_of, chain_of
from loader.domain.runs.refusals import Refusal
from loader.spark.sources.files import JAVA_ERRORS


def accident(about: str, failure: Exception, *, code: str = "UNEXPECTED") -> Refusal:
    """Return an unexpected failure as a Refusal with its known cause, else its first line.

    The log has the details.
    """
    return cause_of(about, thrown_by(failure)) or Refusal(
        code, f"{about}: {first_line(failure)}", hint="The runner's log has the details."
    )


def first_line(failure: Exception) -> str:
    """Return the first line of a failure's message."""
    text = str(failure.getMessage() if isinstance(failure, PySparkException) else failure).strip()
    return (text.splitlines() or [type(failure).__name__])[0][:500]


def thrown_by(failure: BaseException) -> tuple[Thrown, ...]:
    """Return the chain, outermost first, without parts that an ended Java process can no longer return."""
    return chain_of(
        failure, lambda one: _java_chain(getattr(one, "java_exception", None) or getattr(one, "_origin", None))
    )


def _java_chain(java: Any) -> list[Thrown]:
    chain: list[Thrown] = []
    try:
        while java is not None and len(chain) < DEEPEST:
            chain.append(Thrown(java.getClass().getName(), java.getMessage() or ""))
            java = java.getCause()
    except (*JAVA_ERRORS, OSError):  # the process that holds the exception is gone: what was read is told
        return chain
    return chain
