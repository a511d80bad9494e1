"""Data types, and their spelling in Spark.

The names are those of ``architecture-state/v1``: string, string(n), integer, bigint, decimal(p,s), float,
boolean, date, time, timestamp, binary, uuid, json. Other spellings are accepted and normalised, so that the
same type always gives the same state.
"""

import re
from dataclasses import dataclass

from elevata.core.errors import MetadataError

STRING, INTEGER, BIGINT, DECIMAL, FLOAT = "string", "integer", "bigint", "decimal", "float"
BOOLEAN, DATE, TIME, TIMESTAMP = "boolean", "date", "time", "timestamp"
BINARY, UUID, JSON = "binary", "uuid", "json"
NAMES = (STRING, INTEGER, BIGINT, DECIMAL, FLOAT, BOOLEAN, DATE, TIME, TIMESTAMP, BINARY, UUID, JSON)

MAX_LENGTH = 2_147_483_647
MAX_PRECISION = 38

# Spellings of other systems, without those that mean different types: int8 has 8 bits in some and 8 bytes in others,
# bit is a truth value or bits. ``loader.dialects`` reads these in the context of a dialect.
_ALIASES = {
    STRING: "str text clob varchar nvarchar char nchar character varchar2 character_varying ntext bpchar",
    INTEGER: "int int2 int4 int16 int32 smallint tinyint short byte",
    BIGINT: "int64 long",
    DECIMAL: "numeric dec number bignumeric bigdecimal",
    FLOAT: "double double_precision real float4 float8 float32 float64",
    BOOLEAN: "bool",
    DATE: "date32",
    TIME: "time_without_time_zone",
    TIMESTAMP: "timestamptz datetime datetime2 smalldatetime datetimeoffset timestamp_ltz timestamp_ntz timestamp_tz "
    "timestamp_s timestamp_ms timestamp_ns timestamp_with_time_zone timestamp_without_time_zone",
    BINARY: "bytes bytea blob varbinary",
    UUID: "guid uniqueidentifier",
    JSON: "jsonb variant",
}
_MEANING = {name: name for name in NAMES} | {
    alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()
}
_SPELLING = re.compile(r"([a-z][a-z0-9_ ]*?)\s*(?:\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\))?", re.ASCII)

_SPARK = {
    STRING: "STRING",
    INTEGER: "INT",
    BIGINT: "BIGINT",
    FLOAT: "DOUBLE",
    BOOLEAN: "BOOLEAN",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    BINARY: "BINARY",
    # No Delta twin: text of a checked format.
    TIME: "STRING",
    UUID: "STRING",
    JSON: "STRING",
}


class TypeProblem(MetadataError):
    """Error for a type that is unknown or invalid."""

    def __init__(self, message: str) -> None:
        super().__init__("unknown_type", message, "type")


@dataclass(frozen=True)
class DataType:
    """Type with its parameters: ``length`` for string, ``precision`` and ``scale`` for decimal."""

    name: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise TypeProblem(f"{self.name!r} is not a type; known are {', '.join(NAMES)}")
        if self.length is not None and (self.name != STRING or not 1 <= self.length <= MAX_LENGTH):
            raise TypeProblem(f"only string has a length, from 1 to {MAX_LENGTH}; {self.name}({self.length}) does not")
        if self.name == DECIMAL:
            if self.precision is None or self.scale is None:
                raise TypeProblem("decimal needs precision and scale, like decimal(10,2)")
            if not 1 <= self.precision <= MAX_PRECISION or not 0 <= self.scale <= self.precision:
                raise TypeProblem(
                    f"decimal({self.precision},{self.scale}) is not possible: precision is 1 to {MAX_PRECISION}, "
                    "scale 0 to precision"
                )
        elif self.precision is not None or self.scale is not None:
            raise TypeProblem(f"only decimal has precision and scale, {self.name} has not")

    @property
    def whole_digits(self) -> int:
        """Return the number of digits of a decimal before its point; 0 for other types."""
        return (self.precision or 0) - (self.scale or 0)

    def __str__(self) -> str:
        if self.length is not None:
            return f"{self.name}({self.length})"
        if self.name == DECIMAL:
            return f"{self.name}({self.precision},{self.scale})"
        return self.name


def parse(text: str) -> DataType:
    """Return the type that ``text`` spells, in metadata's or another system's spelling, in any case."""
    match = _SPELLING.fullmatch(text.strip().lower()) if len(text) <= 100 else None
    spelling = re.sub(r"\s+", "_", match[1]) if match else ""
    if match is None or spelling not in _MEANING:
        raise TypeProblem(f"{text[:100]!r} is not a type; known are {', '.join(NAMES)}, string(n) and decimal(p,s)")
    name = _MEANING[spelling]
    first, second = (None if part is None else int(part) for part in match.group(2, 3))
    if name == DECIMAL and first is not None:
        return DataType(DECIMAL, precision=first, scale=second or 0)
    if first is None:
        return DataType(name)
    if name == STRING and second is None:
        return DataType(STRING, length=first)
    raise TypeProblem(f"{text!r}: {name} takes no measures" if name != STRING else f"{text!r}: a length is one number")


def spark_type(data_type: DataType) -> str:
    """Return the type in Spark's DDL, as Delta stores it."""
    if data_type.length is not None:
        return f"VARCHAR({data_type.length})"
    if data_type.name == DECIMAL:
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    return _SPARK[data_type.name]


def from_spark(text: str) -> DataType:
    """Return the type of Spark's spelling ``text`` (simpleString or DDL).

    Narrow Spark numbers become the next wider type: tinyint and smallint become integer, float becomes float
    (which is Spark's double).
    """
    nested = re.match(r"\s*(array|map|struct|variant|interval|void|null)\b", text.lower())
    if nested:
        raise TypeProblem(f"{nested[1]} columns cannot be held; describe them as json or leave them out")
    if text.strip().lower() == "decimal":
        return DataType(DECIMAL, precision=10, scale=0)
    return parse(text)


def stored_type(data_type: DataType) -> DataType:
    """Return the type that the warehouse stores for a type: time, uuid and json become string."""
    return from_spark(spark_type(data_type))


# Within a group, equal values have equal hashes, whatever their width (docs/understand/identity_and_hashing.md); text
# that refers to a uuid, a time or json is hashed as such a value.
_HASH_ALIKE = (
    {"integer", "bigint", "decimal"},
    {"integer", "bigint", "float"},
    {"string", "uuid", "json", "time"},
    {"date", "timestamp"},
)


def hash_alike(data_type: DataType, other: DataType) -> bool:
    """Return True if equal values of the types have equal hashes, so that columns of a reference can be paired."""
    return data_type.name == other.name or any({data_type.name, other.name} <= group for group in _HASH_ALIKE)
