"""Reference engine: a history table in memory.

It is simple, not fast, because the Spark engine is tested against it. The table is an immutable ``Table``: a batch
creates the next one, or is refused and leaves the table unchanged, with its columns and names. An open end is always
None here, also if the policy has a high date for ``open_end``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any

from loader.domain.historization.history import (
    form_note,
    refuse_other_form,
)
from loader.domain.historization.load_guards import DeleteGuard, check_later
from loader.domain.reference.arrivals import Late, Run, arrive, close_absent
from loader.domain.reference.batch import Columns, Convert, KeyText, Read, key_text, read_rows, run_time
from loader.domain.reference.batch_files import END, FILES, FileCounts, FileKey, FilesBatch, read_files
from loader.domain.reference.counts import count_files, count_logs
from loader.domain.reference.detection import detected_keys
from loader.domain.reference.timeline import Fold, KeyLog, Time
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
