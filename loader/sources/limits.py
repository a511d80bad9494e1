"""Time limit for outside systems, after which a page waits no longer."""

import threading
from collections.abc import Callable
from typing import TypeVar

from loader.domain.runs.refusals import Refusal

T = TypeVar("T")

SECONDS = 8.0


def within(seconds: float, what: str, work: Callable[[], T]) -> T:
    """Return the answer of ``work``. Raise Refusal TOO_SLOW if there is none within ``seconds``.

    A file system that hangs cannot be interrupted, so the work then goes on in an abandoned thread.
    """
    answer: list[T] = []
    problem: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(work())
        except BaseException as error:  # raised again by the caller
            problem.append(error)

    thread = threading.Thread(target=run, name="outside", daemon=True)
    thread.start()
    thread.join(seconds)
    if problem:
        raise problem[0]
    if not answer:
        raise Refusal(
            "TOO_SLOW",
            f"{what} gave no answer within {seconds:.0f} seconds",
            hint="Try again; if it stays so, ask whoever runs that system.",
        )
    return answer[0]
