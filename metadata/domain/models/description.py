"""Columns and inputs of a model, derived from its SELECT."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from metadata.domain.models.binding import check_binding, reads_of
from metadata.domain.models.functions import Value
from metadata.domain.models.queries import Queries
from metadata.domain.models.scopes import Item
from metadata.domain.models.sql_types import from_metadata, to_metadata
from metadata.domain.models.statement import ModelSql, Statement, parse_model, with_placeholders


@dataclass(frozen=True)
class ReadColumn:
    """Column of a dataset that a model may read; ``type`` is a metadata type, like decimal(10,2).

    A ``technical`` column, such as a hash or the time of a load, is read like others, but ``*`` does not make it a
    column of the model.
    """

    name: str
    type: str
    nullable: bool
    technical: bool = False


@dataclass(frozen=True)
class ModelColumn:
    """Column of a model.

    ``inputs`` are pairs of a qualified dataset name and a column, below all subqueries and common table expressions.
    ``passes`` means that it is one input column unchanged.
    """

    name: str
    type: str
    nullable: bool
    expression: str
    inputs: tuple[tuple[str, str], ...]
    passes: bool


@dataclass(frozen=True)
class DescribedModel:
    """Columns of a model, and the datasets it reads, in the order of first use, also if only in filters or joins."""

    columns: tuple[ModelColumn, ...]
    reads: tuple[str, ...]


def describe_select(text: str, datasets: Mapping[str, Sequence[ReadColumn]]) -> DescribedModel:
    """Return the columns of a SELECT over ``datasets``: columns by qualified name.

    A history that helpers may read is also there as ``versions(schema.name)``. Raise ModelProblem, whose message begins
    with line and column.
    """
    read = {name.lower() for name in reads_of(text)}
    return _described(text, tuple((name, tuple(datasets[name])) for name in datasets if _owner(name).lower() in read))


@lru_cache(maxsize=1024)
def _described(text: str, read: tuple[tuple[str, tuple[ReadColumn, ...]], ...]) -> DescribedModel:
    statement, datasets = parse_model(text), dict(read)
    items, _ = described_items(statement, datasets)
    check_binding(text)
    names = {name.lower(): name for name in datasets}
    reads = dict.fromkeys(statement.dataset_of(table).lower() for table in statement.tables)
    columns = tuple(_column(item) for item in items)
    return DescribedModel(columns, tuple(names.get(name, name) for name in reads))


def described_items(statement: Statement, datasets: Mapping[str, Sequence[ReadColumn]]) -> tuple[list[Item], Queries]:
    """Return the columns of a SELECT as items, and its queries with the uses of names in them."""
    read = {statement.dataset_of(table).lower() for table in statement.tables}
    relations = {
        name.lower(): _items(_owner(name), tuple(_seen(statement, name, columns)))
        for name, columns in datasets.items()
        if _owner(name).lower() in read
    }
    queries = Queries(statement, relations)
    try:
        items = [item for item in queries.describe(statement.tree, {}) if not item.technical]
    except RecursionError:
        raise statement.problem(0, "the query is nested too deeply") from None
    _check_results(statement, items)
    return items, queries


def _seen(statement: Statement, name: str, columns: Sequence[ReadColumn]) -> Iterator[ReadColumn]:
    """Yield the columns that a SELECT sees of a table: technical ones, which * brings too, only if it names them."""
    is_helper = _owner(name) != name
    return (each for each in columns if is_helper or not each.technical or each.name.lower() in statement.names)


def _owner(name: str) -> str:
    return name.removeprefix("versions(").removesuffix(")")


@lru_cache(maxsize=4096)
def _items(dataset: str, columns: tuple[ReadColumn, ...]) -> tuple[Item, ...]:
    return tuple(
        Item(
            column.name,
            Value(from_metadata(column.type), column.nullable, ((dataset, column.name),), column.type),
            frozenset({(dataset.lower(), column.name.lower())}),
            technical=column.technical,
        )
        for column in columns
    )


def _check_results(statement: Statement, items: Sequence[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        where = item.expression if item.expression is not None else statement.tree
        if not item.name:
            raise statement.problem(where, "this column has no name: give it one with AS")
        if item.name.lower() in seen:
            raise statement.problem(where, f"two columns are named {item.name}: give one of them another alias")
        seen.add(item.name.lower())
        if item.value.type.name == "null":
            raise statement.problem(where, f"{item.name} has no type: write CAST(NULL AS ...)", "unknown_type")
        if to_metadata(item.value.type) is None:
            raise statement.problem(where, f"{item.name} is {item.value.type}, which no column can be", "unknown_type")


def _column(item: Item) -> ModelColumn:
    value = item.value
    own = value.described or to_metadata(value.type) or ""
    return ModelColumn(item.name, own, value.nullable, _expression(item), value.inputs, bool(value.described))


def _expression(item: Item) -> str:
    """Return the expression of a column as SQL; the name of the input column if ``*`` brought it."""
    if item.expression is None:
        return item.value.inputs[0][1] if item.value.inputs else item.name
    node = item.expression.unalias()
    if isinstance(node, exp.Column):
        return with_placeholders(".".join(part.name for part in node.parts))
    return with_placeholders(node.sql(ModelSql, comments=False))
