"""Values of model tests: checked by type as a test file gives them, and as rows in SQL."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from elevata.core.strict_fields import Node, text
from metadata.domain import text_formats, types
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import DataType, parse, spark_type

_RANGES = {types.INTEGER: 2**31, types.BIGINT: 2**63}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def rows_sql(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str | None]]) -> str:
    """Return a query with these rows: columns are names with types, values are text as ``value_of`` returns it."""
    values = [f"({', '.join('NULL' if v is None else quote_text(v) for v in row)})" for row in rows]
    names = [f"c{place}" for place in range(len(columns))]
    selected = [
        f"{_cast(name if values else 'NULL', parse(type_))} AS {quote_identifier(own)}"
        for name, (own, type_) in zip(names, columns, strict=True)
    ]
    source = f"FROM VALUES {', '.join(values)} AS given({', '.join(names)})" if values else "WHERE FALSE"
    return f"SELECT {', '.join(selected)} {source}"


def _cast(sql: str, type_: DataType) -> str:
    sql = f"unhex({sql})" if type_.name == types.BINARY else sql
    return f"CAST({sql} AS {spark_type(type_)})"


def value_of(node: Node, type_: DataType, name: str) -> str | None:
    """Return a value of a file as text that Spark casts to ``type_``. Raise MetadataError for one that does not fit."""
    if node.value is None:
        return None
    if type_.name in _TEXTS:
        return _text(node, type_, name)
    if isinstance(node.value, dict | list):
        raise node.problem("wrong_type", f"must be a value of type {type_}", name)
    try:
        return _READERS[type_.name](node, type_)
    except (ValueError, InvalidOperation):
        raise node.problem("wrong_value", f"{node.text[:60]!r} is no {type_}", name) from None


_TEXTS = (types.STRING, types.JSON, types.UUID, types.TIME)


def _text(node: Node, type_: DataType, name: str) -> str:
    written = text(node, name)
    if type_.length is not None and len(written) > type_.length:
        raise node.problem("wrong_value", f"has {len(written)} characters, {type_} has at most {type_.length}", name)
    pattern = text_formats.PATTERNS.get(type_.name)
    if pattern is not None and re.match(pattern, written) is None:
        raise node.problem("wrong_value", f"{written[:60]!r} is no {type_}", name)
    return written


def _whole(node: Node, type_: DataType) -> str:
    if not _WHOLE.fullmatch(node.text) or not -_RANGES[type_.name] <= int(node.text) < _RANGES[type_.name]:
        raise ValueError
    return str(int(node.text))


def _decimal(node: Node, type_: DataType) -> str:
    number = Decimal(node.text)
    if not number.is_finite() or type_.precision is None or type_.scale is None:
        raise ValueError
    if round(number, type_.scale) != number or abs(number) >= Decimal(10) ** (type_.precision - type_.scale):
        raise ValueError
    return format(number, "f")


def _boolean(node: Node, _type: DataType) -> str:
    if not isinstance(node.value, bool):
        raise ValueError
    return str(node.value).lower()


def _moment(node: Node, _type: DataType) -> str:
    moment = datetime.fromisoformat(node.text)
    return moment.isoformat() if moment.tzinfo is not None else f"{moment.isoformat()}+00:00"


_READERS: dict[str, Callable[[Node, DataType], str]] = {
    types.INTEGER: _whole,
    types.BIGINT: _whole,
    types.DECIMAL: _decimal,
    types.FLOAT: lambda node, _type: repr(float(node.text)),
    types.BOOLEAN: _boolean,
    types.DATE: lambda node, _type: date.fromisoformat(node.text).isoformat(),
    types.TIMESTAMP: _moment,
    types.BINARY: lambda node, _type: bytes.fromhex(node.text).hex(),
}
