"""Values of Debezium's events: the encoding of each column by the schema in a message.

A message with its schema names the logical type of each column (``io.debezium.time.Timestamp``); ``encodings`` turns it
into an ``Encoding``. A message without it has numbers and texts only, which the contract and the option ``time_unit``
explain (``implied_encoding``). ``loader.engine.sources.kafka.values`` reads the encodings in Spark, and
``loader.readers.records.debezium`` for samples; docs/use/debezium.md has the table of both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from metadata.domain import types as data_types
from metadata.domain.sources.option_kinds import MICROSECONDS, MILLISECONDS, NANOSECONDS

# Encodings. A plain value is text, a number or true and false as it is; a document is JSON.
PLAIN, DOCUMENT, ARRAY, UNREAD = "plain", "document", "array", "unread"
DAYS, MOMENT, CLOCK, DURATION = "days", "moment", "clock", "duration"
BYTES, BITS, DECIMAL, SCALED_DECIMAL = "bytes", "bits", "decimal", "scaled decimal"
# ISO 8601 with Z behind a date or a time of day that have no zone.
ISO = "iso"

PER_SECOND = {MILLISECONDS: 1_000, MICROSECONDS: 1_000_000, NANOSECONDS: 1_000_000_000}
LARGER_UNITS = {MILLISECONDS: (), MICROSECONDS: (MILLISECONDS,), NANOSECONDS: (MICROSECONDS, MILLISECONDS)}
# Longer bit strings are those without a fixed length, so that their text is not known.
LONGEST_BITS = 64
_YEAR = 365 * 86_400  # seconds
_FARTHEST = 230 * _YEAR  # seconds before and after 1970 that are plausible
NUMBERS = (data_types.INTEGER, data_types.BIGINT, data_types.DECIMAL, data_types.FLOAT)


@dataclass(frozen=True)
class Encoding:
    """Encoding of a column's values. ``name`` is the logical type in the schema, empty without one.

    ``unit`` is that of a moment or a time of day, ``size`` the scale of a decimal or the number of bits, ``item`` the
    encoding of an array's elements. ``is_declared``: the schema or the option for this column gives the unit.
    """

    kind: str
    name: str = ""
    unit: str = ""
    size: int = 0
    item: "Encoding | None" = None
    is_declared: bool = True

    @property
    def is_changed(self) -> bool:
        """Return True if a value is not the text that the message has."""
        return self.kind not in (PLAIN, DOCUMENT) or not self.is_declared

    @property
    def has_meaning(self) -> bool:
        """Return False for values of a schema without a logical type, like a number that may be a time."""
        return self != Encoding(PLAIN)

    def takes(self, type_name: str) -> bool:
        """Return True if a column of this type can hold the values."""
        match self.kind:
            case "unread":
                return False
            case "duration":
                return type_name in NUMBERS
            case "bytes":
                return type_name in (data_types.BINARY, data_types.STRING)
            case "bits":
                is_text = type_name == data_types.STRING and 0 < self.size <= LONGEST_BITS
                return is_text or type_name in (data_types.BINARY, *NUMBERS)
            case "array":
                return type_name in (data_types.JSON, data_types.STRING)
        return True

    @property
    def shown(self) -> str:
        """Return the encoding for messages."""
        if self.item is not None:
            return f"array of {self.item.shown}"
        return self.name or f"{self.unit or self.kind} without a schema"


_TEXTS = "ZonedTimestamp IsoTimestamp Interval Year"
_DOCUMENTS = "geometry.Geometry geometry.Geography geometry.Point SparseDoubleVector SparseVector"
_KNOWN: dict[str, Encoding] = {
    "io.debezium.time.Date": Encoding(DAYS),
    "org.apache.kafka.connect.data.Date": Encoding(DAYS),
    "io.debezium.time.Timestamp": Encoding(MOMENT, unit=MILLISECONDS),
    "org.apache.kafka.connect.data.Timestamp": Encoding(MOMENT, unit=MILLISECONDS),
    "io.debezium.time.MicroTimestamp": Encoding(MOMENT, unit=MICROSECONDS),
    "io.debezium.time.NanoTimestamp": Encoding(MOMENT, unit=NANOSECONDS),
    "io.debezium.time.Time": Encoding(CLOCK, unit=MILLISECONDS),
    "org.apache.kafka.connect.data.Time": Encoding(CLOCK, unit=MILLISECONDS),
    "io.debezium.time.MicroTime": Encoding(CLOCK, unit=MICROSECONDS),
    "io.debezium.time.NanoTime": Encoding(CLOCK, unit=NANOSECONDS),
    "io.debezium.time.MicroDuration": Encoding(DURATION, unit=MICROSECONDS),
    "io.debezium.time.NanoDuration": Encoding(DURATION, unit=NANOSECONDS),
    "io.debezium.time.IsoDate": Encoding(ISO),
    "io.debezium.time.IsoTime": Encoding(ISO),
    "io.debezium.data.Bits": Encoding(BITS),
    "org.apache.kafka.connect.data.Decimal": Encoding(DECIMAL),
    "io.debezium.data.VariableScaleDecimal": Encoding(SCALED_DECIMAL),
    **{f"io.debezium.time.{name}": Encoding(PLAIN) for name in _TEXTS.split()},
    "io.debezium.time.ZonedTime": Encoding(PLAIN),
    **{f"io.debezium.data.{name}": Encoding(DOCUMENT) for name in _DOCUMENTS.split()},
    **{f"io.debezium.data.{name}": Encoding(DOCUMENT) for name in ("DoubleVector", "FloatVector")},
}
_OWN = ("io.debezium.", "org.apache.kafka.")
_NUMERIC = ("int8", "int16", "int32", "int64", "float", "double", "float32", "float64")


def encodings(fields: Any, prefix: str = "") -> dict[str, Encoding]:
    """Return the encoding of each column by a schema: the list of the fields of a row.

    A field of a structure has its path, like ``place.x``.
    """
    known = {}
    for schema in fields if isinstance(fields, list) else ():
        if isinstance(schema, Mapping) and isinstance(schema.get("field"), str):
            name = prefix + schema["field"]
            known[name] = encoding_of(schema)
            known |= encodings(schema.get("fields"), f"{name}.")
    return known


def encoding_of(schema: Any) -> Encoding:
    """Return the encoding of a Kafka Connect schema."""
    schema = schema if isinstance(schema, Mapping) else {}
    kind, name = schema.get("type"), str(schema.get("name") or "")
    parameters = schema.get("parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    known = _KNOWN.get(name)
    if known is not None:
        size = {DECIMAL: "scale", BITS: "length"}.get(known.kind, "")
        number = str(parameters.get(size, "0")) if size else "0"
        if not number.removeprefix("-").isdecimal():
            return Encoding(UNREAD, name)
        return Encoding(known.kind, name, known.unit, int(number))
    if kind == "array":
        return _array(schema, name)
    if kind in ("struct", "map"):
        inner = [*(schema.get("fields") or ()), *(schema[part] for part in ("keys", "values") if part in schema)]
        unread = next((part for part in map(encoding_of, inner) if part.kind not in (PLAIN, DOCUMENT)), None)
        if unread is None and not name.startswith(_OWN):
            return Encoding(DOCUMENT, name)
        return Encoding(UNREAD, name or f"{kind} with {unread.shown if unread else 'values'}")
    if kind == "bytes" and not name:
        return Encoding(BYTES, "bytes")
    # A text of an unknown logical type is that text; a number or bytes of one mean nothing.
    if kind in ("string", "boolean") or (kind in _NUMERIC and not name):
        return Encoding(PLAIN, name)
    return Encoding(UNREAD, name or str(kind or "no type"))


def _array(schema: Mapping[str, Any], name: str) -> Encoding:
    item = encoding_of(schema.get("items"))
    if name.startswith(_OWN):
        return Encoding(UNREAD, name)
    if not item.is_changed:
        return Encoding(DOCUMENT, name)
    if item.kind in (UNREAD, ARRAY, DURATION, BITS):
        return Encoding(UNREAD, f"array of {item.shown}")
    return Encoding(ARRAY, name, item=item)


def implied_encoding(type_name: str, unit: str, is_declared: bool, binary: str) -> Encoding:
    """Return the encoding of a column without a schema, from its type in the contract.

    ``unit`` is that of the option ``time_unit``, which may be declared for the column itself; ``binary`` is the option
    ``binary_values``.
    """
    match type_name:
        case "date":
            return Encoding(DAYS)
        case "timestamp":
            return Encoding(MOMENT, unit=unit, is_declared=is_declared)
        case "time" if is_declared:
            return Encoding(CLOCK, unit=unit)
        case "decimal":
            return Encoding(SCALED_DECIMAL)
        case "binary":
            return Encoding(BYTES if binary == "base64" else PLAIN, is_declared=bool(binary))
    return Encoding(PLAIN)


def doubtful_ranges(unit: str) -> list[tuple[int, int]]:
    """Return the ranges of numbers, negative ones alike, that are times within a year of 1970 in this unit only.

    In a larger unit they are times up to 230 years away.
    """
    highest = _YEAR * PER_SECOND[unit] - 1
    larger = (PER_SECOND[other] for other in LARGER_UNITS[unit])
    return [(_YEAR * per_second, min(highest, _FARTHEST * per_second)) for per_second in larger]


def type_of(encodings_met: Iterable[Encoding]) -> data_types.DataType | None:
    """Return the type for a column whose schema tells it: None if its values must tell."""
    kinds = set(encodings_met)
    if len(kinds) != 1:
        return None
    (encoding,) = kinds
    match encoding.kind:
        case "days":
            return data_types.DataType(data_types.DATE)
        case "moment":
            return data_types.DataType(data_types.TIMESTAMP)
        case "clock":
            return data_types.DataType(data_types.TIME)
        case "decimal" if 0 <= encoding.size <= data_types.MAX_PRECISION:
            return data_types.DataType(data_types.DECIMAL, precision=data_types.MAX_PRECISION, scale=encoding.size)
        case "bits" if 0 < encoding.size <= LONGEST_BITS:
            return data_types.DataType(data_types.STRING)
        case "bytes" | "bits":
            return data_types.DataType(data_types.BINARY)
        case "document" | "array":
            return data_types.DataType(data_types.JSON)
    return None
