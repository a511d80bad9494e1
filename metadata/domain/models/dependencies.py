"""Columns that each column of a model depends on: by its values, and by the choice of its rows.

A column depends on all columns that its values are computed from, and on those that choose the row a value comes from:

* a subquery within an expression, an aggregate and a window depend on all that decides which rows they have;
* a condition over several tables (of a join, or in WHERE) chooses the rows of each of them;
* columns of the side of an outer join that may be NULL depend on its condition, and on all that decides that side's
  rows;
* columns of a set operation depend on all that decides the rows of its parts.

A condition over the columns of one table leaves out rows, and is a ``Choice`` of the columns of that table: it reveals
more than that only if it compares a sensitive column with others. The same goes for the other side of a join by the
whole key of a table, which repeats no row.

Names are resolved without types. Whatever may be meant counts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from sqlglot import exp

from metadata.domain.models import functions
from metadata.domain.models.dependency_scopes import (
    NONE,
    ROWS,
    VARYING,
    Choice,
    Dependency,
    Relation,
    Scope,
    Source,
    Tagged,
)
from metadata.domain.models.statement import Statement, parse_model
from metadata.domain.sql import conjuncts

# Nine grouped queries, each in the results of the next one, are read that often.
_MOST_TIMES_READ = 256


@dataclass(frozen=True)
class Readable:
    """Names of a dataset's columns in lower case; ``keys`` are columns of which no two rows have the same values."""

    columns: tuple[str, ...]
    keys: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True)
class Dependencies:
    """Dependencies of the columns of a model, by name in lower case, and of the choice of its rows."""

    columns: Mapping[str, frozenset[Dependency]]
    rows: frozenset[Dependency]


def dependencies(text: str, datasets: Mapping[str, Readable]) -> Dependencies:
    """Return what the columns of a SELECT depend on. ``datasets`` are by qualified name in lower case.

    Raise ModelProblem for a SELECT that names what is not there.
    """
    return _dependencies(text, tuple(datasets.items()))


@lru_cache(maxsize=1024)
def _dependencies(text: str, datasets: tuple[tuple[str, Readable], ...]) -> Dependencies:
    statement = parse_model(text)
    try:
        relation = _Reader(statement, dict(datasets)).relation(statement.tree, {}, None)
    except RecursionError:
        raise statement.problem(0, "the query is nested too deeply") from None
    columns = {name: frozenset(each for _, each in tagged) for name, tagged in relation.columns}
    return Dependencies(columns, frozenset(each for _, each in relation.rows))


