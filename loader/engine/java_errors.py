"""Exceptions of Java as seen from Python: their classes, and the chain of a failure as plain values."""

import re
from typing import Any

from pyspark.core.context import Py4JError  # pyspark's bridge: exceptions that it does not translate
from pyspark.errors import PySparkException

from loader.contract.refusals import Refusal
from loader.domain.spark_failures import DEEPEST, Thrown, cause_of, chain_of

# Exceptions of a call into the JVM: pyspark translates the ones it knows.
JAVA_ERRORS = (Py4JError, PySparkException)


def accident(about: str, failure: Exception, *, code: str = "UNEXPECTED") -> Refusal:
    """Return an unexpected failure as a Refusal with its known cause, else its first line.

    The log has the details.
    """
    return cause_of(about, thrown_by(failure)) or Refusal(
        code, f"{about}: {first_line(failure)}", hint="The runner's log has the details."
    )


def message_of(failure: Exception) -> str:
    """Return a failure's message.

    pyspark builds the message of an error condition from Spark's own list, and fails for the conditions of Delta.
    """
    try:
        return str((failure.getMessage() if isinstance(failure, PySparkException) else "") or failure).strip()
    except Py4JError:
        return str(failure).strip()


def first_line(failure: Exception) -> str:
    """Return the first line of a failure's message."""
    return (message_of(failure).partition("\n")[0].rstrip() or type(failure).__name__)[:500]


def error_condition(failure: Exception) -> str:
    """Return Spark's error condition and the SQL at fault on one line; empty for an error without one.

    Unlike the message, neither has values of rows.
    """
    condition = failure.getCondition() if isinstance(failure, PySparkException) else None
    if condition is None or not isinstance(failure, PySparkException):
        return ""
    fragment = " ".join(next((context.fragment() for context in failure.getQueryContext()), "").split())[:500]
    return f"{condition}, at {fragment}" if fragment else condition


def thrown_by(failure: BaseException) -> tuple[Thrown, ...]:
    """Return the chain, outermost first, without parts that an ended Java process can no longer return."""
    return chain_of(
        failure, lambda error: _java_chain(getattr(error, "java_exception", None) or getattr(error, "_origin", None))
    )


# Rows of a local checkpoint are on one executor only; without it, Spark fails the job at once.
_LOST = ("Checkpoint block", "ExecutorLostFailure", "FetchFailed")


def lost_executor(failure: Exception) -> bool:
    """Return True if a job failed because an executor was lost."""
    return any(word in f"{thrown.name} {thrown.message}" for thrown in thrown_by(failure) for word in _LOST)


def _java_chain(java: Any) -> list[Thrown]:
    chain: list[Thrown] = []
    try:
        while java is not None and len(chain) < DEEPEST:
            chain.append(Thrown(java.getClass().getName(), java.getMessage() or ""))
            java = java.getCause()
    except (*JAVA_ERRORS, OSError):  # the process with the exception is gone: the parts read so far are returned
        return chain
    return chain


def first_sentence(error: PySparkException) -> str:
    """Return the first line of Spark's message, without the error's class and SQLSTATE."""
    first = re.split(r"\s*SQLSTATE:", first_line(error))[0]
    return re.sub(r"\A\[[A-Z_.0-9]+\]\s*", "", first).strip()[:500]
