"""Sample of five rows that demonstrates a history policy with a dataset's own columns and types.

Equal columns result in equal rows: a new key, a change, an unchanged row, an absent or deleted key, and a late row if
the input permits one. The rows of a delivery depend on the input; their effect shows the rest of the policy
(``policy_outcome``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loader.domain.reference.batch_files import ACTIVE, DELETE, EARLIEST, END, UPDATE, UPSERT
from metadata.domain import types as data_types
from metadata.domain.history.history_policy import BATCH_FILES, CDC, HistoryPolicy
from metadata.domain.types import DataType

NEW, CHANGED, SAME, ASIDE, DELETED, LATE, REWIND = "new", "changed", "same", "aside", "deleted", "late", "rewind"
# Number of attributes in the sample; in update files, one changes and each marker has one.
ATTRIBUTES, OF_FILES = 2, 3
_NAME_UP_TO = 24


@dataclass(frozen=True)
class SampleRow:
    """Delivered row; ``kind`` names the case that it demonstrates, ``file`` its batch file."""

    number: int
    kind: str
    values: Mapping[str, Any]
    file: str = ""


@dataclass(frozen=True)
class SampleBatch:
    """Rows that are delivered together, and the time of their load (ISO 8601)."""

    run_id: str
    at: str
    rows: tuple[SampleRow, ...]

    def as_batch(self) -> dict[str, Any]:
        """Return the batch in the form of the reference engine."""
        batch: dict[str, Any] = {"run_id": self.run_id, "at": self.at}
        for row in self.rows:
            batch.setdefault(row.file or "rows", []).append(dict(row.values))
        return {"rows": [], **batch}


@dataclass(frozen=True)
class Sample:
    """Five rows in their batches.

    ``columns`` are displayed; ``types`` has the columns of the history. ``changing`` is the column whose value changes,
    ``aside`` one that the policy does not track; both are empty if there is none.
    """

    policy: HistoryPolicy
    keys: tuple[str, ...]
    types: Mapping[str, DataType]
    columns: tuple[str, ...]
    batches: tuple[SampleBatch, ...]
    changing: str = ""
    aside: str = ""

    @property
    def rows(self) -> tuple[SampleRow, ...]:
        return tuple(row for batch in self.batches for row in batch.rows)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Return the columns of a version besides its key, time and operation."""
        reserved = (*self.keys, self.policy.time, *self.policy.uncompared)
        return tuple(name for name in self.types if name not in reserved)


def make_sample(policy: HistoryPolicy, keys: Sequence[str], columns: Mapping[str, DataType]) -> Sample:
    """Return five rows for a policy and its columns, a mapping of name to type that includes the key."""
    return _Maker(policy, tuple(keys), columns).sample()


