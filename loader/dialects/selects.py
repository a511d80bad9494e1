"""SELECT of a model as a query in a dialect: columns, joins, filters and expressions that are proven equal.

All else is refused with line and column: among others aggregates, DISTINCT, ORDER BY, subqueries, common table
expressions, helpers, and reads of raw tables and views.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from architecture.domain.tables import TableSpec
from architecture.domain.type_changes import classify_types
from loader.dialects.dialect import Dialect, lines
from loader.dialects.expressions import BOOLEAN, TEXT, ColumnOf, Translation
from loader.dialects.refusals import NotRendered
from metadata.domain.types import BIGINT, DATE, INTEGER, STRING, DataType, parse, stored_type
from metadata.domain.types import BOOLEAN as BOOLEAN_TYPE

_PARTS_OF_SELECT = {"expressions", "from_", "joins", "where", "kind"}
_PARTS_OF_TABLE = {"this", "db", "alias"}
_PARTS_OF_JOIN = {"this", "side", "kind", "on"}
_PARTS_OF_UNION = {"this", "expression"}
_JOINS = {
    ("", ""): "INNER JOIN",
    ("", "INNER"): "INNER JOIN",
    ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN",
}
# Types whose values have the same text in Spark and in every dialect.
_WITH_EQUAL_TEXTS = (INTEGER, BIGINT, BOOLEAN_TYPE, DATE)


@dataclass(frozen=True)
class ModelView:
    """View that is a model: its SELECT over ``tables`` by their names in lower case, and pairs of name and type."""

    name: str
    select: str
    tables: Mapping[str, TableSpec]
    columns: tuple[tuple[str, str], ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the tables that the SELECT reads. Raise NotRendered for others."""
        nodes = _parsed(self.select, self.name).find_all(exp.Table)
        return tuple(dict.fromkeys(self._table(node).qualified_name for node in nodes))

    def query(self, dialect: Dialect) -> str:
        """Return the query, with the described columns. Raise NotRendered."""
        branches = _branches(_parsed(self.select, self.name))
        for branch in branches:
            if not isinstance(branch, exp.Select) or not _has_only(branch, _PARTS_OF_SELECT):
                raise NotRendered("only SELECT, FROM, JOIN, WHERE and UNION ALL are translated", where=self.name)
        if len({len(branch.expressions) for branch in branches}) != 1:
            raise NotRendered("its branches have different numbers of columns", where=self.name)
        places = self._places(branches[0])
        return "\nUNION ALL\n".join(self._branch(dialect, branch, places) for branch in branches)

    def _places(self, first: exp.Expr) -> list[int]:
        """Return the positions of the described columns in the SELECT; names are those of its first branch."""
        names = [item.alias_or_name.lower() for item in first.expressions]
        missing = [name for name, _ in self.columns if names.count(name.lower()) != 1]
        if missing:
            raise NotRendered(f"the SELECT does not name {missing[0]} once", where=self.name)
        return [names.index(name.lower()) for name, _ in self.columns]

    def _branch(self, dialect: Dialect, node: exp.Expr, places: Sequence[int]) -> str:
        if not node.args.get("from_"):
            raise NotRendered("a SELECT without FROM is not translated", where=self.name)
        joins = node.args.get("joins") or []
        sources = {}
        for table in (node.args["from_"].this, *(join.this for join in joins)):
            spec = self._table(table)
            alias = table.alias or spec.name
            if alias.lower() in sources:
                raise NotRendered(f"two tables are called {alias}", where=self.name)
            sources[alias.lower()] = (dialect.identifier(alias), spec)
        translation = _SelectTranslation(self.select, dialect, sources, self.name)
        aliases = iter(sources.values())
        text = f"FROM {_source(dialect, *next(aliases))}"
        for join, source in zip(joins, aliases, strict=True):
            word, condition = _join(join, self.name), translation.condition(join.args["on"])
            text += f"\n{word} {_source(dialect, *source)} ON {condition}"
        if node.args.get("where"):
            text += f"\nWHERE {translation.condition(node.args['where'].this)}"
        targets = zip(places, self.columns, strict=True)
        selected = [
            f"{translation.value(node.expressions[place], parse(type_))} AS {dialect.identifier(name)}"
            for place, (name, type_) in targets
        ]
        return f"SELECT\n  {lines(selected)}\n{text}"

    def _table(self, node: exp.Expr) -> TableSpec:
        if isinstance(node, exp.Table) and _has_only(node, _PARTS_OF_TABLE):
            spec = self.tables.get(f"{node.db}.{node.name}".lower())
            if spec is not None:
                return spec
        message = f"it reads {node.sql('spark')}, which is no table of rawcore or of a model"
        raise NotRendered(message, where=self.name)


