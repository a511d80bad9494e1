"""Values of one record as text: nested values as JSON, or the part at a path.

A column ``a.b`` that no record has under this name is the value ``b`` of the object ``a``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.contract.refusals import Refusal

Value = str | None
_ABSENT = object()


class Number(str):
    """Number of a JSON text in its literal notation."""

    __slots__ = ()


@dataclass(frozen=True)
class Record:
    """Values of one record by column. ``number`` is its position in the file, in the unit of the format.

    ``faults`` has the refusal of each value that cannot be read, by column; ``texts`` and ``objects`` are columns whose
    values have these kinds, in a format that does not distinguish them by its notation (XML). ``note`` is a warning
    about the file, with its first record.
    """

    number: int
    values: Mapping[str, Value]
    faults: Mapping[str, Refusal] = field(default_factory=dict)
    texts: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    note: str = ""

    def check(self, wanted: Sequence[str], ignored: frozenset[str]) -> None:
        """Raise the refusal of a value that cannot be read in a column that is wanted; all are if none is named."""
        for name, refusal in self.faults.items():
            if name not in ignored and (not wanted or name in wanted):
                raise refusal


def values_of(
    record: Mapping[str, Any], wanted: Sequence[str], place: "Place", text_name: str = ""
) -> dict[str, Value]:
    """Return the values of a record by column, without objects of which only paths are wanted.

    With ``text_name`` a text is an object that has only this name (XML).

    Raise Refusal NO_SUCH_PATH for a path that does not lead into an object.
    """
    values = {name: text_of(value) for name, value in record.items()}
    parents = set()
    for name in wanted:
        if name not in record and "." in name:
            value = _value_at(record, name, place, text_name)
            parents.add(name.partition(".")[0])
            if value is not _ABSENT:
                values[name] = text_of(value)
    for parent in parents.difference(wanted):
        values.pop(parent, None)
    return values


@dataclass(frozen=True)
class Place:
    """Place of a record in messages: the file, the record's number, and what the number counts."""

    file: str
    number: int
    word: str = "record"

    def refusal(self, code: str, message: str, hint: str, *, column: str = "", sample: str = "") -> Refusal:
        samples = (sample[:80],) if sample else ()
        text = f"{self.file}, {self.word} {self.number}: {message}"
        return Refusal(code, text, file=self.file, row=self.number, column=column, samples=samples, hint=hint)


def _value_at(record: Mapping[str, Any], path: str, place: Place, text_name: str) -> Any:
    value: Any = record
    for name in path.split("."):
        if value is None:
            return None
        if text_name and isinstance(value, str):
            value = {text_name: value}
        if not isinstance(value, Mapping):
            message = f"{path} leads into {'a list' if isinstance(value, list) else 'a value'}, not into an object"
            hint = "A column with a path reads objects. Take the list or the value as a column of its own."
            raise place.refusal("NO_SUCH_PATH", message, hint, column=path, sample=text_of(value) or "")
        if name not in value:
            return _ABSENT
        value = value[name]
    return value


def text_of(value: Any) -> Value:
    """Return a value as text: text unchanged, numbers in their literal notation, anything else as JSON."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    return "".join(_json(value))


def _json(value: Any) -> Iterator[str]:
    match value:
        case Number():
            yield str(value)
        case Mapping():
            yield "{"
            for place, (name, inner) in enumerate(value.items()):
                yield f"{',' if place else ''}{json.dumps(name, ensure_ascii=False)}:"
                yield from _json(inner)
            yield "}"
        case list():
            yield "["
            for place, inner in enumerate(value):
                yield "," if place else ""
                yield from _json(inner)
            yield "]"
        case _:
            yield json.dumps(value, ensure_ascii=False)


def local_name(name: str) -> str:
    """Return a name of XML without its prefix."""
    return name.rpartition(":")[2]
