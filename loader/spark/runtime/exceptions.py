"""The chain of exceptions behind a failure, Python's and Java's, as plain values."""

from typing import Any

from pyspark.errors import PySparkException

from loader.domain.runs.failure_causes import DEEPEST, Thrown, cause_of, chain_of
from loader.domain.runs.refusals import Refusal
from loader.spark.sources.files import JAVA_ERRORS


def accident(about: str, failure: Exception, *, code: str = "UNEXPECTED") -> Refusal:
    """Return an accident as a person can read it: its cause if it is known, else its first line; the log has it all."""
    return cause_of(about, thrown_by(failure)) or Refusal(
        code, f"{about}: {first_line(failure)}", hint="The runner's log has the details."
    )


def first_line(failure: Exception) -> str:
    """Return what an accident says first."""
    text = str(failure.getMessage() if isinstance(failure, PySparkException) else failure).strip()
    return (text.splitlines() or [type(failure).__name__])[0][:500]


def thrown_by(failure: BaseException) -> tuple[Thrown, ...]:
    """Return the chain, outermost first; what a Java process that is gone can no longer tell is left out."""
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
