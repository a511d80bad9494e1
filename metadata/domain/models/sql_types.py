"""Types of SQL expressions and Spark's rules for them, with ANSI mode: common types, arithmetic and decimals."""

from functools import lru_cache
from typing import NamedTuple

from metadata.domain import types as described

MAX_PRECISION = 38
# Decimals of this precision store every value of an integral type.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_RANK = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_FROM_METADATA = {
    described.STRING: "string",
    described.INTEGER: "int",
    described.BIGINT: "bigint",
    described.FLOAT: "double",
    described.BOOLEAN: "boolean",
    described.DATE: "date",
    described.TIMESTAMP: "timestamp",
    described.BINARY: "binary",
    described.TIME: "string",
    described.UUID: "string",
    described.JSON: "string",
}
_TO_METADATA = {
    "string": described.STRING,
    "tinyint": described.INTEGER,
    "smallint": described.INTEGER,
    "int": described.INTEGER,
    "bigint": described.BIGINT,
    "float": described.FLOAT,
    "double": described.FLOAT,
    "boolean": described.BOOLEAN,
    "date": described.DATE,
    "timestamp": described.TIMESTAMP,
    "binary": described.BINARY,
}


class SqlType(NamedTuple):
    """Type of an expression: Spark's name, with precision and scale of decimals and the item of arrays.

    Intervals are ``months``, ``days`` (whole days) and ``interval`` (days to seconds); ``null`` fits every type.
    """

    name: str
    precision: int = 0
    scale: int = 0
    item: "SqlType | None" = None

    @property
    def is_integral(self) -> bool:
        return self.name in _DIGITS

    @property
    def is_numeric(self) -> bool:
        return self.name in _RANK

    @property
    def is_interval(self) -> bool:
        return self.name in ("months", "days", "interval")

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "array":
            return f"array<{self.item}>"
        return "interval" if self.is_interval else _TO_METADATA.get(self.name, self.name)


NULL, BOOLEAN, STRING, BINARY = SqlType("null"), SqlType("boolean"), SqlType("string"), SqlType("binary")
INT, BIGINT, DOUBLE = SqlType("int"), SqlType("bigint"), SqlType("double")
DATE, TIMESTAMP = SqlType("date"), SqlType("timestamp")
MONTHS, DAYS, INTERVAL = SqlType("months"), SqlType("days"), SqlType("interval")


@lru_cache(maxsize=1024)
def from_metadata(text: str) -> SqlType:
    """Return the type that the warehouse stores for a metadata type."""
    data_type = described.parse(text)
    if data_type.name == described.DECIMAL:
        return SqlType("decimal", data_type.precision or 0, data_type.scale or 0)
    return SqlType(_FROM_METADATA[data_type.name])


def to_metadata(data_type: SqlType) -> str | None:
    """Return the metadata type of a column; None if tables have no such columns."""
    return str(data_type) if data_type.name == "decimal" else _TO_METADATA.get(data_type.name)


def array_of(item: SqlType) -> SqlType:
    return SqlType("array", item=item)


def decimal(precision: int, scale: int) -> SqlType:
    """Return a decimal; of more than 38 digits, it keeps the integral ones and up to 6 decimals."""
    if precision > MAX_PRECISION:
        scale = max(MAX_PRECISION - (precision - scale), min(scale, 6))
        precision = MAX_PRECISION
    return SqlType("decimal", precision, scale)


