"""Arrival of a batch: the effect of its rows and absences on the event logs of their keys (rules 8 to 11)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from loader.contract.refusals import Refusal
from loader.domain.reference.batch import KeyText, Row, run_time, shown_key
from loader.domain.reference.timeline import DELETE, RETURN, VALUE, Event, Fold, KeyLog, Time
from metadata.domain.history.history_policy import LOAD_TIME
from metadata.domain.types import DataType

_SAMPLES = 5


@dataclass(frozen=True)
class Run:
    """Run of a batch, and the type of versions' times (None if the run's time dates them)."""

    run_id: str
    instant: str
    time_type: DataType | None = None

    @property
    def at(self) -> Time:
        """Return the run's time in that type; it dates absent and returning keys."""
        return run_time(self.instant, self.time_type)


@dataclass
class Late:
    """Late rows of a batch: numbers of split and ignored ones and of those beyond the horizon; refused ones as text."""

    split: int = 0
    ignored: int = 0
    beyond_horizon: int = 0
    refused: list[str] = field(default_factory=list)


def arrive(
    logs: Mapping[KeyText, KeyLog], rows: Iterable[Row], fold: Fold, run: Run, forgotten: Time | None
) -> tuple[dict[KeyText, KeyLog], Late]:
    """Return the logs after these rows, which are sorted by time, and the late rows. Raise Refusal LATE_ROWS.

    ``forgotten`` is the time before which events were removed.
    """
    late, result = Late(), dict(logs)
    by_key: dict[KeyText, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row.key_text, []).append(row)
    for key, own_rows in by_key.items():
        log = result.get(key) or KeyLog(own_rows[0].key)
        result[key] = _log_after(log, own_rows, fold, run, late, forgotten)
    if late.refused:
        raise Refusal(
            "LATE_ROWS",
            f"{len(late.refused)} rows are late: not after the newest known time of their key",
            count=len(late.refused),
            samples=tuple(late.refused[:_SAMPLES]),
        )
    return result, late


def _log_after(log: KeyLog, rows: list[Row], fold: Fold, run: Run, late: Late, forgotten: Time | None) -> KeyLog:
    """Return a key's log after its rows.

    A row is late by the log before the batch, since the order of rows within a batch does not matter.
    """
    newest, came_back = log.newest, _returns(log, rows[-1])
    if came_back:
        log = log.coming_back(rows[-1].time, run.at)
    for row in rows:
        candidate = _with_row(log, row, fold, run)
        is_late = (
            newest is not None
            and log.counts_from(row.time) <= newest
            and not (came_back and row is rows[-1])
            and not fold.same(log, candidate)
        )
        if is_late and not _is_admitted(row, log, fold, late, forgotten):
            continue
        if fold.policy.time != LOAD_TIME or not fold.same(log, candidate):
            log = candidate  # an event without a change is stored only if rows can be late
    return log


def _returns(log: KeyLog, newest_row: Row) -> bool:
    """Return True if a key returns by rule 9: even its newest row is not later than the start of its absence.

    That row is then dated by the run. Older rows of the batch keep their time, before the key was absent.
    """
    ended = log.absent_since
    return ended is not None and not newest_row.is_delete and newest_row.time <= ended


def _with_row(log: KeyLog, row: Row, fold: Fold, run: Run) -> KeyLog:
    at = log.counts_from(row.time)
    kind = DELETE if row.is_delete else (RETURN if log.is_return(at) else VALUE)
    event = Event(kind, at, row.time, {} if row.is_delete else row.values, run.run_id, fold.era)
    existing = log.at_time(at, row.time)
    return log.with_event(event if existing is None else fold.corrected(existing, event))


def _is_admitted(row: Row, log: KeyLog, fold: Fold, late: Late, forgotten: Time | None) -> bool:
    """Count a late row that would change history, and return True if it is admitted (rules 10 and 11)."""
    if fold.policy.late == "refuse":
        late.refused.append(f"{shown_key(log.key)} at {row.time}")
    elif fold.policy.late == "ignore":
        late.ignored += 1
    elif forgotten is not None and row.time < forgotten:
        late.beyond_horizon += 1
    else:
        late.split += 1
        return True
    return False


def close_absent(
    logs: Mapping[KeyText, KeyLog], present: Iterable[KeyText], fold: Fold, run: Run
) -> dict[KeyText, KeyLog]:
    """Return the logs after closing live keys that are not in the batch at the run's time (rule 8).

    Versions that start at that time or later become empty and are removed.
    """
    delivered, result = set(present), dict(logs)
    for key, log in logs.items():
        if key not in delivered and fold.is_live(log):
            result[key] = log.absent(run.at, run.run_id)
    return result
