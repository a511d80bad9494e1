"""Read-only queries over published names: check, rewriting of names, columns used and lineage of masked columns.

Pure. ``metadata.domain.select_check`` has the allow-list of statements, sources and functions. The runner gets the text
with blanks instead of comments and with the names of temporary views instead of published names, and checks Spark's
own plan as well (``loader.spark.queries.select_statements``).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from loader.domain.refusals import Refusal
from metadata.domain.select_check import Select, SelectProblem, position, read_select
from metadata.domain.sql import quote_identifier

MOST_ROWS = 10_000
# Codes of queries that were not started, or that Spark could not parse.
REFUSED, INVALID, UNKNOWN = "SQL_REFUSED", "SQL_INVALID", "UNKNOWN_NAME"
FAILED = "SQL_FAILED"


_TEMPORARY = "__published_"
# Clauses with which the number of rows depends on the list of a SELECT.
_DEPENDING_ON_LIST = ("distinct", "group", "having", "qualify")


@dataclass(frozen=True)
class CheckedQuery:
    """Query that may run.

    ``query`` is the text for Spark, in which ``views`` (temporary view by published name) replace names;
    ``replaced`` maps its positions to those of ``text``: start and length in ``query``, start and length in ``text``.
    ``columns`` are the names in the query in lower case, None if it uses columns without their names.
    """

    text: str
    query: str
    views: Mapping[str, str]
    replaced: tuple[tuple[int, int, int, int], ...] = ()
    columns: frozenset[str] | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the published names that the query reads, in the order of their first use."""
        return tuple(self.views)

    def uses(self, column: str) -> bool:
        return self.columns is None or column.lower() in self.columns


def names_read(text: str) -> frozenset[str]:
    """Return the names like ``schema.name``, in lower case, of what a query reads. Raise Refusal as ``check_query``."""
    tables = _select_of(text).tree.find_all(exp.Table)
    return frozenset(f"{table.db}.{table.name}".lower() for table in tables if table.db)


def columns_choosing_rows(text: str) -> frozenset[tuple[frozenset[str], str]] | None:
    """Return names in lower case that the number of rows of a query depends on, with the tables each may come from.

    These are all names in the query but those in the list of its outermost SELECT, where that list decides no rows.
    None if it uses columns without their names. Raise Refusal as ``check_query``.
    """
    tree = _without_results(_select_of(text).tree)
    if _columns(tree) is None:
        return None
    by_alias: dict[str, set[str]] = {}
    for table in tree.find_all(exp.Table):
        by_alias.setdefault(table.alias_or_name.lower(), set()).add(_name_of(table) if table.db else "")
    for alias in tree.find_all(exp.TableAlias):
        if not isinstance(alias.parent, exp.Table):
            by_alias.setdefault(alias.name.lower(), set()).add("")
    tables = frozenset(name for names in by_alias.values() for name in names if name)
    references = set()
    for name in tree.find_all(exp.Identifier):
        column = name.parent
        if isinstance(column, exp.Table):
            continue
        own = {""}
        if isinstance(column, exp.Column) and column.this is name and not column.args.get("db"):
            own = by_alias.get(column.table.lower(), {""})
        references.add((tables if "" in own else frozenset(own), name.name.lower()))
    return frozenset(references)


def _without_results(tree: exp.Expr) -> exp.Expr:
    """Return a query without the plain columns and stars in its list, if they decide no rows. Functions may add rows.

    Grouped rows depend on the list: by its names, or by its aggregates in HAVING.
    """
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in _DEPENDING_ON_LIST):
        return tree
    query = tree.copy()
    listed = (exp.Star, exp.Column, exp.Literal)
    query.set("expressions", [item for item in query.expressions if not isinstance(item.unalias(), listed)])
    return query


def check_query(text: str, published: Collection[str], others: Collection[str] = ()) -> CheckedQuery:
    """Return the checked query. Raise Refusal SQL_REFUSED, SQL_INVALID or UNKNOWN_NAME with the position.

    ``published`` are names like ``schema.name``; ``others`` are names that a refusal can suggest besides.
    """
    select = _select_of(text)
    views: dict[str, str] = {}
    names = {name.lower(): name for name in published}
    changes = list(_replacements(text, select.tree, names, others, views))
    query, replaced = _replace(select.plain, changes)
    return CheckedQuery(text, query, views, replaced, _columns(select.tree))


def _select_of(text: str) -> Select:
    try:
        return read_select(text)
    except SelectProblem as problem:
        raise Refusal(INVALID if problem.invalid else REFUSED, problem.message) from None


