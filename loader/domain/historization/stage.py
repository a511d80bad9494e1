"""Stage as SQL: inlined views, avoidable checks, table names rewritten for a dry run.

The runner needs the query in terms of tables alone. So each input of a view becomes a branch (they are united),
and a view's columns in expressions are replaced by those columns' own expressions.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot.tokens import Token, TokenType

from architecture.domain.steps.statements import equal_as_text
from architecture.domain.tables import TableSpec, raw_table, rawcore_table
from loader.domain.manifest import SourceSpec, StageColumn, StageInput
from loader.domain.refusals import Refusal
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
        # A feed's operation is always read, although it need not be described or stored.
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

    Over a table the text stays unchanged; over a view its columns are replaced by their own SQL. It raises Refusal
    UNKNOWN_INPUT for a name that the upstream does not have: such a name could refer to a column that the loader
    adds, or one of the table below a view, whose sensitivity is not declared to the reader.
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


# Checks of stage that the check of the delivery makes unnecessary.


def keeps_times(dataset: DatasetState) -> bool:
    """Return whether the dataset has a history dated by a time column, so that one key may have several rows."""
    return dataset.historize and HistoryPolicy.from_dict(dataset.history_policy).time_column is not None


def delivery_checked(
    dataset: DatasetState,
    inputs: tuple[StageInput, ...],
    states: Mapping[str, DatasetState],
    sources: Mapping[str, SourceSpec],
) -> bool:
    """Return whether stage only passes on the rows of one checked delivery.

    Then every value is known to fit, no key is NULL and, unless rows carry their own time, there is one
    row per key: one input, every column as delivered and of the delivered type, the same business key.
    ``sources`` are by the stable key of the raw dataset they feed, as their deliveries are checked.
    """
    if len(inputs) != 1 or inputs[0].table.key not in sources:
        return False
    raw, source = states[inputs[0].table.key], sources[inputs[0].table.key]
    if not source.one_row_per_key and not keeps_times(dataset):
        return False
    by_key = {column.key: column for column in source.columns}
    delivered = {
        quote_identifier(column.name): by_key[key]
        for column in raw.active_columns
        for key in column.inputs
        if key in by_key
    }
    passed_on = {column.name: delivered.get(column.expression) for column in inputs[0].columns}
    if any(passed_on[c.name] is None or passed_on[c.name].type != c.type for c in inputs[0].columns):
        return False
    key = {passed_on[column.name].key for column in dataset.business_key}
    return bool(key) and key == {column.key for column in source.columns if column.business_key}


# Rewriting of table names in published queries, for a dry run on clones.


_VIEW = re.compile(r"\s*CREATE\s+(OR\s+REPLACE\s+)?(VIEW|FUNCTION)\b", re.IGNORECASE)


def query_of(sql: str) -> str:
    """Return the query in a statement that publishes a view; any other text as it is.

    Empty for a table function: its query names parameters, so it cannot run by itself.
    """
    match = _VIEW.match(sql)
    if match is None:
        return sql
    if match[2].upper() == "FUNCTION":
        return ""
    tokens = sqlglot.tokenize(sql, read="spark")
    for token, following in zip(tokens, tokens[1:], strict=False):
        if token.token_type == TokenType.ALIAS and following.token_type in (TokenType.SELECT, TokenType.WITH):
            return sql[following.start :]
    return ""


def with_other_names(sql: str, names: Mapping[str, str]) -> str:
    """Return ``sql`` with tables renamed: ``names`` maps ``schema.name`` in lower case to quoted SQL.

    Only whole names are replaced, quoted or not; string literals and columns stay as they are.
    """
    tokens = sqlglot.tokenize(sql, read="spark")
    parts, done, place = [], 0, 0
    while place < len(tokens):
        replacement = names.get(_name_at(tokens, place))
        if replacement is not None:
            parts += [sql[done : tokens[place].start], replacement]
            place += 2
            done = tokens[place].end + 1
        place += 1
    return "".join([*parts, sql[done:]])


def _name_at(tokens: list[Token], place: int) -> str:
    """Return ``schema.name`` in lower case at the position of a two-part name; else an empty text."""
    three = tokens[place : place + 3]
    if len(three) < 3 or three[1].token_type != TokenType.DOT:
        return ""
    if place and tokens[place - 1].token_type == TokenType.DOT:
        return ""
    if any(token.token_type in (TokenType.STRING, TokenType.NUMBER) for token in three):
        return ""
    return f"{three[0].text}.{three[2].text}".lower()


def renamed_schemas(qualified_names: Iterable[str], prefix: str) -> dict[str, str]:
    """Return published names, each with the same name in a schema with the prefix, for ``with_other_names``."""
    renamed = {}
    for published in qualified_names:
        schema, _, name = published.partition(".")
        renamed[published.lower()] = f"{quote_identifier(prefix + schema)}.{quote_identifier(name)}"
    return renamed
