"""Statements of the metadata's views, which read tables only.

A view of stage has a branch for each table that feeds it, directly or through other views; UNION ALL combines the
branches. The views in between are inlined: in expressions, their columns are replaced by those columns' expressions.
A model is its SELECT, in which the views that it reads are subqueries.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from architecture.domain.history_views import live_versions
from architecture.domain.steps.statements import equal_as_text
from architecture.domain.tables import TableSpec, current_table, history_table
from elevata.core.errors import MetadataError
from metadata.domain.models import bind_select, relations_of, versions_of
from metadata.domain.models.statement import Statement, parse_model
from metadata.domain.naming import HISTORY_SUFFIX
from metadata.domain.sources.raw_keeping import LATEST, mode_of
from metadata.domain.sql import columns_in, put_columns, quote_identifier
from metadata.domain.state import ColumnState, DatasetState
from metadata.domain.types import STRING, parse, spark_type

NULL = "NULL"
VIEW, RAW = "view", "raw"
# Purposes of the columns that * brings.
_DESCRIBED = ("business_key", "attribute", "foreign_key")
# Views are inlined where they are read, so the text grows by a factor with each layer that reads one twice.
MAX_QUERY = 1_000_000


@dataclass(frozen=True)
class Branch:
    """Rows of one table for a reader: SQL and type of each column by stable key, and filter conditions."""

    table: DatasetState
    columns: Mapping[str, str]
    types: Mapping[str, str]
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """Query over tables, and those tables in the order of their first use."""

    sql: str
    tables: tuple[TableSpec, ...]


@dataclass(frozen=True)
class _Inlining:
    """Datasets by stable key, SQL of their tables, and the queries of views made so far, by stable key.

    ``projected``: models read only the columns that they may name, whatever else a table has.
    """

    by_key: Mapping[str, DatasetState]
    called: Callable[[TableSpec], str]
    projected: bool = True
    queries: dict[str, Query] = field(default_factory=dict)


def published_as(table: TableSpec) -> str:
    """Return the name of a table in the catalog, quoted."""
    return qualified(table.qualified_name)


def _rows_of(dataset: DatasetState, called: Callable[[TableSpec], str]) -> str:
    """Return the SQL for the current rows of a dataset's table: of several deliveries in raw, those of the newest.

    Only a published name needs the condition: views of the loader over a raw table have the newest delivery alone.
    """
    table = current_table(dataset)
    if called is not published_as or table.kind != RAW or mode_of(dataset.load_policy) == LATEST:
        return called(table)
    run_id, loaded_at = (quote_identifier(table.column(purpose).name) for purpose in ("run_id", "loaded_at"))
    newest = f"SELECT max_by({run_id}, {loaded_at}) FROM {called(table)}"
    return f"(SELECT * FROM {called(table)} WHERE {run_id} = ({newest}))"


def view_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Return the CREATE VIEW statement. Raise MetadataError."""
    return f"CREATE VIEW {qualified(dataset.qualified_name)} AS\n{query_of_view(dataset, by_key).sql}"


def query_of_view(
    view: DatasetState, by_key: Mapping[str, DatasetState], called: Callable[[TableSpec], str] = published_as
) -> Query:
    """Return the query of a described view. Raise MetadataError.

    ``called`` returns the SQL that the query contains for a table.
    """
    return query_of_model(view, by_key, called) if view.select else _united(view, by_key, called)


def _united(view: DatasetState, by_key: Mapping[str, DatasetState], called: Callable[[TableSpec], str]) -> Query:
    """Return the query of a view with described columns: these are cast and renamed, inputs united."""
    return united(view_branches(view, by_key), view.active_columns, called)


def united(
    branches: Sequence[Branch], columns: Sequence[ColumnState], called: Callable[[TableSpec], str] = published_as
) -> Query:
    """Return the query that unites the branches, with these columns of the reader."""
    tables = dict.fromkeys(current_table(branch.table) for branch in branches)
    selects = [
        select(
            [typed(branch.columns[column.key], column.type, column.name) for column in columns],
            _rows_of(branch.table, called),
            " AND ".join(f"({condition})" for condition in branch.conditions),
        )
        for branch in branches
    ]
    return Query("\nUNION ALL\n".join(selects), tuple(tables))


def query_of_model(
    model: DatasetState,
    by_key: Mapping[str, DatasetState],
    called: Callable[[TableSpec], str] = published_as,
    values: Mapping[str, str] | None = None,
    *,
    projected: bool = True,
) -> Query:
    """Return the SELECT of a model over tables, with every column cast to its described type. Raise MetadataError.

    ``values`` are the SQL of placeholders; a view has none. Without ``projected``, the SQL does not name the columns
    of the tables.
    """
    return _query_of_model(model, _Inlining(by_key, called, projected), values or {}, ())


