"""Quality checks of a dataset: kinds, arguments and severities.

A check is stored as its kind and a mapping of arguments (``QualityRule.arguments``). Checks of rows find the rows that
fail; checks of the table compare one number with a limit.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from elevata.core.errors import MetadataError
from metadata.domain import types
from metadata.domain.sql import check_expression, quote_text, rename_in_expression
from metadata.domain.types import DataType

WARN, QUARANTINE, STOP = "warn", "quarantine", "stop"
SEVERITIES = {WARN: "Warn", QUARANTINE: "Quarantine rows", STOP: "Stop the load"}

NOT_NULL, ACCEPTED_VALUES, RANGE, PATTERN, LENGTH = "not_null", "accepted_values", "range", "pattern", "length"
CONDITION, UNIQUE, RELATIONSHIP, FRESHNESS = "condition", "unique", "relationship", "freshness"
ROW_COUNT, ROW_COUNT_CHANGE, TOTAL, QUERY = "row_count", "row_count_change", "total", "query"

AGGREGATES = ("sum", "min", "max", "count")
DEFAULT_RUNS, DEFAULT_DEVIATIONS, DEFAULT_TOLERANCE = 30, "5", "0"
MOST_COLUMNS, MOST_VALUES, MAX_TEXT, MAX_PATTERN, MAX_QUERY = 20, 500, 1000, 1000, 20_000
MOST_HOURS, MOST_RUNS = 87_600, 500


@dataclass(frozen=True)
class Kind:
    """Kind of check: label, help text and arguments. ``finds_rows``: the failing rows are known."""

    label: str
    help: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    finds_rows: bool = False
    one_column: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the names of all arguments, in the order of forms."""
        return (*self.required, *self.one_of, *self.optional)


_LIMITS = ("minimum", "maximum")
KINDS: dict[str, Kind] = {
    NOT_NULL: Kind("Not null", "Every row has a value in these columns.", ("columns",), ("where",), finds_rows=True),
    UNIQUE: Kind(
        "Unique",
        "No two rows have the same values in these columns; rows with NULL are not compared.",
        ("columns",),
        ("where",),
        finds_rows=True,
    ),
    ACCEPTED_VALUES: Kind(
        "Accepted values",
        "The column has one of these values, or is NULL.",
        ("columns", "values"),
        ("where",),
        finds_rows=True,
        one_column=True,
    ),
    RANGE: Kind(
        "Range",
        "The value lies between the limits, which are included, or is NULL.",
        ("columns",),
        ("where",),
        _LIMITS,
        finds_rows=True,
        one_column=True,
    ),
    PATTERN: Kind(
        "Pattern",
        "The whole text matches a regular expression of Java, or is NULL.",
        ("columns", "pattern"),
        ("where",),
        finds_rows=True,
        one_column=True,
    ),
    LENGTH: Kind(
        "Length",
        "The number of characters lies between the limits, which are included, or the text is NULL.",
        ("columns",),
        ("where",),
        _LIMITS,
        finds_rows=True,
        one_column=True,
    ),
    CONDITION: Kind(
        "Condition",
        "The condition holds for each row, or is NULL.",
        ("condition",),
        ("where",),
        finds_rows=True,
    ),
    RELATIONSHIP: Kind(
        "Relationship",
        "Another dataset has a row with these values; rows with NULL are not looked up.",
        ("columns", "dataset", "other_columns"),
        ("where",),
        finds_rows=True,
    ),
    FRESHNESS: Kind(
        "Freshness",
        "The newest value of a date or timestamp column is not older than this number of hours.",
        ("columns", "hours"),
        ("where",),
        one_column=True,
    ),
    ROW_COUNT: Kind("Row count", "The number of rows lies between the limits.", (), ("where",), _LIMITS),
    ROW_COUNT_CHANGE: Kind(
        "Row count change",
        "The number of rows lies in the band that the last runs had.",
        (),
        ("runs", "deviations", "where"),
    ),
    TOTAL: Kind(
        "Total",
        "Sum, minimum, maximum or count of a column equals that of a column of another dataset.",
        ("aggregate", "columns", "dataset", "other_columns"),
        ("tolerance", "where"),
        one_column=True,
    ),
    QUERY: Kind("Query", "A SELECT over tables returns no rows.", ("sql",)),
}

TEXTS = (types.STRING, types.UUID, types.TIME, types.JSON)
_NUMBERS = (types.INTEGER, types.BIGINT, types.DECIMAL, types.FLOAT)


