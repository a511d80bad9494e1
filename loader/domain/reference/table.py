"""Reference engine: a history table in memory, the effects of each batch and its counts.

It is slow and simple on purpose: the Spark engine is tested against it. The table is one immutable ``Table``; a
batch creates the next one, or is refused and leaves the old one, its columns and names included. An open end is
always None here, whatever ``open_end`` stores for it.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any

from loader.domain.historization.history import (
    CHANGED,
    DELETED,
    NEW,
    REAPPEARED,
    UNCHANGED,
    form_note,
    refuse_other_form,
)
from loader.domain.historization.load_guards import DeleteGuard, check_later
from loader.domain.reference.batch import Columns, KeyText, Read, Row, key_text, read_rows, run_time, shown_key
from loader.domain.reference.batch_files import END, FILES, FileCounts, FileKey, FilesBatch, read_files
from loader.domain.reference.timeline import DELETE, RETURN, VALUE, Event, Fold, KeyLog, Time
from loader.domain.refusals import Refusal
from metadata.domain.history_policy import (
    BATCH_FILES,
    EFFECTIVE,
    IGNORE,
    LOAD_TIME,
    SNAPSHOT,
    HistoryPolicy,
)
from metadata.domain.types import DataType, parse

# Effect of a batch's rows and absences on the event logs of their keys (rules 8 to 11).


_SAMPLES = 5


@dataclass(frozen=True)
class Run:
    """Run of a batch, and the type of the versions' times (None: the run's own)."""

    run_id: str
    instant: str
    time_type: DataType | None = None

    @property
    def at(self) -> Time:
        """Return the run's time in that type; only needed for absent or returning keys."""
        return run_time(self.instant, self.time_type)


@dataclass
class Late:
    """Late rows of a batch: numbers of those split, ignored and beyond the horizon; the refused ones as text."""

    split: int = 0
    ignored: int = 0
    beyond_horizon: int = 0
    refused: list[str] = field(default_factory=list)


def arrive(
    logs: Mapping[KeyText, KeyLog], rows: Iterable[Row], fold: Fold, run: Run, forgotten: Time | None
) -> tuple[dict[KeyText, KeyLog], Late]:
    """Return the logs after these rows, which are sorted by time, and the late rows. Raise Refusal LATE_ROWS.

    ``forgotten``: events before it were removed.
    """
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
    """Return a key's log after its rows.

    Lateness is measured against the log before the batch: within it, order does not matter.
    """
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
            log = candidate  # a no-change event is stored only if a row can come late
    return log


def _comes_back(log: KeyLog, newest_row: Row) -> bool:
    """Return whether a key returns by rule 9: even its newest row is not after its absence began.

    The row then counts from the run's time. Older rows of the same batch keep their time: they describe the time
    before the key was absent.
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
    """Return whether a late row that would alter history is admitted, and count it (rules 10 and 11)."""
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
    """Return the logs with live keys that are not in the batch closed at the run's time (rule 8).

    A version that was to start only then or later is left empty and removed.
    """
    delivered, result = set(present), dict(logs)
    for key, log in logs.items():
        if key not in delivered and fold.is_live(log):
            result[key] = log.absent(run.at, run.run_id)
    return result


# Counts of a batch: per key its change, per version opened, closed or removed.


OPENED, CLOSED, REMOVED = "opened", "closed", "removed"


def count_logs(
    before: Mapping[KeyText, KeyLog], after: Mapping[KeyText, KeyLog], fold: Fold, delivered: Collection[KeyText]
) -> dict[str, int]:
    """Return the counts over the delivered keys and those closed by absence."""
    counts = dict.fromkeys((NEW, CHANGED, DELETED, REAPPEARED, UNCHANGED, OPENED, CLOSED, REMOVED), 0)
    for key, log in after.items():
        old = before.get(key) or KeyLog(log.key)
        if old is log and key not in delivered:
            continue
        versions, earlier = fold.versions(log), fold.versions(old)
        _count_versions(
            counts,
            {v.valid_from: v.is_open for v in earlier},
            {v.valid_from: v.is_open for v in versions},
        )
        was, is_ = fold.is_live(old), fold.is_live(log)
        if fold.same(old, log):
            counts[UNCHANGED] += 1
        elif not earlier:
            counts[NEW] += 1
        elif was and not is_:
            counts[DELETED] += 1
        elif is_ and not was:
            counts[REAPPEARED] += 1
        else:
            counts[CHANGED] += 1
    return counts


def count_files(
    before: Mapping[KeyText, FileKey], after: Mapping[KeyText, FileKey], touched: Collection[KeyText]
) -> dict[str, int]:
    """Return counts of versions only: batch files do not define the change of a key."""
    counts = dict.fromkeys((OPENED, CLOSED, REMOVED), 0)
    for key in touched:
        old, new = (known.versions if known else () for known in (before.get(key), after.get(key)))
        _count_versions(counts, {v.start: v.active for v in old}, {v.start: v.active for v in new})
    return counts


def _count_versions(counts: dict[str, int], before: Mapping[Any, bool], after: Mapping[Any, bool]) -> None:
    """Add to the counts; both sides map a version's start to whether it is open."""
    counts[OPENED] += len(after.keys() - before.keys())
    counts[REMOVED] += len(before.keys() - after.keys())
    counts[CLOSED] += sum(is_open and not after[start] for start, is_open in before.items() if start in after)


