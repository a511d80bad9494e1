"""Guided builder: a SELECT from chosen datasets, joins, columns and conditions, and back.

Only plain SELECTs have such a form: tables joined by one equality, columns with or without an aggregate, and
conditions that all hold.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from metadata.domain.models.statement import ModelProblem, ModelSql, parse_model
from metadata.domain.sql import conjuncts, quote_identifier, quote_text
from metadata.domain.types import BOOLEAN, DATE, TIMESTAMP, parse

INNER, LEFT = "inner", "left"
JOINS = {INNER: "only rows with a match", LEFT: "all rows, also without a match"}
FUNCTIONS = {
    "": "value",
    "sum": "sum",
    "avg": "average",
    "min": "smallest",
    "max": "largest",
    "count": "number of values",
    "count_distinct": "number of different values",
}
IS_NULL, IS_NOT_NULL = "is null", "is not null"
OPERATORS = {
    "=": "equals",
    "<>": "differs from",
    "<": "is less than",
    "<=": "is at most",
    ">": "is greater than",
    ">=": "is at least",
    IS_NULL: "has no value",
    IS_NOT_NULL: "has a value",
}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE | re.ASCII)
_KEYWORDS = frozenset(word.split()[0] for word in ModelSql.Tokenizer.KEYWORDS)
_NUMBERS = ("integer", "bigint", "decimal", "float")


@dataclass(frozen=True)
class Join:
    """Join of a dataset under an alias: its column ``own`` equals ``column`` of the alias ``other``."""

    dataset: str
    alias: str
    kind: str
    own: str
    other: str
    column: str


@dataclass(frozen=True)
class Pick:
    """Column of the result: a column of an alias, or an aggregate of it, under a name."""

    alias: str
    column: str
    name: str
    function: str = ""


@dataclass(frozen=True)
class Condition:
    """Condition on a column; ``value`` is SQL, empty for conditions on NULL."""

    alias: str
    column: str
    operator: str
    value: str = ""


@dataclass(frozen=True)
class Build:
    """Choices in the builder, from which the SELECT is written."""

    dataset: str
    alias: str
    joins: tuple[Join, ...] = ()
    picks: tuple[Pick, ...] = ()
    conditions: tuple[Condition, ...] = ()


def alias_of(dataset: str, taken: Sequence[str]) -> str:
    """Return the alias of a dataset: its own name, with a number if another has it."""
    own = dataset.partition(".")[2]
    number, alias = 1, own
    while alias.lower() in {name.lower() for name in taken}:
        number += 1
        alias = f"{own}_{number}"
    return alias


def literal_of(text: str, data_type: str) -> str:
    """Return a value that a user typed as SQL of a column's type. Raise ModelProblem if it is none."""
    own, text = parse(data_type), text.strip()
    try:
        if own.name in _NUMBERS:
            return format(_finite(Decimal(text)), "f")
        if own.name == BOOLEAN:
            return {"true": "true", "yes": "true", "false": "false", "no": "false"}[text.lower()]
        if own.name == DATE:
            return f"DATE {quote_text(date.fromisoformat(text).isoformat())}"
        if own.name == TIMESTAMP:
            return f"TIMESTAMP {quote_text(datetime.fromisoformat(text).isoformat(sep=' '))}"
    except (ValueError, KeyError, InvalidOperation):
        raise ModelProblem(f"{text!r} is no {own}") from None
    return quote_text(text)


def _finite(number: Decimal) -> Decimal:
    if not number.is_finite():
        raise ValueError
    return number


def build_select(build: Build) -> str:
    """Return the SELECT of a build."""
    lines = ["SELECT", ",\n".join(f"  {_pick(pick)}" for pick in build.picks)]
    lines.append(f"FROM {_dataset(build.dataset)} AS {_name(build.alias)}")
    for join in build.joins:
        word = "LEFT JOIN" if join.kind == LEFT else "JOIN"
        on = f"{_column(join.alias, join.own)} = {_column(join.other, join.column)}"
        lines.append(f"{word} {_dataset(join.dataset)} AS {_name(join.alias)} ON {on}")
    if build.conditions:
        lines.append("WHERE " + "\n  AND ".join(map(_condition, build.conditions)))
    if any(pick.function for pick in build.picks):
        keys = [_column(pick.alias, pick.column) for pick in build.picks if not pick.function]
        if keys:
            lines.append(f"GROUP BY {', '.join(keys)}")
    return "\n".join(lines)


