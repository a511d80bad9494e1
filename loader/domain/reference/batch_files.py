"""History batch files: earliest start, upsert, update, delete, stored as delivered (rules 18 to 21).

Ends are inclusive, 1 ms before the next start; equal neighbours are not merged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from loader.contract.refusals import Refusal
from loader.domain.reference.batch import (
    Columns,
    KeyText,
    check_not_null,
    compared,
    conflict,
    key_text,
    shown_key,
    typed_columns,
)
from loader.domain.reference.values import cut_to_microseconds
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.types import BOOLEAN, TIMESTAMP, DataType

EARLIEST, UPSERT, UPDATE, DELETE = "earliest_start", "upsert", "update", "delete"
FILES = (EARLIEST, UPSERT, UPDATE, DELETE)
END, ACTIVE = "_fivetran_end", "_fivetran_active"
OPEN_END = datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class _Unmodified:
    """Marker of an update file for "as before". It equals only itself."""

    def __repr__(self) -> str:
        return "unmodified"


UNMODIFIED = _Unmodified()


@dataclass(frozen=True)
class FileVersion:
    """Version defined by batch files: interval ``[start, end]``, values and active flag."""

    values: Mapping[str, Any]
    start: datetime
    end: datetime
    active: bool
    opened_by: str
    closed_by: str | None = None

    def ended(self, at: datetime, run_id: str) -> "FileVersion":
        return replace(self, end=at, active=False, closed_by=run_id)


@dataclass(frozen=True)
class FileKey:
    """Key and its versions, in order of start."""

    key: Mapping[str, Any]
    versions: tuple[FileVersion, ...] = ()

    def rewound(self, start: datetime, run_id: str) -> "FileKey":
        """Return the key without versions from ``start`` on; earlier ones end before it (rule 18)."""
        earlier = tuple(v for v in self.versions if v.start < start)
        return replace(self, versions=_ending_before(earlier, start, run_id))

    def with_version(self, version: FileVersion, *, ends_predecessor: bool) -> "FileKey":
        """Return the key with ``version``, instead of one with the same start."""
        others = tuple(v for v in self.versions if v.start != version.start)
        if ends_predecessor:
            others = _ending_before(others, version.start, version.opened_by)
        return replace(self, versions=tuple(sorted([*others, version], key=lambda v: v.start)))

    def before(self, start: datetime) -> FileVersion | None:
        return max((v for v in self.versions if v.start < start), key=lambda v: v.start, default=None)

    def last_active(self) -> FileVersion | None:
        """Return the active version (rule 19), or the last one if none is active."""
        return max(self.versions, key=lambda v: (v.active, v.start), default=None)

    def deleted(self, at: datetime, run_id: str) -> "FileKey | None":
        """Return the key after a delete, which ends the version in force at ``at`` (rule 20); None if there is none."""
        in_force = max((v for v in self.versions if v.start <= at <= v.end), key=lambda v: v.start, default=None)
        if in_force is None:
            return None
        ended = in_force.ended(at, run_id)
        return replace(self, versions=tuple(ended if v is in_force else v for v in self.versions))


@dataclass(frozen=True)
class FileRow:
    """Row of one of the four files; ``time`` is its start, or the end in a delete file."""

    file: str
    key: Mapping[str, Any]
    time: datetime
    end: datetime
    active: bool
    values: Mapping[str, Any]

    @property
    def key_text(self) -> KeyText:
        return key_text(self.key)

    def content(self) -> tuple[Any, ...]:
        marked = tuple(sorted(name for name, value in self.values.items() if value is UNMODIFIED))
        plain = {name: value for name, value in self.values.items() if value is not UNMODIFIED}
        return (self.end, self.active, marked, compared(plain))


@dataclass
class FileCounts:
    """Numbers of rows read, of collapsed identical rows, and of ignored rows of unknown keys."""

    rows: int = 0
    collapsed: int = 0
    unknown_ignored: int = 0


@dataclass
class FilesBatch:
    """Application of one history batch, file by file."""

    keys: dict[KeyText, FileKey]
    run_id: str
    counts: FileCounts = field(default_factory=FileCounts)

    def apply(self, rows: Mapping[str, list[FileRow]]) -> None:
        """Apply the files in the order of rule 18; within a file by time, so that updates chain."""
        before = dict(self.keys)
        earliest: dict[KeyText, datetime] = {}
        for row in rows[EARLIEST]:
            earliest.setdefault(row.key_text, row.time)
            if row.key_text in self.keys:
                self.keys[row.key_text] = self.keys[row.key_text].rewound(row.time, self.run_id)
        for row in (*rows[UPSERT], *rows[UPDATE]):
            self._put(row, earliest.get(row.key_text), before.get(row.key_text))
        for row in rows[DELETE]:
            self._delete(row)

    def _put(self, row: FileRow, earliest: datetime | None, before: FileKey | None) -> None:
        """Apply a row of an upsert or update file (rules 19 and 20).

        An earliest start covers rows that start at it or later. Any other row ends its predecessor.
        """
        file_key = self.keys.get(row.key_text)
        if row.file == UPDATE:
            source = (file_key and file_key.before(row.time)) or (before and before.last_active())
            if not source:
                self.counts.unknown_ignored += 1
                return
            filled = {n: source.values.get(n) if v is UNMODIFIED else v for n, v in row.values.items()}
        else:
            filled = dict(row.values)
        version = FileVersion(filled, row.time, row.end, row.active, self.run_id)
        covered = earliest is not None and earliest <= row.time
        self.keys[row.key_text] = (file_key or FileKey(row.key)).with_version(version, ends_predecessor=not covered)

    def _delete(self, row: FileRow) -> None:
        file_key = self.keys.get(row.key_text)
        ended = file_key and file_key.deleted(row.time, self.run_id)
        if ended:
            self.keys[row.key_text] = ended
        else:
            self.counts.unknown_ignored += 1


def read_files(
    batch: Mapping[str, Any], keys: tuple[str, ...], policy: HistoryPolicy, columns: Columns, counts: FileCounts
) -> dict[str, list[FileRow]]:
    """Return the rows of the four files, typed, each once, in order of time. Raise Refusal for conflicts (rule 21)."""
    rows = {file: _read_file(file, batch.get(file) or [], keys, policy, columns) for file in FILES}
    counts.rows = sum(map(len, rows.values()))
    conflicts = []
    for files in ((EARLIEST,), (UPSERT, UPDATE), (DELETE,)):
        seen: dict[tuple[Any, ...], FileRow] = {}
        for row in (row for file in files for row in rows[file]):
            first = seen.setdefault((row.key_text, row.time), row)
            if first is not row and first.content() != row.content():
                conflicts.append(shown_key(row.key))
        for file in files:
            distinct = [row for row in rows[file] if seen[row.key_text, row.time] is row]
            counts.collapsed += len(rows[file]) - len(distinct)
            rows[file] = sorted(distinct, key=lambda row: row.time)
    if conflicts:
        raise conflict(conflicts)
    return rows


def _read_file(
    file: str, rows: Iterable[Mapping[str, Any]], keys: tuple[str, ...], policy: HistoryPolicy, columns: Columns
) -> list[FileRow]:
    rows = list(rows)
    own, system = _columns_of(file, keys, policy, columns)
    time = END if file == DELETE else policy.time
    marks: dict[str, Any] = {policy.null_string: None} if policy.null_string else {}
    unmodified = {policy.unmodified_string: UNMODIFIED} if policy.unmodified_string else {}
    typed = typed_columns(rows, own, columns, {**marks, **unmodified}, cut_to_microseconds)
    times = typed_columns(rows, system, Columns(system), marks, cut_to_microseconds)
    if file != UPDATE:
        _check_no_marker(file, typed)
    # In a key, the marker "as before" is NULL, since it identifies no key.
    typed = [{**row, **{name: None for name in keys if row[name] is UNMODIFIED}} for row in typed]
    check_not_null(typed, keys, "NULL_KEY", f"of the {file} file have no value in their key")
    check_not_null(times, (time,), "NULL_TIME", f"of the {file} file have no value in {time!r}")
    return [_file_row(file, keys, time, values, its_times) for values, its_times in zip(typed, times, strict=True)]


def _columns_of(
    file: str, keys: tuple[str, ...], policy: HistoryPolicy, columns: Columns
) -> tuple[tuple[str, ...], dict[str, DataType]]:
    """Return the columns to read from a file, keys and attributes, and its system columns with their types."""
    versions = file in (UPSERT, UPDATE)
    names = (*keys, *(name for name in columns.present if name not in keys)) if versions else keys
    system = {policy.time: DataType(TIMESTAMP), END: DataType(TIMESTAMP), ACTIVE: DataType(BOOLEAN)}
    wanted = {EARLIEST: (policy.time,), DELETE: (END,)}.get(file, tuple(system))
    return tuple(name for name in names if name not in system), {name: system[name] for name in wanted}


def _check_no_marker(file: str, rows: list[dict[str, Any]]) -> None:
    marked = [name for row in rows for name, value in row.items() if value is UNMODIFIED]
    if marked:
        raise Refusal(
            "UNMODIFIED_IN_UPSERT",
            f"{len(marked)} values of the {file} file are marked as unmodified, which only an update file may",
            column=marked[0],
            count=len(marked),
        )


def _file_row(file: str, keys: tuple[str, ...], time: str, values: dict[str, Any], times: dict[str, Any]) -> FileRow:
    """Return a row of a file. A missing end is open, and a missing active flag depends on the end."""
    end = times.get(END) or OPEN_END
    active = times.get(ACTIVE)
    return FileRow(
        file,
        {name: values[name] for name in keys},
        times[time],
        end,
        end >= OPEN_END if active is None else active,
        {name: value for name, value in values.items() if name not in keys},
    )


def _ending_before(versions: Iterable[FileVersion], start: datetime, run_id: str) -> tuple[FileVersion, ...]:
    """Return the versions; those that reach ``start`` end 1 ms before it, even if closed already (rule 18)."""
    return tuple(v.ended(start - MILLISECOND, run_id) if v.start < start <= v.end else v for v in versions)