def _query_of_model(
    model: DatasetState, inlining: _Inlining, values: Mapping[str, str], path: tuple[str, ...]
) -> Query:
    """Return the SELECT of a model; ``path`` are the keys of the models around it."""
    assert model.select is not None
    if model.key in path:
        raise MetadataError("CIRCULAR_INPUTS", f"{model.qualified_name} reads itself over its inputs")
    relations: dict[str, Query] = {}
    known = _relations(model, inlining, (*path, model.key))
    for name in relations_of(model.select):
        if name not in known:
            message = f"{model.qualified_name} reads {name}, which is no input of it; save the model again"
            raise MetadataError("UNKNOWN_INPUT", message)
        relations[name] = known[name]()
    bound = bind_select(model.select, {name: query.sql for name, query in relations.items()}, values)
    if len(bound) > MAX_QUERY:
        message = (
            f"the query of {model.qualified_name} with all views that it reads is longer than {MAX_QUERY:,} "
            "characters; make one of these views a table"
        )
        raise MetadataError("TOO_LARGE", message)
    columns = [typed(quote_identifier(column.name), column.type, column.name) for column in model.active_columns]
    tables = dict.fromkeys(table for query in relations.values() for table in query.tables)
    return Query(f"SELECT\n  {lines(columns)}\nFROM (\n{bound}\n)", tuple(tables))


def _relations(model: DatasetState, inlining: _Inlining, path: tuple[str, ...]) -> dict[str, Callable[[], Query]]:
    """Return functions that make the queries of a model's inputs, by the names that its SELECT has for them."""
    relations: dict[str, Callable[[], Query]] = {}
    by_key, called, statement = inlining.by_key, inlining.called, parse_model(model.select or "")
    for upstream in (by_key[key] for key in model.inputs if key in by_key):
        name = upstream.qualified_name.lower()
        relations[name] = partial(_current_rows, upstream, inlining, path, statement)
        if upstream.historize and upstream.history_key is not None:
            history = f"{name}{HISTORY_SUFFIX}"
            table = history_table(upstream)
            relations[history] = partial(_history_rows, table, statement, inlining)
            relations[versions_of(history)] = partial(_live_versions, upstream, table, called)
    return relations


def _columns_read(table: TableSpec, sql: str, statement: Statement, inlining: _Inlining) -> Query:
    """Return the columns of a table that a SELECT may name; with ``*``, all that metadata describes.

    A table may have columns that are retired or that another writer added. In SQL they could take names over.
    """
    if not inlining.projected:
        return Query(sql, (table,))
    names = [
        column.name
        for column in table.columns
        if column.name.lower() in statement.names or (statement.has_star and column.purpose in _DESCRIBED)
    ]
    names = names or [column.name for column in (*table.of_purpose(*_DESCRIBED), *table.columns)[:1]]
    return Query(f"(SELECT {', '.join(map(quote_identifier, names))} FROM {sql})", (table,))


def _history_rows(table: TableSpec, statement: Statement, inlining: _Inlining) -> Query:
    # The name is only asked for if the SELECT reads the history: asking makes it an input.
    return _columns_read(table, inlining.called(table), statement, inlining)


def _live_versions(dataset: DatasetState, table: TableSpec, called: Callable[[TableSpec], str]) -> Query:
    return Query(f"({live_versions(dataset, called(table))})", (table,))


def _current_rows(upstream: DatasetState, inlining: _Inlining, path: tuple[str, ...], statement: Statement) -> Query:
    if upstream.materialization != VIEW:
        return _columns_read(current_table(upstream), _rows_of(upstream, inlining.called), statement, inlining)
    if upstream.key not in inlining.queries:
        if upstream.select:
            inner = _query_of_model(upstream, inlining, {}, path)
        else:
            inner = _united(upstream, inlining.by_key, inlining.called)
        inlining.queries[upstream.key] = Query(f"({inner.sql})", inner.tables)
    return inlining.queries[upstream.key]


def changed_views(before: Iterable[DatasetState], after: Iterable[DatasetState]) -> dict[str, str]:
    """Return the statement of each view that is created or changes, by stable key, in the order of names.

    ``before`` and ``after`` are all datasets of an environment. A view also changes if a table beneath it does. A
    view without inputs, or with an expression that names an unknown column, is left out.
    """
    old, new = ({state.key: state for state in states} for states in (before, after))
    changed = {key for key, state in new.items() if old.get(key) != state}
    views = [state for state in new.values() if state.active and state.materialization == "view"]
    statements = {}
    for view in sorted(views, key=lambda state: state.qualified_name):
        if changed.isdisjoint(with_inputs(view, new)):
            continue
        statement = _statement(view.key, new)
        if statement and statement != _statement(view.key, old):
            statements[view.key] = statement
    return statements


def with_inputs(state: DatasetState, by_key: Mapping[str, DatasetState]) -> set[str]:
    """Return the keys of a dataset and of all datasets that feed it."""
    keys, pending = {state.key}, [state]
    while pending:
        upstreams = [by_key[key] for key in pending.pop().inputs if key in by_key and key not in keys]
        keys.update(upstream.key for upstream in upstreams)
        pending += upstreams
    return keys


