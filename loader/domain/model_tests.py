"""Unit tests of models: given rows of the inputs, the rows that the SELECT must return, and the difference.

A test needs no tables: the given rows are literals of one query each, and the SELECT of the model reads these.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from elevata.core.strict_fields import Node, text
from loader.domain.queries.differences import ADDED, CHANGED, GONE, SIGNS, changed_values
from loader.domain.queries.query_results import text_table
from metadata.domain import types
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import DataType, parse, spark_type

# Time of the load of a test that has none.
LOAD_TIMESTAMP = "2024-01-01T00:00:00+00:00"
_RANGES = {types.INTEGER: 2**31, types.BIGINT: 2**63}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
Row = tuple[str | None, ...]


@dataclass(frozen=True)
class ModelTest:
    """Test for the runner: SQL of the model, of each given input by the name of its view, and of the expected rows.

    ``columns`` are those that are compared, ``key`` those by which a missing and an unexpected row are one that
    differs. ``ordered``: the SELECT orders its rows, so their order counts.
    """

    name: str
    model: str
    query: str
    given: tuple[tuple[str, str], ...]
    expected: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    ordered: bool = False


@dataclass(frozen=True)
class ModelTests:
    """Tests of a file, as a request to the runner."""

    tests: tuple[ModelTest, ...]


@dataclass(frozen=True)
class ModelTestOutcome:
    """Result of one test. ``message`` is an error, or the difference in words."""

    name: str
    model: str
    passed: bool
    message: str = ""
    columns: tuple[str, ...] = ()
    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    changed: tuple[tuple[Row, Row], ...] = field(default=())

    @property
    def table(self) -> str:
        """Return the rows that differ as text: ``-`` missing, ``+`` unexpected, ``~`` expected → actual values."""
        rows: list[list[str | None]] = [[SIGNS[GONE], *row] for row in self.missing]
        rows += [[SIGNS[ADDED], *row] for row in self.unexpected]
        rows += [[SIGNS[CHANGED], *changed_values(*pair)] for pair in self.changed]
        return text_table(["", *self.columns], rows) if rows else ""


def outcome(test: ModelTest, expected: Sequence[Row], actual: Sequence[Row]) -> ModelTestOutcome:
    """Return the result of comparing rows as text: as multisets, and in order if the SELECT orders them."""
    missing = list((Counter(expected) - Counter(actual)).elements())
    unexpected = list((Counter(actual) - Counter(expected)).elements())
    if not missing and not unexpected:
        if test.ordered and list(expected) != list(actual):
            place = next(i for i, pair in enumerate(zip(expected, actual, strict=True), 1) if pair[0] != pair[1])
            message = f"rows are in another order from row {place} on"
            apart = ((expected[place - 1], actual[place - 1]),)
            return ModelTestOutcome(test.name, test.model, False, message, test.columns, changed=apart)
        return ModelTestOutcome(test.name, test.model, True)
    changed = _paired(test, missing, unexpected)
    counts = ((len(missing), "missing"), (len(unexpected), "unexpected"), (len(changed), "changed"))
    message = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    return ModelTestOutcome(
        test.name, test.model, False, message, test.columns, tuple(missing), tuple(unexpected), tuple(changed)
    )


def _paired(test: ModelTest, missing: list[Row], unexpected: list[Row]) -> list[tuple[Row, Row]]:
    """Remove the rows of one key that differ from both lists; return them in pairs."""
    if not test.key or not set(test.key) <= set(test.columns):
        return []
    places = [test.columns.index(name) for name in test.key]
    by_key = {tuple(row[place] for place in places): row for row in unexpected}
    pairs = []
    for row in list(missing):
        other = by_key.pop(tuple(row[place] for place in places), None)
        if other is not None:
            missing.remove(row)
            unexpected.remove(other)
            pairs.append((row, other))
    return pairs


# Rows as SQL.


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


# Values of a test file.


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
    pattern = types.PATTERNS.get(type_.name)
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
