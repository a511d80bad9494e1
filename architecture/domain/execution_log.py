"""The lines of an execution's log: what is said when it is asked for, taken up, at each step, and at its end.

Pure: services say what happened, this says it in words. ``step`` is the ordinal of the step that a line is
about; pages count from 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

INFO, WARNING, ERROR = "info", "warning", "error"
_STATEMENT_SHOWN = 160
_NAMES_SHOWN = 3


@dataclass(frozen=True)
class Line:
    """One line: what is said, how grave it is, and the step it is about, if it is about one."""

    message: str
    level: str = INFO
    step: int | None = None


@dataclass(frozen=True)
class Subject:
    """The step that a line is about: its ordinal, how many there are, and what it does to what."""

    ordinal: int
    count: int
    op: str
    name: str

    def __str__(self) -> str:
        return f"step {self.ordinal + 1} of {self.count}, {self.op} {self.name}"


def requested(who: str, command: str = "") -> Line:
    return Line(f"asked for by {who}{f' ({command})' if command else ''}")


def begun_by_load(reason: str, steps: int) -> Line:
    """A load run carries out safe changes by itself."""
    return Line(f"begun by {reason}: {_counted(steps, 'step')}, all safe")


def resumed(who: str, done: int, left: int) -> Line:
    kept = f"{_counted(done, 'step')} done before will not be repeated" if done else "no step was done before"
    return Line(f"resumed by {who}: {kept}, {left} left")


def claimed(attempt: int, worker: str, leases: Sequence[str]) -> Line:
    """``leases`` are the names of the datasets that nobody else writes to from now on."""
    return Line(f"attempt {attempt}: taken up by worker {worker}; leases taken: {_named(leases)}")


def waiting(for_what: str) -> Line:
    return Line(f"waits for a lease: {for_what}", WARNING)


def not_told(reason: str) -> Line:
    """The wake-up of a worker could not be sent."""
    return Line(
        f"queued, but no worker could be told: the broker does not answer ({reason}); nothing was started", WARNING
    )


def told_again() -> Line:
    return Line("the broker answers again: a worker was told")


def looked(asked: int, found: int) -> Line:
    return Line(f"looked at {_counted(asked, 'table')}: {found} there")


def verified(count: int, left: int) -> Line:
    return Line(f"everything is as it was approved; {left} of {_counted(count, 'step')} to do")


def step_began(subject: Subject, statement: str = "", version: int | None = None) -> Line:
    """``statement`` is cut short: the steps' table has it whole."""
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

    ``versions`` are the table's before and after, ``silent`` steps change no table.
    """
    after = f" after {seconds:.1f} s" if seconds is not None else ""
    if error:
        return Line(f"{subject}: failed{after}, {error_said(error)}", ERROR, subject.ordinal)
    if silent:
        return Line(f"{subject}: recorded; nothing was made or changed in the warehouse", step=subject.ordinal)
    said = [f"done{after}", _moved(*versions)]
    said += [f"{rows:,} rows written" if rows != 1 else "1 row written"] if rows is not None else []
    return Line(f"{subject}: {', '.join(one for one in said if one)}", step=subject.ordinal)


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
    """The end of an attempt, with how many leases it gave back."""
    after = f" after {seconds:.1f} s" if seconds is not None else ""
    why = f": {error_said(error)}" if error else ""
    back = f"; {_counted(leases, 'lease')} given back" if leases else ""
    level = INFO if status == "succeeded" else WARNING if status == "canceled" else ERROR
    return Line(f"{status}{after}{why}{back}", level)


def given_up(error: Mapping[str, Any], leases: int) -> Line:
    """The attempt lost the execution: its worker is gone, or a lease was broken."""
    back = f"; {_counted(leases, 'lease')} free again" if leases else ""
    return Line(f"lost: {error_said(error)}{back}", ERROR)


def abandoned(who: str, reason: str) -> Line:
    return Line(f"given up by {who}: {reason}", WARNING)


def error_said(error: Mapping[str, Any]) -> str:
    """Code and text of an error, in one line."""
    text = " ".join(str(error.get("message") or "").split()) or "no reason was given"
    return f"{error['code']}: {text}" if error.get("code") else text


def summary(statement: str) -> str:
    """A statement in one line, cut short."""
    line = " ".join(statement.split())
    return line if len(line) <= _STATEMENT_SHOWN else f"{line[: _STATEMENT_SHOWN - 1].rstrip()}…"


def _named(names: Sequence[str]) -> str:
    if not names:
        return "none"
    shown, more = sorted(names)[:_NAMES_SHOWN], len(names) - _NAMES_SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
