"""Log lines of an execution: request, claim, steps and end.

Services pass the values, the functions here return the texts. ``step`` is the ordinal of a line's step, from 0; pages
count from 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elevata.core.words import counted

INFO, WARNING, ERROR = "info", "warning", "error"
_STATEMENT_SHOWN = 160
_NAMES_SHOWN = 3


@dataclass(frozen=True)
class Line:
    """Log line: message, level and the ordinal of its step, if any."""

    message: str
    level: str = INFO
    step: int | None = None


@dataclass(frozen=True)
class Subject:
    """Step of a log line: its ordinal, the number of steps, and its description."""

    ordinal: int
    count: int
    op: str
    name: str

    def __str__(self) -> str:
        return f"step {self.ordinal + 1} of {self.count}, {self.op} {self.name}"


def requested(who: str, command: str = "") -> Line:
    return Line(f"asked for by {who}{f' ({command})' if command else ''}")


def begun_by_load(reason: str, steps: int) -> Line:
    """Return the first line of an execution that a load run starts for safe changes."""
    return Line(f"begun by {reason}: {counted(steps, 'step')}, all safe")


def resumed(who: str, done: int, left: int) -> Line:
    finished = f"{counted(done, 'step')} done before will not be repeated" if done else "no step was done before"
    return Line(f"resumed by {who}: {finished}, {left} left")


def claimed(attempt: int, worker: str, leases: Sequence[str]) -> Line:
    """Return the line of a claim; ``leases`` are the names of the datasets leased for writing."""
    return Line(f"attempt {attempt}: taken up by worker {worker}; leases taken: {_named(leases)}")


def waiting(for_what: str) -> Line:
    return Line(f"waits for a lease: {for_what}", WARNING)


def not_told(reason: str) -> Line:
    """Return the line for a wake-up message that could not be sent."""
    return Line(f"queued: the broker does not respond ({reason}); nothing started", WARNING)


def told_again() -> Line:
    return Line("the broker responds again; a worker was notified")


def looked(asked: int, count: int) -> Line:
    return Line(f"scanned {counted(asked, 'table')}: {count} found")


def verified(count: int, left: int) -> Line:
    return Line(f"everything is as it was approved; {left} of {counted(count, 'step')} to do")


def step_began(subject: Subject, statement: str = "", version: int | None = None) -> Line:
    """Return the line of a step's start. ``statement`` is shortened; the table of steps has the full text."""
    at = f" (table at version {version})" if version is not None else ""
    return Line(f"{subject}{at}{f': {summary(statement)}' if statement else ''}", step=subject.ordinal)


def step_ended(
    subject: Subject,
    *,
    seconds: float | None = None,
    versions: tuple[int | None, int | None] = (None, None),
    rows: int | None = None,
    error: Mapping[str, Any] | None = None,
    silent: bool = False,
) -> Line:
    """Return the line of a finished step.

    ``versions`` are the table versions before and after; ``silent`` steps change no table.
    """
    after = f" after {seconds:.1f} s" if seconds is not None else ""
    if error:
        return Line(f"{subject}: failed{after}, {error_said(error)}", ERROR, subject.ordinal)
    if silent:
        return Line(f"{subject}: recorded; nothing was made or changed in the warehouse", step=subject.ordinal)
    parts = [f"done{after}", _moved(*versions)]
    parts += [f"{counted(rows, 'row')} written"] if rows is not None else []
    return Line(f"{subject}: {', '.join(part for part in parts if part)}", step=subject.ordinal)


def _moved(before: int | None, after: int | None) -> str:
    if after is None:
        return ""
    if before is None:
        return f"version {after}"
    return f"version {before} → {after}" if before != after else f"version {after}, as before"


def cancel_asked(who: str) -> Line:
    return Line(f"cancel asked for by {who}: it stops between two steps", WARNING)


def canceled_at_once(who: str) -> Line:
    return Line(f"cancelled by {who} before a worker took it up: nothing was done", WARNING)


def ended(status: str, seconds: float | None, error: Mapping[str, Any] | None, leases: int) -> Line:
    """Return the line of an attempt's end, with the number of released leases."""
    after = f" after {seconds:.1f} s" if seconds is not None else ""
    why = f": {error_said(error)}" if error else ""
    back = f"; {counted(leases, 'lease')} given back" if leases else ""
    level = INFO if status == "succeeded" else WARNING if status == "canceled" else ERROR
    return Line(f"{status}{after}{why}{back}", level)


def given_up(error: Mapping[str, Any], leases: int) -> Line:
    """Return the line of a lost execution, whose worker died or whose lease was broken."""
    back = f"; {counted(leases, 'lease')} free again" if leases else ""
    return Line(f"lost: {error_said(error)}{back}", ERROR)


def abandoned(who: str, reason: str) -> Line:
    return Line(f"given up by {who}: {reason}", WARNING)


def error_said(error: Mapping[str, Any]) -> str:
    """Return the code and message of an error in one line."""
    text = " ".join(str(error.get("message") or "").split()) or "no reason was given"
    return f"{error['code']}: {text}" if error.get("code") else text


def summary(statement: str) -> str:
    """Return a statement in one line, shortened."""
    line = " ".join(statement.split())
    return line if len(line) <= _STATEMENT_SHOWN else f"{line[: _STATEMENT_SHOWN - 1].rstrip()}…"


def _named(names: Sequence[str]) -> str:
    if not names:
        return "none"
    shown, more = sorted(names)[:_NAMES_SHOWN], len(names) - _NAMES_SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
