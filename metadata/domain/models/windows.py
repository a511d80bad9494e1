"""Windows: functions with OVER, their frames, and where they may be."""

from math import inf

from sqlglot import exp

from metadata.domain.models import functions
from metadata.domain.models.calls import Evaluation, inner_call, name_of, words_of
from metadata.domain.models.functions import Value, inputs_of

# Clause of the expressions within a window.
WITHIN = "another window"
# Aggregates over ordered values of their own.
_WITHOUT_FRAME = frozenset(("percentile_cont", "percentile", "median", "listagg", "string_agg"))


def window(expressions: Evaluation, node: exp.Window) -> Value:
    call = node.this
    while not isinstance(call, exp.Anonymous) and isinstance(call.this, exp.Expression):
        call = call.this
    name = name_of(call) if isinstance(call, exp.Anonymous) else words_of(call)
    if name not in functions.WINDOWS and name not in functions.AGGREGATES:
        raise expressions.problem(node, f"{name} cannot have OVER")
    if expressions.clause or expressions.aggregate:
        where = expressions.clause or expressions.aggregate
        raise expressions.problem(node, f"{name} OVER is not allowed in {where}: compute it in a subquery")
    if call.find(exp.Distinct):
        raise expressions.problem(node, f"{name} OVER cannot have DISTINCT")
    expressions.clause = WITHIN
    parts, order = _window_parts(expressions, node)
    if name in functions.WINDOWS and not order:
        raise expressions.problem(node, f"{name} needs ORDER BY in OVER: it depends on the order of rows")
    _check_frame(expressions, node, name, order)
    value = inner_call(expressions, node.this, in_window=True)
    expressions.clause = ""
    return value._replace(described="", inputs=inputs_of([value, *parts]))


def _window_parts(expressions: Evaluation, node: exp.Window) -> tuple[list[Value], list[Value]]:
    """Return the values of PARTITION BY and ORDER BY, and those of ORDER BY alone."""
    by = node.args.get("order")
    order = expressions.values(item.this for item in (by.expressions if by else ()))
    parts = [*expressions.values(node.args.get("partition_by") or ()), *order]
    named = node.args.get("alias")
    if named is None or not node.args.get("over"):
        return parts, order
    definition = expressions.windows.get(named.name.lower())
    if definition is None:
        raise expressions.problem(node, f"the window {named.name} is not defined")
    inner, inner_order = _window_parts(expressions, definition)
    return parts + inner, order + inner_order


def _check_frame(expressions: Evaluation, node: exp.Window, name: str, order: list[Value]) -> None:
    """Raise ModelProblem for a frame that Spark refuses."""
    if name in _WITHOUT_FRAME and order:
        raise expressions.problem(node, f"{name} OVER has neither ORDER BY nor a frame")
    spec = _frame(expressions, node)
    if spec is None:
        return
    if name in _WITHOUT_FRAME or (name in functions.WINDOWS and name not in functions.NEEDS_ORDER | {"nth_value"}):
        raise expressions.problem(node, f"{name} takes no frame: leave {spec.args.get('kind')} out")
    start, end = (_place(spec, side) for side in ("start", "end"))
    if start is not None and end is not None and start > end:
        raise expressions.problem(node, "the frame ends before it starts")
    has_distance = any(isinstance(spec.args.get(side), exp.Expression) for side in ("start", "end"))
    if spec.args.get("kind") == "RANGE" and has_distance:
        is_scale = len(order) == 1 and (order[0].type.is_numeric or order[0].type.name in ("date", "timestamp"))
        if not is_scale:
            raise expressions.problem(node, "RANGE with a distance needs ORDER BY one number, date or timestamp")


def _frame(expressions: Evaluation, node: exp.Window) -> exp.Expr | None:
    spec = node.args.get("spec")
    named = node.args.get("alias")
    if spec is not None or named is None or not node.args.get("over"):
        return spec
    return _frame(expressions, expressions.windows[named.name.lower()])


def _place(spec: exp.Expr, side: str) -> float | None:
    """Return the place of a frame's bound relative to the current row; None if it is no number."""
    bound, following = spec.args.get(side), spec.args.get(f"{side}_side") == "FOLLOWING"
    if bound is None:
        return 0.0
    if isinstance(bound, str):
        return 0.0 if bound == "CURRENT ROW" else inf if following else -inf
    if not isinstance(bound, exp.Literal) or bound.is_string:
        return None
    return float(bound.this) if following else -float(bound.this)
