"""Translation of users' expressions from Spark SQL, for functions whose results are proven equal on an engine.

sqlglot parses the expression and writes each function; everything that is not on the list is refused with line and
column. Operators whose result depends on the engine (division, LIKE with escapes, comparisons of texts with numbers)
are not on it.
"""

import re
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from loader.dialects.dialect import LOAD_RUN_ID, LOAD_TIMESTAMP, Dialect
from loader.dialects.refusals import NotRendered
from metadata.domain.types import DataType

# Functions that ``tests/loader/dialects/test_expressions.py`` compares on DuckDB and PostgreSQL with known results.
PROVEN = {
    "coalesce": exp.Coalesce,
    "upper": exp.Upper,
    "lower": exp.Lower,
    "nullif": exp.Nullif,
    "length": exp.Length,
    "replace": exp.Replace,
}
_LOGIC: dict[type[exp.Expression], str] = {exp.And: "AND", exp.Or: "OR"}
_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_PLACEHOLDER = re.compile(r"\{\{\s*(load_timestamp|load_run_id)\s*\}\}")
_MARKERS = {"load_timestamp": "__load_timestamp__", "load_run_id": "__load_run_id__"}


def translate(sql: str, dialect: Dialect, types: Mapping[str, DataType], *, where: str = "", alias: str = "r") -> str:
    """Return an expression over columns of ``alias``. Raise NotRendered with the place of what is not proven."""
    text = _PLACEHOLDER.sub(lambda match: _MARKERS[match[1]], sql)
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        raise NotRendered(f"the expression {sql!r} cannot be parsed", where=where) from None
    return _Translation(sql, dialect, {name.lower(): name for name in types}, where, alias).of(tree)


class _Translation:
    """Writer of one expression."""

    def __init__(self, sql: str, dialect: Dialect, names: Mapping[str, str], where: str, alias: str) -> None:
        self.sql, self.dialect, self.names, self.where, self.alias = sql, dialect, names, where, alias

    def of(self, node: exp.Expression) -> str:
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return self.dialect.text(node.this) if node.is_string else self._number(node)
            case exp.Null():
                return "NULL"
            case exp.Paren():
                return f"({self.of(node.this)})"
            case exp.Not():
                return f"NOT ({self.of(node.this)})"
            case exp.Is() if isinstance(node.expression, exp.Null):
                return f"{self.of(node.this)} IS NULL"
            case exp.Case():
                return self._case(node)
            case exp.In() if node.expressions:
                return f"{self.of(node.this)} IN ({', '.join(map(self.of, node.expressions))})"
        for operators in (_LOGIC, _COMPARISONS):
            if type(node) in operators:
                return f"({self.of(node.this)} {operators[type(node)]} {self.of(node.expression)})"
        return self._function(node)

    def _function(self, node: exp.Expression) -> str:
        name = next((name for name, kind in PROVEN.items() if type(node) is kind), None)
        if name is None:
            raise self._refusal(node, f"{type(node).__name__.upper()} is not proven to be equal in this dialect")
        arguments = [node.this, *(a for a in (node.args.get("expression"), *node.expressions) if a is not None)]
        if name == "replace":
            arguments.append(node.args["replacement"])
        written = [self.of(argument) for argument in arguments]
        return self.dialect.length(written[0]) if name == "length" else f"{name}({', '.join(written)})"

    def _column(self, node: exp.Column) -> str:
        if node.name == _MARKERS["load_timestamp"]:
            return self.dialect.timestamp(LOAD_TIMESTAMP)
        if node.name == _MARKERS["load_run_id"]:
            return f"'{LOAD_RUN_ID}'"
        if node.table or node.name.lower() not in self.names:
            raise self._refusal(node, f"{node.sql('spark')} is no column of the input")
        return f"{self.alias}.{self.dialect.identifier(self.names[node.name.lower()])}"

    def _number(self, node: exp.Literal) -> str:
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", node.this):
            raise self._refusal(node, f"the number {node.this} has another type in this dialect")
        return node.this

    def _case(self, node: exp.Case) -> str:
        if node.this is not None:
            raise self._refusal(node, "CASE with an operand is not translated; write conditions")
        parts = [f"WHEN {self.of(branch.this)} THEN {self.of(branch.args['true'])}" for branch in node.args["ifs"]]
        default = node.args.get("default")
        if default is not None:
            parts.append(f"ELSE {self.of(default)}")
        return f"CASE {' '.join(parts)} END"

    def _refusal(self, node: exp.Expression, message: str) -> NotRendered:
        meta = next((part.meta for part in node.walk() if part.meta.get("line")), {})
        word = node.sql("spark").split("(")[0]
        start = max(self.sql.lower().find(word.lower()), 0)
        before = self.sql[:start]
        line = meta.get("line") or before.count("\n") + 1
        column = start - (before.rfind("\n") + 1) + 1
        return NotRendered(message, where=self.where, line=line, column=column)
