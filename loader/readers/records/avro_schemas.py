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
# Logical types of dates and times, by the type that stores them. Of another type, they are to be ignored.
_INSTANTS = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
_STORED = CONVERTED | {"date": "int"} | dict.fromkeys(_INSTANTS, "long")
_PRECISION = 38
# Unions that Spark widens to one type.
_WIDENED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_NAMED = ("record", "enum", "fixed")
_BUILT_IN = (*_NAMED, "array", "map", "null", "boolean", "int", "long", "float", "double", "bytes", "string")


@dataclass(frozen=True)
class AvroSchema:
    """Schema of a file as a record with full names of types, and the definitions of its named types by these."""

    record: Mapping[str, Any]
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
        return cls(_with_full_names(schema, "", named), named)

    @property
    def fields(self) -> tuple[dict[str, Any], ...]:
        return tuple(self.record["fields"])

    def resolved(self, kind: Any) -> Any:
        """Return the definition of a type that is given by its name, any other type as it is."""
        if isinstance(kind, str):
            return self.named[kind] if kind not in _BUILT_IN and kind in self.named else kind
        inner = kind["type"] if isinstance(kind, dict) else ""
        is_wrapped = isinstance(inner, (dict, list)) or (inner not in _BUILT_IN and inner in self.named)
        return self.resolved(inner) if is_wrapped else kind

    def members(self, kind: Any) -> list[Any]:
        """Return the types of a union without null, the type itself if it is none."""
        kind = self.resolved(kind)
        if not isinstance(kind, list):
            return [kind]
        members = [self.resolved(member) for member in kind if member != "null"]
        widened = _widened(members)
        return [widened] if widened else members

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
        return next(filter(None, map(_own_problem, self._with_inner(kind))), "")

    def _with_inner(self, kind: Any, above: frozenset[str] = frozenset()) -> Iterator[Any]:
        """Yield a type and all types inside of it, without those inside of a record of ``above``."""
        kind = self.resolved(kind)
        yield kind
        inner: list[Any] = kind if isinstance(kind, list) else []
        match kind_of(kind) if isinstance(kind, dict) else "":
            case "record" if kind["name"] not in above:
                above |= {kind["name"]}
                inner = [part["type"] for part in kind["fields"]]
            case "array":
                inner = [kind["items"]]
            case "map":
                inner = [kind["values"]]
        for part in inner:
            yield from self._with_inner(part, above)

    def is_time(self, kind: Any) -> bool:
        """Return True for times of day."""
        members = self.members(kind)
        return len(members) == 1 and logical_of(members[0]) in (TIME_MILLIS, TIME_MICROS)

    @property
    def for_spark(self) -> str | None:
        """Return the schema without the logical types that Spark does not know; None if it has none of them.

        It is also without the columns that repeat a field, for which Spark would read none.
        """
        readable = [part for part in self.fields if not any(map(_repeated_fields, self._with_inner(part["type"])))]
        given = self._for_spark(dict(self.record) | {"fields": readable}, set())
        return None if given == self.record else json.dumps(given)

    def _for_spark(self, kind: Any, defined: set[str]) -> Any:
        """Return a type for Spark; its first use has its definition, others are a name in ``defined``.

        Without aliases, which would rename columns: the schema has the names of the file.
        """
        if isinstance(kind, list):
            return [self._for_spark(member, defined) for member in kind]
        if isinstance(kind, str):
            is_first = kind not in _BUILT_IN and kind in self.named and kind not in defined
            return self._for_spark(self.named[kind], defined) if is_first else kind
        if kind["type"] in _NAMED:
            if kind["name"] in defined:
                return kind["name"]
            defined.add(kind["name"])
        unread = {"aliases"} if _is_read_by_spark(kind) else {"aliases", "logicalType"}
        given = {name: value for name, value in kind.items() if name not in unread}
        if kind["type"] == "record":
            return given | {"fields": [self._for_spark(part, defined) for part in kind["fields"]]}
        inner = _attribute_of_inner(kind)
        return given | {inner: self._for_spark(kind[inner], defined)}


def _repeated_fields(kind: Any) -> str:
    """Return why a type cannot be read if it is a record with fields twice; empty if it is not."""
    is_record = isinstance(kind, dict) and kind_of(kind) == "record"
    return repeated_fields([part["name"] for part in kind["fields"]]) if is_record else ""


def _own_problem(kind: Any) -> str:
    """Return why values of a type cannot be read, apart from the types inside of it; empty if they can."""
    if logical_of(kind) == "decimal" and kind["precision"] > _PRECISION:
        return f"a number of {kind['precision']} digits; the most are {_PRECISION}"
    if isinstance(kind, list) and _widened(kind) and any(isinstance(member, dict) for member in kind):
        shown = " and ".join(logical_of(member) or kind_of(member) for member in kind if member != "null")
        return f"a union of {shown}, which Spark reads as one type of number"
    return _repeated_fields(kind)


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
    return logical if _STORED.get(logical, kind_of(kind)) == kind_of(kind) else ""


def _is_decimal(kind: dict[str, Any]) -> bool:
    precision, scale = kind.get("precision"), kind.get("scale", 0)
    return isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0


def _widened(members: list[Any]) -> str:
    """Return the type to which Spark widens a union, whatever the logical types of its members; empty if to none."""
    return _WIDENED.get(frozenset(kind_of(member) for member in members if member != "null"), "")


def _is_read_by_spark(kind: dict[str, Any]) -> bool:
    logical = logical_of(kind)
    return logical not in CONVERTED and not (logical == "decimal" and kind["precision"] > _PRECISION)


def _with_full_names(kind: Any, space: str, named: dict[str, Any]) -> Any:
    """Return a type in which types have their full names, and add the definitions inside of it to ``named``."""
    if isinstance(kind, list):
        return [_with_full_names(member, space, named) for member in kind]
    if isinstance(kind, str):
        full = f"{space}.{kind}"
        return full if "." not in kind and kind not in _BUILT_IN and full in named else kind
    result = dict(kind)
    if kind["type"] in _NAMED:
        name = kind["name"]
        space = name.rpartition(".")[0] if "." in name else kind.get("namespace", space) or ""
        full = name if "." in name or not space else f"{space}.{name}"
        result |= {"name": full, "namespace": space}
        named[full] = result  # before its fields, which may have values of the same type
    if kind["type"] == "record":
        result["fields"] = [_with_full_names(part, space, named) for part in kind["fields"]]
    else:
        inner = _attribute_of_inner(kind)
        result[inner] = _with_full_names(kind[inner], space, named)
    return result


def _attribute_of_inner(kind: dict[str, Any]) -> str:
    """Return the attribute of a type that is no record, or of a field, that has the type inside of it or its name."""
    match kind["type"]:
        case "array":
            return "items"
        case "map":
            return "values"
    return "type"
