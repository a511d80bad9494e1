"""Batch of rows and the columns of its history, typed and checked (rules 1, 5, 6, 16, 17).

Any error refuses the whole batch, with a count and samples.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from math import isinf
from typing import Any

from architecture.domain.type_changes import TypeChange, classify_types
from loader.contract.refusals import Refusal
from loader.domain.historization.compared_texts import ComparedText
from loader.domain.historization.history import parse_instant
from loader.domain.reference.timeline import Time
from loader.domain.reference.values import DoesNotFit, canonical, typed
from metadata.domain import types as data_types
from metadata.domain.history.history_policy import CDC, IGNORE, LOAD_TIME, HistoryPolicy
from metadata.domain.naming import free_name
from metadata.domain.types import DataType

# Columns of a history table and their changes (rules 16, 17). A table never loses a column: ``types`` are all columns
# that it ever had. ``present`` are those that the source has now; only these are compared and written.


Convert = Callable[[Any], Any]

RETIRED = "__retired_"
_EXACT = Context(prec=1000)


@dataclass(frozen=True)
class Columns:
    """All columns of the table with their types, and the names that the source has now."""

    types: Mapping[str, DataType] = field(default_factory=dict)
    present: tuple[str, ...] = ()

    def moves(self, names: Mapping[str, str], kept: Collection[str] = ()) -> dict[str, str]:
        """Return the new names after a rename. All names change at once, so that a swap is possible.

        A retired column of the new name gets a reserved name; any other existing column of that name is refused
        (rule 17). ``kept`` are names in rows besides the source's columns: keys, and the time.
        """
        moves = dict(names)
        if len(set(names.values())) != len(names):
            raise Refusal("NAME_TAKEN", "two columns cannot be renamed to the same name")
        for old, new in names.items():
            if old not in self.types:
                raise Refusal("UNKNOWN_COLUMN", f"there is no column {old!r} to rename to {new!r}", column=old)
            if new not in self.types or new in names or new == old:
                continue
            if new in self.present or new in kept:
                raise Refusal("NAME_TAKEN", f"{old!r} cannot become {new!r}: that column exists", column=old)
            moves[new] = free_name(RETIRED + new, [*self.types, *moves.values()])
        return moves

    def renamed(self, moves: Mapping[str, str]) -> "Columns":
        """Return the columns after ``moves``."""
        return Columns(
            {moves.get(name, name): type_ for name, type_ in self.types.items()},
            tuple(moves.get(name, name) for name in self.present),
        )

    def delivered(self, columns: Mapping[str, DataType]) -> tuple["Columns", dict[str, Convert]]:
        """Return the columns after a batch with these source columns, and the conversions of widened stored values.

        The type of a returning column is compared with its stored type, too. Raise Refusal NARROWER_COLUMN.
        """
        types, conversions = dict(self.types), {}
        for name, wanted in columns.items():
            stored = types.get(name)
            if stored is not None and stored != wanted:
                conversion = widening(stored, wanted)
                if conversion is None:
                    raise Refusal(
                        "NARROWER_COLUMN",
                        f"column {name!r} is {stored} and came as {wanted}, which cannot hold all of it",
                        column=name,
                    )
                conversions[name] = conversion
            types[name] = wanted
        return replace(self, types=types, present=tuple(columns)), conversions


def widening(stored: DataType, wanted: DataType) -> Convert | None:
    """Return the conversion of a stored value to a wider type; None if that type is not wider.

    ``architecture.domain.type_changes`` defines the wider types; the text of a value is that of Spark.
    """
    change = classify_types(stored, wanted)
    if not (change is TypeChange.EQUIVALENT or change.widens):
        return None
    if wanted.name == data_types.DECIMAL:
        unit = Decimal(1).scaleb(-(wanted.scale or 0))
        return lambda value: Decimal(value).quantize(unit, context=_EXACT)
    if wanted.name == stored.name:
        return _unchanged
    match wanted.name:
        case data_types.UUID | data_types.TIME | data_types.JSON:
            return lambda value: ComparedText.of(value, wanted.name)
        case data_types.FLOAT:
            return float
        case data_types.TIMESTAMP:
            return _midnight
        case data_types.STRING:
            return _as_text
    return _unchanged


def _unchanged(value: Any) -> Any:
    return value


def _midnight(value: date) -> datetime:
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _as_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            text = value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
            return text.rstrip("0") if value.microsecond else text
        case date():
            return value.isoformat()
    return str(value)


def _float_text(value: float) -> str:
    """Return the JVM's text of a double: plain from 0.001 to ten million, else with an exponent.

    Equal values have one text, also -0.0 and 0.0, because a widening must open no version (rule 17).
    """
    if value != value or isinf(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    minus = "-" if value < 0 else ""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = format(Decimal(repr(abs(value))), "f")
        return minus + (plain if "." in plain else f"{plain}.0")
    first, *others = map(str, digits)
    assert isinstance(exponent, int)
    return f"{minus}{first}.{''.join(others) or '0'}E{exponent + len(others)}"


_SAMPLES = 5
INSERT, UPDATE, REMOVE = "I", "U", "D"

KeyText = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """Delivered row: its key, its time (that of the run, if rows have none), its attributes."""

    key: Mapping[str, Any]
    time: Time
    values: Mapping[str, Any]
    is_delete: bool = False

    @property
    def key_text(self) -> KeyText:
        return key_text(self.key)

    def content(self, op: str | None) -> tuple[bool, tuple[tuple[str, str | None], ...]]:
        """Return the content by which two rows of a key and time are identical; all D rows of a feed are.

        I and U mean the same (rule 6), so the operation itself is not part of it.
        """
        is_outranking = self.is_delete and op is not None
        values = {} if is_outranking else {name: value for name, value in self.values.items() if name != op}
        return (self.is_delete, compared(values))


@dataclass(frozen=True)
class Read:
    """Rows of a batch in order of time, with the numbers of collapsed rows and skipped deletes."""

    rows: tuple[Row, ...]
    collapsed: int = 0
    skipped_deletes: int = 0


def key_text(key: Mapping[str, Any]) -> KeyText:
    """Return the canonical texts of a key's values; different keys have different texts."""
    return tuple(canonical(value) or "" for value in key.values())


