"""Translation of users' expressions from Spark SQL, for functions whose results are proven equal on an engine.

sqlglot parses the expression and this module writes it; everything that is not on the list is refused with line and
column. Not on it are, among others, ``upper``, ``lower``, ``trim`` and ``length``, whose results for letters and blanks
beyond ASCII differ between engines, division, LIKE, casts, the order of texts, and comparisons of different types.
"""

import re
from collections.abc import Callable, Mapping
from typing import cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from architecture.domain.type_changes import classify_types
from loader.dialects.dialect import Dialect
from loader.dialects.refusals import NotRendered
from loader.dialects.types_and_names import LOAD_RUN_ID, LOAD_TIMESTAMP
from metadata.domain import types as data_types
from metadata.domain.types import DataType

# Functions that ``tests/loader/dialects/test_expressions.py`` compares on DuckDB and PostgreSQL with known results.
PROVEN = ("coalesce", "nullif", "replace", "concat")
TEXT, NUMBER, BOOLEAN, NULL = "text", "number", "boolean", "null"
_KINDS = {
    data_types.STRING: TEXT,
    data_types.INTEGER: NUMBER,
    data_types.BIGINT: NUMBER,
    data_types.DECIMAL: NUMBER,
    data_types.BOOLEAN: BOOLEAN,
    data_types.DATE: data_types.DATE,
    data_types.TIMESTAMP: data_types.TIMESTAMP,
}
_EXACT_DIGITS = 15  # of a decimal number that a double has exactly in print
_ORDERED = (NUMBER, data_types.DATE, data_types.TIMESTAMP)
_LOGIC: dict[type[exp.Expr], str] = {exp.And: "AND", exp.Or: "OR"}
_EQUALITY: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>"}
_ORDER: dict[type[exp.Expr], str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_PLACEHOLDER = re.compile(r"\{\{\s*(load_timestamp|load_run_id)\s*\}\}")
_MARKERS = {"load_timestamp": "__load_timestamp__", "load_run_id": "__load_run_id__"}

Written = tuple[str, str]  # SQL and its kind
ColumnOf = tuple[str, str, DataType]  # alias as SQL, name and type


def translate_condition(sql: str, dialect: Dialect, types: Mapping[str, DataType], *, where: str) -> str:
    """Return a condition over columns of ``r``. Raise NotRendered, also for a value that is no condition."""
    tree = _parsed(sql, where)
    translation = Translation(sql, dialect, types, where, "r")
    text, kind = translation.of(tree)
    if kind != BOOLEAN:
        raise translation.refusal(tree, f"a {kind} value is no condition")
    return text


def translate_value(sql: str, dialect: Dialect, types: Mapping[str, DataType], *, where: str) -> Written:
    """Return an expression over columns of ``r``, and its kind."""
    return Translation(sql, dialect, types, where, "r").of(_parsed(sql, where))


def translate_to(sql: str, dialect: Dialect, types: Mapping[str, DataType], target: DataType, *, where: str) -> str:
    """Return an expression over columns of ``r`` as a value of a type.

    Raise NotRendered if its cast could change a value: databases cut texts and round numbers that the product refuses.
    """
    tree = _parsed(sql, where)
    translation = Translation(sql, dialect, types, where, "r")
    text, kind = translation.of(tree)
    translation.check_fits(tree, kind, target)
    return f"CAST({text} AS {dialect.cast_type(target)})"


def _parsed(sql: str, where: str) -> exp.Expr:
    text = _PLACEHOLDER.sub(lambda match: _MARKERS[match[1]], sql)
    try:
        return sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        raise NotRendered(f"the expression {sql!r} cannot be parsed", where=where) from None


def _literal_fits(text: str, target: DataType) -> bool:
    """Return True if a number, written in plain digits, is exactly a value of the type."""
    whole, _, fraction = text.partition(".")
    if target.name == data_types.DECIMAL:
        return len(fraction) <= (target.scale or 0) and len(whole) <= (target.precision or 0) - (target.scale or 0)
    if target.name == data_types.FLOAT:
        return len(whole + fraction) <= _EXACT_DIGITS
    return not fraction and int(whole) < (2**31 if target.name == data_types.INTEGER else 2**63)


class Translation:
    """Writer of expressions over the columns of one table."""

    def __init__(self, sql: str, dialect: Dialect, types: Mapping[str, DataType], where: str, alias: str) -> None:
        self.sql, self.dialect, self.where, self.alias = sql, dialect, where, alias
        self.columns = {name.lower(): (name, type_) for name, type_ in types.items()}

    def of(self, node: exp.Expr) -> Written:
        """Return the SQL and the kind of a node."""
        writers: dict[type[exp.Expr], Callable[[exp.Expr], Written]] = {
            exp.Column: self._column,
            exp.Literal: self._literal,
            exp.Null: lambda _: ("NULL", NULL),
            exp.Paren: self._parenthesis,
            exp.Not: lambda inner: (f"NOT ({self.of(inner.this)[0]})", BOOLEAN),
            exp.Is: self._is_null,
            exp.Case: self._case,
            exp.In: self._in,
            exp.Coalesce: self._coalesce,
            exp.Nullif: self._nullif,
            exp.Replace: self._replace,
            exp.Concat: lambda inner: self._joined(inner, inner.expressions),
            exp.DPipe: lambda inner: self._joined(inner, [inner.this, inner.expression]),
        }
        if type(node) in _LOGIC:
            left, right = self.of(node.this)[0], self.of(node.expression)[0]
            return f"({left} {_LOGIC[type(node)]} {right})", BOOLEAN
        if type(node) in _EQUALITY or type(node) in _ORDER:
            return self._comparison(node)
        writer = writers.get(type(node))
        if writer is None:
            raise self.refusal(node, f"{type(node).__name__.upper()} is not proven to be equal in this dialect")
        return writer(node)

    def check_fits(self, root: exp.Expr, kind: str, target: DataType) -> None:
        """Raise NotRendered unless every value of the expression is one of the type."""
        if kind == NULL:
            return
        is_double = kind == NUMBER and target.name == data_types.FLOAT
        if kind != _KINDS.get(target.name, target.name) and not is_double:
            raise self.refusal(root, f"a {kind} value is read as {target}, which can change or refuse values")
        if target.length is not None:
            raise self.refusal(root, f"a text longer than {target.length} characters is not refused by every database")
        if kind == BOOLEAN and not self.dialect.has_booleans:
            raise self.refusal(root, f"a condition is no value in {self.dialect.title}")
        if kind != NUMBER:
            return
        for node in root.walk():
            if isinstance(node, exp.Literal) and not node.is_string and not _literal_fits(node.this, target):
                raise self.refusal(node, f"the number {node.this} is no value of {target}")
            if isinstance(node, exp.Column) and not self._column_fits(node, target):
                raise self.refusal(node, f"values of {node.name} can be rounded or refused as {target}")

    def column_of(self, node: exp.Column) -> ColumnOf | None:
        """Return the alias, name and type of a column; None if there is none of its name."""
        own = None if node.table else self.columns.get(node.name.lower())
        return None if own is None else (self.alias, *own)

    def _column_fits(self, node: exp.Column, target: DataType) -> bool:
        """Return True for a number whose type is the target or narrower, and for values of other kinds."""
        own = self.column_of(node)
        if own is None or _KINDS.get(own[2].name) != NUMBER:
            return True
        type_ = own[2]
        return type_ == target or classify_types(type_, target).widens

    def _parenthesis(self, node: exp.Expr) -> Written:
        text, kind = self.of(node.this)
        return f"({text})", kind

    def _same_kind(self, node: exp.Expr, parts: list[exp.Expr]) -> tuple[list[str], str]:
        """Return the parts, which must be of one kind; NULL is of any."""
        written = [self.of(part) for part in parts]
        kinds = {kind for _, kind in written} - {NULL}
        if len(kinds) != 1:
            raise self.refusal(node, f"values of {len(kinds)} kinds are not compared alike in every dialect")
        return [text for text, _ in written], kinds.pop()

    def _comparison(self, node: exp.Expr) -> Written:
        (left, right), kind = self._same_kind(node, [node.this, node.expression])
        sign = _EQUALITY.get(type(node)) or _ORDER[type(node)]
        if type(node) in _ORDER and kind not in _ORDERED:
            raise self.refusal(node, f"the order of {kind} values depends on the database")
        self._refuse_padded(node, kind)
        return f"({left} {sign} {right})", BOOLEAN

    def _refuse_padded(self, node: exp.Expr, kind: str) -> None:
        """Refuse a comparison of texts where blanks at their end do not count."""
        if kind == TEXT and self.dialect.pads_texts:
            raise self.refusal(node, f"{self.dialect.title} ignores blanks at the end of compared texts")

    def _is_null(self, node: exp.Expr) -> Written:
        if not isinstance(node.expression, exp.Null):
            raise self.refusal(node, "IS is translated with NULL only")
        return f"{self.of(node.this)[0]} IS NULL", BOOLEAN

    def _in(self, node: exp.Expr) -> Written:
        if not node.expressions:
            raise self.refusal(node, "IN is translated with a list only")
        (value, *listed), kind = self._same_kind(node, [node.this, *node.expressions])
        self._refuse_padded(node, kind)
        return f"{value} IN ({', '.join(listed)})", BOOLEAN

    def _coalesce(self, node: exp.Expr) -> Written:
        parts, kind = self._same_kind(node, [node.this, *node.expressions])
        return f"coalesce({', '.join(parts)})", kind

    def _nullif(self, node: exp.Expr) -> Written:
        parts, kind = self._same_kind(node, [node.this, node.expression])
        self._refuse_padded(node, kind)
        return f"nullif({', '.join(parts)})", kind

    def _replace(self, node: exp.Expr) -> Written:
        sought = node.expression
        if not isinstance(sought, exp.Literal) or not sought.this or "replacement" not in node.args:
            raise self.refusal(node, "replace is translated with a text to search for and its replacement")
        parts, _ = self._same_kind(node, [node.this, sought, node.args["replacement"]])
        return f"replace({', '.join(parts)})", TEXT

    def _joined(self, node: exp.Expr, inner: list[exp.Expr]) -> Written:
        parts, kind = self._same_kind(node, inner)
        if kind != TEXT:
            raise self.refusal(node, "only texts are joined alike in every dialect")
        return self.dialect.concat(*parts), TEXT

    def _column(self, node: exp.Expr) -> Written:
        if node.name == _MARKERS["load_timestamp"]:
            return self.dialect.timestamp(LOAD_TIMESTAMP), data_types.TIMESTAMP
        if node.name == _MARKERS["load_run_id"]:
            return f"'{LOAD_RUN_ID}'", TEXT
        own = self.column_of(cast("exp.Column", node))
        if own is None:
            raise self.refusal(node, f"{node.sql('spark')} is no column of the input")
        alias, name, type_ = own
        if type_.name == data_types.BOOLEAN and not self.dialect.has_booleans:
            raise self.refusal(node, f"a boolean column is no condition in {self.dialect.title}")
        return f"{alias}.{self.dialect.identifier(name)}", _KINDS.get(type_.name, type_.name)

    def _literal(self, node: exp.Expr) -> Written:
        if node.is_string:
            return self.dialect.text(node.this), TEXT
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", node.this):
            raise self.refusal(node, f"the number {node.this} has another type in this dialect")
        return node.this, NUMBER

    def _case(self, node: exp.Expr) -> Written:
        if node.this is not None:
            raise self.refusal(node, "CASE with an operand is not translated; write conditions")
        branches, default = node.args["ifs"], node.args.get("default")
        results = [branch.args["true"] for branch in branches] + ([default] if default is not None else [])
        values, kind = self._same_kind(node, results)
        pairs = zip(branches, values, strict=False)
        parts = [f"WHEN {self.of(branch.this)[0]} THEN {value}" for branch, value in pairs]
        if default is not None:
            parts.append(f"ELSE {values[-1]}")
        return f"CASE {' '.join(parts)} END", kind

    def refusal(self, node: exp.Expr, message: str) -> NotRendered:
        meta = next((part.meta for part in node.walk() if part.meta.get("line")), {})
        word = node.sql("spark").split("(")[0].split(" ")[0]
        start = max(self.sql.lower().find(word.lower()), 0)
        before = self.sql[:start]
        line = before.count("\n") + 1 if start else meta.get("line") or 1
        return NotRendered(message, where=self.where, line=line, column=start - (before.rfind("\n") + 1) + 1)
