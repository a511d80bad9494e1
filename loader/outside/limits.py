"""A page does not wait longer than this for a system that is not ours."""

import threading
from collections.abc import Callable
from typing import TypeVar

from loader.domain.refusals import Refusal

T = TypeVar("T")

SECONDS = 8.0


def within(seconds: float, what: str, work: Callable[[], T]) -> T:
    """The answer of ``work``; Refusal TOO_SLOW if there is none in time.

    A file system that hangs cannot be interrupted, so the work goes on in a thread that nobody waits for.
    """
    answer: list[T] = []
    problem: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(work())
        except BaseException as error:  # handed on to whoever waits
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
