"""Log of an execution: the newest lines, and those after a line."""

from dataclasses import dataclass

from architecture.models import Execution, ExecutionEvent
from architecture.selectors.environments import execution_events

LINES = 300


@dataclass(frozen=True)
class LogPart:
    """Lines of a log, oldest first. ``after`` is the id of the last line; ``more``: further lines may follow."""

    lines: list[ExecutionEvent]
    after: int
    more: bool
    left_out: bool = False


def newest_lines(execution: Execution) -> LogPart:
    """Return the newest lines, for a new page. ``execution`` must be read before them, so that no line is missed."""
    newest = list(execution_events(execution=execution).order_by("-pk")[: LINES + 1])
    lines = newest[:LINES][::-1]
    return LogPart(lines, lines[-1].pk if lines else 0, not execution.is_finished, len(newest) > LINES)


def lines_after(execution: Execution, after: int) -> LogPart:
    """Return at most ``LINES`` lines after the line with the id ``after``."""
    events = list(execution_events(execution=execution, after=after)[: LINES + 1])
    lines = events[:LINES]
    return LogPart(lines, lines[-1].pk if lines else after, not execution.is_finished or len(events) > LINES)
