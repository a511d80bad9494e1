"""Types, nullability and inputs of expressions."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlglot import exp

from metadata.domain.models import calls, functions, sql_types, windows
from metadata.domain.models.calls import name_of, words_of
from metadata.domain.models.functions import Value, inputs_of
from metadata.domain.models.scopes import Scope
from metadata.domain.models.sql_types import BIGINT, BOOLEAN, INT, STRING, TIMESTAMP, SqlType
from metadata.domain.sql import clock_message

Query = Callable[[exp.Expr, Scope], Sequence[Any]]

_UNITS = {
    "year": sql_types.MONTHS,
    "month": sql_types.MONTHS,
    "week": sql_types.DAYS,
    "day": sql_types.DAYS,
    "hour": sql_types.INTERVAL,
    "minute": sql_types.INTERVAL,
    "second": sql_types.INTERVAL,
}
_OPERATORS = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div"}


class Expressions:
    """Evaluation of the expressions of one SELECT.

    ``groups`` are the grouped expressions with their values, None unless rows are grouped. Within an aggregate, rows
    are not grouped. ``query`` describes a subquery. ``clause`` is the part of the SELECT in which no window may be,
    empty in others.
    """

    def __init__(self, scope: Scope, query: Query) -> None:
        self.scope = scope
        self.query = query
        self.groups: dict[Any, Value] | None = None
        self.windows: dict[str, exp.Window] = {}
        self.aggregate = ""
        self.clause = ""
        self.has_sets = False  # GROUP BY with ROLLUP, CUBE or GROUPING SETS

    def value(self, node: exp.Expr) -> Value:
        """Return the value of an expression. Raise ModelProblem."""
        if self.groups is not None and not self.aggregate:
            group = self.groups.get(self.identity(node))
            if group is not None:
                self._note_names(node)
                return group
        rule = _RULES.get(type(node))
        if rule is None:
            raise self.problem(node, f"{words_of(node)} is not allowed in a model")
        return rule(self, node)

    def _note_names(self, node: exp.Expr) -> None:
        """Record the names in an expression that is not evaluated because rows are grouped by it."""
        for column in node.find_all(exp.Column):
            if column.this.meta.get("start", -1) not in self.scope.statement.placeholders:
                self.scope.find(column)

    def values(self, nodes: Iterable[exp.Expr]) -> list[Value]:
        return [self.value(node) for node in nodes]

    def condition(self, node: exp.Expr, clause: str = "") -> Value:
        """Return the value of a condition, which is a boolean."""
        outer, self.clause = self.clause, clause or self.clause
        value = self.value(node)
        self.clause = outer
        if value.type not in (BOOLEAN, sql_types.NULL):
            raise self.problem(node, f"a condition is a boolean, not {value.type}")
        return value

    def identity(self, node: exp.Expr) -> Any:
        """Return a value that is equal for expressions that mean the same."""
        if isinstance(node, exp.Paren):
            return self.identity(node.this)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            source = self.scope.source(node) if node.table else None
            if source is None and not node.table:
                source = next((each for each in self.scope.sources if each.column(node.name.lower())), None)
            return ("column", id(source), node.name.lower()) if source else ("column", node.table, node.name.lower())
        if isinstance(node, exp.Literal):
            return ("literal", node.this, node.is_string)
        if isinstance(node, exp.Identifier):
            return node.name.lower()
        parts = []
        for name, part in node.args.items():
            if isinstance(part, exp.Expression):
                parts.append((name, self.identity(part)))
            elif isinstance(part, list):
                items = (self.identity(item) if isinstance(item, exp.Expression) else item for item in part)
                parts.append((name, tuple(items)))
            elif part:
                parts.append((name, part.lower() if isinstance(part, str) else part))
        return (type(node).__name__, tuple(parts))

    def is_aggregated(self, node: Any) -> bool:
        """Return True if an expression aggregates rows, outside of windows and subqueries."""
        if isinstance(node, exp.Query):
            return False
        if isinstance(node, exp.Window):
            call = node.this
            while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter | exp.WithinGroup):
                call = call.this
            within = [*call.iter_expressions(), *node.args.get("partition_by", ()), node.args.get("order")]
            return any(self.is_aggregated(part) for part in within if part is not None)
        if isinstance(node, exp.Anonymous) and name_of(node) in functions.AGGREGATES:
            return True
        return any(self.is_aggregated(part) for part in node.iter_expressions())

    # Names and literals.

    def _column(self, node: exp.Column) -> Value:
        placeholder = self.scope.statement.placeholders.get(node.this.meta.get("start", -1))
        if placeholder is not None and not node.table:
            return Value(TIMESTAMP if placeholder == "load_timestamp" else STRING, False)
        if isinstance(node.this, exp.Star):
            raise self.problem(node, "* stands alone in the SELECT list or in count(*)")
        if node.args.get("catalog"):
            raise self.problem(node, f"{node.sql('spark')} is no column: fields of structures are not supported")
        item, depth = self.scope.find(node)
        is_result = depth == 0 and not node.table and item is self.scope.aliases.get(node.name.lower())
        if is_result and self.aggregate and not _is_column(item.expression, node.name):
            raise self.problem(node, f"{node.name} is a result: {self.aggregate} takes its expression instead")
        if is_result and self.clause == windows.WITHIN and not self.scope.results_first:
            raise self.problem(node, f"{node.name} is a result: a window takes its expression instead")
        if self.groups is not None and not self.aggregate and depth == 0 and not is_result:
            raise self.problem(node, f"{node.name} is neither grouped nor within an aggregate")
        return item.value

    def _literal(self, node: exp.Literal) -> Value:
        if node.is_string:
            return Value(STRING, False)
        digits = node.this
        if "e" in digits.lower():
            return Value(sql_types.DOUBLE, False)
        if "." in digits:
            return Value(sql_types.decimal_of_digits(digits), False)
        number = int(digits)
        own = INT if number < 2**31 else BIGINT if number < 2**63 else sql_types.decimal_of_digits(digits)
        return Value(own, False, integer=number)

    # Operators.

    def _arithmetic(self, node: exp.Binary) -> Value:
        operator = _OPERATORS[type(node)]
        left, right = self.value(node.this), self.value(node.expression)
        divisor = node.expression.unnest()
        is_number = isinstance(divisor, exp.Literal) and not divisor.is_string
        if operator in ("/", "%", "div") and is_number and not float(divisor.this):
            raise self.problem(divisor, "this divides by zero")
        own = functions.calculated_type(operator, left, right)
        if own is None:
            raise self.problem(node, f"{left.type} {operator} {right.type} is not possible")
        risky = operator in ("/", "%", "div") or own.name == "decimal" or _converts_text(left, right)
        return Value(own, left.nullable or right.nullable or risky, inputs_of((left, right)))

    def _negative(self, node: exp.Neg) -> Value:
        value = self.value(node.this)
        if not (value.type.is_numeric or value.type.is_interval or value.type in (STRING, sql_types.NULL)):
            raise self.problem(node, f"{value.type} has no negative")
        own = sql_types.DOUBLE if value.type == STRING else value.type
        integer = -value.integer if value.integer is not None else None
        return Value(own, value.nullable, value.inputs, integer=integer)

    def _comparison(self, node: exp.Binary) -> Value:
        left, right = self.value(node.this), self.value(node.expression)
        self._must_compare(node, left, right)
        nullable = left.nullable or right.nullable or _converts_text(left, right)
        nullable = nullable and not isinstance(node, exp.NullSafeEQ)
        return Value(BOOLEAN, nullable, inputs_of((left, right)))

    def _must_compare(self, node: exp.Expr, left: Value, right: Value) -> None:
        if sql_types.common_type(left.type, right.type) is None:
            raise self.problem(node, f"{left.type} cannot be compared with {right.type}")

    def _logical(self, node: exp.Expr) -> Value:
        values = [self.condition(part) for part in node.iter_expressions()]
        return Value(BOOLEAN, any(value.nullable for value in values), inputs_of(values))

    def _paren(self, node: exp.Paren) -> Value:
        return self.value(node.this)

    def _is(self, node: exp.Is) -> Value:
        return Value(BOOLEAN, False, self.value(node.this).inputs)

    def _like(self, node: exp.Binary) -> Value:
        values = self.values((node.this, node.expression))
        return Value(BOOLEAN, any(value.nullable for value in values), inputs_of(values))

    def _escape(self, node: exp.Escape) -> Value:
        return self.value(node.this)

    def _concat(self, node: exp.DPipe) -> Value:
        values = self.values((node.this, node.expression))
        for part, value in zip((node.this, node.expression), values, strict=True):
            if value.type.item or value.type.is_interval or value.type == sql_types.BINARY:
                raise self.problem(part, f"|| takes text, not {value.type}")
        return Value(STRING, any(value.nullable for value in values), inputs_of(values))

    def _between(self, node: exp.Between) -> Value:
        values = self.values((node.this, node.args["low"], node.args["high"]))
        for bound in values[1:]:
            self._must_compare(node, values[0], bound)
        return Value(BOOLEAN, any(value.nullable for value in values), inputs_of(values))

    def _in(self, node: exp.In) -> Value:
        left = self.values(node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this])
        if node.args.get("query"):
            columns = self.query(node.args["query"], self.scope)
            if len(columns) != len(left):
                raise self.problem(node, f"the subquery has {len(columns)} columns, not {len(left)}")
            right = [column.value for column in columns]
            for own, other in zip(left, right, strict=True):
                self._must_compare(node, own, other)
            return Value(BOOLEAN, True, inputs_of([*left, *right]))
        right = []
        for option in node.expressions:
            options = self.values(option.expressions if isinstance(option, exp.Tuple) else [option])
            for own, other in zip(left, options, strict=False):
                self._must_compare(option, own, other)
            right += options
        return Value(BOOLEAN, any(value.nullable for value in (*left, *right)), inputs_of([*left, *right]))

    def _exists(self, node: exp.Exists) -> Value:
        return Value(BOOLEAN, False, inputs_of(item.value for item in self.query(node.this, self.scope)))

    def _scalar_subquery(self, node: exp.Expr) -> Value:
        known = len(self.scope.references)
        columns = self.query(node, self.scope)
        if len(columns) != 1:
            raise self.problem(node, f"a subquery in an expression has one column, not {len(columns)}")
        is_correlated = any(each.depth for each in self.scope.references[known:])
        if is_correlated and self.groups is not None and not (self.aggregate or self.clause):
            raise self.problem(node, "this subquery reads columns of grouped rows: put it in GROUP BY, or group before")
        return Value(columns[0].value.type, True, columns[0].value.inputs)

    # CASE, CAST, intervals and functions with a syntax of their own.

    def _case(self, node: exp.Case) -> Value:
        tested = self.value(node.this) if node.this else None
        conditions, results = [], []
        for branch in node.args["ifs"]:
            if tested is None:
                conditions.append(self.condition(branch.this))
            else:
                conditions.append(self.value(branch.this))
                self._must_compare(branch.this, tested, conditions[-1])
            results.append((branch.args["true"], self.value(branch.args["true"])))
        if node.args.get("default"):
            results.append((node.args["default"], self.value(node.args["default"])))
        nullable = not node.args.get("default") or any(value.nullable for _, value in results)
        tests = [tested] if tested else []
        inputs = inputs_of([*tests, *conditions, *(value for _, value in results)])
        return Value(self._common(results), nullable, inputs)

    def _if(self, node: exp.If) -> Value:
        condition = self.condition(node.this)
        nodes = [node.args["true"], *([node.args["false"]] if node.args.get("false") else [])]
        results = [(part, self.value(part)) for part in nodes]
        nullable = len(results) == 1 or any(value.nullable for _, value in results)
        return Value(self._common(results), nullable, inputs_of([condition, *(value for _, value in results)]))

    def _common(self, results: Sequence[tuple[exp.Expr, Value]]) -> SqlType:
        own = results[0][1].type
        for node, value in results[1:]:
            wider = sql_types.common_type(own, value.type)
            if wider is None:
                raise self.problem(node, f"{value.type} does not fit {own} before it")
            own = wider
        return own

    def _cast(self, node: exp.Cast) -> Value:
        value, own = self.value(node.this), self._cast_type(node)
        if not sql_types.can_cast(value.type, own):
            raise self.problem(node, f"{value.type} cannot be cast to {own}")
        converts = isinstance(node, exp.TryCast) or (value.type == STRING != own)
        return Value(own, value.nullable or converts, value.inputs)

    def _cast_type(self, node: exp.Cast) -> SqlType:
        target = node.args["to"]
        name = target.this.name if hasattr(target.this, "name") else str(target.this)
        if name == "DECIMAL":
            sizes = [part.name for part in target.expressions] or ["10"]
            precision, scale = (*sizes, "0")[:2]
            digits = (precision + scale).isascii() and precision.isdigit() and scale.isdigit()
            is_known = digits and 0 <= int(scale) <= int(precision) <= 38
            if not is_known or precision == "0":
                raise self.problem(node, "decimal has a precision of 1 to 38 and a scale up to it")
            return SqlType("decimal", int(precision), int(scale))
        if name not in sql_types.CAST_TYPES:
            raise self.problem(node, f"{target.sql('spark')} is no type of a column")
        return sql_types.CAST_TYPES[name]

    def _interval(self, node: exp.Interval) -> Value:
        unit = node.args.get("unit")
        if not isinstance(node.this, exp.Literal) or not isinstance(unit, exp.Var):
            raise self.problem(node, "an interval is a number and one unit, like INTERVAL 3 DAYS")
        own = _UNITS.get(unit.name.lower().removesuffix("s"))
        if own is None:
            raise self.problem(node, f"{unit.name} is no unit of an interval; known are {', '.join(_UNITS)}")
        return Value(own, False)

    def extract(self, node: exp.Extract) -> Value:
        value = self.value(node.expression)
        seconds = node.name.lower() in ("second", "seconds", "s", "sec", "secs")
        return Value(SqlType("decimal", 8, 6) if seconds else INT, value.nullable, value.inputs)

    def _position(self, node: exp.StrPosition) -> Value:
        return self._text_function(INT, (node.this, node.args["substr"]))

    def _substring(self, node: exp.Substring) -> Value:
        return self._text_function(STRING, node.iter_expressions())

    def _text_function(self, own: SqlType, nodes: Iterable[exp.Expr | None]) -> Value:
        values = self.values(node for node in nodes if node is not None)
        return Value(own, any(value.nullable for value in values), inputs_of(values))

    def _trim(self, node: exp.Trim) -> Value:
        return self._text_function(STRING, (node.this, node.args.get("expression")))

    def _overlay(self, node: exp.Overlay) -> Value:
        return self._text_function(STRING, node.iter_expressions())

    def _bracket(self, node: exp.Bracket) -> Value:
        values = self.values((node.this, *node.expressions))
        if values[0].type.item is None:
            raise self.problem(node, f"{values[0].type} has no elements")
        return Value(values[0].type.item, True, inputs_of(values))

    def _clock(self, node: exp.Expr) -> Value:
        raise self.problem(node, clock_message(node.sql("spark")))

    def problem(self, node: exp.Expr, message: str) -> Exception:
        return self.scope.statement.problem(node, message)


_RULES: dict[type, Callable[[Expressions, Any], Value]] = {
    exp.Column: Expressions._column,
    exp.Literal: Expressions._literal,
    exp.Null: lambda own, node: Value(sql_types.NULL, True),
    exp.Boolean: lambda own, node: Value(BOOLEAN, False),
    exp.HexString: lambda own, node: Value(sql_types.BINARY, False),
    exp.Paren: Expressions._paren,
    exp.Neg: Expressions._negative,
    exp.DPipe: Expressions._concat,
    exp.Escape: Expressions._escape,
    exp.Is: Expressions._is,
    exp.Between: Expressions._between,
    exp.In: Expressions._in,
    exp.Exists: Expressions._exists,
    exp.Subquery: Expressions._scalar_subquery,
    exp.Case: Expressions._case,
    exp.If: Expressions._if,
    exp.Cast: Expressions._cast,
    exp.TryCast: Expressions._cast,
    exp.Interval: Expressions._interval,
    exp.Extract: Expressions.extract,
    exp.StrPosition: Expressions._position,
    exp.Substring: Expressions._substring,
    exp.Trim: Expressions._trim,
    exp.Overlay: Expressions._overlay,
    exp.Bracket: Expressions._bracket,
    exp.Anonymous: calls.call,
    exp.Filter: calls.filter_,
    exp.WithinGroup: calls.within_group,
    exp.IgnoreNulls: calls.nulls,
    exp.RespectNulls: calls.nulls,
    exp.Window: windows.window,
    exp.CurrentDate: Expressions._clock,
    exp.CurrentTimestamp: Expressions._clock,
    exp.CurrentDatetime: Expressions._clock,
    exp.CurrentUser: Expressions._clock,
    exp.SessionUser: Expressions._clock,
    **dict.fromkeys(_OPERATORS, Expressions._arithmetic),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), Expressions._comparison),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), Expressions._logical),
    **dict.fromkeys((exp.Like, exp.ILike, exp.RegexpLike), Expressions._like),
}


def _converts_text(left: Value, right: Value) -> bool:
    """Return True if one operand is a text that Spark converts to the other's type, which may give NULL."""
    return (left.type == STRING) != (right.type == STRING)


def _is_column(expression: exp.Expr | None, name: str) -> bool:
    return isinstance(expression, exp.Column) and expression.name.lower() == name.lower()
