"""Results of a query: columns that ``*`` brings, names for expressions after them, and their order."""

from collections.abc import Sequence

from sqlglot import exp

from metadata.domain.models import functions
from metadata.domain.models.expressions import Expressions
from metadata.domain.models.scopes import FIXED, NO_MORE, Expansion, Item, Reference, Scope, Source


def name_results(scope: Scope, items: Sequence[Item]) -> None:
    """Make results known to the expressions after them."""
    for item in items:
        name = item.name.lower()
        if scope.aliases.get(name, item) is not item:
            scope.repeated.add(name)
        scope.aliases[name] = item


def order_results(node: exp.Expr, expressions: Expressions, items: Sequence[Item]) -> None:
    """Check ORDER BY and LIMIT of a query. Raise ModelProblem."""
    order, statement, scope = node.args.get("order"), expressions.scope.statement, expressions.scope
    limit = node.args.get("limit") or node.args.get("offset")
    if limit and not order:
        raise statement.problem(limit, "LIMIT without ORDER BY is another choice of rows in every run")
    for name in ("limit", "offset"):
        _check_count(node.args.get(name), scope)
    if not order:
        return
    name_results(scope, items)
    scope.results_first = True
    for item in order.expressions:
        if isinstance(item.this, exp.Literal) and not item.this.is_string:
            _order_by_place(item.this, scope, items)
        else:
            _refuse_lost(node, item.this, scope)
            expressions.value(item.this)


def _check_count(node: exp.Expr | None, scope: Scope) -> None:
    """Raise ModelProblem unless LIMIT or OFFSET has a constant number that is not negative."""
    if node is None or node.expression is None:
        return
    count = node.expression
    parts = list(count.walk())
    is_constant = not any(isinstance(part, exp.Column | exp.Query | exp.Neg) or part.is_string for part in parts)
    if not is_constant:
        raise scope.statement.problem(count, f"{node.key.upper()} takes a whole number")


def _order_by_place(key: exp.Literal, scope: Scope, items: Sequence[Item]) -> None:
    place = int(key.this) if key.this.isdigit() else 0
    if not 1 <= place <= len(items):
        raise scope.statement.problem(key, f"there is no result number {key.this}")
    scope.expansions.append(Expansion(key, FIXED, (items[place - 1].name.lower(),)))


def _refuse_lost(node: exp.Expr, key: exp.Expr, scope: Scope) -> None:
    """Refuse subqueries with IN and EXISTS in ORDER BY, and after DISTINCT what rows no longer have."""
    subquery = next((each for each in key.find_all(exp.In, exp.Exists) if each.find(exp.Query)), None)
    if subquery is not None:
        raise scope.statement.problem(subquery, "ORDER BY takes no IN or EXISTS with a subquery")
    if not (isinstance(node, exp.Select) and node.args.get("distinct")):
        return
    call = next((each for each in key.find_all(exp.Anonymous) if each.name.lower() in functions.AGGREGATES), None)
    if call is not None:
        raise scope.statement.problem(call, f"with DISTINCT, ORDER BY takes results by their names, not {call.name}")
    selected = {each.sql(identify=True).lower() for each in node.expressions if isinstance(each, exp.Column)}
    has_star = any(each.is_star for each in node.expressions)
    for column in key.find_all(exp.Column):
        is_result = not column.table and column.name.lower() in scope.aliases
        if not (is_result or has_star or column.sql(identify=True).lower() in selected):
            message = f"{column.name} is no result: with DISTINCT, ORDER BY takes results by their names"
            raise scope.statement.problem(column, message)


def columns_of_star(star: exp.Expr, expressions: Expressions) -> list[Item]:
    """Return the columns that ``*`` or ``table.*`` brings. Raise ModelProblem."""
    scope = expressions.scope
    if expressions.groups is not None:
        raise scope.statement.problem(star, "* cannot be grouped: name the columns")
    sources = scope.sources
    if isinstance(star, exp.Column):
        source = scope.source(star)
        if source is None:
            raise scope.statement.problem(star, f"{star.table} is not in FROM", "unknown_column")
        sources, star = [source], star.this
    if star.args.get("replace") or star.args.get("rename"):
        raise scope.statement.problem(star, "* takes only EXCEPT")
    left_out = _left_out(star, scope, sources)
    merged = scope.merged if len(sources) == len(scope.sources) and len(sources) > 1 else {}
    items = [each.item for name, each in merged.items() if name not in left_out]
    for source in sources:
        for item in source.items:
            name = item.name.lower()
            is_merged = name in merged and source.name in merged[name].sources
            if name not in left_out and not is_merged:
                items.append(source.seen(item)._replace(expression=None))
    if _compares_rows(star):
        _refuse_technical(star, scope, items)
        scope.expansions.append(Expansion(star, NO_MORE, tuple(item.name.lower() for item in items)))
    return items


def _left_out(star: exp.Expr, scope: Scope, sources: Sequence[Source]) -> set[str]:
    names: set[str] = set()
    for column in star.args.get("except_") or ():
        items = [item for source in sources if (item := source.column(column.name.lower()))]
        if not items:
            message = f"there is no column {column.name} to leave out"
            raise scope.statement.problem(column, message, "unknown_column")
        if column.name.lower() in names:
            raise scope.statement.problem(column, f"{column.name} is left out twice")
        name = column.this if isinstance(column, exp.Column) else column
        scope.references += [Reference(name, item.origins) for item in items]
        names.add(column.name.lower())
    return names


def _compares_rows(star: exp.Expr) -> bool:
    """Return True if DISTINCT or a set operation compares all columns of a star."""
    select = star.find_ancestor(exp.Select)
    if select is None or select.args.get("distinct"):
        return select is not None
    node: exp.Expr = select
    while isinstance(node.parent, exp.SetOperation | exp.Subquery):
        node = node.parent
        if isinstance(node, exp.SetOperation) and not (isinstance(node, exp.Union) and not node.args.get("distinct")):
            return True
    return False


def _refuse_technical(star: exp.Expr, scope: Scope, items: Sequence[Item]) -> None:
    technical = next((item.name for item in items if item.technical), None)
    if technical is not None:
        message = f"* would compare {technical}, too, which the SELECT names elsewhere: name the columns"
        raise scope.statement.problem(star, message)
