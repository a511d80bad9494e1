"""Output of commands about a run: its progress (a table that is updated in place, or plain lines) and its result."""

import shutil
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from elevata.core.words import counted
from elevata.jobs import states
from loader.contract import run_states
from loader.contract.refusals import Refusal
from loader.contract.run_states import LOAD
from loader.models import DatasetRun, LoadRun

_SIGNS = {
    states.QUEUED: "·",
    states.RUNNING: "▸",
    states.SUCCEEDED: "✓",
    states.FAILED: "✗",
    run_states.SKIPPED: "-",
    states.CANCELED: "-",
}
_COUNTS = (
    "rows",
    "duplicates",
    "superseded",
    "outranked",
    "new",
    "changed",
    "deleted",
    "reappeared",
    "versions",
    "open",
)


def counts_text(counts: dict) -> str:
    """Return a dataset's counts in words: ``28,867 rows, 4 new, 17 changed``."""
    parts = [f"{counts[name]:,} {name}" for name in _COUNTS if counts.get(name) or (name in counts and name == "rows")]
    parts += [f"{number:,} {label}" for name, label, number in run_states.further_counts(counts) if name not in _COUNTS]
    return ", ".join(parts)


def detail_of(row: DatasetRun) -> str:
    """Return the detail to show for a dataset in its current state."""
    if row.status == states.FAILED:
        return (row.error or {}).get("message", "")
    if row.status == run_states.SKIPPED:
        return f"because of {row.skipped_because}"
    if row.status == states.SUCCEEDED:
        seconds = f"{row.seconds:.1f} s" if row.seconds else ""
        unchanged = f"up to date since run {row.unchanged_since}" if row.unchanged_since else ""
        return ", ".join(filter(None, [counts_text(row.counts), unchanged, row.window_text, seconds]))
    return row.phase


class PlainLines:
    """Output of one line for each change, for files, pipes and logs."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._run_shown = ""
        self._shown: dict[str, str] = {}

    def show(self, run: LoadRun, rows: Iterable[DatasetRun]) -> None:
        now = f"{run.run_id} {run.status}" + (f": {run.phase}" if run.phase else "")
        if now != self._run_shown:
            self._run_shown = now
            self._say(now)
        for row in rows:
            if row.status != states.QUEUED and self._shown.get(row.qualified_name) != row.status:
                self._shown[row.qualified_name] = row.status
                detail = f" ({detail_of(row)})" if detail_of(row) else ""
                self._say(f"  {row.qualified_name} {row.status}{detail}")

    def close(self) -> None:
        """Do nothing, because there is no table to leave."""


class LiveTable:
    """Output of the run's datasets as a table that is updated in place."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._drawn = 0
        self._started = time.monotonic()

    def show(self, run: LoadRun, rows: Iterable[DatasetRun]) -> None:
        width, height = shutil.get_terminal_size()
        rows = list(rows)
        done = sum(row.status in DatasetRun.FINISHED for row in rows)
        spent = time.monotonic() - self._started
        head = f"{run.run_id}  {run.status}  {run.phase}  {done}/{len(rows)} datasets  {spent:.0f} s"
        # Unfinished datasets come first, because a small screen has no room for all.
        rows.sort(key=lambda row: (row.status in DatasetRun.FINISHED, row.ordinal))
        room = max(1, height - 3)
        shown = sorted(rows[:room], key=lambda row: row.ordinal)
        longest = max((len(row.qualified_name) for row in shown), default=0)
        lines = [head]
        lines += [f"{_SIGNS[row.status]} {row.qualified_name:<{longest}}  {detail_of(row)}" for row in shown]
        if len(rows) > room:
            lines.append(f"  and {len(rows) - room} more")
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        self._stream.write(up + "".join(f"\x1b[2K{line[: width - 1]}\n" for line in lines) + "\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)

    def close(self) -> None:
        """Leave the table on the screen, so that later output is written below it."""
        self._drawn = 0


def progress_on(stream: TextIO, say: Callable[[str], None]) -> PlainLines | LiveTable:
    """Return a live table for a terminal, and plain lines for other streams."""
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return LiveTable(stream) if is_terminal else PlainLines(say)


def ending(run: LoadRun) -> str:
    spent = f" in {run.seconds:.1f} s" if run.seconds is not None else ""
    label = "load run" if run.kind == LOAD else run.get_kind_display().lower()
    message = f"{label} {run.run_id} {run.status}{spent}"
    if run.error:
        message += f": {Refusal.from_json(run.error).one_line()}"
    aside = [(row, row.counts.get("quarantined", 0)) for row in run.datasets.all()]
    shown = [f"{counted(number, 'row')} of {row.qualified_name}" for row, number in aside if number]
    if shown:
        message += f"; quarantined: {', '.join(shown)}: decide on them with manage.py decide_quarantine"
    views = run.details.get("views", {})
    return message + "".join(f"\nview {name}: {outcome}" for name, outcome in views.items())


def described(run: LoadRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "kind": run.kind,
        "status": run.status,
        "scope": run.scope,
        "load_timestamp": run.load_timestamp.isoformat(),
        "attempt": run.attempt,
        "seconds": run.seconds,
        "requested_by": run.who,
        "reason": run.reason,
        "details": run.details,
        "error": run.error,
        "datasets": [
            {
                "dataset": row.qualified_name,
                "kind": row.kind,
                "status": row.status,
                "counts": row.counts,
                "window": row.window,
                "drift": row.drift,
                "warnings": row.warnings,
                "error": row.error,
                "skipped_because": row.skipped_because,
                "unchanged_since": row.unchanged_since,
                "seconds": row.seconds,
            }
            for row in run.datasets.order_by("ordinal")
        ],
    }
