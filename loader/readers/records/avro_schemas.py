"""Schemas of Avro files: the columns of a file, and what Spark's reader does not read as it is meant.

Spark reads times of day, timestamps of nanoseconds and decimals of more than 38 digits as the numbers or bytes that
store them, once their logical types are taken out of the schema; ``loader.engine.sources.formats.avro_files`` converts
them. The pages that show samples read the same types.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loader.contract.refusals import Refusal
from loader.readers.records.headers import check_typed_names, repeated_fields

TIME_MILLIS, TIME_MICROS = "time-millis", "time-micros"
TIMESTAMP_NANOS, LOCAL_NANOS = "timestamp-nanos", "local-timestamp-nanos"
# Logical types that Spark does not know, by the type that stores them.
CONVERTED = {TIME_MILLIS: "int", TIME_MICROS: "long", TIMESTAMP_NANOS: "long", LOCAL_NANOS: "long"}
_PRECISION = 38
# Unions that Spark widens to one type.
_WIDENED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_COMPLEX = ("record", "enum", "fixed", "array", "map")
_NAMED = ("record", "enum", "fixed")


@dataclass(frozen=True)
class AvroSchema:
    """Schema of a file: its fields, and the definitions of its named types."""

    text: str
    fields: tuple[dict[str, Any], ...]
    named: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, text: str, shown: str) -> "AvroSchema":
        """Return the schema of a file ``shown``. Raise Refusal NOT_RECORDS or DUPLICATE_COLUMN."""
        schema = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            kind = kind_of(schema)
            raise Refusal(
                "NOT_RECORDS",
                f"{shown}: its values are of the type {kind}, not records with columns",
                file=shown,
                hint="Write the values as a field of a record.",
            )
        check_typed_names(shown, [part["name"] for part in schema["fields"]])
        named: dict[str, Any] = {}
        for definition, space in _definitions(schema, ""):
            name = definition["name"]
            named[name if "." in name or not space else f"{space}.{name}"] = definition
            named.setdefault(name.rpartition(".")[2], definition)
        return cls(text, tuple(schema["fields"]), named)

    def resolved(self, kind: Any) -> Any:
        """Return the definition of a type that is given by its name, any other type as it is."""
        while isinstance(kind, str) and kind in self.named:
            kind = self.named[kind]
        inner = kind["type"] if isinstance(kind, dict) else ""
        is_name = isinstance(inner, str) and inner not in _COMPLEX and inner in self.named
        if is_name or isinstance(inner, (dict, list)):
            return self.resolved(inner)
        return kind

    def members(self, kind: Any) -> list[Any]:
        """Return the types of a union without null, the type itself if it is none."""
        kind = self.resolved(kind)
        if not isinstance(kind, list):
            return [kind]
        members = [self.resolved(member) for member in kind if member != "null"]
        return [_WIDENED.get(frozenset(map(kind_of, members)), members[0])] if _is_widened(members) else members

    def is_recursive(self, kind: Any, above: tuple[str, ...] = ()) -> bool:
        """Return True if values of a type contain values of the same type."""
        kind = self.resolved(kind)
        match kind_of(kind) if isinstance(kind, dict) else "":
            case "record":
                name = kind["name"]
                inner = [part["type"] for part in kind["fields"]]
                return name in above or any(self.is_recursive(part, (*above, name)) for part in inner)
            case "array":
                return self.is_recursive(kind["items"], above)
            case "map":
                return self.is_recursive(kind["values"], above)
        return isinstance(kind, list) and any(self.is_recursive(member, above) for member in kind)

    def problem(self, kind: Any) -> str:
        """Return why values of a type cannot be read, as the end of a sentence; empty if they can."""
        if self.is_recursive(kind):
            return "of a type that contains values of the same type"
        if repeated := self._repeated_fields(kind):
            return repeated
        members = self.members(kind)
        if len(members) == 1 and logical_of(members[0]) == "decimal" and members[0]["precision"] > _PRECISION:
            return f"a number of {members[0]['precision']} digits; the most are {_PRECISION}"
        return ""

    def _repeated_fields(self, kind: Any) -> str:
        """Return why a type, which is not recursive, cannot be read if a record within it has fields twice."""
        kind = self.resolved(kind)
        inner: list[Any] = kind if isinstance(kind, list) else []
        problem = ""
        match kind_of(kind) if isinstance(kind, dict) else "":
            case "record":
                problem = repeated_fields([part["name"] for part in kind["fields"]])
                inner = [part["type"] for part in kind["fields"]]
            case "array":
                inner = [kind["items"]]
            case "map":
                inner = [kind["values"]]
        return problem or next(filter(None, map(self._repeated_fields, inner)), "")

    def is_time(self, kind: Any) -> bool:
        """Return True for times of day."""
        members = self.members(kind)
        return len(members) == 1 and logical_of(members[0]) in (TIME_MILLIS, TIME_MICROS)

    @property
    def for_spark(self) -> str | None:
        """Return the schema without the logical types that Spark does not know; None if it has none of them.

        It is also without the columns that repeat a field, for which Spark would read none.
        """
        schema = json.loads(self.text)
        readable = [part for part in schema["fields"] if not self._repeats_field(part["type"])]
        is_changed = len(readable) < len(schema["fields"])
        schema["fields"] = readable
        return json.dumps(schema) if _stripped(schema) or is_changed else None

    def _repeats_field(self, kind: Any) -> bool:
        return not self.is_recursive(kind) and bool(self._repeated_fields(kind))


def kind_of(kind: Any) -> str:
    """Return the name of a type without its logical type."""
    if isinstance(kind, list):
        return "union"
    return kind_of(kind["type"]) if isinstance(kind, dict) else str(kind)


def logical_of(kind: Any) -> str:
    """Return the logical type of a type; empty if it has none, or one that its stored type cannot have."""
    logical = kind.get("logicalType", "") if isinstance(kind, dict) else ""
    if logical == "decimal":
        return logical if kind_of(kind) in ("bytes", "fixed") and _is_decimal(kind) else ""
    return logical if CONVERTED.get(logical, kind_of(kind)) == kind_of(kind) else ""


def _is_decimal(kind: dict[str, Any]) -> bool:
    precision, scale = kind.get("precision"), kind.get("scale", 0)
    return isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0


def _is_widened(members: list[Any]) -> bool:
    plain = [member for member in members if isinstance(member, str)]
    return len(plain) == len(members) and frozenset(plain) in _WIDENED


def _definitions(kind: Any, space: str) -> Iterator[tuple[dict[str, Any], str]]:
    if isinstance(kind, list):
        for member in kind:
            yield from _definitions(member, space)
    elif isinstance(kind, dict):
        if kind.get("type") in _NAMED:
            space = kind.get("namespace", kind["name"].rpartition(".")[0] or space)
            yield kind, space
        for part in kind.get("fields", ()):
            yield from _definitions(part["type"], space)
        for inner in ("type", "items", "values"):
            yield from _definitions(kind.get(inner), space)


def _stripped(kind: Any) -> bool:
    """Take the logical types that Spark does not know out of a schema; return True if there was one."""
    if isinstance(kind, list):
        return any(list(map(_stripped, kind)))
    if not isinstance(kind, dict):
        return False
    is_unknown = kind.get("logicalType") in CONVERTED
    is_unknown |= kind.get("logicalType") == "decimal" and kind.get("precision", 0) > _PRECISION
    if is_unknown:
        del kind["logicalType"]
    inner = [*map(kind.get, ("type", "items", "values")), *kind.get("fields", ())]
    return any(list(map(_stripped, inner))) or is_unknown