class _Maker:
    def __init__(self, policy: HistoryPolicy, keys: tuple[str, ...], columns: Mapping[str, DataType]) -> None:
        self.policy, self.keys, self._next = policy, keys, 1
        others = [name for name in columns if name not in (*keys, *policy.uncompared)]
        tracked = [name for name in others if policy.track is None or name in policy.track]
        self.aside = next((name for name in others if name not in tracked), "")
        # Booleans come last, because a change and a late row need three values.
        self.changing = next(iter(sorted(tracked, key=lambda name: columns[name].name == data_types.BOOLEAN)), "")
        shown = [name for name in (self.changing, self.aside) if name]
        room = (OF_FILES if policy.input == BATCH_FILES else ATTRIBUTES) - len(shown)
        shown += [name for name in others if name not in shown][:room]
        self.attributes = tuple(name for name in others if name in shown)
        dated = tuple(name for name in policy.uncompared if name in columns and name not in keys)
        self.types = {name: columns[name] for name in (*keys, *self.attributes, *dated)}

    def sample(self) -> Sample:
        make = {BATCH_FILES: self._file_batches, CDC: self._feed_batches}.get(self.policy.input, self._delivery_batches)
        batches = tuple(make())
        used = {name for batch in batches for row in batch.rows for name in row.values}
        order = (
            *self.keys,
            self.policy.time_column,
            END,
            ACTIVE,
            self.policy.op,
            self.policy.delete_flag,
            *self.attributes,
        )
        columns = tuple(dict.fromkeys(name for name in order if name in used))
        return Sample(self.policy, self.keys, self.types, columns, batches, self.changing, self.aside)

    # --- the rows of each kind of input ---------------------------------------------------------

    def _delivery_batches(self) -> Iterable[SampleBatch]:
        """Yield deliveries of two keys; the second is absent from the last delivery."""
        quiet = ASIDE if self.aside else SAME
        yield self._batch(1, 1, (NEW, self._row(1, 1, day=1)), (NEW, self._row(2, 1, day=1)))
        yield self._batch(2, 3, (self._change, self._row(1, 2, day=3)), (quiet, self._row(2, 1, 2, day=3)))
        last = (LATE, self._row(1, 3, day=2)) if self.policy.time_column else (SAME, self._row(1, 2))
        yield self._batch(3, 5, last)
        if self.policy.delete_flag is not None:
            yield self._batch(4, 6, (DELETED, {**self._row(2, 1, 2, day=6), self.policy.delete_flag: True}))

    def _feed_batches(self) -> Iterable[SampleBatch]:
        """Yield a feed of one key from its insert to its delete, and then a late update."""
        quiet = ASIDE if self.aside else SAME
        yield self._batch(1, 1, (NEW, self._row(1, 1, day=1, op="I")))
        yield self._batch(2, 3, (self._change, self._row(1, 2, day=3, op="U")))
        yield self._batch(3, 4, (quiet, self._row(1, 2, 2, day=4, op="U")))
        deleted = {**self._row(1, 0, day=5, op="D"), **dict.fromkeys(self.attributes)}
        yield self._batch(4, 5, (DELETED, deleted))
        yield self._batch(5, 6, (LATE, self._row(1, 3, day=2, op="U")))

    def _file_batches(self) -> Iterable[SampleBatch]:
        """Yield a version; a rewind of the key to a later start, with an update; a version in between; a delete."""
        key = {name: _value(self.types[name], 1, name) for name in self.keys}
        start = self.policy.time
        yield self._file_batch(1, 1, (NEW, UPSERT, self._row(1, 1, day=1)))
        rewind = (REWIND, EARLIEST, {**key, start: _at(3)})
        yield self._file_batch(2, 3, rewind, (self._change, UPDATE, self._update()))
        before = {**self._row(1, 3, day=2), END: "2026-01-03T07:59:59.999Z", ACTIVE: False}
        yield self._file_batch(3, 4, (LATE, UPSERT, before))
        yield self._file_batch(4, 5, (DELETED, DELETE, {**key, END: _at(5)}))

    def _update(self) -> dict[str, Any]:
        """Return the change as a row of an update file, with the defined markers in other attributes."""
        row, mark, null = self._row(1, 2, day=3), self.policy.unmodified_string, self.policy.null_string
        others = [name for name in self.attributes if name != self.changing]
        for place, name in enumerate(others):
            if null and place == 0:
                row[name] = null
            elif mark:
                row[name] = mark
        return row

    @property
    def _change(self) -> str:
        return CHANGED if self.changing else SAME

    def _row(self, key: int, value: int, aside: int = 1, *, day: int = 1, op: str = "") -> dict[str, Any]:
        """Return key, time, operation and attributes of a row.

        ``value`` and ``aside`` number the values of the changing and the untracked attribute.
        """
        row: dict[str, Any] = {name: _value(self.types[name], key, name) for name in self.keys}
        dated = self.policy.time_column
        if dated is not None:
            row[dated] = _at(day, self.types.get(dated))
        if self.policy.op and op:
            row[self.policy.op] = op
        if self.policy.delete_flag is not None:
            row[self.policy.delete_flag] = False
        for name in self.attributes:
            which = value if name == self.changing else aside if name == self.aside else key
            row[name] = _value(self.types[name], which + (0 if key == 1 else 3), name)
        return row

    def _batch(self, number: int, day: int, *rows: tuple[str, dict[str, Any]]) -> SampleBatch:
        return self._file_batch(number, day, *((kind, "", values) for kind, values in rows))

    def _file_batch(self, number: int, day: int, *rows: tuple[str, str, dict[str, Any]]) -> SampleBatch:
        first = self._next
        self._next += len(rows)
        sample_rows = tuple(
            SampleRow(first + place, kind, values, file) for place, (kind, file, values) in enumerate(rows)
        )
        return SampleBatch(f"delivery {number}", f"2026-01-{day:02d}T20:00:00Z", sample_rows)


def _at(day: int, type_: DataType | None = None) -> Any:
    """Return the start of a row: eight o'clock of a day, or the corresponding value of this type."""
    name = type_.name if type_ else data_types.TIMESTAMP
    if name in (data_types.INTEGER, data_types.BIGINT):
        return day * 10
    return f"2026-01-{day:02d}" if name == data_types.DATE else f"2026-01-{day:02d}T08:00:00Z"


def _value(type_: DataType, which: int, name: str) -> Any:
    """Return the sample value with number ``which`` (from 1), as in a delivery. Only booleans repeat."""
    match type_.name:
        case data_types.STRING:
            return _text(type_.length, which, name)
        case data_types.INTEGER | data_types.BIGINT:
            return which
        case data_types.DECIMAL:
            return _decimal(type_, which)
        case data_types.FLOAT:
            return which + 0.5
        case data_types.BOOLEAN:
            return which % 2 == 1
        case data_types.DATE | data_types.TIMESTAMP:
            return _at(10 + which, type_)
        case data_types.TIME:
            return f"{7 + which:02d}:30"
        case data_types.BINARY:
            return f"{which:02x}"
        case data_types.UUID:
            return f"00000000-0000-4000-8000-{which:012d}"
    return f'{{"n": {which}}}'


def _text(length: int | None, which: int, name: str) -> str:
    spelled = f"{name if len(name) <= _NAME_UP_TO else 'text'} {which}"
    return spelled if length is None or len(spelled) <= length else "ABCDEFGH"[which - 1]


def _decimal(type_: DataType, which: int) -> str:
    """Return the number as a decimal, or as a fraction if the type has no digits before the point."""
    assert type_.precision is not None
    scale = type_.scale or 0
    if type_.precision > scale:
        return f"{which}.{'5'.ljust(scale, '0')}" if scale else str(which)
    return f"0.{str(which).ljust(scale, '0')}"
