"""Names in a SELECT: tables and subqueries with their columns, and the column that a name stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from sqlglot import exp

from metadata.domain.models.functions import Value
from metadata.domain.models.statement import Statement

Relations = Mapping[str, Sequence["Item"]]
# Owner of a column that USING made.
USING = "USING"
# Rules of columns that belong together: * that gains no column, names at fixed places, pairs of a set operation.
NO_MORE, FIXED, PAIRS = "no more", "fixed", "pairs"


class Item(NamedTuple):
    """Column of a table, a subquery or a result.

    ``origins`` are the columns of datasets whose rename gives it another name: its own, or those that ``*`` brought.
    A ``technical`` column is one that only ``*`` brought.
    """

    name: str
    value: Value
    origins: frozenset[tuple[str, str]] = frozenset()
    expression: exp.Expr | None = None
    technical: bool = False


class Reference(NamedTuple):
    """Use of a name with the columns of datasets that it stands for; ``renamable`` unless it is in USING.

    ``owner`` is the table or subquery whose column it is, empty for a result of the SELECT. ``depth`` counts the
    SELECTs between a subquery and the one whose FROM has the column.
    """

    name: exp.Identifier
    origins: frozenset[tuple[str, str]]
    renamable: bool = True
    owner: str = ""
    column: str = ""
    depth: int = 0


class Expansion(NamedTuple):
    """Columns that a part of the SELECT combines by place, or all of which it compares.

    ``rule`` is NO_MORE, FIXED or PAIRS; pairs are the names on both sides of a set operation.
    """

    node: exp.Expr
    rule: str
    columns: tuple[str, ...] | tuple[tuple[str, str], ...]


def nullable(item: Item) -> Item:
    """Return the column with NULL among its values."""
    return item._replace(value=item.value._replace(nullable=True))


@dataclass
class Source:
    """Table or subquery in FROM. ``dataset`` is its qualified name in lower case unless it has an alias."""

    name: str
    items: Sequence[Item]
    dataset: str = ""
    nullable: bool = False
    columns: dict[str, Item] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns = {item.name.lower(): item for item in self.items}

    def column(self, name: str) -> Item | None:
        item = self.columns.get(name)
        return self.seen(item) if item else None

    def seen(self, item: Item) -> Item:
        """Return a column as rows of the join have it: NULL in rows without a match."""
        return nullable(item) if self.nullable else item


class Merged(NamedTuple):
    """Column of USING, and the names of the sources that it combines."""

    item: Item
    sources: frozenset[str]


@dataclass
class Scope:
    """Names that expressions of one SELECT may use; ``outer`` is the scope around a subquery."""

    statement: Statement
    tables: Relations
    outer: "Scope | None" = None
    sources: list[Source] = field(default_factory=list)
    # Columns of USING, which belong to both sides of a join.
    merged: dict[str, Merged] = field(default_factory=dict)
    # Results before the current one in the SELECT list, and all results for HAVING and ORDER BY.
    aliases: dict[str, Item] = field(default_factory=dict)
    # Names of several results.
    repeated: set[str] = field(default_factory=set)
    # ORDER BY looks for a name among the results before it looks in FROM.
    results_first: bool = False
    references: list[Reference] = field(default_factory=list)
    expansions: list[Expansion] = field(default_factory=list)

    def add(self, source: Source, node: exp.Expr) -> None:
        if any(other.name == source.name for other in self.sources):
            raise self.statement.problem(node, f"{source.name} is used twice in FROM: give one of them an alias")
        self.sources.append(source)

    def find(self, column: exp.Column) -> tuple[Item, int]:
        """Return the column of a name, and the depth of its scope (0 for this one). Raise ModelProblem."""
        scope: Scope | None = self
        depth = 0
        while scope is not None:
            # Spark has no results of a SELECT within the subqueries in it.
            match = scope.find_here(column, with_results=depth == 0)
            if match is not None and depth > 1:
                message = f"{column.name} is a column outside of two subqueries; Spark has those of one"
                raise self.statement.problem(column, message, "unknown_column")
            if match is not None:
                item, owner = match
                self.references.append(
                    Reference(column.this, item.origins, owner=owner, column=item.name.lower(), depth=depth)
                )
                return item, depth
            scope, depth = scope.outer, depth + 1
        raise self._unknown(column)

    def find_here(self, column: exp.Column, *, with_results: bool = True) -> tuple[Item, str] | None:
        """Return the column of a name in this SELECT and the source that has it, empty for a result; None if absent."""
        name, table = column.name.lower(), column.table.lower()
        if table:
            return self._qualified(column, name)
        if with_results and self.results_first and name in self.aliases:
            return self._result(column, name), ""
        merged = self.merged.get(name)
        sources = [source for source in self.sources if merged is None or source.name not in merged.sources]
        matches = [(item, source.name) for source in sources if (item := source.column(name))]
        if merged is not None:
            matches.append((merged.item, USING))
        if len(matches) > 1:
            written = ", ".join(f"{source.name}.{name}" for source in self.sources if source.column(name))
            raise self.statement.problem(column, f"{column.name} is ambiguous: {written}", "unknown_column")
        if matches:
            return matches[0]
        return (self._result(column, name), "") if with_results and name in self.aliases else None

    def _result(self, column: exp.Column, name: str) -> Item:
        if name in self.repeated:
            raise self.statement.problem(column, f"{column.name} is ambiguous: two results have this name")
        return self.aliases[name]

    def _qualified(self, column: exp.Column, name: str) -> tuple[Item, str] | None:
        source = self.source(column)
        if source is None:
            # Spark takes the qualifier for a structure rather than look for it outside of a subquery.
            taken = next((each for each in self.sources if each.column(column.table.lower())), None)
            if taken is not None and not column.args.get("db"):
                message = f"{column.table} is a column of {taken.name} here: give the table outside another alias"
                raise self.statement.problem(column, message, "unknown_column")
            return None
        item = source.column(name)
        if item is None:
            raise self._unknown(column, source)
        return item, source.name

    def source(self, column: exp.Column) -> Source | None:
        """Return the source that a column is qualified with."""
        table = column.table.lower()
        if column.args.get("db"):
            dataset = f"{column.text('db')}.{table}".lower()
            return next((source for source in self.sources if source.dataset == dataset), None)
        return next((source for source in self.sources if source.name == table), None)

    def _unknown(self, column: exp.Column, source: Source | None = None) -> Exception:
        sources = [source] if source else self.sources
        names = [item.name for each in sources for item in each.items]
        close = get_close_matches(column.name.lower(), [name.lower() for name in names], 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        if source is None and column.table:
            known = ", ".join(each.name for each in self.sources) or "nothing"
            message = f"{column.table} is not in FROM, which has {known}"
        else:
            where = f"{source.dataset or source.name} has" if source else "the datasets in FROM have"
            message = f"{where} no column {column.name}{hint}"
        return self.statement.problem(column, message, "unknown_column")
