"""Fields of metadata files, and strict parsing of their values.

The input is a tree of ``Node`` objects with positions; parsing YAML into it is done elsewhere. Field names
follow the models, except ``business_key`` (position in the business key) for ``key_ordinal``. An omitted
field gets its default.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from elevata.core.errors import MetadataError
from metadata.domain.sensitivity import LEVELS
from metadata.domain.types import DataType, parse

FORMAT = "metadata/v1"


@dataclass(frozen=True)
class Node:
    """Value in a file: a scalar, a list of nodes, or a dict of names to nodes.

    ``text`` is a scalar as it was written; ``key_where`` is the position of the field's name.
    """

    value: Any
    where: str
    text: str = ""
    key_where: str = ""

    def plain(self) -> Any:
        """Return the value without positions."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


@dataclass
class Record:
    """Object of a file: a value for every field, with its line and column."""

    values: dict[str, Any]
    where: str
    places: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def picked(self, *names: str) -> dict[str, Any]:
        return {name: self.values[name] for name in names}

    def place_of(self, name: str) -> str:
        """Return the position of a field; of a nested one (``options.quote``) the nearest known position."""
        while name:
            if name in self.places:
                return self.places[name]
            name = name.rpartition(".")[0]
        return self.where


@dataclass(frozen=True)
class Field:
    """Field of an object: the function that reads its value, and its default."""

    read: Callable[[Node, str], Any]
    default: Any = None
    required: bool = False


Spec = Mapping[str, Field]


def problem(code: str, message: str, name: str, where: str) -> MetadataError:
    return MetadataError(code, message, name, place=where)


def read_record(node: Node, spec: Spec, name: str) -> Record:
    """Return the record that ``node`` describes.

    Raises MetadataError for an unknown or missing field and for a value of a wrong type.
    """
    if not isinstance(node.value, dict):
        raise problem("wrong_type", f"must be fields with values, not {_called(node)}", name, node.where)
    record = Record({}, node.where)
    for given, child in node.value.items():
        if given not in spec:
            raise problem("unknown_field", f"is not known here; known are {', '.join(spec)}", given, child.key_where)
        record.places[given] = child.where
        if isinstance(child.value, dict):
            record.places |= {f"{given}.{inner}": item.where for inner, item in child.value.items()}
        record.values[given] = spec[given].read(child, given)
    for expected, described in spec.items():
        if expected not in record.values:
            if described.required:
                raise problem("missing_field", "is missing", expected, node.where)
            default = described.default
            record.values[expected] = list(default) if isinstance(default, tuple) else default
            if isinstance(default, dict):
                record.values[expected] = dict(default)
    return record