class QualityProblem(MetadataError):
    """Error for a check that is invalid; ``field`` is the argument."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__("bad_check", message, field)


@dataclass(frozen=True)
class QualityRule:
    """Kind and arguments of a check.

    ``minimum`` and ``maximum`` are texts in the column's type, or numbers. ``dataset`` is another dataset as
    ``schema.name`` with its ``other_columns``. ``tolerance`` is the share by which two totals may differ. ``where``
    limits the rows that are checked.
    """

    kind: str
    columns: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    pattern: str = ""
    condition: str = ""
    dataset: str = ""
    other_columns: tuple[str, ...] = ()
    aggregate: str = ""
    tolerance: str = ""
    hours: int | None = None
    runs: int | None = None
    deviations: str = ""
    sql: str = ""
    where: str = ""

    @classmethod
    def from_dict(cls, kind: str, arguments: Mapping[str, Any]) -> "QualityRule":
        """Return the checked rule. Raise QualityProblem."""
        if kind not in KINDS:
            raise QualityProblem(f"must be one of {', '.join(KINDS)}, not {kind!r}", "kind")
        unknown = sorted(set(arguments) - set(KINDS[kind].arguments))
        if unknown:
            known = ", ".join(KINDS[kind].arguments)
            raise QualityProblem(f"is no argument of a check of kind {kind}; known are {known}", unknown[0])
        rule = cls(kind, **{name: _read(name, value) for name, value in arguments.items()})
        rule._check()
        return rule

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that are set, as plain values."""
        named = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "kind"}
        set_ = {name: value for name, value in named.items() if value not in ((), "", None)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in set_.items()}

    @property
    def definition(self) -> Kind:
        return KINDS[self.kind]

    @property
    def concerns_table(self) -> bool:
        """Return True if all rows of the table decide together, so that a part of them says nothing."""
        return not self.definition.finds_rows or self.kind == UNIQUE

    @property
    def column(self) -> str:
        """Return the one column of a check of one column."""
        return self.columns[0]

    @property
    def reads(self) -> frozenset[str]:
        """Return the names in lower case of the dataset's columns that the check reads, without those of a SELECT."""
        return frozenset(name.lower() for name in self.columns) | self.chosen_by

    @property
    def chosen_by(self) -> frozenset[str]:
        """Return the names in lower case of the dataset's columns in the condition and in ``where``."""
        return frozenset(name.lower() for text in (self.condition, self.where) for name in _names_in(text))

    @property
    def tables(self) -> frozenset[str]:
        """Return the qualified names in lower case of the other dataset, or of the tables that a SELECT reads."""
        if not self.sql:
            return frozenset({self.dataset.lower()} if self.dataset else ())
        tables = sqlglot.parse_one(self.sql, read="spark").find_all(exp.Table)
        return frozenset(f"{table.db}.{table.name}".lower() for table in tables if table.db)

    def names_column(self, name: str) -> bool:
        """Return True if the check names this column of its dataset; in a SELECT, any identifier of the name."""
        if self.sql:
            tree = sqlglot.parse_one(self.sql, read="spark")
            return name.lower() in {node.name.lower() for node in tree.find_all(exp.Identifier)}
        return name.lower() in self.reads

    def selects_from(self, names: Collection[str]) -> bool:
        """Return True if the check has a SELECT that reads one of these tables or schemas (names in lower case)."""
        tables = self.tables if self.sql else ()
        return any(name in names or name.partition(".")[0] in names for name in tables)

    def renamed(self, old: str, new: str) -> "QualityRule":
        """Return the rule after a rename of a column of its dataset. Raise QualityProblem for one in a SELECT."""
        if self.sql and self.names_column(old):
            raise QualityProblem(f"names {old!r} in its SELECT; change that first", "sql")
        return replace(
            self,
            columns=_renamed(self.columns, old, new),
            condition=rename_in_expression(self.condition, old, new) if self.condition else "",
            where=rename_in_expression(self.where, old, new) if self.where else "",
        )

    def other_renamed(self, old: str, new: str) -> "QualityRule":
        """Return the rule after a rename of a column of the other dataset."""
        return replace(self, other_columns=_renamed(self.other_columns, old, new))

    def check_types(self, columns: Mapping[str, DataType]) -> None:
        """Raise QualityProblem unless ``columns`` (types by name) has all columns, in types that the check takes."""
        by_name = {name.lower(): type_ for name, type_ in columns.items()}
        for field, names in (("columns", self.columns), ("condition", _names_in(self.condition))):
            self._check_known(field, names, by_name)
        self._check_known("where", _names_in(self.where), by_name)
        if self.definition.one_column:
            self._check_type(by_name[self.column.lower()])

    def _check_known(self, field: str, names: tuple[str, ...], columns: Mapping[str, DataType]) -> None:
        missing = next((name for name in names if name.lower() not in columns), None)
        if missing is not None:
            raise QualityProblem(f"names {missing!r}, which is no column of the dataset", field)

    def _check_type(self, type_: DataType) -> None:
        name = type_.name
        if self.kind in (PATTERN, LENGTH) and name not in TEXTS:
            raise QualityProblem(f"{self.column} is {type_}, and only text has a {self.kind}", "columns")
        if self.kind == FRESHNESS and name not in (types.DATE, types.TIMESTAMP):
            raise QualityProblem(f"{self.column} is {type_}, and only dates and timestamps have an age", "columns")
        if self.kind == TOTAL and self.aggregate == "sum" and name not in _NUMBERS:
            raise QualityProblem(f"{self.column} is {type_}, and only numbers have a sum", "columns")
        if self.kind == RANGE and name in (types.BOOLEAN, types.BINARY):
            raise QualityProblem(f"{self.column} is {type_}, which has no range", "columns")
        if self.kind == ACCEPTED_VALUES and name == types.BINARY:
            raise QualityProblem(f"{self.column} is {type_}, whose values are not compared", "columns")
        if self.kind in (RANGE, ACCEPTED_VALUES):
            for field, texts in (("minimum", [self.minimum]), ("maximum", [self.maximum]), ("values", self.values)):
                for text in texts:
                    if text or field == "values":
                        literal(text, type_, field)

    def _check(self) -> None:
        kind = self.definition
        for name in kind.required:
            if getattr(self, name) in ((), "", None):
                raise QualityProblem("is missing", name)
        if kind.one_of and not any(getattr(self, name) for name in kind.one_of):
            raise QualityProblem("needs a minimum, a maximum or both", kind.one_of[0])
        if kind.one_column and len(self.columns) != 1:
            raise QualityProblem(f"must be one column, not {len(self.columns)}", "columns")
        if len(self.columns) != len({name.lower() for name in self.columns}):
            raise QualityProblem("names a column twice", "columns")
        if self.other_columns and len(self.other_columns) != len(self.columns):
            raise QualityProblem(f"must be as many as the columns, {len(self.columns)}", "other_columns")
        for field in ("condition", "where"):
            if getattr(self, field):
                check_expression(getattr(self, field), field=field)
        self._check_limits()
        if self.kind == QUERY:
            _check_select(self.sql)

    def _check_limits(self) -> None:
        if self.kind in (LENGTH, ROW_COUNT):
            for field in _LIMITS:
                text = getattr(self, field)
                if text and not re.fullmatch(r"\d{1,18}", text, re.ASCII):
                    raise QualityProblem(f"must be a whole number, not {text!r}", field)
            if self.minimum and self.maximum and int(self.minimum) > int(self.maximum):
                raise QualityProblem(f"is above the maximum {self.maximum}", "minimum")
        if self.aggregate and self.aggregate not in AGGREGATES:
            raise QualityProblem(f"must be one of {', '.join(AGGREGATES)}", "aggregate")
        if self.hours is not None and not 1 <= self.hours <= MOST_HOURS:
            raise QualityProblem(f"must be 1 to {MOST_HOURS}", "hours")
        if self.runs is not None and not 5 <= self.runs <= MOST_RUNS:
            raise QualityProblem(f"must be 5 to {MOST_RUNS}", "runs")
        for field, above in (("tolerance", "0"), ("deviations", "1")):
            text = getattr(self, field)
            if text and not (is_number(text) and Decimal(above) <= Decimal(text) <= 1000):
                raise QualityProblem(f"must be a number from {above} to 1000", field)
        if self.dataset and not re.fullmatch(r"[^.\s]+\.[^.\s]+", self.dataset):
            raise QualityProblem("must be schema.name", "dataset")