class _Reader:
    """Reader of the queries of one statement."""

    def __init__(self, statement: Statement, datasets: Mapping[str, Readable]) -> None:
        self.statement = statement
        self.datasets = datasets
        self._count = 0
        self._choices: dict[Choice, Choice] = {}  # equal choices of the statement are the same object
        self._times_read: Counter[int] = Counter()

    def _new_source(
        self, name: str, relation: Relation, dataset: str = "", keys: tuple[frozenset[str], ...] = ()
    ) -> Source:
        self._count += 1
        return Source(self._count, name, dataset, relation, keys)

    def relation(self, node: exp.Expr, tables: Mapping[str, Relation], outer: Scope | None) -> Relation:
        # Queries in the results of a grouped one and in conditions of joins are read again, each time at every depth.
        self._times_read[id(node)] += 1
        if self._times_read[id(node)] > _MOST_TIMES_READ:
            raise self.statement.problem(node, "the query is nested too deeply")
        tables = self._with(node, tables, outer)
        if isinstance(node, exp.Subquery):
            relation = self.relation(node.this, tables, outer)
            return self._limited(node, relation, tables, outer)
        if isinstance(node, exp.SetOperation):
            return self._limited(node, self._united(node, tables, outer), tables, outer)
        if isinstance(node, exp.Values):
            return self._values(node, tables, outer)
        if isinstance(node, exp.Select):
            return self._select(node, tables, outer)
        raise self.statement.problem(node, f"{node.key} is no query")

    def _with(self, node: exp.Expr, tables: Mapping[str, Relation], outer: Scope | None) -> Mapping[str, Relation]:
        expressions = node.args.get("with_")
        known = dict(tables)
        for cte in expressions.expressions if expressions is not None else ():
            relation = self.relation(cte.this, known, outer)
            known[cte.alias.lower()] = _renamed(relation, cte.args.get("alias"))
        return known

    def _united(self, node: exp.SetOperation, tables: Mapping[str, Relation], outer: Scope | None) -> Relation:
        left, right = (self.relation(part, tables, outer) for part in (node.this, node.expression))
        compared = left.all | right.all
        own = left.rows | right.rows if isinstance(node, exp.Union) else compared
        rows = own if node.args.get("distinct") is False else compared
        extra = own | {(0, VARYING)}
        pairs = zip(left.columns, right.columns, strict=False)
        return Relation(tuple((name, first | second | extra) for (name, first), (_, second) in pairs), rows)

    def _values(self, node: exp.Values, tables: Mapping[str, Relation], outer: Scope | None) -> Relation:
        reads = self.read([*node.expressions], Scope(tables, outer, self._choices)) | {(0, VARYING)}
        first = node.expressions[0]
        width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
        return Relation(tuple((f"col{place}", reads) for place in range(1, width + 1)), reads)

    def _limited(
        self, node: exp.Expr, relation: Relation, tables: Mapping[str, Relation], outer: Scope | None
    ) -> Relation:
        """Return a query with LIMIT as one over a table, which it leaves rows out of."""
        if not (node.args.get("limit") or node.args.get("offset")):
            return relation
        scope = Scope(tables, outer, self._choices)
        source = self._new_source("", relation)
        scope.sources.append(source)
        scope.leave_out(self._ordered(node, scope))
        columns = tuple((name, scope.closed(scope.with_choices(source.columns[name]))) for name, _ in relation.columns)
        return Relation(columns, scope.closed(source.rows | scope.rows))

    # SELECT.

    def _select(self, node: exp.Select, tables: Mapping[str, Relation], outer: Scope | None) -> Relation:
        scope = Scope(tables, outer, self._choices)
        for window in node.args.get("windows") or ():
            order = window.args.get("order")
            scope.windows += [*(window.args.get("partition_by") or ()), *([order] if order is not None else ())]
        if node.args.get("from_"):
            for source in self._add(node.args["from_"].this, scope):
                scope.rows |= source.rows
        self._joins(node, scope)
        for part in conjuncts(node.args["where"].this if node.args.get("where") else None):
            scope.decide(self.read([part], scope))
        columns = self._projections(node, scope)
        for compared in self._groups(node, columns, scope):
            scope.leave_out(compared)
        having, scope.leaves_out = node.args.get("having"), True
        for part in conjuncts(having.this if having else None):
            scope.leave_out(self.read([part], scope))
        scope.leaves_out = False
        if having or node.args.get("group"):
            columns = self._projections(node, scope)  # aggregates and windows depend on groups
        if node.args.get("limit") or node.args.get("offset"):
            scope.leave_out(self._ordered(node, scope))
        scope.settle()
        closed = tuple((name, scope.closed(scope.with_choices(tagged))) for name, tagged in columns)
        return Relation(closed, scope.closed(scope.rows))

    def _groups(self, node: exp.Select, columns: Sequence[tuple[str, Tagged]], scope: Scope) -> Iterator[Tagged]:
        """Yield what groups and DISTINCT compare: it decides how many rows there are."""
        results = [tagged for _, tagged in columns]
        group = node.args.get("group")
        if node.args.get("distinct") or (group is not None and group.args.get("all")):
            yield from results
        for key in group.expressions if group is not None else ():
            if isinstance(key, exp.Literal) and key.this.isdigit():  # the number of a result
                yield from results[int(key.this) - 1 : int(key.this)]
            else:
                yield self.read([key], scope)
        for name in ("rollup", "cube", "grouping_sets"):
            for part in (group.args.get(name) or ()) if group is not None else ():
                yield self.read([part], scope)

    def _projections(self, node: exp.Select, scope: Scope) -> list[tuple[str, Tagged]]:
        columns: list[tuple[str, Tagged]] = []
        for projection in node.expressions:
            if projection.is_star and isinstance(projection, exp.Star | exp.Column):
                columns += self._star(projection, scope)
                continue
            tagged = self.read([projection.unalias()], scope)
            columns.append((projection.alias_or_name.lower(), tagged))
            if isinstance(projection, exp.Alias):
                name = projection.alias.lower()
                scope.results[name] = scope.results.get(name, NONE) | tagged
        return columns

    def _star(self, star: exp.Expr, scope: Scope) -> Iterator[tuple[str, Tagged]]:
        sources = scope.sources
        if isinstance(star, exp.Column):
            sources = [source for source in sources if source.name == star.table.lower()]
            star = star.this
        left_out = {each.name.lower() for each in star.args.get("except_") or ()}
        for source in sources:
            for name, tagged in source.columns.items():
                kept = scope.merged.get(name)
                if name not in left_out and not (len(sources) > 1 and kept and source not in kept):
                    yield name, tagged

    def _ordered(self, node: exp.Expr, scope: Scope) -> Tagged:
        """Return what the order of a query with LIMIT depends on."""
        order = node.args.get("order")
        keys = [item.this for item in order.expressions] if order is not None else []
        if any(isinstance(key, exp.Literal) for key in keys):  # the number of a result
            return frozenset(chain.from_iterable(chain(*(each.columns.values() for each in scope.sources))))
        return self.read(keys, scope)

    # FROM and JOIN.

    def _add(self, node: exp.Expr, scope: Scope) -> list[Source]:
        count = len(scope.sources)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            self._add(node.this, scope)
        else:
            scope.sources.append(self._source(node, scope))
        self._joins(node, scope)
        return scope.sources[count:]

    def _joins(self, node: exp.Expr, scope: Scope) -> None:
        for join in node.args.get("joins") or ():
            self._join(join, scope)
        for lateral in node.args.get("laterals") or ():
            self._generate(lateral, scope)

    def _source(self, node: exp.Expr, scope: Scope) -> Source:
        alias, dataset, moment = node.args.get("alias"), "", NONE
        keys: tuple[frozenset[str], ...] = ()
        if isinstance(node, exp.Table):
            name = node.name.lower()
            if isinstance(node.this, exp.Identifier) and not node.db and name in scope.tables:
                relation = scope.tables[name]
            else:
                dataset = self.statement.dataset_of(node).lower()
                known = self.datasets.get(dataset)
                if known is None:
                    raise self.statement.problem(node, f"{dataset} is no described dataset", "unknown_dataset")
                columns = tuple((each, frozenset({(0, (dataset, each))})) for each in known.columns)
                relation = Relation(columns, frozenset({(0, (dataset, ROWS))}))
                keys, name = known.keys, dataset.partition(".")[2]
                if isinstance(node.this, exp.Anonymous):
                    keys, moment = (), self.read(node.this.expressions[1:], scope)
        else:
            name = ""
            within = scope if isinstance(node, exp.Lateral) else scope.outer
            relation = self.relation(node.this if isinstance(node, exp.Lateral) else node, scope.tables, within)
            if isinstance(node, exp.Lateral):
                moment = relation.rows
        named = _renamed(relation, alias)
        source = self._new_source((node.alias or name).lower(), named, "" if node.alias else dataset, keys)
        if {tag for tag, _ in moment} & scope.numbers:  # its rows are chosen by a column of a table before it
            scope.sources.append(source)
            scope.decide(moment | source.rows)
            scope.sources.pop()
        scope.rows |= moment
        return source

    def _join(self, join: exp.Join, scope: Scope) -> None:
        before = list(scope.sources)
        added = self._add(join.this, scope)
        side, kind = join.side.upper(), join.kind.upper()
        is_filter = kind in ("SEMI", "ANTI")
        parts = [(self.read([part], scope), part) for part in conjuncts(join.args.get("on"))]
        parts += [(self._using(name, before, added, side, scope), name) for name in join.args.get("using") or ()]
        is_unique = side in ("", "LEFT") and self._is_unique(added, [part for _, part in parts], scope)
        if side and not is_filter:
            self._outer(side, before, added, [tagged for tagged, _ in parts], scope, is_unique=is_unique)
        else:
            for tagged, _ in parts:
                scope.decide(tagged, unrepeated=before if is_unique or is_filter else ())
            for source in added:
                scope.rows |= source.rows
        if is_filter:
            scope.hidden += added
            scope.sources[:] = before

    def _outer(
        self,
        side: str,
        before: Sequence[Source],
        added: Sequence[Source],
        parts: Sequence[Tagged],
        scope: Scope,
        *,
        is_unique: bool,
    ) -> None:
        """Add the choices of an outer join: the condition makes rows of one side NULL, and may repeat the other's."""
        condition: Tagged = frozenset(chain.from_iterable(parts))
        absent = [*(added if side in ("LEFT", "FULL") else ()), *(before if side in ("RIGHT", "FULL") else ())]
        whole = condition.union(*(source.rows for source in absent))
        tags = {tag for tag, _ in condition} & scope.numbers
        for source in (*before, *added):
            if source in absent or not is_unique:
                source.chosen |= whole
                scope.links |= {(source.number, tag) for tag in tags - {source.number}}
        if not is_unique:
            scope.rows |= whole.union(*(source.rows for source in added))
            scope.repeats = True

    def _using(
        self,
        name: exp.Expr,
        before: Sequence[Source],
        added: Sequence[Source],
        side: str,
        scope: Scope,
    ) -> Tagged:
        lower = name.name.lower()
        known = scope.merged.get(lower) or [source for source in before if lower in source.columns]
        new = [source for source in added if lower in source.columns]
        scope.merged[lower] = {"": known, "LEFT": known, "RIGHT": new}.get(side, [*known, *new])
        return frozenset(chain.from_iterable(source.columns[lower] for source in (*known, *new)))

    def _is_unique(self, added: Sequence[Source], parts: Iterable[exp.Expr], scope: Scope) -> bool:
        """Return True if at most one row of an added table fits each row before it: its whole key is compared."""
        if len(added) != 1 or not added[0].keys:
            return False
        own, compared = added[0].number, set()
        for part in parts:
            if isinstance(part, exp.Identifier):  # of USING
                compared.add(part.name.lower())
            elif isinstance(part, exp.EQ):
                for column, other in ((part.this, part.expression), (part.expression, part.this)):
                    is_own = isinstance(column, exp.Column) and self._tags(column, scope) == {own}
                    if is_own and own not in self._tags(other, scope):
                        compared.add(column.name.lower())
        return any(key <= compared for key in added[0].keys)

    def _tags(self, node: exp.Expr, scope: Scope) -> set[int]:
        return {tag for tag, _ in self.read([node], scope)}

    def _generate(self, lateral: exp.Lateral, scope: Scope) -> None:
        """Add a LATERAL VIEW, which repeats rows."""
        tagged = self.read([lateral.this], scope)
        tags = {tag for tag, _ in tagged}
        for source in scope.sources:
            source.chosen |= tagged
            scope.links |= {(source.number, tag) for tag in tags & scope.numbers - {source.number}}
        scope.rows |= tagged
        scope.repeats = True
        alias = lateral.args.get("alias")
        is_placed = lateral.this.name.lower().startswith("pos")
        columns = tuple((name, tagged | {(0, VARYING)}) for name in (("pos", "col") if is_placed else ("col",)))
        name = alias.this.name.lower() if alias is not None and alias.this else ""
        scope.sources.append(self._new_source(name, _renamed(Relation(columns, NONE), alias)))

    # Expressions.

    def read(self, nodes: Iterable[exp.Expr], scope: Scope) -> Tagged:
        """Return what the values of expressions depend on."""
        reads: set[tuple[int, Dependency]] = set()
        for root in nodes:
            for node in root.walk(prune=lambda node: isinstance(node, exp.Query)):
                reads |= self._read(node, scope)
        return frozenset(reads)

    def _read(self, node: exp.Expr, scope: Scope) -> Tagged:
        if isinstance(node, exp.Query):
            return self.relation(node, scope.tables, scope).all
        if isinstance(node, exp.Window):
            return frozenset(scope.rows) | self.read(scope.windows, scope)
        if isinstance(node, exp.Anonymous) and node.name.lower() in functions.AGGREGATES:
            return NONE if scope.leaves_out else frozenset(scope.rows)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return NONE
        if not node.table and node.this.meta.get("start", -1) in self.statement.placeholders:
            return NONE
        tagged = scope.find(node)
        if tagged is None:
            raise self.statement.problem(node, f"there is no column {node.name}", "unknown_column")
        return tagged


def _renamed(relation: Relation, alias: exp.Expr | None) -> Relation:
    """Return a query with the names of a column list."""
    names = alias.args.get("columns") if alias is not None else None
    if not names:
        return relation
    pairs = zip(names, relation.columns, strict=False)
    return Relation(tuple((name.name.lower(), tagged) for name, (_, tagged) in pairs), relation.rows)