def without_defaults(values: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """Return the fields that differ from their default or are required, in the order of the spec."""
    described = {}
    for name, known in spec.items():
        default = list(known.default) if isinstance(known.default, tuple) else known.default
        if name in values and (known.required or values[name] != default):
            described[name] = values[name]
    return described


# --- how values are read ---------------------------------------------------------------------


def text(node: Node, name: str) -> str:
    if not isinstance(node.value, str):
        hint = f"; put it in quotes: '{node.text}'" if node.text and node.value is not None else ""
        raise problem("wrong_type", f"must be text, not {_called(node)}{hint}", name, node.where)
    return node.value


def flag(node: Node, name: str) -> bool:
    if not isinstance(node.value, bool):
        raise problem("wrong_type", f"must be true or false, not {_called(node)}", name, node.where)
    return node.value


def number(node: Node, name: str) -> int:
    # 010 and 1_000 are numbers to YAML, but not the ones people think of.
    if not isinstance(node.value, int) or not re.fullmatch(r"0|[1-9][0-9]{0,8}", node.text):
        raise problem("wrong_type", f"must be a whole number, not {_called(node)}", name, node.where)
    return node.value


def words(node: Node, name: str) -> list[str]:
    return [text(item, name) for item in _items(node, name)]


def uuid(node: Node, name: str) -> UUID:
    written = text(node, name)
    try:
        key = UUID(written)
    except ValueError:
        key = None
    if key is None or str(key) != written.lower():
        raise problem("wrong_type", f"must be a UUID, not {written!r}", name, node.where)
    return key


def moment(node: Node, name: str) -> datetime:
    try:
        when = datetime.fromisoformat(node.text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise problem("wrong_type", "must be a time with its zone, like 2026-01-31T12:00:00+00:00", name, node.where)
    return when


def data_type(node: Node, name: str) -> DataType:
    written = text(node, name)
    try:
        return parse(written)
    except MetadataError as refused:
        raise refused.about(place=node.where) from None


def choice(*known: str) -> Callable[[Node, str], str]:
    def read(node: Node, name: str) -> str:
        written = text(node, name)
        if written not in known:
            raise problem("wrong_value", f"must be one of {', '.join(known)}, not {written!r}", name, node.where)
        return written

    return read


def fields(node: Node, name: str) -> dict[str, Any]:
    """Return a mapping with any field names; its consumer checks them."""
    if not isinstance(node.value, dict):
        raise problem("wrong_type", f"must be fields with values, not {_called(node)}", name, node.where)
    return node.plain()


def text_pairs(node: Node, name: str) -> dict[str, str]:
    if not isinstance(node.value, dict) or not node.value:
        raise problem("wrong_type", f"must be names with values, not {_called(node)}", name, node.where)
    return {key: text(child, f"{name}.{key}") for key, child in node.value.items()}


def record(spec: Spec) -> Callable[[Node, str], Record]:
    return lambda node, name: read_record(node, spec, name)


def records(spec: Spec) -> Callable[[Node, str], list[Record]]:
    return lambda node, name: [read_record(item, spec, name) for item in _items(node, name)]


def inputs(spec: Spec) -> Callable[[Node, str], list[Record]]:
    """Return a reader of column inputs; a plain text names a column of the dataset's only input."""

    def read(node: Node, name: str) -> list[Record]:
        return [
            Record({"source": None, "dataset": None, "column": item.value}, item.where)
            if isinstance(item.value, str)
            else read_record(item, spec, name)
            for item in _items(node, name)
        ]

    return read


def _items(node: Node, name: str) -> list[Node]:
    if not isinstance(node.value, list):
        raise problem("wrong_type", f"must be a list, not {_called(node)}", name, node.where)
    return node.value


def _called(node: Node) -> str:
    if node.value is None:
        return "nothing (leave the field out instead)"
    if isinstance(node.value, bool):
        return f"true or false ({node.text})"
    if isinstance(node.value, int | float):
        return f"a number ({node.text})"
    if isinstance(node.value, str):
        return f"text ({node.value[:50]!r})"
    if isinstance(node.value, list):
        return "a list"
    return "fields with values" if isinstance(node.value, dict) else f"a value like {node.text[:50]}"


# --- the objects -----------------------------------------------------------------------------

_DESCRIBED = {"description": Field(text, ""), "owner": Field(text, ""), "tags": Field(words, ())}
_RETIRED = {"retired_at": Field(moment), "retired_by": Field(choice("generation", "person"), "")}

SOURCE_COLUMN: Spec = {
    "name": Field(text, required=True),
    "key": Field(uuid),
    "type": Field(data_type, required=True),
    "target_name": Field(text, ""),
    "business_key": Field(number),
    "nullable": Field(flag, True),
    "integrate": Field(flag, True),
    "pii": Field(flag, False),
    "sensitivity": Field(choice(*LEVELS), ""),
    "active": Field(flag, True),
    **_DESCRIBED,
}
SOURCE_DATASET: Spec = {
    "name": Field(text, required=True),
    "key": Field(uuid),
    "short_name": Field(text),
    **_DESCRIBED,
    "location": Field(text, required=True),
    "format": Field(choice("csv", "jsonl", "parquet", "table"), "csv"),
    "options": Field(fields, {}),
    "historize": Field(flag, True),
    "history_policy": Field(fields, {}),
    "active": Field(flag, True),
    "generate": Field(flag),
    "columns": Field(records(SOURCE_COLUMN), ()),
}
SYSTEM: Spec = {
    "short_name": Field(text, required=True),
    "name": Field(text, required=True),
    **_DESCRIBED,
    "kind": Field(choice("files", "jdbc"), "files"),
    "location": Field(text, ""),
    "secret": Field(text, ""),
    "active": Field(flag, True),
    "datasets": Field(records(SOURCE_DATASET), ()),
}
SCHEMA: Spec = {
    "name": Field(text, required=True),
    "layer": Field(choice("raw", "stage", "rawcore", "bizcore", "serving"), required=True),
    "ordinal": Field(number, 0),
    **_DESCRIBED,
}
COLUMN_INPUT: Spec = {
    "source": Field(text),
    "dataset": Field(text),
    "column": Field(text, required=True),
}
DATASET_INPUT: Spec = {"source": Field(text), "dataset": Field(text)}
TARGET_COLUMN: Spec = {
    "name": Field(text, required=True),
    "key": Field(uuid),
    "former_names": Field(words, ()),
    "type": Field(data_type, required=True),
    "business_key": Field(number),
    "role": Field(choice("attribute", "technical"), "attribute"),
    "nullable": Field(flag, True),
    "pii": Field(flag, False),
    "sensitivity": Field(choice(*LEVELS), ""),
    **_DESCRIBED,
    "expression": Field(text, ""),
    "inputs": Field(inputs(COLUMN_INPUT), ()),
    **_RETIRED,
}
HISTORY: Spec = {"key": Field(uuid), "former_names": Field(words, ()), **_DESCRIBED, **_RETIRED}
OWN_REFERENCE: Spec = {
    "parent": Field(text, required=True),
    "role_name": Field(text, ""),
    "key": Field(uuid),
    "columns": Field(text_pairs, required=True),
    "active": Field(flag, True),
}
REFERENCE: Spec = {"child": Field(text, required=True), **OWN_REFERENCE}
TARGET: Spec = {
    "schema": Field(text, required=True),
    "name": Field(text, required=True),
    "key": Field(uuid),
    "former_names": Field(words, ()),
    **_DESCRIBED,
    "sensitivity": Field(choice(*LEVELS), ""),
    "generated_from": Field(text),
    "materialization": Field(choice("table", "view"), "table"),
    "historize": Field(flag, False),
    "history_policy": Field(fields, {}),
    "history": Field(record(HISTORY)),
    "hash_version": Field(number, 1),
    "filter": Field(text, ""),
    "inputs": Field(records(DATASET_INPUT), ()),
    "columns": Field(records(TARGET_COLUMN), ()),
    "references": Field(records(OWN_REFERENCE), ()),
    **_RETIRED,
}
FILE: Spec = {
    "format": Field(choice(FORMAT), required=True),
    "system": Field(record(SYSTEM)),
    "schemas": Field(records(SCHEMA), ()),
    "dataset": Field(record(TARGET)),
    "references": Field(records(REFERENCE), ()),
}


def read_file(node: Node) -> Record:
    """Return the record of one file.

    The format is checked first, so that a file of an unknown version is refused as such.
    """
    if isinstance(node.value, dict) and "format" in node.value:
        FILE["format"].read(node.value["format"], "format")
    return read_record(node, FILE, "file")