def argument_names() -> tuple[str, ...]:
    """Return the names of the arguments of all kinds, in the order of forms."""
    return tuple(field.name for field in fields(QualityRule) if field.name != "kind")


def check_severity(rule: QualityRule, severity: str, layer: str) -> None:
    """Raise QualityProblem for a severity that a check of this kind cannot have in a dataset of this layer."""
    if severity not in SEVERITIES:
        raise QualityProblem(f"must be one of {', '.join(SEVERITIES)}, not {severity!r}", "severity")
    if severity != QUARANTINE:
        return
    if not rule.definition.finds_rows:
        raise QualityProblem(
            f"a check of kind {rule.kind} finds no rows to quarantine: choose warn or stop", "severity"
        )
    if layer == "raw":
        raise QualityProblem("raw keeps rows as delivered: quarantine them in the rawcore dataset", "severity")
    if layer in ("bizcore", "serving"):
        raise QualityProblem("rows of a model are computed: quarantine those of its inputs", "severity")


def is_number(text: str) -> bool:
    """Return True for the text of a finite number."""
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def literal(text: str, type_: DataType, field: str) -> str:
    """Return a text as a literal of Spark SQL in a column's type. Raise QualityProblem for no value of the type."""
    try:
        match type_.name:
            case types.BOOLEAN:
                return {"true": "TRUE", "false": "FALSE"}[text.lower()]
            case types.DATE:
                return f"DATE {quote_text(date.fromisoformat(text).isoformat())}"
            case types.TIMESTAMP:
                return f"TIMESTAMP {quote_text(datetime.fromisoformat(text).isoformat(sep=' '))}"
            case types.FLOAT if is_number(text):
                return f"{float(text)!r}D"
            case name if name in _NUMBERS:
                if not is_number(text) or len(text) > types.MAX_PRECISION:
                    raise ValueError
                return format(Decimal(text), "f")
    except (KeyError, ValueError):
        raise QualityProblem(f"{text!r} is no {type_}", field) from None
    return quote_text(text)


