"""An execution's log on its page: the newest lines, those that came since, and all of them as a file."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from architecture.models import Execution, ExecutionEvent
from architecture.selectors import execution_events

LINES = 300


@dataclass(frozen=True)
class LogPart:
    """Lines of a log, oldest first. ``after`` is the id of the last line the page then has; ``more`` may follow."""

    lines: list[ExecutionEvent]
    after: int
    more: bool
    left_out: bool = False


def newest_lines(execution: Execution) -> LogPart:
    """Return the lines a page begins with. ``execution`` must be read before the lines, so that none is missed."""
    found = list(execution_events(execution=execution).order_by("-pk")[: LINES + 1])
    lines = found[:LINES][::-1]
    return LogPart(lines, lines[-1].pk if lines else 0, not execution.is_finished, len(found) > LINES)


def lines_after(execution: Execution, after: int) -> LogPart:
    """Return the lines after one, so many at a time."""
    found = list(execution_events(execution=execution, after=after)[: LINES + 1])
    lines = found[:LINES]
    return LogPart(lines, lines[-1].pk if lines else after, not execution.is_finished or len(found) > LINES)


@never_cache
@require_safe
def execution_log(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the lines after ``after``; nothing (204) while there are none and more may come."""
    execution = get_object_or_404(Execution, pk=pk)
    given = request.GET.get("after", "")
    part = lines_after(execution, int(given) if given.isdecimal() and len(given) < 19 else 0)
    if not part.lines and part.more:
        return HttpResponse(status=204)
    return render(request, "architecture/execution_lines.html", {"execution": execution, "log": part})


@never_cache
@require_safe
def execution_log_file(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the whole log as text: time (UTC), attempt, level, message."""
    execution = get_object_or_404(Execution, pk=pk)
    lines = [
        f"{line.at:%Y-%m-%dT%H:%M:%S.%f}Z attempt {line.attempt} {line.level:<7} {line.message}\n"
        for line in execution_events(execution=execution)
    ]
    answer = HttpResponse("".join(lines), content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="execution-{execution.pk}.log"'
    return answer
