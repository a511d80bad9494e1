"""Faults of the rows of a file, found before a load: values that do not fit, missing values, keys whose rows differ.

The rules are those of the load (``loader.engine.sources.checks``), over rows that are in memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.reference.values import DoesNotFit, canonical, typed
from loader.domain.sources.contract_comparison import KnownColumn
from loader.domain.sources.marks import NULL_WATERMARK
from loader.domain.sources.sampling import Value, holds, standard_values
from loader.domain.sources.schema_changes import VALUE_DOES_NOT_FIT
from metadata.domain.sources.formats import JSONL
from metadata.domain.sources.option_kinds import LATEST, names_of
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.types import DataType, stored_type

NULL_KEY, NULL_VALUE, CONFLICTING_ROWS = "NULL_KEY", "NULL_VALUE", "CONFLICTING_ROWS"
# Faults of single rows, which a source can quarantine. A line of JSON lines is a row; of other formats these codes are
# faults of the whole file.
_OF_ROWS = frozenset(
    {"RAGGED_ROW", "REPEATED_HEADER", VALUE_DOES_NOT_FIT, NULL_KEY, NULL_VALUE, NULL_WATERMARK, CONFLICTING_ROWS}
)
_OF_LINES = frozenset({"BAD_JSON", "WRONG_ENCODING", "DUPLICATE_COLUMN"})


def is_fault_of_rows(code: str, format_name: str) -> bool:
    """Return True for a fault that a source with quarantine keeps aside, so that a load reads the other rows."""
    return code in _OF_ROWS or (format_name == JSONL and code in _OF_LINES)


@dataclass(frozen=True)
class DeliveredRows:
    """Rows of a file: the columns of the contract that it has, with their values as text, row by row.

    ``types`` are those that the file declares; its texts are in no format then. ``one_row_per_key`` is False for dated
    rows, of which a key has several. ``watermark`` are the columns of which a row needs one value.
    """

    file: str
    columns: tuple[KnownColumn, ...]
    values: Mapping[str, Sequence[Value]]
    options: Mapping[str, Any]
    types: Mapping[str, DataType] = field(default_factory=dict)
    one_row_per_key: bool = True
    watermark: tuple[str, ...] = ()

    def refusal(self) -> Refusal | None:
        """Return the refusal of the first class of faults, with all of them; None if there are none."""
        texts = {column.name: self._standard(column) for column in self.columns}
        faults = [fault for column in self.columns if (fault := self._misfit(column, texts[column.name]))]
        faults += self._missing()
        if not faults and (conflict := self._conflict(texts)):
            faults.append(conflict)
        if not faults:
            return None
        first = faults[0]
        more = f"; besides: {', '.join(fault.message for fault in faults[1:])}" if len(faults) > 1 else ""
        return Refusal(
            first.code,
            f"{self.file}: {first.message}{more}",
            file=self.file,
            row=first.row,
            column=first.column,
            count=first.count,
            hint=first.hint,
            faults=tuple(faults),
        )

    @property
    def _key(self) -> list[KnownColumn]:
        return [column for column in self.columns if column.key_ordinal is not None]

    def _standard(self, column: KnownColumn) -> list[Value]:
        """Return the values as standard text; one that is not in its declared format does not fit."""
        values = list(self.values[column.name])
        formats = ValueFormats() if self.types else ValueFormats.of(self.options)
        present = [value for value in values if value is not None]
        standard = iter(standard_values(present, column.type.name, formats))
        return [None if value is None else _unread(value, next(standard)) for value in values]

    def _misfit(self, column: KnownColumn, texts: Sequence[Value]) -> Refusal | None:
        if column.name in self.types and stored_type(column.type) == stored_type(self.types[column.name]):
            return None
        wrong = [
            place
            for place, text in enumerate(texts)
            if text is not None and (isinstance(text, _Unread) or not holds(column.type, text))
        ]
        if not wrong:
            return None
        return Refusal(
            VALUE_DOES_NOT_FIT,
            f"{counted(len(wrong), 'value')} in {column.name} not fitting {column.type}, first in record "
            f"{wrong[0] + 1}",
            row=wrong[0] + 1,
            column=column.name,
            count=len(wrong),
            hint="Correct the file, or change the column's type.",
        )

    def _missing(self) -> list[Refusal]:
        rows = len(next(iter(self.values.values()), ()))
        names = [column.name for column in self._key]
        absent = [place for place in range(rows) if any(self.values[name][place] is None for name in names)]
        faults = []
        if absent:
            hint = "Every row needs a value in every column of its business key."
            text = f"without a value in the business key ({', '.join(names)})"
            faults.append(_missing_value(NULL_KEY, absent, names[0], text, hint))
        for column in self.columns:
            absent = [place for place, value in enumerate(self.values[column.name]) if value is None]
            if absent and not column.nullable and column.key_ordinal is None:
                hint = "Deliver a value, or let the contract allow NULL."
                text = f"without a value in {column.name}, which may not be NULL"
                faults.append(_missing_value(NULL_VALUE, absent, column.name, text, hint))
        absent = [place for place in range(rows) if all(self.values[name][place] is None for name in self.watermark)]
        if self.watermark and absent:
            text = f"without a value in the watermark ({', '.join(self.watermark)})"
            faults.append(_missing_value(NULL_WATERMARK, absent, self.watermark[0], text, "Fill it in every row."))
        return faults

    def _conflict(self, texts: Mapping[str, Sequence[Value]]) -> Refusal | None:
        """Return the refusal of keys with rows that differ, of which the options do not choose one."""
        names = [column.name for column in self._key]
        if not names or not self.one_row_per_key:
            return None
        types = {column.name: column.type for column in self.columns}
        rows = [
            {name: _value(text, types[name]) for name, text in zip(texts, values, strict=True)}
            for values in zip(*texts.values(), strict=True)
        ]
        by_key: dict[tuple[Any, ...], list[int]] = {}
        for place, row in enumerate(rows):
            by_key.setdefault(tuple(canonical(row[name]) for name in names), []).append(place)
        differing = [places for places in by_key.values() if self._differ([rows[place] for place in places])]
        if not differing:
            return None
        first = differing[0]
        return Refusal(
            CONFLICTING_ROWS,
            f"{counted(len(differing), 'key')} with rows that differ, first in the records {first[0] + 1} and "
            f"{first[1] + 1}",
            row=first[1] + 1,
            column=names[0],
            count=len(differing),
            hint="Deliver one row per key, or let the option deduplicate choose one of them.",
        )

    def _differ(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        if len(rows) < 2:
            return False
        order = [name for name in names_of(self.options.get("order_by")) if name in self.values]
        if "deduplicate" in self.options and order:
            latest = self.options["deduplicate"] == LATEST
            ranks = [tuple(_rank(row[name], latest=latest) for name in order) for row in rows]
            best = max(ranks) if latest else min(ranks)
            rows = [row for row, rank in zip(rows, ranks, strict=True) if rank == best]
        return len({tuple(map(canonical, row.values())) for row in rows}) > 1


class _Unread(str):
    """Text that is not in the format that the source declares for its type."""


def _unread(value: str, standard: Value) -> str:
    return _Unread(value) if standard is None else standard


def _value(text: Value, type_: DataType) -> Any:
    """Return a typed value; of a type that has no such text in files with types, the text."""
    try:
        return typed(text, type_)
    except DoesNotFit:
        return text


def _missing_value(code: str, places: Sequence[int], column: str, text: str, hint: str) -> Refusal:
    message = f"{counted(len(places), 'row')} {text}, first in record {places[0] + 1}"
    return Refusal(code, message, row=places[0] + 1, column=column, count=len(places), hint=hint)


def _rank(value: Any, *, latest: bool) -> tuple[bool, Any]:
    """Return a value by which rows are ordered; NULL comes last, whatever the direction."""
    return (value is not None) if latest else (value is None), 0 if value is None else value