def _statement(key: str, by_key: Mapping[str, DatasetState]) -> str:
    view = by_key.get(key)
    if view is None or not view.active or view.materialization != "view":
        return ""
    try:
        return view_sql(view, by_key) if view.select or view_branches(view, by_key) else ""
    except MetadataError:  # loads that read the view are refused with this error
        return ""


def select(columns: Iterable[str], table: str, condition: str) -> str:
    """Return a SELECT; ``table`` is SQL."""
    return f"SELECT\n  {lines(columns)}\nFROM {table}" + (f"\nWHERE {condition}" if condition else "")


def typed(expression: str, type_: str, name: str) -> str:
    return f"CAST({expression} AS {spark_type(parse(type_))}) AS {quote_identifier(name)}"


def lines(parts: Iterable[str]) -> str:
    return ",\n  ".join(parts)


def qualified(name: str) -> str:
    """Return ``schema.name`` quoted."""
    return ".".join(quote_identifier(part) for part in name.split(".", 1))


def _branches(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> list[Branch]:
    """Return the branches of a dataset: a table is one branch, a view has the branches of its inputs."""
    if dataset.materialization == VIEW and dataset.select:
        message = f"{dataset.qualified_name} is a model without a table; only models read it"
        raise MetadataError("UNKNOWN_INPUT", message)
    if dataset.materialization == VIEW:
        return view_branches(dataset, by_key)
    columns = {column.key: quote_identifier(column.name) for column in dataset.active_columns}
    return [Branch(dataset, columns, {column.key: column.type for column in dataset.active_columns})]


def view_branches(reader: DatasetState, by_key: Mapping[str, DatasetState]) -> list[Branch]:
    """Return a branch with the reader's columns for each table that feeds it, in the order of its inputs."""
    upstreams = [by_key[key] for key in reader.inputs if key in by_key]
    return [_project(reader, upstream, branch) for upstream in upstreams for branch in _branches(upstream, by_key)]


def _project(reader: DatasetState, upstream: DatasetState, branch: Branch) -> Branch:
    columns: dict[str, str] = {}
    types: dict[str, str] = {}
    rewrite = _rewriter(reader, upstream, branch)
    for column in reader.active_columns:
        columns[column.key], types[column.key] = _column(column, upstream, branch, rewrite)
    conditions = (rewrite(reader.filter),) if reader.filter else ()
    return Branch(branch.table, columns, types, (*branch.conditions, *conditions))


def _column(
    column: ColumnState, upstream: DatasetState, branch: Branch, rewrite: Callable[[str], str]
) -> tuple[str, str]:
    """Return the SQL of a reader's column over one input, and its type; the type of an expression is empty."""
    upstream_keys = {column.key for column in upstream.columns}
    inputs = [key for key in column.inputs if key in upstream_keys and key in branch.columns]
    if column.expression:
        if column.inputs and not inputs:
            return NULL, column.type  # the expression belongs to another input
        return rewrite(column.expression), ""
    if not inputs and not column.inputs:
        inputs = [item.key for item in upstream.columns if item.name == column.name and item.key in branch.columns]
    if not inputs:
        return NULL, column.type
    upstream_type = next(column.type for column in upstream.columns if column.key == inputs[0])
    sql = branch.columns[inputs[0]]
    if upstream_type == column.type or upstream.materialization == "table":
        return sql, branch.types[inputs[0]]
    return _cast(sql, branch.types[inputs[0]], upstream_type), upstream_type


def _cast(sql: str, source: str, target: str) -> str:
    """Return ``sql`` cast from one metadata type to another; an empty ``source`` is unknown."""
    if source == target:
        return sql
    if source and parse(target).name == STRING:
        sql = equal_as_text(sql, parse(source))
    return f"CAST({sql} AS {spark_type(parse(target))})"


def _rewriter(reader: DatasetState, upstream: DatasetState, branch: Branch) -> Callable[[str], str]:
    """Return a function that turns an expression or filter of the reader into SQL over the branch's table.

    Over a table the text stays unchanged; over a view its columns are replaced by their SQL. The function raises
    MetadataError UNKNOWN_INPUT for a name that is no column of the upstream. In SQL such a name could match a column
    that the loader adds, or one of the table below a view, and the reader would not inherit its sensitivity.
    """
    is_table = upstream.materialization == "table"
    sql_of = {
        column.name.lower(): quote_identifier(column.name)
        if is_table
        else _cast(branch.columns[column.key], branch.types[column.key], column.type)
        for column in upstream.columns
        if is_table or column.key in branch.columns
    }

    def rewrite(text: str) -> str:
        unknown = sorted(columns_in(text) - sql_of.keys())
        if unknown:
            raise MetadataError(
                "UNKNOWN_INPUT",
                f"{reader.qualified_name} names {unknown[0]!r}, which is no column of {upstream.qualified_name}; "
                "correct the expression or the filter, or declare which input's columns it reads",
            )
        return text if is_table else put_columns(text, sql_of)

    return rewrite
