"""Strict reader of objects with named fields, for YAML and JSON: metadata files, state files, history cases.

A ``Spec`` lists the fields of an object, each with the function that reads its value. Unknown and missing fields
and values of a wrong type are refused with their position: the first one, or inside ``collecting`` all of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from elevata.core.errors import MetadataError

Path = tuple[str | int, ...]


class BadField(MetadataError):
    """Error of a value in a JSON document. ``path`` is its position (``datasets[2].columns[0].type``)."""

    def __init__(self, path: Path, message: str, code: str = "wrong_value") -> None:
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        super().__init__(code, message, text.lstrip("."))
        self.path = path


@dataclass(frozen=True)
class Node:
    """Value in a file: in YAML a scalar, a list of nodes or a dict of names and nodes; in JSON a plain value.

    In YAML, ``where`` is its line and column, ``text`` a scalar as written, and ``key_where`` the position of the
    field's name. In JSON, ``path`` is its position, and nodes of children are created on demand. ``kept`` are fields of
    an object that a file without a place for them leaves as they are stored.
    """

    value: Any
    where: str = ""
    text: str = ""
    key_where: str = ""
    path: Path | None = None
    kept: frozenset[str] = frozenset()

    def children(self) -> dict[str, "Node"]:
        if self.path is None:
            children: dict[str, Node] = self.value
            return children
        return {name: Node(value, path=(*self.path, name)) for name, value in self.value.items()}

    def items(self) -> list["Node"]:
        if self.path is None:
            items: list[Node] = self.value
            return items
        return [Node(value, path=(*self.path, index)) for index, value in enumerate(self.value)]

    def plain(self) -> Any:
        """Return the value without positions."""
        if self.path is not None or not isinstance(self.value, dict | list):
            return self.value
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return {name: node.plain() for name, node in self.value.items()}

    def problem(self, code: str, message: str, name: str) -> MetadataError:
        if self.path is None:
            return MetadataError(code, message, name, place=self.key_where if code == "unknown_field" else self.where)
        return BadField((*self.path, name) if code == "missing_field" else self.path, message, code)


Reader = Callable[[Node, str], Any]
_COPIES: dict[type, Callable[[Any], Any]] = {tuple: list, dict: dict}  # by the type of a default


@dataclass
class Record:
    """Object of a file: a value for every field, with its line and column.

    ``refused`` are fields whose value could not be read, and that have none; ``is_incomplete`` is True if that
    holds for a field of the object or of an object in it. ``kept`` are fields that the file leaves as they are stored.
    """

    values: dict[str, Any]
    where: str
    places: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    is_incomplete: bool = False
    kept: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def picked(self, *names: str) -> dict[str, Any]:
        return {name: self.values[name] for name in names}

    def place_of(self, name: str) -> str:
        """Return the position of a field; of a nested field (``options.quote``) the nearest known one."""
        while name:
            if name in self.places:
                return self.places[name]
            name = name.rpartition(".")[0]
        return self.where


@dataclass(frozen=True)
class Field:
    """Field of an object: the function that reads its value, and its default."""

    read: Reader
    default: Any = None
    required: bool = False


Spec = Mapping[str, Field]

_collected: ContextVar[list[MetadataError] | None] = ContextVar("collected_errors", default=None)


@contextmanager
def collecting(errors: list[MetadataError] | None) -> Iterator[None]:
    """Add the errors of fields and of objects in lists to ``errors`` instead of raising the first; None raises it."""
    before = _collected.set(errors)
    try:
        yield
    finally:
        _collected.reset(before)


@contextmanager
def collected() -> Iterator[None]:
    """Inside ``collecting``, add an error of the block to the list; elsewhere let it pass."""
    try:
        yield
    except MetadataError as error:
        report(error)


def report(error: MetadataError) -> None:
    """Inside ``collecting``, add an error to the list; elsewhere raise it."""
    errors = _collected.get()
    if errors is None:
        raise error
    errors.append(error)


def read_record(node: Node, spec: Spec, name: str = "", named_by: tuple[str, ...] = ("name",)) -> Record:
    """Return the record that ``node`` describes; ``named_by`` are the fields whose values name it in errors.

    Raises MetadataError for an unknown or missing field and for a value of a wrong type.
    """
    if not isinstance(node.value, dict):
        raise node.problem("wrong_type", f"must be {_object(node)}, not {called(node)}", name)
    errors = _collected.get() or []
    record, known = Record({}, node.where, kept=node.kept), len(errors)
    for field_name, child in node.children().items():
        record.refused.add(field_name)
        with collected():
            _read_field(record, child, spec, field_name)
            record.refused.discard(field_name)
    for missing_name, definition in spec.items():
        if missing_name not in record.values:
            is_required = definition.required and missing_name not in node.kept
            # Beside an unknown field, a missing one is probably that one misspelled.
            if is_required and record.refused <= spec.keys() - {missing_name}:
                record.refused.add(missing_name)
                report(node.problem("missing_field", "is missing", missing_name))
            copy_default = _COPIES.get(type(definition.default))
            record.values[missing_name] = copy_default(definition.default) if copy_default else definition.default
    if errors := (_collected.get() or [])[known:]:
        record.is_incomplete = True
        own_name = [record.values[part] for part in named_by if isinstance(record.values.get(part), str)]
        for error in errors:
            error.where = ".".join([*own_name, *filter(None, [error.where])])
    return record


def _read_field(record: Record, node: Node, spec: Spec, name: str) -> None:
    """Add the value of a field to the record, with its position."""
    if name not in spec:
        raise node.problem("unknown_field", f"is not known here; known are {', '.join(spec)}", name)
    if node.where:
        record.places[name] = node.where
        if isinstance(node.value, dict):
            record.places |= {f"{name}.{inner}": item.where for inner, item in node.value.items()}
    record.values[name] = spec[name].read(node, name)


def called(node: Node) -> str:
    """Return the kind of a value in words, with its text if known."""
    kinds = {dict: _object(node), list: "a list", str: f"text ({node.value!r:.60})", bool: "true or false"}
    if node.value is None:
        return "null" if node.path is not None else "nothing (leave the field out instead)"
    if isinstance(node.value, (int, float)) or type(node.value) in kinds:
        text = f" ({node.text})" if node.text and not isinstance(node.value, str) else ""
        return f"{kinds.get(type(node.value), 'a number')}{text}"
    return f"a value like {node.text[:50]}"


def _object(node: Node) -> str:
    return "an object" if node.path is not None else "fields with values"


def text(node: Node, name: str) -> str:
    if not isinstance(node.value, str):
        hint = f"; put it in quotes: '{node.text}'" if node.text and node.value is not None else ""
        raise node.problem("wrong_type", f"must be text, not {called(node)}{hint}", name)
    return node.value


def flag(node: Node, name: str) -> bool:
    if not isinstance(node.value, bool):
        raise node.problem("wrong_type", f"must be true or false, not {called(node)}", name)
    return node.value


def number(node: Node, name: str) -> int:
    # YAML reads 010 and 1_000 as numbers, but as others than their users expect.
    if not isinstance(node.value, int) or not re.fullmatch(r"0|[1-9][0-9]{0,8}", node.text):
        raise node.problem("wrong_type", f"must be a whole number, not {called(node)}", name)
    return node.value


def words(node: Node, name: str) -> list[str]:
    return [text(item, name) for item in items(node, name)]


def uuid(node: Node, name: str) -> UUID:
    written = text(node, name)
    try:
        key = UUID(written)
    except ValueError:
        key = None
    if key is None or str(key) != written.lower():
        raise node.problem("wrong_type", f"must be a UUID, not {written!r}", name)
    return key


def moment(node: Node, name: str) -> datetime:
    try:
        when = datetime.fromisoformat(node.text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise node.problem("wrong_type", "must be a time with its zone, like 2026-01-31T12:00:00+00:00", name)
    return when


def choice(*known: str) -> Callable[[Node, str], str]:
    def read(node: Node, name: str) -> str:
        written = text(node, name)
        if written not in known:
            raise node.problem("wrong_value", f"must be one of {', '.join(known)}, not {written!r}", name)
        return written

    return read


def anything(node: Node, name: str) -> Any:
    """Return the value unchecked; its consumer checks it."""
    return node.plain()


def fields(node: Node, name: str) -> dict[str, Any]:
    """Return an object with any field names; its consumer checks them."""
    if not isinstance(node.value, dict):
        raise node.problem("wrong_type", f"must be {_object(node)}, not {called(node)}", name)
    values: dict[str, Any] = node.plain()
    return values


def text_pairs(node: Node, name: str) -> dict[str, str]:
    if not isinstance(node.value, dict) or not node.value:
        raise node.problem("wrong_type", f"must be names with values, not {called(node)}", name)
    return {key: text(child, f"{name}.{key}") for key, child in node.children().items()}


def record(spec: Spec, named_by: tuple[str, ...] = ("name",)) -> Reader:
    return lambda node, name: read_record(node, spec, name, named_by)


def records(spec: Spec, named_by: tuple[str, ...] = ("name",)) -> Reader:
    def read(node: Node, name: str) -> list[Record]:
        read_items: list[Record] = []
        for item in items(node, name):
            with collected():
                read_items.append(read_record(item, spec, name, named_by))
        return read_items

    return read


def list_of(read: Reader) -> Reader:
    return lambda node, name: [read(item, name) for item in items(node, name)]


def checked(convert: Callable[[Any], Any]) -> Reader:
    """Return a reader that converts a plain value; its ValueError becomes the field's error."""

    def read(node: Node, name: str) -> Any:
        try:
            return convert(node.plain())
        except ValueError as error:
            raise node.problem("wrong_value", str(error), name) from None

    return read


def items(node: Node, name: str) -> list[Node]:
    if not isinstance(node.value, list):
        raise node.problem("wrong_type", f"must be a list, not {called(node)}", name)
    return node.items()
