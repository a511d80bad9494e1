"""Increment of a model: the rows of its table that a load computes anew.

Without one, a load computes all rows. With one, it does so only if the SELECT has changed since the last load, or by
hand (``--full``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from elevata.core.errors import MetadataError
from metadata.domain.types import DATE, TIMESTAMP, DataType

KEY, WINDOW, CHANGED_KEYS = "key", "window", "changed_keys"
KINDS = {
    KEY: "Rows of new keys are added, rows with other values replaced; rows of absent keys stay",
    WINDOW: "Rows of the last days are replaced",
    CHANGED_KEYS: "Rows of the keys that changed in one input are replaced",
}
_FIELDS_OF = {KEY: (), WINDOW: ("column", "days"), CHANGED_KEYS: ("input", "columns")}


class IncrementProblem(MetadataError):
    """Error for an increment that is invalid, or that does not fit the model."""

    def __init__(self, field_: str, message: str) -> None:
        super().__init__("bad_increment", message, f"increment.{field_}" if field_ else "increment")


@dataclass(frozen=True)
class Increment:
    """Choices for the rows that a load computes anew.

    Attributes:
        by: key, window or changed_keys; empty computes all rows.
        column: date or timestamp column of the model, for a window.
        days: length of the window before the load.
        input: qualified name of the input whose changed keys are computed anew.
        columns: columns of the input with the key, by name, and the model's columns with the same values.
    """

    by: str = ""
    column: str = ""
    days: int = 0
    input: str = ""
    columns: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def from_dict(cls, described: Any) -> "Increment":
        """Return the increment with these fields. Raise IncrementProblem for an unknown field or an invalid value."""
        if not isinstance(described, Mapping):
            raise IncrementProblem("", f"must be fields with values, not {described!r}")
        if not described:
            return cls()
        by = described.get("by")
        if by not in KINDS:
            raise IncrementProblem("by", f"must be one of {', '.join(KINDS)}, not {by!r}")
        needed = _FIELDS_OF[by]
        for name in described:
            if name not in ("by", *needed):
                message = f"does not go with by {by}, which takes {' and '.join(needed) or 'no other field'}"
                raise IncrementProblem(str(name), message)
        for name in needed:
            if name not in described:
                raise IncrementProblem(name, f"is needed with by {by}")
        return cls(by, **{name: _READERS[name](described[name]) for name in needed})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        given = {item.name: getattr(self, item.name) for item in fields(self) if getattr(self, item.name)}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()}

    def start(self, at: datetime, last: datetime | None = None) -> datetime:
        """Return the begin of the window of a load at this time: midnight UTC, ``days`` before the load's day.

        It is that of the last load if this is earlier, so that no day is left out after a pause.
        """
        earliest = at if last is None else min(at, last)
        return earliest.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=self.days)

    def renamed(self, names: Mapping[str, str]) -> "Increment":
        """Return the increment after columns of the model were renamed (old name to new)."""
        columns = {name: names.get(own, own) for name, own in self.columns.items()}
        return Increment(self.by, names.get(self.column, self.column), self.days, self.input, columns)

    def check_against(
        self,
        columns: Mapping[str, DataType],
        key: tuple[str, ...],
        reads: Mapping[str, Mapping[str, DataType]],
    ) -> None:
        """Raise IncrementProblem unless a model with these columns, key and inputs can be computed so.

        Args:
            columns: types of the model's columns by name.
            key: columns of the declared business key.
            reads: types of the inputs' columns by name, by the input's qualified name.
        """
        if self.by == KEY and not key:
            raise IncrementProblem("by", "needs a business key: mark the model's key columns")
        if self.by == WINDOW:
            self._check_window(columns)
        if self.by == CHANGED_KEYS:
            self._check_changed_keys(columns, reads)

    def _check_window(self, columns: Mapping[str, DataType]) -> None:
        type_ = columns.get(self.column)
        if type_ is None:
            raise IncrementProblem("column", f"the model has no column {self.column!r}")
        if type_.name not in (DATE, TIMESTAMP):
            raise IncrementProblem("column", f"{self.column} is {type_}; it must be a date or a timestamp")

    def _check_changed_keys(self, columns: Mapping[str, DataType], reads: Mapping[str, Mapping[str, DataType]]) -> None:
        if self.input not in reads:
            raise IncrementProblem("input", f"the model does not read {self.input}; it reads {', '.join(reads)}")
        for name, own in self.columns.items():
            delivered, type_ = reads[self.input].get(name), columns.get(own)
            if delivered is None:
                raise IncrementProblem("columns", f"{self.input} has no column {name!r}")
            if type_ is None:
                raise IncrementProblem("columns", f"the model has no column {own!r}")
            if delivered != type_:
                message = f"{name} is {delivered} in {self.input}, and {own} is {type_} in the model"
                raise IncrementProblem("columns", message)


def _name(field_: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise IncrementProblem(field_, f"must be a name, not {value!r}")
        return value.strip()

    return read


def _days(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 100_000:
        raise IncrementProblem("days", f"must be a whole number from 1, not {value!r}")
    return value


def _columns(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not value:
        raise IncrementProblem("columns", f"must be columns of the input with columns of the model, not {value!r}")
    if not all(isinstance(part, str) and part for pair in value.items() for part in pair):
        raise IncrementProblem("columns", "must be names")
    return dict(value)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "column": _name("column"),
    "days": _days,
    "input": _name("input"),
    "columns": _columns,
}
