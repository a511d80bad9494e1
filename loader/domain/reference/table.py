"""Reference engine: a history table in memory, the effects of each batch and its counts.

It is simple, not fast, because the Spark engine is tested against it. The table is an immutable ``Table``: a batch
creates the next one, or is refused and leaves the table unchanged, with its columns and names. An open end is always
None here, also if the policy has a high date for ``open_end``.
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
from loader.domain.reference.batch import Columns, Convert, KeyText, Read, Row, key_text, read_rows, run_time, shown_key
from loader.domain.reference.batch_files import END, FILES, FileCounts, FileKey, FilesBatch, read_files
from loader.domain.reference.detection import detected_keys
from loader.domain.reference.timeline import DELETE, RETURN, VALUE, Event, Fold, KeyLog, Time
from loader.domain.refusals import Refusal
from metadata.domain.history.history_policy import (
    BATCH_FILES,
    EFFECTIVE,
    IGNORE,
    LOAD_TIME,
    NONE,
    SNAPSHOT,
    HistoryPolicy,
)
from metadata.domain.types import DataType, parse

# Effect of a batch's rows and absences on the event logs of their keys (rules 8 to 11).


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


# Counts of a batch: changes of keys, and opened, closed and removed versions.


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
        was_live, is_live = fold.is_live(old), fold.is_live(log)
        if fold.same(old, log):
            counts[UNCHANGED] += 1
        elif not earlier:
            counts[NEW] += 1
        elif was_live and not is_live:
            counts[DELETED] += 1
        elif is_live and not was_live:
            counts[REAPPEARED] += 1
        else:
            counts[CHANGED] += 1
    return counts


def count_files(
    before: Mapping[KeyText, FileKey], after: Mapping[KeyText, FileKey], changed: Collection[KeyText]
) -> dict[str, int]:
    """Return counts of versions only: batch files do not define the change of a key."""
    counts = dict.fromkeys((OPENED, CLOSED, REMOVED), 0)
    for key in changed:
        old, new = (file_key.versions if file_key else () for file_key in (before.get(key), after.get(key)))
        _count_versions(counts, {v.start: v.active for v in old}, {v.start: v.active for v in new})
    return counts


def _count_versions(counts: dict[str, int], before: Mapping[Any, bool], after: Mapping[Any, bool]) -> None:
    """Add to the counts. Both sides map the start of each version to True if it is open."""
    counts[OPENED] += len(after.keys() - before.keys())
    counts[REMOVED] += len(before.keys() - after.keys())
    counts[CLOSED] += sum(is_open and not after[start] for start, is_open in before.items() if start in after)


@dataclass(frozen=True)
class Header:
    """Definition of a history table, with the names before the first batch."""

    keys: tuple[str, ...]
    columns: Mapping[str, DataType]
    policy: HistoryPolicy
    id: str = "history"

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> "Header":
        """Return the header for ``keys``, ``columns`` and ``policy`` in the form of a case."""
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
    """State of a history table. Versions are computed from ``logs``, which are the event log as well.

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
    """Engine that applies batches in the form of a case; ``header`` has keys, columns and policy."""

    def __init__(self, header: Header | Mapping[str, Any]) -> None:
        self.table = Table(header if isinstance(header, Header) else Header.from_dict(header))

    def apply(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Apply one batch, or raise Refusal and change nothing.

        Return ``{"counts": …, "rerun": bool, "warnings": […]}``. A batch with an applied run id changes nothing (rule
        2).
        """
        content = _fingerprint(batch)
        applied = self.table.runs.get(batch["run_id"])
        if applied is not None:
            warning = f"run {batch['run_id']} was applied already, with other rows; nothing was changed"
            return {"counts": {}, "rerun": True, "warnings": [] if applied[1] == content else [warning]}
        table = _with_columns(self.table, batch)
        table, counts = _apply_files(table, batch) if table.policy.input == BATCH_FILES else _apply_rows(table, batch)
        self.table = replace(table, runs={**table.runs, batch["run_id"]: (batch["at"], content)})
        return {"counts": counts, "rerun": False, "warnings": []}

    def change_policy(self, policy: HistoryPolicy) -> None:
        """Compare rows by this policy from the next batch on; existing versions stay.

        Raise Refusal HISTORY_POLICY_CHANGED if it would give versions another form
        (``loader.domain.historization.history``).
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

        A data column with the name of such a field (``state``, ``active``, ``opened_by``) hides it.
        """
        names = list(dict.fromkeys([*self.table.columns.types, *self.table.header.columns]))
        system = (self.table.policy.time, END) if self.table.policy.input == BATCH_FILES else ()
        empty = {name: None for name in names if name not in system}
        versions = _file_versions(self.table) if self.table.policy.input == BATCH_FILES else _versions(self.table)
        return [{**state, **empty, **values, **when} for state, values, when in versions]

    def current(self) -> list[dict[str, Any]]:
        """Return the rows of rawcore, historized or not: keys and values of the open live versions."""
        fold = self.table.fold
        return [{**log.key, **fold.versions(log)[-1].values} for log in self.table.logs.values() if fold.is_live(log)]


# State, values and times of a version.
_VersionParts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def _versions(table: Table) -> list[_VersionParts]:
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


def _file_versions(table: Table) -> list[_VersionParts]:
    return [
        (
            {"active": version.active, "opened_by": version.opened_by, "closed_by": version.closed_by},
            {**version.values, **file_key.key},
            {"valid_from": version.start, "valid_to": version.end},
        )
        for file_key in table.files.values()
        for version in file_key.versions
    ]


def _with_columns(table: Table, batch: Mapping[str, Any]) -> Table:
    """Return the table with a batch's renames and columns, by default the header's columns (rules 16 and 17)."""
    header, columns, logs, files = table.header, table.columns, table.logs, table.files
    delivered = {name: parse(type_) for name, type_ in (batch.get("columns") or {}).items()}
    rename = batch.get("rename") or {}
    if rename:
        # Before the first load there is no table, only the header.
        moves = columns.moves(rename, header.carried) if columns.types else rename
        columns, header = columns.renamed(moves), header.renamed(moves)
        logs, files = _convert(logs, files, moves, {})
        table = replace(table, former=tuple(policy.renamed(moves) for policy in table.former))
    if delivered or not columns.types:
        columns, conversions = columns.delivered(delivered or header.columns)
        dates = conversions.get(header.policy.time_column or "", _unchanged)
        logs, files = _convert(logs, files, {}, dict[str | None, Convert](conversions) | {None: dates})
        table = replace(table, forgotten=None if table.forgotten is None else dates(table.forgotten))
    dated = header.policy.time_column
    if dated is not None and dated in header.columns and dated not in columns.types:
        columns = replace(columns, types={**columns.types, dated: header.columns[dated]})
    missing = {name: header.columns[name] for name in header.keys if name not in columns.types}
    return replace(
        table, header=header, columns=replace(columns, types={**columns.types, **missing}), logs=logs, files=files
    )


def _convert(
    logs: Mapping[KeyText, KeyLog],
    files: Mapping[KeyText, FileKey],
    names: Mapping[str, str],
    convert: Mapping[str | None, Convert],
) -> tuple[dict[KeyText, KeyLog], dict[KeyText, FileKey]]:
    """Return stored values with new names, or converted to wider types. ``convert[None]`` converts times."""

    def change(values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            names.get(name, name): convert[name](value) if name in convert and value is not None else value
            for name, value in values.items()
        }

    dates = convert.get(None, _unchanged)
    changed = [log.mapped(change, dates) for log in logs.values()]
    remaining = [
        FileKey(change(file_key.key), tuple(replace(v, values=change(v.values)) for v in file_key.versions))
        for file_key in files.values()
    ]
    return {key_text(log.key): log for log in changed}, {key_text(file_key.key): file_key for file_key in remaining}


def _unchanged(value: Any) -> Any:
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
        open_keys, delivered = sum(fold.is_live(log) for log in logs.values()), {row.key_text for row in read.rows}
        absent = sum(fold.is_live(log) for key, log in logs.items() if key not in delivered)
        guard = DeleteGuard(bool(batch.get("allow_empty")), bool(batch.get("allow_deletes")))
        guard.check(name=table.header.id, rows=len(batch["rows"]), would_close=absent, open_keys=open_keys)  # rule 4
        logs = close_absent(logs, delivered, fold, run)
    if table.policy.delete_detection != NONE:
        live = {key: fold.versions(log)[-1].values for key, log in logs.items() if fold.is_live(log)}
        delivered = {row.key_text for row in read.rows}
        detected = detected_keys(batch, table.header.id, table.header.keys, table.columns, live, delivered)
        logs = close_absent(logs, logs.keys() - detected, fold, run)
    logs, late = arrive(logs, read.rows, fold, run, table.forgotten)
    counts = _counts(batch, read, late) | count_logs(table.logs, logs, fold, {row.key_text for row in read.rows})
    return _without_old_events(replace(table, logs=logs), batch["at"]), counts


def _counts(batch: Mapping[str, Any], read: Read, late: Late) -> dict[str, int]:
    return {
        "rows": len(batch["rows"]),
        "collapsed": read.collapsed,
        "skipped_deletes": read.skipped_deletes,
        "late": late.split,
        "late_ignored": late.ignored,
        "beyond_horizon": late.beyond_horizon,
    }


def _without_old_events(table: Table, at: str) -> Table:
    """Return the table without unneeded events older than ``late_horizon`` before this run (rule 11)."""
    if table.policy.late_horizon is None:
        return table
    now = run_time(at, table.time_type)
    assert isinstance(now, date | datetime)
    before: Time = now - timedelta(days=table.policy.late_horizon)
    if table.forgotten is not None:
        before = max(before, table.forgotten)
    logs = {key: table.fold.compacted(log, before) for key, log in table.logs.items()}
    return replace(table, forgotten=before, logs={key: log for key, log in logs.items() if log.events})


def _apply_files(table: Table, batch: Mapping[str, Any]) -> tuple[Table, dict[str, int]]:
    counts = FileCounts()
    rows = read_files(batch, table.header.keys, table.policy, table.columns, counts)
    files_batch = FilesBatch(dict(table.files), batch["run_id"], counts)
    files_batch.apply(rows)
    reported = {"rows": counts.rows, "collapsed": counts.collapsed, "unknown_ignored": counts.unknown_ignored}
    changed = {row.key_text for file in FILES for row in rows[file]}
    return replace(table, files=files_batch.keys), reported | count_files(table.files, files_batch.keys, changed)


def _fingerprint(batch: Mapping[str, Any]) -> str:
    """Return a hash of a batch's rows, to distinguish a rerun from another batch with the same run id."""
    rows = [
        [name, sorted(json.dumps(row, sort_keys=True, default=str) for row in batch.get(name) or [])]
        for name in ("rows", *FILES)
    ]
    return sha256(json.dumps(rows).encode()).hexdigest()