def _replacements(
    text: str, tree: exp.Expr, published: Mapping[str, str], others: Collection[str], views: dict[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of every published name; fill ``views``."""
    for table in tree.find_all(exp.Table):
        if not table.db and not table.catalog and _is_derived(table):
            continue
        name = published.get(f"{table.db}.{table.name}".lower()) if not table.catalog else None
        if name is None:
            raise _unknown_name(text, table, {name.lower(): name for name in others} | dict(published))
        view = views.setdefault(name, f"{_TEMPORARY}{len(views)}")
        alias = "" if table.alias else f" AS {quote_identifier(table.name)}"
        yield (_first(table), table.this.meta["end"] + 1, quote_identifier(view) + alias)
    for column in tree.find_all(exp.Column):
        if column.args.get("db") and f"{column.db}.{column.table}".lower() in published:
            start, end = column.args["db"].meta["start"], column.args["table"].meta["end"] + 1
            yield (start, end, quote_identifier(column.table))


def _is_derived(table: exp.Table) -> bool:
    """Return True if a table's name is that of a common table expression that can be seen where it stands.

    A WITH belongs to the query that begins with it, and each of its expressions sees those before it.
    """
    name = table.name.lower()
    node: exp.Expr = table
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.With):
            visible = parent.expressions[: next(at for at, cte in enumerate(parent.expressions) if cte is node)]
        else:
            with_ = parent.args.get("with_")
            visible = with_.expressions if with_ is not None and with_ is not node else []
        if any(cte.alias.lower() == name for cte in visible):
            return True
        node = parent
    return False


def _unknown_name(text: str, table: exp.Table, published: Mapping[str, str]) -> Refusal:
    written = ".".join(part.name for part in table.parts)
    known = {lower: name for lower, name in published.items() if lower != written.lower()}
    own = [name for lower, name in known.items() if lower.endswith(f".{table.name.lower()}")]
    close = own or [known[name] for name in get_close_matches(written.lower(), known, 1)]
    hint = f"did you mean {close[0]}?" if close else "published names are listed by 'manage.py catalog'"
    return Refusal(UNKNOWN, f"{position(text, _first(table))}: {written} is no published table or view", hint=hint)


def _replace(plain: str, changes: Sequence[tuple[int, int, str]]) -> tuple[str, tuple[tuple[int, int, int, int], ...]]:
    parts: list[str] = []
    replaced: list[tuple[int, int, int, int]] = []
    done = length = 0
    for start, end, new in sorted(set(changes)):
        parts += [plain[done:start], new]
        length += start - done
        replaced.append((length, len(new), start, end - start))
        length, done = length + len(new), end
    return "".join([*parts, plain[done:]]), tuple(replaced)


def _columns(tree: exp.Expr) -> frozenset[str] | None:
    """Return all names in the query; None if it uses columns without their names."""
    for node in tree.walk():
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
        if isinstance(node, exp.Pivot) or (isinstance(node, exp.Join) and node.args.get("method") == "NATURAL"):
            return None
        if isinstance(node, exp.TableAlias) and node.args.get("columns"):
            return None
    return frozenset(node.name.lower() for node in tree.find_all(exp.Identifier))


def position_in_text(text: str, offset: int, replaced: Sequence[Sequence[int]]) -> str:
    """Return in words the position in the text of an offset in the query for Spark."""
    shift = 0
    for start, length, own_start, own_length in replaced:
        if offset < start:
            break
        if offset < start + length:
            return position(text, own_start)
        shift = (own_start + own_length) - (start + length)
    return position(text, min(len(text), offset + shift))


def _first(table: exp.Table) -> int:
    starts: list[int] = [part.meta["start"] for part in table.parts]
    return min(starts)


# Lineage: the columns of the result that are computed from masked columns.


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
        table = _name_of(source)
        return self._columns.get(table, names)[place] in self._masked.get(table, ())

    def _names(self, source: exp.Table | Scope) -> list[str]:
        """Return the names of a source's columns in lower case, as the query knows them."""
        if isinstance(source, Scope):
            return [select.alias_or_name.lower() for select in _selects(source)]
        names = [column.name.lower() for column in source.args["alias"].columns] if source.args.get("alias") else []
        return names or self._columns.get(_name_of(source), [])

    def _any_of(self, source: exp.Table | Scope, seen: set[tuple[int, int]]) -> bool:
        """Return True if any column of a source reads a masked one."""
        if isinstance(source, exp.Table):
            return bool(self._masked.get(_name_of(source)))
        return any(self._reads(source, place, seen) for place in range(len(_selects(source))))


def _name_of(table: exp.Table) -> str:
    return f"{table.db}.{table.name}".lower()


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