@dataclass(frozen=True)
class Header:
    """Definition of a history table. Names are those valid before the first batch."""

    keys: tuple[str, ...]
    columns: Mapping[str, DataType]
    policy: HistoryPolicy
    id: str = "history"

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> "Header":
        """Build a header from ``keys``, ``columns`` and ``policy`` as a case writes them."""
        return cls(
            tuple(described["keys"]),
            {name: parse(type_) for name, type_ in described["columns"].items()},
            HistoryPolicy.from_dict(described["policy"]),
            described.get("id", "history"),
        )

    @property
    def carried(self) -> tuple[str, ...]:
        """Return the columns in rows beside the source's columns: the keys, and the time."""
        dated = self.policy.time_column
        return self.keys if dated is None else (*self.keys, dated)

    def renamed(self, names: Mapping[str, str]) -> "Header":
        """Return the header under other names (old name to new)."""
        return replace(
            self,
            keys=tuple(names.get(name, name) for name in self.keys),
            columns={names.get(name, name): type_ for name, type_ in self.columns.items()},
            policy=self.policy.renamed(names),
        )


@dataclass(frozen=True)
class Table:
    """State of a history table: versions follow from ``logs``, which are the event log as well.

    ``former``: the policies before the header's, oldest first (``ReferenceEngine.change_policy``).
    """

    header: Header
    columns: Columns = field(default_factory=Columns)
    logs: Mapping[KeyText, KeyLog] = field(default_factory=dict)
    files: Mapping[KeyText, FileKey] = field(default_factory=dict)
    runs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    forgotten: Time | None = None
    former: tuple[HistoryPolicy, ...] = ()

    @property
    def policy(self) -> HistoryPolicy:
        return self.header.policy

    @property
    def fold(self) -> Fold:
        return Fold(self.policy, self.header.keys, self.former)

    @property
    def time_type(self) -> DataType | None:
        """Return the type of the versions' times; None if the run's time dates them."""
        dated = self.policy.time_column
        return None if dated is None else self.columns.types.get(dated)

    @property
    def closes_absent(self) -> bool:
        """Return True if a batch is complete, so that absent keys are deleted, and deletes are not ignored."""
        whole = self.policy.input == SNAPSHOT or (
            self.policy.input == EFFECTIVE and self.policy.absent_keys == "deleted"
        )
        return whole and self.policy.deletes != IGNORE


