"""Lineage of a query: the columns of its result that are computed from masked columns."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from loader.domain.queries.select_statements import CheckedQuery, name_of_table
from metadata.domain.sql import quote_identifier


def masked_results(
    checked: CheckedQuery, columns: Mapping[str, Sequence[str]], masked: Mapping[str, Collection[str]]
) -> frozenset[int] | None:
    """Return the positions of result columns that are computed from a masked column; None if they are unknown.

    ``columns`` and ``masked`` are column names by published name. Values of masked columns are never read; the
    positions only prevent that a result looks like NULL. They are unknown if sqlglot cannot resolve the query.
    """
    if not any(masked.values()):
        return frozenset()
    schema: dict[str, Any] = {}
    for name in checked.tables:
        own_schema, _, own = name.partition(".")
        types = {quote_identifier(column): "string" for column in columns[name]}
        schema.setdefault(own_schema, {})[own] = types
    try:
        tree = qualify(
            sqlglot.parse_one(checked.text, read="spark"),
            schema=schema,
            dialect="spark",
            validate_qualify_columns=False,
        )
        scope = build_scope(tree)
        if scope is None:
            return None
        return _MaskedLineage(columns, masked).results(scope)
    except (SqlglotError, RecursionError, KeyError):
        return None


class _MaskedLineage:
    """Lineage of a query's results over its subqueries, of which masked columns are followed.

    ``seen`` are the columns that were followed for one result: each of them once, by whatever way it is reached.
    """

    def __init__(self, columns: Mapping[str, Sequence[str]], masked: Mapping[str, Collection[str]]) -> None:
        self._columns = {name.lower(): [column.lower() for column in names] for name, names in columns.items()}
        self._masked = {name.lower(): {column.lower() for column in names} for name, names in masked.items()}

    def results(self, scope: Scope) -> frozenset[int]:
        return frozenset(place for place in range(len(_selects(scope))) if self._reads(scope, place, set()))

    def _reads(self, scope: Scope, place: int, seen: set[tuple[int, int]]) -> bool:
        if (id(scope), place) in seen:
            return False
        seen.add((id(scope), place))
        if scope.set_operation_scopes:
            return any(self._reads(inner, place, seen) for inner in scope.set_operation_scopes)
        selects = _selects(scope)
        return place < len(selects) and self._expression_reads(scope, selects[place], seen)

    def _expression_reads(self, scope: Scope, node: exp.Expr, seen: set[tuple[int, int]]) -> bool:
        stars = (star for star in node.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
        if any(True for _ in stars) and any(self._any_of(source, seen) for source in scope.sources.values()):
            return True
        return any(self._column_reads(scope, column, seen) for column in node.find_all(exp.Column))

    def _column_reads(self, scope: Scope, column: exp.Column, seen: set[tuple[int, int]]) -> bool:
        source = _source_of(scope, column)
        if source is not None:
            return self._source_reads(scope, source, column.name.lower(), seen)
        # Columns that a PIVOT adds have other names than those of its source.
        sources = [source for source in scope.sources.values() if _is_pivoted(source)]
        own = {name for source in sources for name in self._names(source)}
        if column.name.lower() in own:
            return any(self._source_reads(scope, source, column.name.lower(), seen) for source in sources)
        return any(self._any_of(source, seen) for source in sources)

    def _source_reads(self, scope: Scope, source: exp.Table | Scope, name: str, seen: set[tuple[int, int]]) -> bool:
        if isinstance(source, Scope) and isinstance(source.expression, exp.Lateral):
            is_new = (id(source), -1) not in seen
            seen.add((id(source), -1))
            return is_new and self._expression_reads(scope, source.expression, seen)
        names = self._names(source)
        if name not in names:
            return False
        place = names.index(name)
        if isinstance(source, Scope):
            return self._reads(source, place, seen)
        table = name_of_table(source)
        return self._columns.get(table, names)[place] in self._masked.get(table, ())

    def _names(self, source: exp.Table | Scope) -> list[str]:
        """Return the names of a source's columns in lower case, as the query knows them."""
        if isinstance(source, Scope):
            return [select.alias_or_name.lower() for select in _selects(source)]
        names = [column.name.lower() for column in source.args["alias"].columns] if source.args.get("alias") else []
        return names or self._columns.get(name_of_table(source), [])

    def _any_of(self, source: exp.Table | Scope, seen: set[tuple[int, int]]) -> bool:
        """Return True if any column of a source reads a masked one."""
        if isinstance(source, exp.Table):
            return bool(self._masked.get(name_of_table(source)))
        return any(self._reads(source, place, seen) for place in range(len(_selects(source))))


def _is_pivoted(source: exp.Table | Scope) -> bool:
    node = source if isinstance(source, exp.Table) else source.expression.parent
    return node is not None and bool(node.args.get("pivots"))


def _selects(scope: Scope) -> list[exp.Expr]:
    if isinstance(scope.expression, exp.Lateral):
        return []
    assert isinstance(scope.expression, exp.Selectable)
    return list(scope.expression.selects)


def _source_of(scope: Scope, column: exp.Column) -> exp.Table | Scope | None:
    """Return the table or query that a column comes from, also for a column in a scalar subquery."""
    inner = [subquery for subquery in scope.subquery_scopes if column.find_ancestor(exp.Query) is subquery.expression]
    for part in (*inner, scope):
        if column.table in part.sources:
            return part.sources[column.table]
    return None