def bounded(precision: int, scale: int) -> SqlType:
    return SqlType("decimal", min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def decimal_of_digits(digits: str) -> SqlType:
    """Return the type of a decimal literal."""
    whole, _, part = digits.partition(".")
    precision = len((whole + part).lstrip("0")) or 1
    return SqlType("decimal", max(precision, len(part)), len(part))


def as_decimal(data_type: SqlType) -> SqlType:
    return SqlType("decimal", _DIGITS[data_type.name], 0) if data_type.is_integral else data_type


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the type of values that are of either type, as in CASE or UNION; None if there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if left == STRING or right == STRING:
        return _with_text(right if left == STRING else left)
    if left.is_numeric and right.is_numeric:
        return _common_number(left, right)
    if {left.name, right.name} == {"date", "timestamp"}:
        return TIMESTAMP
    if {left.name, right.name} == {"days", "interval"}:
        return INTERVAL
    if left.item and right.item:
        item = common_type(left.item, right.item)
        return array_of(item) if item else None
    return None


def _with_text(other: SqlType) -> SqlType | None:
    """Return the type of text and another type: text becomes the other one."""
    if other.is_integral:
        return BIGINT
    if other.is_numeric:
        return DOUBLE
    return other if other.name in ("boolean", "date", "timestamp", "binary") else None


def _common_number(left: SqlType, right: SqlType) -> SqlType:
    if "decimal" in (left.name, right.name) and not {"float", "double"} & {left.name, right.name}:
        left, right = as_decimal(left), as_decimal(right)
        scale = max(left.scale, right.scale)
        digits = max(left.precision - left.scale, right.precision - right.scale)
        if digits + scale <= MAX_PRECISION:
            return SqlType("decimal", digits + scale, scale)
        return SqlType("decimal", MAX_PRECISION, max(0, MAX_PRECISION - digits))
    wider = max(left, right, key=lambda data_type: _RANK.index(data_type.name))
    return DOUBLE if wider.name == "float" else wider


def arithmetic(operator: str, left: SqlType, right: SqlType) -> SqlType | None:
    """Return the type of a calculation: operator +, -, *, /, % or div; None if it is not possible."""
    if left == NULL or right == NULL:
        left, right = (right, right) if left == NULL else (left, left)
        if left == NULL:
            return DOUBLE if operator == "/" else BIGINT if operator == "div" else NULL
        if not left.is_numeric:
            return left if operator in "+-" and (left.is_interval or left.name in ("date", "timestamp")) else None
    if {left.name, right.name} & {"date", "timestamp", "months", "days", "interval"}:
        return _time_arithmetic(operator, left, right)
    if left == STRING or right == STRING:
        other = right if left == STRING else left
        wider = BIGINT if other.is_integral else DOUBLE if other.is_numeric or other == STRING else None
        if wider is None:
            return None
        left = right = wider
    if not (left.is_numeric and right.is_numeric):
        return None
    return _calculation(operator, left, right)


def _calculation(operator: str, left: SqlType, right: SqlType) -> SqlType:
    if operator == "div":
        return BIGINT
    names = {left.name, right.name}
    if "decimal" in names and not {"float", "double"} & names:
        return _decimal_arithmetic(operator, as_decimal(left), as_decimal(right))
    return DOUBLE if operator == "/" else _common_number(left, right)


def _decimal_arithmetic(operator: str, left: SqlType, right: SqlType) -> SqlType:
    (_, p1, s1, _), (_, p2, s2, _) = left, right
    if operator == "*":
        return decimal(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if operator == "%":
        return decimal(min(p1 - s1, p2 - s2) + scale, scale)
    return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _time_arithmetic(operator: str, left: SqlType, right: SqlType) -> SqlType | None:
    if operator == "+" and not left.is_interval and (right.name in ("date", "timestamp")):
        left, right = right, left
    if left.is_interval:
        if operator in "*/" and right.is_numeric:
            return INTERVAL if left == DAYS else left
        if operator in "+-" and right.is_interval and (left == MONTHS) == (right == MONTHS):
            return left if left == right else INTERVAL
        if operator == "+" and right.name in ("date", "timestamp"):
            return _moved(right, left)
        return None
    if operator == "*" and right.is_interval and left.is_numeric:
        return INTERVAL if right == DAYS else right
    if left.name not in ("date", "timestamp") or operator not in "+-":
        return None
    if right.is_interval:
        return _moved(left, right)
    if operator == "-" and right.name in ("date", "timestamp"):
        return DAYS if left == right == DATE else INTERVAL
    if left == DATE and right.name in ("int", "smallint", "tinyint"):
        return DATE
    return None


def _moved(moment: SqlType, interval: SqlType) -> SqlType:
    return TIMESTAMP if moment == TIMESTAMP or interval == INTERVAL else DATE


_NOT_CAST = {
    ("date", "number"),
    ("number", "date"),
    ("boolean", "date"),
    ("boolean", "timestamp"),
    ("date", "boolean"),
    ("timestamp", "boolean"),
    ("binary", "number"),
    ("binary", "boolean"),
    ("binary", "date"),
    ("binary", "timestamp"),
    ("boolean", "binary"),
    ("date", "binary"),
    ("timestamp", "binary"),
}


def can_cast(from_type: SqlType, to_type: SqlType) -> bool:
    kinds = tuple("number" if data_type.is_numeric else data_type.name for data_type in (from_type, to_type))
    return kinds not in _NOT_CAST and not (from_type.item and to_type.item is None)


# Types in CAST by the names of sqlglot.
CAST_TYPES = {
    "TINYINT": SqlType("tinyint"),
    "SMALLINT": SqlType("smallint"),
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": SqlType("float"),
    "DOUBLE": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "TEXT": STRING,
    "VARCHAR": STRING,
    "CHAR": STRING,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "BINARY": BINARY,
}