class ReferenceEngine:
    """Engine that applies batches as a case has them; ``header`` names keys, columns and policy."""

    def __init__(self, header: Header | Mapping[str, Any]) -> None:
        self.table = Table(header if isinstance(header, Header) else Header.from_dict(header))

    def apply(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Apply one batch, or raise Refusal and change nothing.

        Returns ``{"counts": …, "rerun": bool, "warnings": […]}``. A run id that was applied changes nothing (rule
        2).
        """
        content = _fingerprint(batch)
        known = self.table.runs.get(batch["run_id"])
        if known is not None:
            warning = f"run {batch['run_id']} was applied already, with other rows; nothing was changed"
            return {"counts": {}, "rerun": True, "warnings": [] if known[1] == content else [warning]}
        table = _with_columns(self.table, batch)
        table, counts = _apply_files(table, batch) if table.policy.input == BATCH_FILES else _apply_rows(table, batch)
        self.table = replace(table, runs={**table.runs, batch["run_id"]: (batch["at"], content)})
        return {"counts": counts, "rerun": False, "warnings": []}

    def change_policy(self, policy: HistoryPolicy) -> None:
        """Compare rows by this policy from the next batch on; existing versions stay.

        Raise Refusal HISTORY_POLICY_CHANGED if it would give versions another form (see ``recorded_policy``).
        """
        table = self.table
        names = {name: name for name in table.header.columns}
        refuse_other_form(
            name=table.header.id,
            policy=policy,
            keys=names,
            noted=form_note(table.policy, names),
            versions=len(self.rows()),
        )
        self.table = replace(table, header=replace(table.header, policy=policy), former=(*table.former, table.policy))

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per version: every attribute the table ever had, and the version's own fields.

        A data column named ``state``, ``active`` or like a run id hides that field.
        """
        names = list(dict.fromkeys([*self.table.columns.types, *self.table.header.columns]))
        system = (self.table.policy.time, END) if self.table.policy.input == BATCH_FILES else ()
        empty = {name: None for name in names if name not in system}
        versions = _file_versions(self.table) if self.table.policy.input == BATCH_FILES else _versions(self.table)
        return [{**state, **empty, **values, **when} for state, values, when in versions]


def _versions(table: Table) -> list[tuple[dict, dict, dict]]:
    fold = table.fold
    return [
        (
            {"state": version.state, "opened_by": version.opened_by, "closed_by": version.closed_by},
            {**version.values, **log.key},
            {"valid_from": version.valid_from, "valid_to": version.valid_to},
        )
        for log in table.logs.values()
        for version in fold.versions(log)
    ]


def _file_versions(table: Table) -> list[tuple[dict, dict, dict]]:
    return [
        (
            {"active": version.active, "opened_by": version.opened_by, "closed_by": version.closed_by},
            {**version.values, **known.key},
            {"valid_from": version.start, "valid_to": version.end},
        )
        for known in table.files.values()
        for version in known.versions
    ]


def _with_columns(table: Table, batch: Mapping[str, Any]) -> Table:
    """Return the table with a batch's renames and columns, by default the header's columns (rules 16 and 17)."""
    header, columns, logs, files = table.header, table.columns, table.logs, table.files
    delivered = {name: parse(type_) for name, type_ in (batch.get("columns") or {}).items()}
    rename = batch.get("rename") or {}
    if rename:
        # Before the first load there is no table, only its description.
        moves = columns.moves(rename, header.carried) if columns.types else rename
        columns, header = columns.renamed(moves), header.renamed(moves)
        logs, files = _mapped(logs, files, moves, {})
        table = replace(table, former=tuple(policy.renamed(moves) for policy in table.former))
    if delivered or not columns.types:
        columns, conversions = columns.delivered(delivered or header.columns)
        dates = conversions.get(header.policy.time_column, _as_it_is)
        logs, files = _mapped(logs, files, {}, {**conversions, None: dates})
        table = replace(table, forgotten=None if table.forgotten is None else dates(table.forgotten))
    dated = header.policy.time_column
    if dated in header.columns and dated not in columns.types:
        columns = replace(columns, types={**columns.types, dated: header.columns[dated]})
    missing = {name: header.columns[name] for name in header.keys if name not in columns.types}
    return replace(
        table, header=header, columns=replace(columns, types={**columns.types, **missing}), logs=logs, files=files
    )


def _mapped(logs: Mapping, files: Mapping, names: Mapping[str, str], convert: Mapping) -> tuple[dict, dict]:
    """Return stored values under new names, or as wider types. ``convert[None]`` is for the times."""

    def change(values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            names.get(name, name): convert[name](value) if name in convert and value is not None else value
            for name, value in values.items()
        }

    dates = convert.get(None, _as_it_is)
    changed = [log.mapped(change, dates) for log in logs.values()]
    remaining = [
        FileKey(change(known.key), tuple(replace(v, values=change(v.values)) for v in known.versions))
        for known in files.values()
    ]
    return {key_text(log.key): log for log in changed}, {key_text(known.key): known for known in remaining}


def _as_it_is(value: Any) -> Any:
    return value


def _apply_rows(table: Table, batch: Mapping[str, Any]) -> tuple[Table, dict[str, int]]:
    """Apply a snapshot, a delta, an effective batch or a CDC feed."""
    if table.policy.time == LOAD_TIME or table.closes_absent:
        newest = (at for at, _ in table.runs.values())
        check_later(name=table.header.id, at=batch["at"], newest=newest)  # rule 3
    read = read_rows(batch["rows"], at=batch["at"], keys=table.header.keys, policy=table.policy, columns=table.columns)
    run, fold = Run(batch["run_id"], batch["at"], table.time_type), table.fold
    logs: Mapping[KeyText, KeyLog] = table.logs
    if table.closes_absent:
        open_keys, arrived = sum(fold.is_live(log) for log in logs.values()), {row.key_text for row in read.rows}
        absent = sum(fold.is_live(log) for key, log in logs.items() if key not in arrived)
        guard = DeleteGuard(bool(batch.get("allow_empty")), bool(batch.get("allow_deletes")))
        guard.check(name=table.header.id, rows=len(batch["rows"]), would_close=absent, open_keys=open_keys)  # rule 4
        logs = close_absent(logs, arrived, fold, run)
    logs, late = arrive(logs, read.rows, fold, run, table.forgotten)
    counts = _counts(batch, read, late) | count_logs(table.logs, logs, fold, {row.key_text for row in read.rows})
    return _forgetting(replace(table, logs=logs), batch["at"]), counts


def _counts(batch: Mapping[str, Any], read: Read, late: Late) -> dict[str, int]:
    return {
        "rows": len(batch["rows"]),
        "collapsed": read.collapsed,
        "skipped_deletes": read.skipped_deletes,
        "late": late.split,
        "late_ignored": late.ignored,
        "beyond_horizon": late.beyond_horizon,
    }


def _forgetting(table: Table, at: str) -> Table:
    """Return the table without no-change events that are older than ``late_horizon`` before this run (rule 11)."""
    if table.policy.late_horizon is None:
        return table
    now = run_time(at, table.time_type)
    assert isinstance(now, date | datetime)
    before = now - timedelta(days=table.policy.late_horizon)
    if table.forgotten is not None:
        before = max(before, table.forgotten)
    logs = {key: table.fold.compacted(log, before) for key, log in table.logs.items()}
    return replace(table, forgotten=before, logs={key: log for key, log in logs.items() if log.events})


def _apply_files(table: Table, batch: Mapping[str, Any]) -> tuple[Table, dict[str, int]]:
    counts = FileCounts()
    rows = read_files(batch, table.header.keys, table.policy, table.columns, counts)
    applied = FilesBatch(dict(table.files), batch["run_id"], counts)
    applied.apply(rows)
    reported = {"rows": counts.rows, "collapsed": counts.collapsed, "unknown_ignored": counts.unknown_ignored}
    touched = {row.key_text for file in FILES for row in rows[file]}
    return replace(table, files=applied.keys), reported | count_files(table.files, applied.keys, touched)


def _fingerprint(batch: Mapping[str, Any]) -> str:
    """Return one hash of a batch's rows, to distinguish a rerun from another batch with its id."""
    rows = [
        [name, sorted(json.dumps(row, sort_keys=True, default=str) for row in batch.get(name) or [])]
        for name in ("rows", *FILES)
    ]
    return sha256(json.dumps(rows).encode()).hexdigest()
