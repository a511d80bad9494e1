"""What a batch's rows and absences do to the logs of their keys (rules 8 to 11)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from loader.domain.reference.batch import KeyText, Row, run_time, shown_key
from loader.domain.reference.events import DELETE, RETURN, VALUE, Event, KeyLog, Time
from loader.domain.reference.timeline import Fold
from loader.domain.refusals import Refusal
from metadata.domain.history_policy import LOAD_TIME
from metadata.domain.types import DataType

_SAMPLES = 5


@dataclass(frozen=True)
class Run:
    """The run that brings a batch, and the type that versions are dated in (None: the run's own)."""

    run_id: str
    instant: str
    time_type: DataType | None = None

    @property
    def at(self) -> Time:
        """The run's time as versions have it; asked for only where a key is absent or comes back."""
        return run_time(self.instant, self.time_type)


@dataclass
class Late:
    """Rows that came late: put in their place, ignored, or beyond what is remembered."""

    split: int = 0
    ignored: int = 0
    beyond_horizon: int = 0
    refused: list[str] = field(default_factory=list)


def arrive(
    logs: Mapping[KeyText, KeyLog], rows: Iterable[Row], fold: Fold, run: Run, forgotten: Time | None
) -> tuple[dict[KeyText, KeyLog], Late]:
    """The logs after these rows (in order of time). ``forgotten``: nothing older is remembered."""
    late, result = Late(), dict(logs)
    by_key: dict[KeyText, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row.key_text, []).append(row)
    for key, own_rows in by_key.items():
        log = result.get(key) or KeyLog(own_rows[0].key)
        result[key] = _key_arrives(log, own_rows, fold, run, late, forgotten)
    if late.refused:
        raise Refusal(
            "LATE_ROWS",
            f"{len(late.refused)} rows are late: not after the newest known time of their key",
            count=len(late.refused),
            samples=tuple(late.refused[:_SAMPLES]),
        )
    return result, late


def _key_arrives(log: KeyLog, rows: list[Row], fold: Fold, run: Run, late: Late, forgotten: Time | None) -> KeyLog:
    """Late is measured against what was known before the batch: within it, order does not matter."""
    newest, came_back = log.newest, _comes_back(log, rows[-1])
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
        if is_late and not _admitted(row, log, fold, late, forgotten):
            continue
        if fold.policy.time != LOAD_TIME or not fold.same(log, candidate):
            log = candidate  # what changes nothing is remembered only where something can come late
    return log


def _comes_back(log: KeyLog, newest_row: Row) -> bool:
    """Rule 9: if even the newest row of an absent key is not after its end, it counts from the run's time.

    Older rows of the same batch stay where they are: they tell of the time before the key was absent.
    """
    ended = log.absent_since
    return ended is not None and not newest_row.is_delete and newest_row.time <= ended


def _with_row(log: KeyLog, row: Row, fold: Fold, run: Run) -> KeyLog:
    at = log.counts_from(row.time)
    kind = DELETE if row.is_delete else (RETURN if log.is_return(at) else VALUE)
    event = Event(kind, at, row.time, {} if row.is_delete else row.values, run.run_id, fold.era)
    known = log.at_time(at, row.time)
    return log.with_event(event if known is None else fold.corrected(known, event))


def _admitted(row: Row, log: KeyLog, fold: Fold, late: Late, forgotten: Time | None) -> bool:
    """Rules 10 and 11, of a row that is late and would alter history."""
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
    """Rule 8: keys that are live and not in the batch close at the run's time.

    A version that was to start only then or later is left empty, and goes.
    """
    found, result = set(present), dict(logs)
    for key, log in logs.items():
        if key not in found and fold.is_live(log):
            result[key] = log.absent(run.at, run.run_id)
    return result