class _SelectTranslation(Translation):
    """Writer of expressions over the columns of several tables, by their aliases in lower case."""

    def __init__(self, sql: str, dialect: Dialect, sources: Mapping[str, tuple[str, TableSpec]], where: str) -> None:
        super().__init__(sql, dialect, {}, where, "")
        self.sources = sources

    def column_of(self, node: exp.Column) -> ColumnOf | None:
        """Return the column of a table; None if there is none, or several, or the name has a schema."""
        if node.db:
            return None
        own = [
            (alias, column.name, parse(column.type))
            for name, (alias, spec) in self.sources.items()
            if node.table.lower() in ("", name)
            for column in spec.columns
            if column.name.lower() == node.name.lower()
        ]
        return own[0] if len(own) == 1 else None

    def condition(self, node: exp.Expr) -> str:
        text, kind = self.of(node)
        if kind != BOOLEAN:
            raise self.refusal(node, f"a {kind} value is no condition")
        return text

    def value(self, item: exp.Expr, target: DataType) -> str:
        """Return a selected value as its type. Texts stay as they are: a view does not limit their length."""
        node = item.this if isinstance(item, exp.Alias) else item
        text, kind = self.of(node)
        own = self.column_of(node) if isinstance(node, exp.Column) else None
        if own is not None:
            before = own[2]
            if before == target or stored_type(before).name == STRING == target.name:
                return text
            has_text = target.name != STRING or before.name in _WITH_EQUAL_TEXTS
            if not has_text or not classify_types(before, target).widens:
                raise self.refusal(node, f"{before} is read as {target}, which can lose values")
            return self.dialect.cast(text, before, target)
        if kind == TEXT and target.name == STRING:
            return text
        self.check_fits(node, kind, target)
        return f"CAST({text} AS {self.dialect.cast_type(target)})"


def _parsed(sql: str, where: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(sql, read="spark")
    except SqlglotError:
        raise NotRendered("the SELECT cannot be parsed", where=where) from None


def _branches(node: exp.Expr) -> list[exp.Expr]:
    """Return the queries that UNION ALL combines, in their order."""
    if isinstance(node, exp.Union) and not node.args.get("distinct") and _has_only(node, _PARTS_OF_UNION):
        return [*_branches(node.this), *_branches(node.expression)]
    return [node]


def _has_only(node: exp.Expr, parts: set[str]) -> bool:
    """Return True if a node has no other parts."""
    return all(name in parts for name, value in node.args.items() if value)


def _source(dialect: Dialect, alias: str, spec: TableSpec) -> str:
    return f"{dialect.table(spec.qualified_name)} AS {alias}"


def _join(node: exp.Expr, where: str) -> str:
    """Return the kind of a join with a condition. Raise NotRendered for others."""
    word = _JOINS.get((str(node.args.get("side") or ""), str(node.args.get("kind") or "")))
    if word is None or not node.args.get("on") or not _has_only(node, _PARTS_OF_JOIN):
        raise NotRendered("only inner and left joins with a condition are translated", where=where)
    return word
