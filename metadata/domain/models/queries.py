"""Columns of a query: SELECT with joins, groups and windows, set operations, common table expressions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from metadata.domain.models import functions, sql_types
from metadata.domain.models.expressions import Expressions, Query
from metadata.domain.models.functions import Value, inputs_of
from metadata.domain.models.results import columns_of_star, name_results, order_results
from metadata.domain.models.scopes import (
    FIXED,
    PAIRS,
    USING,
    Expansion,
    Item,
    Merged,
    Reference,
    Relations,
    Scope,
    Source,
    nullable,
)
from metadata.domain.models.statement import Statement

_GROUPING = ("rollup", "cube", "grouping_sets")
_NOT_SUPPORTED = ("qualify", "cluster", "distribute", "sort", "pivots", "connect", "match", "sample", "prewhere")


@dataclass
class Queries:
    """Description of the queries in one statement over the columns of ``datasets``, by name in lower case.

    ``selects`` are the SELECTs described so far, with their expressions.
    """

    statement: Statement
    datasets: Relations
    references: list[Reference] = field(default_factory=list)
    expansions: list[Expansion] = field(default_factory=list)
    selects: list[tuple[exp.Select, Expressions]] = field(default_factory=list)

    def describe(self, node: exp.Expr, tables: Relations, outer: Scope | None = None) -> list[Item]:
        """Return the columns of a query. ``tables`` are the common table expressions that it may read."""
        tables = self._with(node, tables, outer)
        if isinstance(node, exp.Subquery):
            items = self.describe(node.this, tables, outer)
            order_results(node, Expressions(self._scope(tables, outer), self._subquery(tables)), items)
            return items
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, tables, outer)
        if isinstance(node, exp.Values):
            return self._values(node, tables, outer)
        if isinstance(node, exp.Select):
            return self._select(node, tables, outer)
        raise self.statement.problem(node, f"{node.key} is no query")

    def _scope(self, tables: Relations, outer: Scope | None) -> Scope:
        return Scope(self.statement, tables, outer, references=self.references, expansions=self.expansions)

    def _subquery(self, tables: Relations) -> Query:
        return lambda node, scope: self.describe(node, tables, scope)

    def _with(self, node: exp.Expr, tables: Relations, outer: Scope | None) -> Relations:
        expressions = node.args.get("with_")
        if expressions is None:
            return tables
        if expressions.args.get("recursive"):
            raise self.statement.problem(expressions, "WITH RECURSIVE is not allowed in a model")
        known = dict(tables)
        own: set[str] = set()
        for cte in expressions.expressions:
            if cte.alias.lower() in own:
                raise self.statement.problem(cte.args["alias"], f"WITH has {cte.alias} twice")
            own.add(cte.alias.lower())
            items = self.describe(cte.this, known, outer)
            known[cte.alias.lower()] = self._renamed(cte, cte.args["alias"], items)
        return known

    def _renamed(self, node: exp.Expr, alias: exp.Expr | None, items: Sequence[Item]) -> Sequence[Item]:
        """Return the columns with the names of a column list."""
        names = alias.args.get("columns") if alias is not None else None
        if not names:
            self._refuse_repeated(node, items)
            return items
        if len(names) != len(items):
            raise self.statement.problem(node, f"the column list has {len(names)} names for {len(items)} columns")
        self.expansions.append(Expansion(node, FIXED, tuple(item.name.lower() for item in items)))
        return [
            item._replace(name=name.name, origins=frozenset(), technical=False)
            for name, item in zip(names, items, strict=True)
        ]

    def _refuse_repeated(self, node: exp.Expr, items: Sequence[Item]) -> None:
        seen: set[str] = set()
        for item in items:
            where = item.expression if item.expression is not None else node
            if not item.name:
                raise self.statement.problem(where, "this column has no name: give it one with AS")
            if item.name.lower() in seen:
                raise self.statement.problem(where, f"two columns are named {item.name}: give one of them an alias")
            seen.add(item.name.lower())

    # Set operations and VALUES.

    def _set_operation(self, node: exp.SetOperation, tables: Relations, outer: Scope | None) -> list[Item]:
        if node.args.get("by_name"):
            raise self.statement.problem(node.expression, "BY NAME is not allowed in a model")
        left = self.describe(node.this, tables, outer)
        right = self.describe(node.expression, tables, outer)
        if len(left) != len(right):
            message = f"this has {len(right)} columns, the query before it {len(left)}"
            raise self.statement.problem(node.expression, message)
        pairs = list(zip(left, right, strict=True))
        names = tuple((own.name.lower(), other.name.lower()) for own, other in pairs)
        self.expansions.append(Expansion(node.expression, PAIRS, names))
        items = [self._united(node, *pair) for pair in pairs]
        order_results(node, Expressions(self._scope(tables, outer), self._subquery(tables)), items)
        return items

    def _united(self, node: exp.SetOperation, left: Item, right: Item) -> Item:
        own, other = left.value, right.value
        common = sql_types.common_type(own.type, other.type)
        if common is None:
            where = right.expression if right.expression is not None else node.expression
            raise self.statement.problem(where, f"{right.name} is {other.type}, {left.name} before it {own.type}")
        nullable = {
            exp.Union: own.nullable or other.nullable,
            exp.Intersect: own.nullable and other.nullable,
            exp.Except: own.nullable,
        }[type(node)]
        return left._replace(value=Value(common, nullable, inputs_of((own, other))))

    def _values(self, node: exp.Values, tables: Relations, outer: Scope | None) -> list[Item]:
        expressions = Expressions(self._scope(tables, outer), self._subquery(tables))
        rows = [
            expressions.values(row.expressions if isinstance(row, exp.Tuple) else [row]) for row in node.expressions
        ]
        other = next((row for row in rows if len(row) != len(rows[0])), None)
        if other is not None:
            raise self.statement.problem(node, f"VALUES has rows of {len(rows[0])} and of {len(other)} values")
        items = []
        for place, column in enumerate(zip(*rows, strict=True), start=1):
            own = functions.common_of([value.type for value in column])
            if own is None:
                raise self.statement.problem(node, f"the values of column {place} have no common type")
            items.append(Item(f"col{place}", Value(own, any(value.nullable for value in column), inputs_of(column))))
        return items

    # SELECT.

    def _select(self, node: exp.Select, tables: Relations, outer: Scope | None) -> list[Item]:
        self._refuse_unsupported(node)
        scope = self._scope(tables, outer)
        expressions = Expressions(scope, self._subquery(tables))
        self._from(node, scope, expressions)
        if node.args.get("where"):
            expressions.condition(node.args["where"].this, "WHERE")
        for window in node.args.get("windows") or ():
            expressions.windows[window.this.name.lower()] = window
        having = node.args.get("having")
        if node.args.get("group") or any(
            map(expressions.is_aggregated, [*node.expressions, *([having] if having else [])])
        ):
            self._group(node, expressions)
        elif having:
            raise self.statement.problem(having, "HAVING needs GROUP BY or an aggregate: write WHERE")
        known = len(self.references)
        items = self._projections(node, expressions)
        if having and any(each.find(exp.Window) for each in node.expressions):
            self._refuse_results(self.references[known:])
        name_results(scope, items)
        if having:
            expressions.condition(having.this, "HAVING")
        order_results(node, expressions, items)
        self.selects.append((node, expressions))
        return items

    def _refuse_results(self, references: Sequence[Reference]) -> None:
        """Refuse results in the SELECT list of a query that has windows and HAVING."""
        result = next((each for each in references if each.column and not each.owner), None)
        if result is not None:
            message = f"{result.name.name} is a result: with windows and HAVING, write its expression instead"
            raise self.statement.problem(result.name, message)

    def _refuse_unsupported(self, node: exp.Select) -> None:
        if not node.expressions:
            raise self.statement.problem(node, "the SELECT list is empty")
        for name in _NOT_SUPPORTED:
            if node.args.get(name):
                raise self.statement.problem(node, f"{name.upper().rstrip('S')} is not allowed in a model")
        if isinstance(node.args.get("distinct"), exp.Distinct) and node.args["distinct"].args.get("on"):
            raise self.statement.problem(node, "DISTINCT ON is not allowed in a model")

    # FROM and JOIN.

    def _from(self, node: exp.Select, scope: Scope, expressions: Expressions) -> None:
        if node.args.get("from_"):
            self._add(node.args["from_"].this, scope, expressions)
        for join in node.args.get("joins") or ():
            self._join(join, scope, expressions)
        for lateral in node.args.get("laterals") or ():
            self._lateral_view(lateral, scope, expressions)

    def _add(self, node: exp.Expr, scope: Scope, expressions: Expressions) -> list[Source]:
        """Add a table or subquery to the scope; return its sources."""
        count = len(scope.sources)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            self._add(node.this, scope, expressions)
        else:
            scope.add(self._source(node, scope), node)
        for join in node.args.get("joins") or ():
            self._join(join, scope, expressions)
        for lateral in node.args.get("laterals") or ():
            self._lateral_view(lateral, scope, expressions)
        return scope.sources[count:]

    def _source(self, node: exp.Expr, scope: Scope) -> Source:
        alias = node.args.get("alias")
        if isinstance(node, exp.Table):
            items, name, dataset = self._table(node, scope)
            named = self._renamed(node, alias, items) if alias is not None and alias.args.get("columns") else items
            return Source((node.alias or name).lower(), named, "" if node.alias else dataset)
        if isinstance(node, exp.Lateral):
            items = self.describe(node.this, scope.tables, scope)
        elif isinstance(node, exp.Subquery | exp.Values):
            items = self.describe(node, scope.tables, scope.outer)
        else:
            raise self.statement.problem(node, f"{node.key} cannot be read")
        return Source(node.alias.lower() or f"__{len(scope.sources)}", self._renamed(node, alias, items))

    def _table(self, node: exp.Table, scope: Scope) -> tuple[Sequence[Item], str, str]:
        """Return the columns of a dataset, a helper or a common table expression, its name and its dataset."""
        if isinstance(node.this, exp.Identifier) and not node.db and node.name.lower() in scope.tables:
            return scope.tables[node.name.lower()], node.name, ""
        dataset = self.statement.dataset_of(node)
        helper = isinstance(node.this, exp.Anonymous)
        items = self.datasets.get(f"versions({dataset})".lower() if helper else dataset.lower())
        if items is None:
            what = "history" if helper and dataset.lower() in self.datasets else "described dataset"
            raise self.statement.problem(node, f"{dataset} is no {what}", "unknown_dataset")
        if helper and len(node.this.expressions) > 1:
            # A moment may read the tables before it in FROM.
            moment = Expressions(scope, self._subquery(scope.tables)).value(node.this.expressions[1])
            start = next(item for item in items if item.name.lower() == "__valid_from")
            if sql_types.common_type(moment.type, start.value.type) is None:
                message = f"as_of takes a {start.value.type}, not {moment.type}"
                raise self.statement.problem(node.this.expressions[1], message)
        return items, dataset.partition(".")[2], dataset.lower()

    def _join(self, join: exp.Join, scope: Scope, expressions: Expressions) -> None:
        if join.args.get("method"):
            raise self.statement.problem(
                join, f"{join.args['method']} JOIN is not allowed in a model: name the columns"
            )
        before, merged = list(scope.sources), dict(scope.merged)
        added = self._add(join.this, scope, expressions)
        side, kind = join.side.upper(), join.kind.upper()
        if kind not in ("SEMI", "ANTI"):
            for source in (
                *(added if side in ("LEFT", "FULL") else ()),
                *(before if side in ("RIGHT", "FULL") else ()),
            ):
                source.nullable = True
            for name, each in scope.merged.items():
                own_side = "RIGHT" if each is merged.get(name) else "LEFT"
                if side in (own_side, "FULL"):
                    scope.merged[name] = each._replace(item=nullable(each.item))
        for name in join.args.get("using") or ():
            self._merge(name, before, added, scope, side)
        if join.args.get("on"):
            expressions.condition(join.args["on"], "ON")
        elif not join.args.get("using") and kind != "CROSS" and not isinstance(join.this, exp.Lateral):
            raise self.statement.problem(join.this, "a join needs ON or USING; write CROSS JOIN for all pairs of rows")
        if kind in ("SEMI", "ANTI"):
            scope.sources[:] = before

    def _merge(
        self, name: exp.Identifier, before: Sequence[Source], added: Sequence[Source], scope: Scope, side: str
    ) -> None:
        """Make one column of those on both sides of USING."""
        lower = name.name.lower()
        sides = [[item for source in each if (item := source.column(lower))] for each in (before, added)]
        if lower in scope.merged:
            rest = [source for source in before if source.name not in scope.merged[lower].sources]
            sides[0] = [scope.merged[lower].item, *(item for source in rest if (item := source.column(lower)))]
        for items in sides:
            if len(items) != 1:
                problem = "is ambiguous" if items else "is not a column of both sides"
                raise self.statement.problem(name, f"{name.name} {problem}", "unknown_column")
        left, right = sides[0][0], sides[1][0]
        common = sql_types.common_type(left.value.type, right.value.type)
        if common is None:
            message = f"{name.name} is {left.value.type} on one side and {right.value.type} on the other"
            raise self.statement.problem(name, message)
        owners = frozenset(source.name for source in (*before, *added) if source.column(lower))
        written = " ".join(sorted(owners))
        origins = left.origins | right.origins
        self.references.append(Reference(name, origins, renamable=False, owner=USING, column=written))
        if side == "FULL":
            value = Value(common, left.value.nullable and right.value.nullable, inputs_of((left.value, right.value)))
            item = Item(left.name, value, left.origins | right.origins)
        else:
            item = right if side == "RIGHT" else left
        scope.merged[lower] = Merged(item, owners)

    def _lateral_view(self, lateral: exp.Lateral, scope: Scope, expressions: Expressions) -> None:
        call, alias = lateral.this, lateral.args.get("alias")
        name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
        signature = functions.GENERATORS.get(name)
        if signature is None:
            raise self.statement.problem(lateral, "LATERAL VIEW takes explode or posexplode")
        values = expressions.values(call.expressions)
        problem = functions.misfit(signature, [value.type for value in values])
        if problem:
            raise self.statement.problem(call, f"{name}: its argument {problem[1]}")
        inputs = inputs_of(values)
        items = [Item("col", Value(values[0].type.item or sql_types.STRING, True, inputs))]
        if name.startswith("pos"):
            outer = bool(lateral.args.get("outer")) or name.endswith("outer")
            items.insert(0, Item("pos", Value(sql_types.INT, outer, inputs)))
        table = alias.this.name.lower() if alias is not None and alias.this else f"__{len(scope.sources)}"
        scope.add(Source(table, self._renamed(lateral, alias, items)), lateral)

    # GROUP BY and the SELECT list.

    def _group(self, node: exp.Select, expressions: Expressions) -> None:
        group, groups = node.args.get("group"), {}
        if group is not None:
            keys, nullable = self._group_keys(node, group, expressions)
            expressions.clause = "GROUP BY"
            for key in keys:
                value = expressions.value(key)
                groups[expressions.identity(key)] = value._replace(nullable=value.nullable or nullable)
        expressions.groups, expressions.clause = groups, ""
        expressions.has_sets = group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None

    def _group_keys(self, node: exp.Select, group: exp.Group, expressions: Expressions) -> tuple[list[exp.Expr], bool]:
        """Return the grouped expressions, and True if ROLLUP, CUBE or GROUPING SETS leave some of them NULL."""
        if group.args.get("all"):
            named = next((source for source in expressions.scope.sources if source.column("all")), None)
            if named is not None:
                raise self.statement.problem(node, f"GROUP BY ALL would group by all of {named.name}: name the columns")
            plain = [each.unalias() for each in node.expressions]
            return [each for each in plain if not expressions.is_aggregated(each)], False
        listed = [*group.expressions, *(each for name in _GROUPING for each in group.args.get(name) or ())]
        keys: list[exp.Expr] = []
        for part in listed:
            if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets):
                sets = [key.expressions if isinstance(key, exp.Tuple) else [key] for key in part.expressions]
                keys += [self._group_key(node, key.unnest(), expressions) for each in sets for key in each]
            else:
                keys.append(self._group_key(node, part, expressions))
        return keys, any(isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets) for part in listed)

    def _group_key(self, node: exp.Select, key: exp.Expr, expressions: Expressions) -> exp.Expr:
        """Return the expression of a key, which may be the number or the alias of a result."""
        if isinstance(key, exp.Literal) and not key.is_string:
            place = int(key.this) if key.this.isascii() and key.this.isdigit() else 0
            if not 1 <= place <= len(node.expressions):
                raise self.statement.problem(key, f"there is no result number {key.this}")
            picked: exp.Expr = node.expressions[place - 1].unalias()
            return picked
        if isinstance(key, exp.Column) and not key.table and expressions.scope.find_here(key) is None:
            named = (each for each in node.expressions if isinstance(each, exp.Alias))
            results = (each.this for each in named if each.alias.lower() == key.name.lower())
            result: exp.Expr | None = next(results, None)
            if result is not None:
                self.references.append(Reference(key.this, frozenset(), column=key.name.lower()))
                return result
        return key

    def _projections(self, node: exp.Select, expressions: Expressions) -> list[Item]:
        items: list[Item] = []
        for projection in node.expressions:
            if projection.is_star and isinstance(projection, exp.Star | exp.Column):
                brought = columns_of_star(projection, expressions)
                items += brought
                name_results(expressions.scope, brought)
                continue
            value = expressions.value(projection.unalias())
            # Only the columns of the model and of tables need a name.
            name = projection.alias_or_name if isinstance(projection, exp.Alias | exp.Column) else ""
            item = Item(name, value, expression=projection)
            items.append(item)
            name_results(expressions.scope, [item])
        return items