def compared(values: Mapping[str, Any]) -> tuple[tuple[str, str | None], ...]:
    """Return values in the form that is compared: canonical texts in the order of names, without NULLs."""
    return tuple(sorted((name, canonical(value)) for name, value in values.items() if value is not None))


def run_time(at: str, type_: DataType | None) -> Time:
    """Return the run's ``at`` in the time column's type (rule 8). Raise Refusal NO_RUN_TIME for a number."""
    instant = parse_instant(at)
    if type_ is None or type_.name == data_types.TIMESTAMP:
        return instant
    if type_.name == data_types.DATE:
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
    remaining = [row for row in read if not (row.is_delete and policy.deletes == IGNORE)]
    distinct, collapsed = _distinct(remaining, policy.op)
    return Read(distinct, collapsed, len(read) - len(remaining))


def typed_columns(
    rows: list[Mapping[str, Any]],
    names: Iterable[str],
    columns: Columns,
    keep: Mapping[Any, Any] | None = None,
    prepared: Callable[[Any, DataType], Any] = lambda value, _: value,
) -> list[dict[str, Any]]:
    """Return the named columns of every row, typed (rule 5). Missing ones are NULL, others are ignored.

    ``keep`` maps literals with a special meaning (the two markers of batch files) to that meaning. ``prepared``
    converts every other value first. Raise Refusal VALUE_DOES_NOT_FIT.
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


def check_not_null(rows: list[dict[str, Any]], names: Iterable[str], code: str, problem: str) -> None:
    names = tuple(names)
    bad = [row for row in rows if any(row[name] is None for name in names)]
    if bad:
        samples = tuple(", ".join(f"{n}={v!r}" for n, v in row.items()) for row in bad[:_SAMPLES])
        raise Refusal(code, f"{len(bad)} rows {problem}", count=len(bad), samples=samples)


def conflict(keys: Iterable[str]) -> Refusal:
    """Return the refusal of rows that contradict each other (rule 1)."""
    distinct = list(dict.fromkeys(keys))
    return Refusal(
        "CONFLICTING_ROWS",
        f"{len(distinct)} keys have rows that differ",
        count=len(distinct),
        samples=tuple(distinct[:_SAMPLES]),
    )


def shown_key(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())


def _operations(rows: list[Mapping[str, Any]], policy: HistoryPolicy) -> list[str]:
    """Return the operation of each row, exactly I, U or D (rule 6); rows of any other input are updates or flagged.

    Raise Refusal UNKNOWN_OP.
    """
    if policy.delete_flag is not None:
        flag = policy.delete_flag
        flagged = typed_columns(rows, (flag,), Columns({flag: DataType(data_types.BOOLEAN)}))
        return [REMOVE if row[flag] else UPDATE for row in flagged]
    if policy.input != CDC:
        return [UPDATE] * len(rows)
    assert policy.op is not None
    operations = [row.get(policy.op) for row in rows]
    bad = [operation for operation in operations if operation not in (INSERT, UPDATE, REMOVE)]
    if bad:
        samples = tuple(dict.fromkeys(map(repr, bad)))[:_SAMPLES]
        raise Refusal(
            "UNKNOWN_OP",
            f"{len(bad)} rows have an operation in {policy.op!r} that is not I, U or D",
            column=policy.op,
            count=len(bad),
            samples=samples,
        )
    return [str(operation) for operation in operations]


def _distinct(rows: list[Row], op: str | None) -> tuple[tuple[Row, ...], int]:
    """Return distinct rows in order of time, and the number of collapsed rows (rule 1).

    In a feed a D overrides an I or U of its time, even if I and U differ. Raise Refusal CONFLICTING_ROWS.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.key_text, row.time), []).append(row)
    unique, conflicts, collapsed = [], [], 0
    for group in groups.values():
        contents = {row.content(op) for row in group}
        deletes = [row for row in group if row.is_delete and op is not None]
        if not deletes and len(contents) > 1:
            conflicts.append(shown_key(group[0].key))
        collapsed += len(group) - len(contents)
        unique.append((deletes or group)[0])
    if conflicts:
        raise conflict(conflicts)
    return tuple(sorted(unique, key=lambda row: row.time)), collapsed