def _read(name: str, value: Any) -> Any:
    """Return an argument's value in its own type; a number may be given as text and the reverse."""
    if name in ("columns", "values", "other_columns"):
        items = [value] if isinstance(value, str) else value
        most = MOST_VALUES if name == "values" else MOST_COLUMNS
        if not isinstance(items, list | tuple) or not all(_is_text(item) for item in items) or len(items) > most:
            raise QualityProblem(f"must be a list of at most {most} texts", name)
        return tuple(str(item) for item in items)
    if name in ("hours", "runs"):
        if isinstance(value, bool) or not re.fullmatch(r"\d{1,6}", str(value), re.ASCII):
            raise QualityProblem("must be a whole number", name)
        return int(value)
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    most = {"sql": MAX_QUERY, "condition": MAX_QUERY, "where": MAX_QUERY, "pattern": MAX_PATTERN}.get(name, MAX_TEXT)
    if not isinstance(text, str) or len(text) > most or "\x00" in text:
        raise QualityProblem(f"must be a text of at most {most} characters", name)
    return text


def _is_text(item: Any) -> bool:
    return isinstance(item, str | int | float) and not isinstance(item, bool) and len(str(item)) <= MAX_TEXT


def _names_in(expression: str) -> tuple[str, ...]:
    return check_expression(expression) if expression else ()


def _renamed(names: tuple[str, ...], old: str, new: str) -> tuple[str, ...]:
    return tuple(new if name.lower() == old.lower() else name for name in names)


def _check_select(text: str) -> None:
    """Raise QualityProblem unless the text is one SELECT; the loader checks its functions and tables."""
    try:
        trees = sqlglot.parse(text, read="spark")
    except (SqlglotError, RecursionError):
        raise QualityProblem("cannot be read as SQL", "sql") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise QualityProblem("must be one SELECT", "sql")


def summary(rule: QualityRule) -> str:
    """Return a check in words, for lists: ``amount from 0 to 100``."""
    columns, where = ", ".join(rule.columns), f" where {rule.where}" if rule.where else ""
    limits = " ".join(
        part for part in (rule.minimum and f"from {rule.minimum}", rule.maximum and f"to {rule.maximum}") if part
    )
    match rule.kind:
        case "accepted_values":
            text = f"{columns} is {', '.join(rule.values[:5])}{' …' if len(rule.values) > 5 else ''}"
        case "range" | "row_count":
            text = f"{columns} {limits}".strip()
        case "length":
            text = f"{columns}: {limits} characters"
        case "pattern":
            text = f"{columns} matches {rule.pattern}"
        case "condition":
            text = rule.condition
        case "relationship":
            text = f"{columns} in {rule.dataset} ({', '.join(rule.other_columns)})"
        case "freshness":
            text = f"newest {columns} within {rule.hours} h"
        case "row_count_change":
            text = f"within {rule.deviations or DEFAULT_DEVIATIONS} deviations of {rule.runs or DEFAULT_RUNS} runs"
        case "total":
            text = f"{rule.aggregate} of {columns} equals {rule.dataset}.{', '.join(rule.other_columns)}"
        case "query":
            text = rule.sql if len(rule.sql) <= 200 else f"{rule.sql[:199]}…"
        case _:
            text = columns
    return text + where
