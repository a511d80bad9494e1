"""Stage as SQL: the inputs of a rawcore dataset, with the views between it and the tables inlined.

The runner needs the query in terms of tables alone. So each input of a view becomes a branch (they are united),
and a view's columns in expressions are replaced by those columns' own expressions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from architecture.domain.states.tables import TableSpec, raw_table, rawcore_table
from architecture.domain.steps.casts import equal_as_text
from loader.domain.runs.manifest import StageColumn, StageInput
from loader.domain.runs.refusals import Refusal
from metadata.domain.history_policy import HistoryPolicy
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


def stage_inputs(
    rawcore: DatasetState, by_key: Mapping[str, DatasetState], options: Mapping[str, dict] | None = None
) -> tuple[StageInput, ...]:
    """Return the runner's inputs of a rawcore dataset: one per table that feeds it.

    ``options`` are the reading options of the source behind a raw table, by the table's key. Raise Refusal NO_INPUT
    if nothing feeds it.
    """
    inputs = tuple(_stage_input(rawcore, branch, options or {}) for branch in view_branches(rawcore, by_key))
    if not inputs:
        raise Refusal(
            "NO_INPUT",
            f"{rawcore.qualified_name} has no input that is a table or a view over tables",
            hint="give it an input in the metadata, or retire it",
        )
    return inputs


def _stage_input(rawcore: DatasetState, branch: Branch, options: Mapping[str, dict]) -> StageInput:
    columns = tuple(
        StageColumn(column.name, column.type, branch.columns[column.key])
        for column in (*rawcore.business_key, *rawcore.attributes)
    )
    op = HistoryPolicy.from_dict(rawcore.history_policy).op
    if op is not None and all(column.name != op for column in columns):
        # A feed's operation says what a row does; it need not be kept, so it need not be described.
        columns += (StageColumn(op, "string", quote_identifier(op)),)
    return StageInput(_table(branch.table), columns, _all_of(branch.conditions), options.get(branch.table.key, {}))


def _table(dataset: DatasetState) -> TableSpec:
    return raw_table(dataset) if dataset.layer == "raw" else rawcore_table(dataset)


def _all_of(conditions: tuple[str, ...]) -> str | None:
    if len(conditions) <= 1:
        return conditions[0] if conditions else None
    return " AND ".join(f"({condition})" for condition in conditions)


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
    own_keys = {one.key for one in upstream.columns}
    read = [key for key in column.inputs if key in own_keys and key in branch.columns]
    if column.expression:
        if column.inputs and not read:
            return NULL, column.type  # the expression belongs to another input
        return rewrite(column.expression), ""
    if not read and not column.inputs:
        read = [one.key for one in upstream.columns if one.name == column.name and one.key in branch.columns]
    if not read:
        return NULL, column.type
    declared = next(one.type for one in upstream.columns if one.key == read[0])
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

    Over a table the text stays as it was written; over a view its columns are replaced by their own SQL. It raises
    Refusal UNKNOWN_INPUT for a name that the upstream does not have: such a name would reach a column that the loader
    adds, or one of the table below a view, whose sensitivity nothing declares to the reader.
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
            raise Refusal(
                "UNKNOWN_INPUT",
                f"{reader.qualified_name} names {unknown[0]!r}, which is no column of {upstream.qualified_name}",
                hint="correct the expression or the filter, or say which input's columns it reads",
            )
        return text if is_table else put_columns(text, sql_of)

    return rewrite
