"""Columns that models and filters depend on, as rows of the classification, including columns that loads add."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.added_columns import Added, Part, added_columns
from metadata.domain.history.history_policy import APPEND, HistoryPolicy
from metadata.domain.models.dependencies import Readable, dependencies
from metadata.domain.models.dependency_scopes import ROWS, VARYING, Choice, Column, Dependency, columns_of
from metadata.domain.models.statement import parse_model
from metadata.domain.sensitivity import Condition, innermost_first
from metadata.domain.sql import check_expression, conditions_in
from metadata.models import Reference, ReferencePair, TargetColumn, TargetDataset, TargetSchema

Values = Mapping[str, Any]
Rows = Callable[..., list[Values]]
Id = tuple[str, int]
# Nodes for the rows of a dataset, and for values that differ from row to row without a column.
OF_ROWS, OF_NOTHING = "rows", "varying"
DATASET_FIELDS = ("name", "schema_id", "select", "filter", "history_policy", "materialization")
COLUMN_FIELDS = ("role", "ordinal", "active")


@dataclass
class Table:
    """Dataset with its columns, retired ones among ``parts``, and the columns that its loads add.

    An added column has the columns that it is made of.
    ``keys`` are the names of the added columns before all others: the keys of a history and of an entity.
    """

    pk: int
    name: str
    history: str
    parts: list[Part[Id]]
    added: Added[Id]
    added_to_history: Added[Id]
    keys: tuple[str, ...]
    is_unique: bool

    @property
    def columns(self) -> list[Part[Id]]:
        """Return the columns that are not retired."""
        return [part for part in self.parts if part.is_active]

    def readable(self, names: Collection[str], *, of_history: bool) -> Readable:
        """Return the columns that a SELECT sees: added ones only if it has their names."""
        added = [name for name in (self.added_to_history if of_history else self.added) if name in names]
        first = [name for name in added if name in self.keys]
        others = [name for name in added if name not in self.keys]
        key = frozenset(column.name for column in self.columns if column.is_key)
        return Readable(
            (*first, *(column.name for column in self.columns), *others),
            (key, frozenset(self.keys[-1:])) if key and self.is_unique and not of_history else (),
        )

    def ids_of(self, name: str) -> Sequence[Id]:
        """Return the columns that a column is or is made of; all for an unknown one."""
        own = [part.column for part in self.columns if part.name == name]
        for added in (self.added, self.added_to_history):
            if not own and name in added:
                return added[name]
        return own or [part.column for part in self.parts]


@dataclass
class Reads:
    """Columns that a column or the rows of a dataset depend on, and the conditions that leave out rows."""

    columns: list[Id] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)


class ModelReads:
    """Dependencies of the datasets in a graph of inputs; ``rows`` reads rows, or their before-images."""

    def __init__(
        self, rows: Rows, datasets: Iterable[Values], inputs: Mapping[Id, Collection[Id]], target: str
    ) -> None:
        self._rows, self._inputs, self._target = rows, inputs, target
        self._datasets = {row["id"]: row for row in datasets}
        self.models = {pk for pk, row in self._datasets.items() if row["select"]}
        self._tables: dict[int, Table] = {}
        # All conditions: equal ones are the same object.
        self._conditions: dict[Condition, Condition] = {}

    def of_model(self, pk: int) -> tuple[dict[str, Reads], Reads] | None:
        """Return the dependencies of each column of a model, by name in lower case, and the dependencies of its rows.

        Return None for a SELECT that names what is not there: everything may count.
        """
        text = self._datasets[pk]["select"]
        tables = {table.name: (table, False) for table in self._read_by(pk)}
        tables |= {table.history: (table, True) for table in self._read_by(pk)}
        try:
            names = parse_model(text).names
            readable = {name: table.readable(names, of_history=old) for name, (table, old) in tables.items()}
            reads = dependencies(text, readable)
        except MetadataError:
            return None
        by_name = {name: table for name, (table, _) in tables.items()}
        made: dict[Choice, Condition] = {}
        columns = {name: self._reads(depends, by_name, made) for name, depends in reads.columns.items()}
        return columns, Reads(_nodes(columns_of(reads.rows), by_name))

    def everything_of(self, pk: int) -> Reads:
        """Return all columns and rows that a model may depend on."""
        tables = self._read_by(pk)
        columns = [part.column for table in tables for part in table.parts]
        return Reads([*columns, *((OF_ROWS, table.pk) for table in tables)])

    def filter_of(self, pk: int) -> list[frozenset[str]] | None:
        """Return the names in each condition of a dataset's filter; None if they cannot be found."""
        text = self._datasets[pk]["filter"]
        if not text:
            return []
        try:
            check_expression(text)
        except MetadataError:
            return None
        return list(conditions_in(text))

    def prepare(self, columns: Iterable[tuple[Id, int, str, Values]]) -> None:
        """Describe the datasets. ``columns`` are target columns: id, dataset, name in lower case, and row."""
        if not self.models:
            return
        own: dict[int, list[Part[Id]]] = {pk: [] for pk in self._datasets}
        for column_id, dataset, name, row in sorted(columns, key=_place):
            if dataset in own:
                is_key = row["role"] == TargetColumn.Role.BUSINESS_KEY
                own[dataset].append(Part(column_id, name, is_key, row["active"]))
        schemas = self._rows(TargetSchema, "id", {row["schema_id"] for row in self._datasets.values()}, "name", "layer")
        layers = {row["id"]: (row["name"], row["layer"]) for row in schemas}
        foreign = self._foreign_keys()
        for pk, row in self._datasets.items():
            schema, layer = layers.get(row["schema_id"], ("", ""))
            self._tables[pk] = _table(row, schema, layer, own[pk], foreign.get(pk, {}))

    def _foreign_keys(self) -> dict[int, dict[str, list[Id]]]:
        """Return the foreign keys of datasets by name, with the columns that they are hashes of."""
        rows = self._rows(Reference, "child_id", list(self._datasets), "parent_id", "role_name", "active")
        references = [row for row in rows if row["active"]]
        parents = self._rows(TargetDataset, "id", {row["parent_id"] for row in references}, "name")
        names = {row["id"]: row["name"] for row in parents}
        pairs: dict[int, list[Id]] = {}
        owners = [row["id"] for row in references]
        for row in self._rows(ReferencePair, "reference_id", owners, "child_column_id") if owners else ():
            pairs.setdefault(row["reference_id"], []).append((self._target, row["child_column_id"]))
        by_child: dict[int, dict[str, list[Id]]] = {}
        for row in references:
            name = naming.foreign_key_name(row["role_name"], names.get(row["parent_id"], ""))
            by_child.setdefault(row["child_id"], {})[name] = pairs.get(row["id"], [])
        return by_child

    def _read_by(self, pk: int) -> list[Table]:
        return [self._tables[read] for kind, read in self._inputs.get((self._target, pk), ()) if read in self._tables]

    def _reads(
        self, depends: Iterable[Dependency], tables: Mapping[str, Table], made: dict[Choice, Condition]
    ) -> Reads:
        """Return dependencies as rows. ``made`` are the conditions of choices that were read before."""
        choices = [each for each in depends if isinstance(each, Choice)]
        for choice in innermost_first(choices, made):
            nodes = frozenset(_nodes(choice.columns, tables))
            rows = frozenset(node for node in nodes if node[0] == OF_ROWS)
            condition = Condition(nodes - rows, rows, frozenset(made[each] for each in choice.within))
            made[choice] = self._conditions.setdefault(condition, condition)
        values = [each for each in depends if not isinstance(each, Choice)]
        return Reads(_nodes(values, tables), [made[each] for each in choices])


