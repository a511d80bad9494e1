"""Batch of rows, typed and checked before anything else (rules 1, 5, 6 and NULL keys).

Any error refuses the whole batch, with a count and samples.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loader.domain.historization.history import parse_instant
from loader.domain.reference.columns import Columns
from loader.domain.reference.events import Time
from loader.domain.reference.values import DoesNotFit, canonical, typed
from loader.domain.runs.refusals import Refusal
from metadata.domain import types as ours
from metadata.domain.history_policy import CDC, IGNORE, LOAD_TIME, HistoryPolicy
from metadata.domain.types import DataType

_SAMPLES = 5
INSERT, UPDATE, REMOVE = "I", "U", "D"

KeyText = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One delivered row: its key, its own time (the run's, if rows carry none), its attributes."""

    key: Mapping[str, Any]
    time: Time
    values: Mapping[str, Any]
    is_delete: bool = False

    @property
    def key_text(self) -> KeyText:
        return key_text(self.key)

    def content(self, op: str | None) -> tuple:
        """Return the value by which two rows of a key and time are identical; of a D row only that it is one.

        I and U mean the same (rule 6), so the operation itself does not count.
        """
        values = {} if self.is_delete else {name: value for name, value in self.values.items() if name != op}
        return (self.is_delete, compared(values))


@dataclass(frozen=True)
class Read:
    """Rows of a batch in order of time, with the numbers of collapsed rows and skipped deletes."""

    rows: tuple[Row, ...]
    collapsed: int = 0
    skipped_deletes: int = 0


def key_text(key: Mapping[str, Any]) -> KeyText:
    """Return the canonical texts of a key's values; no two keys share them, whatever characters are in them."""
    return tuple(canonical(value) or "" for value in key.values())


def compared(values: Mapping[str, Any]) -> tuple:
    """Return values as they compare: canonical texts in the order of names, without NULLs."""
    return tuple(sorted((name, canonical(value)) for name, value in values.items() if value is not None))


def run_time(at: str, type_: DataType | None) -> Time:
    """Return the run's ``at`` in the time column's type (rule 8). Raise Refusal NO_RUN_TIME for a number."""
    instant = parse_instant(at)
    if type_ is None or type_.name == ours.TIMESTAMP:
        return instant
    if type_.name == ours.DATE:
        return instant.date()
    raise Refusal(
        "NO_RUN_TIME",
        f"versions are dated by a column of type {type_}, and the run's time ({at}) has no place among its values",
    )


def read_rows(
    rows: Iterable[Mapping[str, Any]], *, at: str, keys: tuple[str, ...], policy: HistoryPolicy, columns: Columns
) -> Read:
    """Return the rows of a snapshot, a delta, an effective batch or a CDC feed."""
    own_time = policy.time != LOAD_TIME
    needed = (*keys, *((policy.time,) if own_time else ()))
    named = list(rows)
    values = typed_columns(
        named, (*columns.present, *(name for name in needed if name not in columns.present)), columns
    )
    check_not_null(values, keys, "NULL_KEY", "have no value in their key")
    if own_time:
        check_not_null(values, (policy.time,), "NULL_TIME", f"have no value in {policy.time!r}, which dates them")
    operations = _operations(named, policy)
    read = [
        Row(
            key={name: row[name] for name in keys},
            time=row[policy.time] if own_time else parse_instant(at),
            values={name: value for name, value in row.items() if name not in keys},
            is_delete=operation == REMOVE,
        )
        for row, operation in zip(values, operations, strict=True)
    ]
    kept = [row for row in read if not (row.is_delete and policy.deletes == IGNORE)]
    distinct, collapsed = _distinct(kept, policy.op)
    return Read(distinct, collapsed, len(read) - len(kept))


def typed_columns(
    rows: list[Mapping[str, Any]],
    names: Iterable[str],
    columns: Columns,
    keep: Mapping[Any, Any] | None = None,
    prepared: Callable[[Any, DataType], Any] = lambda value, _: value,
) -> list[dict[str, Any]]:
    """Return the named columns of every row, typed (rule 5): missing is NULL, what is not named is ignored.

    ``keep`` maps literals with a special meaning to it (batch files' two strings). Every other value is
    ``prepared`` for its type first. Raise Refusal VALUE_DOES_NOT_FIT.
    """
    result: list[dict[str, Any]] = [{} for _ in rows]
    for name in names:
        failed: list[str] = []
        for row, values in zip(rows, result, strict=True):
            value = row.get(name)
            if keep and isinstance(value, str) and value in keep:
                values[name] = keep[value]
                continue
            try:
                values[name] = typed(prepared(value, columns.types[name]), columns.types[name])
            except DoesNotFit as problem:
                failed.append(str(problem))
        if failed:
            raise Refusal(
                "VALUE_DOES_NOT_FIT",
                f"{len(failed)} values of {name} do not fit {columns.types[name]}",
                column=name,
                count=len(failed),
                samples=tuple(failed[:_SAMPLES]),
            )
    return result


def check_not_null(rows: list[dict[str, Any]], names: Iterable[str], code: str, said: str) -> None:
    names = tuple(names)
    bad = [row for row in rows if any(row[name] is None for name in names)]
    if bad:
        samples = tuple(", ".join(f"{n}={v!r}" for n, v in row.items()) for row in bad[:_SAMPLES])
        raise Refusal(code, f"{len(bad)} rows {said}", count=len(bad), samples=samples)


def conflict(keys: Iterable[str]) -> Refusal:
    """Return the refusal of rows that contradict each other (rule 1)."""
    found = list(dict.fromkeys(keys))
    return Refusal(
        "CONFLICTING_ROWS",
        f"{len(found)} keys have rows that differ",
        count=len(found),
        samples=tuple(found[:_SAMPLES]),
    )


def shown_key(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())


def _operations(rows: list[Mapping[str, Any]], policy: HistoryPolicy) -> list[str]:
    """Return each row's operation, exactly I, U or D (rule 6); a row of any other input is a value.

    Raise Refusal UNKNOWN_OP.
    """
    if policy.input != CDC:
        return [UPDATE] * len(rows)
    assert policy.op is not None
    found = [row.get(policy.op) for row in rows]
    bad = [operation for operation in found if operation not in (INSERT, UPDATE, REMOVE)]
    if bad:
        samples = tuple(dict.fromkeys(map(repr, bad)))[:_SAMPLES]
        raise Refusal(
            "UNKNOWN_OP",
            f"{len(bad)} rows have an operation in {policy.op!r} that is not I, U or D",
            column=policy.op,
            count=len(bad),
            samples=samples,
        )
    return [str(operation) for operation in found]


def _distinct(rows: list[Row], op: str | None) -> tuple[tuple[Row, ...], int]:
    """Return distinct rows in order of time, and how many collapsed; a D beats an I or U (rule 1).

    A D beats them before they are compared: whether they differ from each other no longer matters. Raise Refusal
    CONFLICTING_ROWS.
    """
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault((row.key_text, row.time), []).append(row)
    kept, conflicts, collapsed = [], [], 0
    for group in groups.values():
        contents = {row.content(op) for row in group}
        deletes = [row for row in group if row.is_delete]
        if not deletes and len(contents) > 1:
            conflicts.append(shown_key(group[0].key))
        collapsed += len(group) - len(contents)
        kept.append((deletes or group)[0])
    if conflicts:
        raise conflict(conflicts)
    return tuple(sorted(kept, key=lambda row: row.time)), collapsed
