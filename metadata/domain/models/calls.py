"""Calls of functions: scalar ones, aggregates and windows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqlglot import exp

from metadata.domain.models import functions, sql_types
from metadata.domain.models.functions import Value, inputs_of
from metadata.domain.models.sql_types import BIGINT, TIMESTAMP, SqlType

_NESTED_SORTS = ("sort_array", "array_sort")
_LISTS = ("collect_list", "array_agg", "collect_set")
_OF_SETS = ("grouping", "grouping_id")
# Functions that have a unit, like DAY, if they have three arguments.
_WITH_UNIT = ("datediff", "date_diff", "dateadd", "timestampdiff", "timestampadd", "date_add")


class Evaluation(Protocol):
    """Evaluation of the expressions of one SELECT (``expressions.Expressions``), as calls need it.

    ``aggregate`` is the name of the aggregate around the expression, empty outside of one. ``clause`` is the part of
    the SELECT in which no window may be, empty in others.
    """

    aggregate: str
    clause: str

    @property
    def has_sets(self) -> bool: ...

    @property
    def groups(self) -> Mapping[Any, Value] | None: ...

    @property
    def windows(self) -> Mapping[str, exp.Window]: ...

    def identity(self, node: exp.Expr) -> Any: ...

    def value(self, node: exp.Expr) -> Value: ...

    def values(self, nodes: Iterable[exp.Expr]) -> list[Value]: ...

    def condition(self, node: exp.Expr) -> Value: ...

    def extract(self, node: exp.Extract) -> Value: ...

    def problem(self, node: exp.Expr, message: str) -> Exception: ...


def call(expressions: Evaluation, node: exp.Anonymous, *, in_window: bool = False) -> Value:
    """Return the value of a call. Raise ModelProblem for a function that is not allowed where it stands."""
    name = name_of(node)
    if name in functions.CHANGING:
        raise expressions.problem(node, f"{name} is not allowed in a model: its result differs from run to run")
    if name in functions.NEEDS_ORDER and not in_window:
        raise expressions.problem(
            node, f"{name} depends on the order of rows: use min_by, max_by, or OVER with ORDER BY"
        )
    if name in functions.WINDOWS and not in_window:
        raise expressions.problem(node, f"{name} needs OVER (... ORDER BY ...)")
    if name in functions.GENERATORS:
        raise expressions.problem(node, f"{name} stands in LATERAL VIEW")
    if name in functions.CASTS:
        return _plain_cast(expressions, node, functions.CASTS[name])
    if name in _WITH_UNIT and len(node.expressions) == 3:
        return _with_unit(expressions, node, name)
    if name in ("datediff", "date_diff"):
        return _signature(expressions, node, functions.Function(("d", "d"), "int", "="), node.expressions)
    if name in ("date_part", "datepart") and len(node.expressions) == 2:
        field, moment = node.expressions
        return expressions.extract(exp.Extract(this=exp.var(field.name), expression=moment.copy()))
    if name in functions.AGGREGATES:
        return _aggregated(expressions, node, name, in_window=in_window)
    signature = functions.SCALAR.get(name) or functions.WINDOWS.get(name)
    if signature is None:
        raise expressions.problem(node, f"the function {name} is not allowed in a model")
    return _signature(expressions, node, signature, node.expressions)


def _plain_cast(expressions: Evaluation, node: exp.Anonymous, own: SqlType) -> Value:
    if len(node.expressions) != 1:
        raise expressions.problem(node, f"{name_of(node)} takes 1 argument")
    value = expressions.value(node.expressions[0])
    if not sql_types.can_cast(value.type, own):
        raise expressions.problem(node, f"{value.type} cannot be cast to {own}")
    return Value(own, value.nullable or (value.type == sql_types.STRING != own), value.inputs)


def _with_unit(expressions: Evaluation, node: exp.Anonymous, name: str) -> Value:
    rest = expressions.values(node.expressions[1:])
    own = BIGINT if name.endswith("diff") else TIMESTAMP
    return Value(own, any(value.nullable for value in rest), inputs_of(rest))


def _aggregated(expressions: Evaluation, node: exp.Anonymous, name: str, *, in_window: bool) -> Value:
    if not in_window and expressions.aggregate:
        raise expressions.problem(node, f"{name} cannot stand within {expressions.aggregate}")
    if not in_window and expressions.groups is None:
        raise expressions.problem(node, f"{name} aggregates rows: it is not allowed here")
    if name in _OF_SETS:
        known = expressions.groups if expressions.has_sets and expressions.groups else {}
        if any(expressions.identity(part) not in known for part in node.expressions):
            raise expressions.problem(node, f"{name} takes columns of ROLLUP, CUBE or GROUPING SETS")
    if name in _LISTS and not (isinstance(node.parent, exp.Anonymous) and name_of(node.parent) in _NESTED_SORTS):
        raise expressions.problem(node, f"{name} has no order: use sort_array({name}(...))")
    if name in ("listagg", "string_agg") and not isinstance(node.parent, exp.WithinGroup):
        raise expressions.problem(node, f"{name} has no order: add WITHIN GROUP (ORDER BY ...)")
    arguments = [part for part in node.expressions if not isinstance(part, exp.Star)]
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments = list(arguments[0].expressions)
    if name == "count" and not arguments:
        return Value(BIGINT, False)
    outer, expressions.aggregate = expressions.aggregate, expressions.aggregate if in_window else name
    try:
        return _signature(expressions, node, functions.AGGREGATES[name], arguments)
    finally:
        expressions.aggregate = outer


def _signature(
    expressions: Evaluation, node: exp.Anonymous, signature: functions.Function, arguments: Sequence[exp.Expr]
) -> Value:
    name = name_of(node)
    skipped = [place for place in range(len(arguments)) if signature.arguments and signature.family(place) == "u"]
    values = [
        Value(sql_types.NULL, False) if place in skipped else expressions.value(_unordered(argument))
        for place, argument in enumerate(arguments)
    ]
    problem = functions.misfit(signature, [value.type for value in values])
    if problem:
        place, words = problem
        where = arguments[place] if place >= 0 else node
        raise expressions.problem(where, f"{name} {words}" if place < 0 else f"argument {place + 1} of {name} {words}")
    own, nullable = functions.result(signature, values)
    if own is None:
        types = ", ".join(str(value.type) for value in values)
        raise expressions.problem(node, f"the arguments of {name} do not fit together: {types}")
    return Value(own, nullable, inputs_of(values))


def filter_(expressions: Evaluation, node: exp.Filter) -> Value:
    return _filtered(expressions, node, in_window=False)


def _filtered(expressions: Evaluation, node: exp.Filter, *, in_window: bool) -> Value:
    value = inner_call(expressions, node.this, in_window=in_window)
    outer, expressions.aggregate = expressions.aggregate, expressions.aggregate if in_window else "filter"
    try:
        condition = expressions.condition(node.expression.this)
    finally:
        expressions.aggregate = outer
    return value._replace(inputs=inputs_of((value, condition)))


def within_group(expressions: Evaluation, node: exp.WithinGroup, *, in_window: bool = False) -> Value:
    call = node.this
    order = [item.this for item in node.expression.expressions]
    outer, expressions.aggregate = expressions.aggregate, expressions.aggregate if in_window else name_of(call)
    try:
        ordered = expressions.values(order)
    finally:
        expressions.aggregate = outer
    distinct = call.find(exp.Distinct)
    if distinct is not None and any(each.sql() != distinct.expressions[0].sql() for each in order):
        raise expressions.problem(node, f"{name_of(call)} with DISTINCT is ordered by its argument only")
    value = inner_call(expressions, call, in_window=in_window)
    return value._replace(inputs=inputs_of((value, *ordered)))


def inner_call(expressions: Evaluation, node: exp.Expr, *, in_window: bool) -> Value:
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return inner_call(expressions, node.this, in_window=in_window)
    if isinstance(node, exp.Filter):
        return _filtered(expressions, node, in_window=in_window)
    if isinstance(node, exp.WithinGroup):
        return within_group(expressions, node, in_window=in_window)
    if not isinstance(node, exp.Anonymous):
        raise expressions.problem(node, f"{words_of(node)} is no function over rows")
    return call(expressions, node, in_window=in_window)


def nulls(expressions: Evaluation, node: exp.Expr) -> Value:
    if isinstance(node.this, exp.Anonymous) and name_of(node.this) in (functions.WINDOWS | functions.AGGREGATES):
        return inner_call(expressions, node.this, in_window=False)
    return expressions.value(node.this)


def name_of(node: exp.Anonymous) -> str:
    return node.name.lower()


def _unordered(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) else node


def words_of(node: exp.Expr) -> str:
    return node.key.replace("_", " ")