def _place(column: tuple[Id, int, str, Values]) -> tuple[bool, int, Id]:
    """Return the place of a column in its dataset: the business key is first."""
    column_id, _, _, row = column
    return row["role"] != TargetColumn.Role.BUSINESS_KEY, row["ordinal"], column_id


def _table(row: Values, schema: str, layer: str, parts: list[Part[Id]], foreign: dict[str, list[Id]]) -> Table:
    policy = HistoryPolicy.from_dict(row["history_policy"])
    added, added_to_history = added_columns(row["name"], policy, parts, foreign)
    is_table = row["materialization"] == TargetDataset.Materialization.TABLE
    is_merged = layer not in (TargetSchema.Layer.RAW, TargetSchema.Layer.STAGE) and policy.input != APPEND
    return Table(
        row["id"],
        f"{schema}.{row['name']}".lower(),
        f"{schema}.{naming.history_name(row['name'])}".lower(),
        parts,
        added,
        added_to_history,
        tuple(added_to_history)[:2],
        is_unique=is_table and is_merged,
    )


def _nodes(columns: Iterable[Column], tables: Mapping[str, Table]) -> list[Id]:
    """Return the columns and rows that columns of a SELECT are made of."""
    return [node for column in columns for node in _nodes_of(column, tables)]


def _nodes_of(column: Column, tables: Mapping[str, Table]) -> list[Id]:
    if column == VARYING:
        return [(OF_NOTHING, 0)]
    dataset, name = column
    table = tables[dataset]
    return [(OF_ROWS, table.pk)] if name == ROWS else list(table.ids_of(name))