def read_build(text: str) -> Build | None:
    """Return the build of a SELECT; None if the builder cannot write it."""
    try:
        tree = parse_model(text).tree
        build = _build(tree)
    except (ModelProblem, _NotBuilt):
        return None
    written = parse_model(build_select(build)).tree
    is_same = written.sql(ModelSql, identify=True) == tree.sql(ModelSql, identify=True, comments=False)
    return build if is_same else None


class _NotBuilt(Exception):
    """Part of a SELECT that the builder does not write."""


def _build(tree: exp.Expr) -> Build:
    if not isinstance(tree, exp.Select) or not tree.args.get("from_"):
        raise _NotBuilt
    dataset, alias = _source(tree.args["from_"].this)
    joins = tuple(_join(join) for join in tree.args.get("joins") or ())
    where = tree.args.get("where")
    conditions = tuple(map(_condition_of, conjuncts(where.this if where else None)))
    return Build(dataset, alias, joins, tuple(map(_pick_of, tree.expressions)), conditions)


def _source(node: exp.Expr) -> tuple[str, str]:
    if not isinstance(node, exp.Table) or not node.db or not node.alias:
        raise _NotBuilt
    return f"{node.db}.{node.name}", node.alias


def _join(join: exp.Join) -> Join:
    dataset, alias = _source(join.this)
    on = join.args.get("on")
    if not isinstance(on, exp.EQ):
        raise _NotBuilt
    (own_alias, own), (other, column) = _column_of(on.this), _column_of(on.expression)
    if own_alias != alias:
        raise _NotBuilt
    return Join(dataset, alias, LEFT if join.side else INNER, own, other, column)


def _column_of(node: exp.Expr) -> tuple[str, str]:
    if not isinstance(node, exp.Column) or not node.table or isinstance(node.this, exp.Star):
        raise _NotBuilt
    return node.table, node.name


def _pick_of(node: exp.Expr) -> Pick:
    if not isinstance(node, exp.Alias):
        raise _NotBuilt
    inner, function = node.this, ""
    if isinstance(inner, exp.Anonymous) and len(inner.expressions) == 1:
        function, inner = inner.name.lower(), inner.expressions[0]
        if isinstance(inner, exp.Distinct) and function == "count" and len(inner.expressions) == 1:
            function, inner = "count_distinct", inner.expressions[0]
        if function not in FUNCTIONS:
            raise _NotBuilt
    return Pick(*_column_of(inner), node.alias, function)


def _condition_of(node: exp.Expr) -> Condition:
    is_not = isinstance(node, exp.Not)
    inner = node.this if is_not else node
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return Condition(*_column_of(inner.this), IS_NOT_NULL if is_not else IS_NULL)
    if is_not or type(node) not in _COMPARISONS:
        raise _NotBuilt
    return Condition(*_column_of(node.this), _COMPARISONS[type(node)], _literal_sql(node.expression))


def _literal_sql(node: exp.Expr) -> str:
    if isinstance(node, exp.Literal):
        return quote_text(node.this) if node.is_string else node.this
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.this}"
    if isinstance(node, exp.Boolean):
        return str(node.this).lower()
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        word = {"DATE": "DATE", "TIMESTAMPTZ": "TIMESTAMP"}.get(node.args["to"].this.name)
        if word:
            return f"{word} {quote_text(node.this.this)}"
    raise _NotBuilt


def value_of(condition: Condition) -> str:
    """Return the value of a condition as a user types it."""
    text = condition.value.removeprefix("DATE ").removeprefix("TIMESTAMP ")
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith("'") else text


def _pick(pick: Pick) -> str:
    column = _column(pick.alias, pick.column)
    if pick.function == "count_distinct":
        column = f"count(DISTINCT {column})"
    elif pick.function:
        column = f"{pick.function}({column})"
    return f"{column} AS {_name(pick.name)}"


def _condition(condition: Condition) -> str:
    column = _column(condition.alias, condition.column)
    if condition.operator in (IS_NULL, IS_NOT_NULL):
        return f"{column} {condition.operator.upper()}"
    return f"{column} {condition.operator} {condition.value}"


def _column(alias: str, column: str) -> str:
    return f"{_name(alias)}.{_name(column)}"


def _dataset(name: str) -> str:
    return ".".join(map(_name, name.split(".")))


def _name(name: str) -> str:
    """Return a name as SQL, in quotes unless it can do without."""
    is_plain = _PLAIN.fullmatch(name) and name.upper() not in _KEYWORDS
    return name if is_plain else quote_identifier(name)
