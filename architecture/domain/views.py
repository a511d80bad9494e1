"""Statements of described views, in terms of tables alone.

Each table that feeds a view becomes a branch (branches are united). Views between are inlined: their columns in
expressions are replaced by those columns' own expressions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from architecture.domain.steps.statements import equal_as_text
from elevata.core.errors import MetadataError
from metadata.domain.sql import columns_in, put_columns, quote_identifier
from metadata.domain.state import ColumnState, DatasetState
from metadata.domain.types import STRING, parse, spark_type

NULL = "NULL"


@dataclass(frozen=True)
class Branch:
    """The rows of one table as a reader sees them: SQL per column (by stable key), conditions."""

    table: DatasetState
    columns: Mapping[str, str]
    types: Mapping[str, str]
    conditions: tuple[str, ...] = ()


def view_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Return the statement of a view over its tables: typed, renamed, its inputs united. Raise MetadataError."""
    selects = [
        select(
            [typed(branch.columns[column.key], column.type, column.name) for column in dataset.active_columns],
            branch.table.qualified_name,
            " AND ".join(f"({condition})" for condition in branch.conditions),
        )
        for branch in view_branches(dataset, by_key)
    ]
    return f"CREATE VIEW {qualified(dataset.qualified_name)} AS\n" + "\nUNION ALL\n".join(selects)


def changed_views(before: Iterable[DatasetState], after: Iterable[DatasetState]) -> dict[str, str]:
    """Return the statement of each view that is created or changes, by stable key, in the order of names.

    ``before`` and ``after`` are all datasets of an environment. A view changes with a table beneath it, too. One
    without an input, or with an expression that names no column of it, has no statement.
    """
    stood, stands = ({state.key: state for state in states} for states in (before, after))
    changed = {key for key, state in stands.items() if stood.get(key) != state}
    views = [state for state in stands.values() if state.active and state.materialization == "view"]
    found = {}
    for view in sorted(views, key=lambda state: state.qualified_name):
        if changed.isdisjoint(with_inputs(view, stands)):
            continue
        statement = _statement(view.key, stands)
        if statement and statement != _statement(view.key, stood):
            found[view.key] = statement
    return found


def with_inputs(state: DatasetState, by_key: Mapping[str, DatasetState]) -> set[str]:
    """Return the keys of a dataset and of all datasets that feed it."""
    found, waiting = {state.key}, [state]
    while waiting:
        upstreams = [by_key[key] for key in waiting.pop().inputs if key in by_key and key not in found]
        found.update(upstream.key for upstream in upstreams)
        waiting += upstreams
    return found


def _statement(key: str, by_key: Mapping[str, DatasetState]) -> str:
    view = by_key.get(key)
    if view is None or not view.active or view.materialization != "view":
        return ""
    try:
        return view_sql(view, by_key) if view_branches(view, by_key) else ""
    except MetadataError:  # a load that reads the view is refused with the reason
        return ""


def select(columns: Iterable[str], table: str, condition: str) -> str:
    return f"SELECT\n  {lines(columns)}\nFROM {qualified(table)}" + (f"\nWHERE {condition}" if condition else "")


def typed(expression: str, type_: str, name: str) -> str:
    return f"CAST({expression} AS {spark_type(parse(type_))}) AS {quote_identifier(name)}"


def lines(parts: Iterable[str]) -> str:
    return ",\n  ".join(parts)


def qualified(name: str) -> str:
    """Return ``schema.name`` quoted."""
    return ".".join(quote_identifier(part) for part in name.split(".", 1))


def _branches(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> list[Branch]:
    """Return the branches of a dataset: a table is its own, a view has those of its inputs."""
    if dataset.materialization == "view":
        return view_branches(dataset, by_key)
    columns = {column.key: quote_identifier(column.name) for column in dataset.active_columns}
    return [Branch(dataset, columns, {column.key: column.type for column in dataset.active_columns})]


def view_branches(reader: DatasetState, by_key: Mapping[str, DatasetState]) -> list[Branch]:
    """Return the reader's own columns over every table that feeds it, in the order of its inputs."""
    upstreams = [by_key[key] for key in reader.inputs if key in by_key]
    return [_projected(reader, upstream, branch) for upstream in upstreams for branch in _branches(upstream, by_key)]


def _projected(reader: DatasetState, upstream: DatasetState, branch: Branch) -> Branch:
    columns: dict[str, str] = {}
    types: dict[str, str] = {}
    rewrite = _rewriter(reader, upstream, branch)
    for column in reader.active_columns:
        columns[column.key], types[column.key] = _column(column, upstream, branch, rewrite)
    own = (rewrite(reader.filter),) if reader.filter else ()
    return Branch(branch.table, columns, types, (*branch.conditions, *own))


def _column(
    column: ColumnState, upstream: DatasetState, branch: Branch, rewrite: Callable[[str], str]
) -> tuple[str, str]:
    """Return the SQL of a reader's column over one input, and the type of that SQL."""
    own_keys = {column.key for column in upstream.columns}
    read = [key for key in column.inputs if key in own_keys and key in branch.columns]
    if column.expression:
        if column.inputs and not read:
            return NULL, column.type  # the expression belongs to another input
        return rewrite(column.expression), ""
    if not read and not column.inputs:
        read = [item.key for item in upstream.columns if item.name == column.name and item.key in branch.columns]
    if not read:
        return NULL, column.type
    declared = next(column.type for column in upstream.columns if column.key == read[0])
    sql = branch.columns[read[0]]
    if declared == column.type or upstream.materialization == "table":
        return sql, branch.types[read[0]]
    return _cast(sql, branch.types[read[0]], declared), declared


def _cast(sql: str, has: str, wanted: str) -> str:
    """Return ``sql`` as the wanted metadata type; unchanged if it has that type already."""
    if has == wanted:
        return sql
    if has and parse(wanted).name == STRING:
        sql = equal_as_text(sql, parse(has))
    return f"CAST({sql} AS {spark_type(parse(wanted))})"


def _rewriter(reader: DatasetState, upstream: DatasetState, branch: Branch) -> Callable[[str], str]:
    """Return a function that turns an expression or filter of the reader into SQL over the branch's table.

    Over a table the text stays unchanged; over a view its columns are replaced by their own SQL. It raises
    MetadataError UNKNOWN_INPUT for a name that the upstream does not have: such a name could refer to a column that
    the loader adds, or one of the table below a view, whose sensitivity is not declared to the reader.
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
                "correct the expression or the filter, or say which input's columns it reads",
            )
        return text if is_table else put_columns(text, sql_of)

    return rewrite
