"""Sensitive columns: columns that are personal, confidential or restricted, or read such a column.

A column inherits from its inputs, over any number of datasets and through any expression: from its recorded inputs,
from the columns in its expression, and, without either, from the column of its name. A history has the columns of
its base. A column of a model also inherits from the columns that choose the rows of its values
(``metadata.domain.models.dependencies``). The key of a parent with ghost rows inherits from the foreign keys of the
children that the rows are for.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from django.db import models

from elevata.core.errors import MetadataError
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.quality.unknown_parents import GHOST
from metadata.domain.sensitivity import (
    SENSITIVE,
    Condition,
    is_sensitive,
    propagate_with_choices,
    reads_with_choices,
)
from metadata.domain.sql import check_expression
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Reference,
    ReferencePair,
    SourceColumn,
    SourceDataset,
    TargetColumn,
    TargetDataset,
)
from metadata.selectors.model_reads import COLUMN_FIELDS, DATASET_FIELDS, OF_ROWS, ModelReads, Reads

Values = Mapping[str, Any]
# Before-images of rows by primary key; None for new rows.
Before = Mapping[type[models.Model], Mapping[int, Values | None]]
_Id = tuple[str, int]
_ByName = Mapping[str, list[_Id]]
_SOURCE, _TARGET = "source", "target"
_FACTS = ("id", "dataset_id", "key", "name", "pii", "sensitivity")


@dataclass(frozen=True)
class Classification:
    """Stable keys of a dataset's columns, including retired ones: the sensitive columns, and all columns.

    ``sensitive_present`` are the names of the sensitive columns in lower case, ``sensitive_names`` also their former
    names; ``other_names`` are the present and former names that only other columns have or had. ``sensitive_read``
    also has the sensitive columns of the tables and sources that the dataset reads, directly or through views: its
    filter may use them. ``other_read`` are the names that only other columns of these have or had.
    """

    sensitive: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    sensitive_present: frozenset[str] = frozenset()
    sensitive_names: frozenset[str] = frozenset()
    other_names: frozenset[str] = frozenset()
    sensitive_read: frozenset[str] = frozenset()
    other_read: frozenset[str] = frozenset()


@dataclass(frozen=True, order=True)
class TechnicalPart:
    """Described column, by its stable key, that a technical column has values of, or hashes of values.

    ``reference`` is the primary key of the reference of a foreign key, else 0.
    """

    purpose: str
    reference: int
    key: str


@dataclass
class _Column:
    """Properties of a column that determine the columns it reads; ``names`` starts with the current name."""

    dataset: _Id
    key: str
    names: tuple[str, ...]
    sensitive: bool
    expression: str = ""
    reads: list[_Id] = field(default_factory=list)
    choices: list[Condition] = field(default_factory=list)


@dataclass(frozen=True)
class ColumnReads:
    """Columns of datasets and of all upstream by kind and key, with what makes them sensitive.

    ``reads`` are the columns that each column reads, and nodes for the rows of datasets. ``choices`` are the conditions
    that choose the rows of its values. ``computed`` are the columns whose reads are parts of an expression.
    """

    columns: Mapping[_Id, _Column]
    reads: Mapping[_Id, Collection[_Id]]
    choices: Mapping[_Id, Collection[Condition]]
    computed: Collection[_Id]

    def sensitive(self) -> frozenset[_Id]:
        """Return the sensitive columns, and the datasets with sensitive rows."""
        own = (column_id for column_id, column in self.columns.items() if column.sensitive)
        return propagate_with_choices(own, self.reads, self.choices, self.computed)

    def with_choices(self) -> dict[_Id, Collection[_Id]]:
        """Return what columns read, with the columns of the conditions that make them sensitive."""
        return reads_with_choices(self.sensitive(), self.reads, self.choices, self.computed)


def classification(dataset: TargetDataset) -> Classification:
    """Return the classification of a dataset's columns; for a history, of its base's columns."""
    pk = dataset.history_of_id or dataset.pk
    return classifications([pk])[pk]


def source_classification(source: SourceDataset) -> Classification:
    """Return the classification of a source dataset's columns, which read nothing."""
    columns = _Reader({}).source_columns([source.pk])
    return _of(columns.values(), [column for column in columns.values() if column.sensitive])


def classified_sources() -> models.QuerySet[SourceDataset]:
    """Return the source datasets with sensitive columns, with their systems."""
    columns = SourceColumn.objects.filter(models.Q(sensitivity__in=SENSITIVE) | models.Q(pii=True))
    return SourceDataset.objects.filter(pk__in=columns.values("dataset")).select_related("system")


def has_classified_columns() -> bool:
    """Return True if any column or dataset is marked as sensitive, so that a column can be sensitive."""
    marked = models.Q(sensitivity__in=SENSITIVE)
    personal = models.Q(pii=True)
    conditions = {SourceColumn: marked | personal, TargetColumn: marked | personal, TargetDataset: marked}
    return any(model._base_manager.filter(condition).exists() for model, condition in conditions.items())


def classifications(datasets: Collection[int], before: Before | None = None) -> dict[int, Classification]:
    """Return the classification of target datasets by primary key, with a constant number of queries per step upstream.

    With ``before``, before-images of rows, it is the classification before their changes.
    """
    reader = _Reader(before or {})
    inputs = reader.inputs_upstream(datasets)
    columns = reader.columns(inputs)
    sensitive = reader.column_reads(columns, inputs).sensitive()
    own: dict[_Id, list[_Id]] = {}
    for column_id, column in columns.items():
        own.setdefault(column.dataset, []).append(column_id)

    def classified(pk: int) -> Classification:
        known = own.get((_TARGET, pk), ())
        read = {column_id for dataset in reader.read_by((_TARGET, pk), inputs) for column_id in own.get(dataset, ())}
        sensitive_read = frozenset(name for each in read & sensitive for name in columns[each].names)
        return replace(
            _of([columns[each] for each in known], [columns[each] for each in known if each in sensitive]),
            sensitive_read=sensitive_read,
            other_read=frozenset(name for each in read for name in columns[each].names) - sensitive_read,
        )

    return {pk: classified(pk) for pk in datasets}


def technical_parts(datasets: Collection[int], before: Before | None = None) -> dict[int, frozenset[TechnicalPart]]:
    """Return the columns that the technical columns of datasets are made of, by the dataset's primary key.

    A history key is a hash of the entity key and the start of a version, so its parts are among them. A row hash is
    made of all columns. ``before`` are before-images as for ``classifications``.
    """
    reader = _Reader(before or {})
    policies = reader.rows(TargetDataset, "id", datasets, "history_policy")
    times = {row["id"]: HistoryPolicy.from_dict(row["history_policy"]).time_column for row in policies}
    columns = reader.rows(TargetColumn, "dataset_id", datasets, "key", "name", "role", "active")
    keys = {row["id"]: str(row["key"]) for row in columns}
    parts: dict[int, set[TechnicalPart]] = {pk: set() for pk in datasets}
    for row in columns:
        dataset, key = row["dataset_id"], str(row["key"])
        if row["active"] and row["role"] == TargetColumn.Role.BUSINESS_KEY:
            parts[dataset].add(TechnicalPart("entity key", 0, key))
        if row["name"].lower() == (times.get(dataset) or "").lower():
            parts[dataset].add(TechnicalPart("times of versions", 0, key))
    references = reader.rows(Reference, "child_id", datasets, "active")
    children = {row["id"]: row["child_id"] for row in references if row["active"]}
    for row in reader.rows(ReferencePair, "reference_id", list(children), "child_column_id"):
        part = TechnicalPart("foreign key", row["reference_id"], keys[row["child_column_id"]])
        parts[children[row["reference_id"]]].add(part)
    return {pk: frozenset(own) for pk, own in parts.items()}


def datasets_downstream(targets: Collection[int], sources: Collection[int], before: Before) -> set[int]:
    """Return these datasets and all whose classification depends on them or on these sources.

    Each step downstream takes a constant number of queries. ``before`` are before-images of rows: the datasets are
    those of the time before their changes.
    """
    reader = _Reader(before)
    return reader.downstream({*targets, *reader.readers(sources, "source_id")})


def _of(columns: Iterable[_Column], sensitive: Collection[_Column]) -> Classification:
    known = list(columns)
    sensitive_names = frozenset(name for column in sensitive for name in column.names)
    return Classification(
        sensitive=frozenset(column.key for column in sensitive),
        known=frozenset(column.key for column in known),
        sensitive_present=frozenset(column.names[0] for column in sensitive),
        sensitive_names=sensitive_names,
        other_names=frozenset(name for column in known for name in column.names) - sensitive_names,
    )


def column_reads(datasets: Collection[int]) -> ColumnReads:
    """Return the columns of these target datasets and of all upstream."""
    reader = _Reader({})
    inputs = reader.inputs_upstream(datasets)
    return reader.column_reads(reader.columns(inputs), inputs)


class _Reader:
    """Reader of classifications; ``before`` replaces changed rows by their before-images."""

    def __init__(self, before: Before) -> None:
        self._before = before
        self._models: set[_Id] = set()
        # Columns and rows that the rows of each dataset depend on.
        self._rows_read: dict[_Id, list[_Id]] = {}
        self._views: set[_Id] = set()
        self._ghosts: list[tuple[_Id, _Id]] = []

    def inputs_upstream(self, datasets: Collection[int]) -> dict[_Id, list[_Id]]:
        """Return these datasets and all upstream of them, each with its inputs."""
        reads: dict[_Id, list[_Id]] = {}
        pending = set(datasets)
        while pending:
            reads |= {(_TARGET, pk): [] for pk in pending}
            rows = self.rows(DatasetInput, "dataset_id", pending, "source_id", "upstream_id", "ordinal")
            upstream = {row["upstream_id"] for row in rows if row["upstream_id"]}
            histories = self.rows(TargetDataset, "id", upstream, "history_of_id", "materialization")
            views = TargetDataset.Materialization.VIEW
            self._views |= {(_TARGET, row["id"]) for row in histories if row["materialization"] == views}
            bases = {row["id"]: row["history_of_id"] or row["id"] for row in histories}
            for row in sorted(rows, key=lambda row: (row["ordinal"], row["id"])):
                read = (_SOURCE, row["source_id"]) if row["source_id"] else (_TARGET, bases.get(row["upstream_id"], 0))
                reads[_TARGET, row["dataset_id"]].append(read)
            children = self._children_with_ghosts(pending)
            pending = {pk for pk in (*bases.values(), *children) if (_TARGET, pk) not in reads}
        return reads

    def downstream(self, datasets: Collection[int]) -> set[int]:
        """Return these datasets and all downstream of them: readers, and parents with ghost rows for them."""
        reached: set[int] = set()
        pending = set(datasets)
        while pending:
            reached |= pending
            histories = {row["id"] for row in self.rows(TargetDataset, "history_of_id", pending)}
            references = self.rows(Reference, "child_id", pending, "parent_id", "unknown_parent", "active")
            parents = {row["parent_id"] for row in references if row["active"] and row["unknown_parent"] == GHOST}
            pending = (self.readers(pending | histories, "upstream_id") | parents) - reached
        return reached

    def readers(self, inputs: Collection[int], by: str) -> set[int]:
        """Return the datasets with an input among these, by the field that names it."""
        return {row["dataset_id"] for row in self.rows(DatasetInput, by, inputs, "dataset_id")}

    def _children_with_ghosts(self, parents: Collection[int]) -> set[int]:
        """Return the children for which these parents have ghost rows, and keep the columns that the rows are made of.

        They are kept as pairs: column of the parent's key, column of the child.
        """
        references = self.rows(Reference, "parent_id", parents, "child_id", "unknown_parent", "active")
        children = {
            row["id"]: row["child_id"] for row in references if row["active"] and row["unknown_parent"] == GHOST
        }
        pairs = self.rows(ReferencePair, "reference_id", set(children), "parent_column_id", "child_column_id")
        self._ghosts += [((_TARGET, row["parent_column_id"]), (_TARGET, row["child_column_id"])) for row in pairs]
        return set(children.values())

    def read_by(self, dataset: _Id, inputs: Mapping[_Id, Iterable[_Id]]) -> set[_Id]:
        """Return a dataset with the tables and sources it reads: its inputs, and the inputs of views among them."""
        nodes, pending = {dataset}, [dataset]
        while pending:
            fresh = set(inputs.get(pending.pop(), ())) - nodes
            nodes |= fresh
            pending += fresh & self._views
        return nodes

    def columns(self, inputs: Mapping[_Id, Collection[_Id]]) -> dict[_Id, _Column]:
        """Return the columns of these datasets and of the sources that they read."""
        targets = [pk for _, pk in inputs]
        datasets = self.rows(TargetDataset, "id", targets, "sensitivity", *DATASET_FIELDS)
        levels = {row["id"]: row["sensitivity"] for row in datasets}
        fields = (*_FACTS, *COLUMN_FIELDS, "expression", "former_names")
        rows = self.rows(TargetColumn, "dataset_id", targets, *fields)
        columns = {(_TARGET, row["id"]): _column(_TARGET, row, levels) for row in rows}
        self._model_reads = ModelReads(self.rows, datasets, inputs, _TARGET)
        self._model_reads.prepare(((_TARGET, row["id"]), row["dataset_id"], row["name"].lower(), row) for row in rows)
        self._models = {(_TARGET, pk) for pk in self._model_reads.models}
        sources = {pk for some in inputs.values() for kind, pk in some if kind == _SOURCE}
        return columns | self.source_columns(sources)

    def source_columns(self, sources: Collection[int]) -> dict[_Id, _Column]:
        rows = self.rows(SourceColumn, "dataset_id", sources, *_FACTS)
        return {(_SOURCE, row["id"]): _column(_SOURCE, row, {}) for row in rows}

    def column_reads(self, columns: dict[_Id, _Column], inputs: Mapping[_Id, Iterable[_Id]]) -> ColumnReads:
        self._link(columns, inputs)
        return ColumnReads(
            columns,
            {column_id: column.reads for column_id, column in columns.items()} | self._rows_read,
            {column_id: column.choices for column_id, column in columns.items() if column.choices},
            [column_id for column_id, column in columns.items() if column.expression or column.dataset in self._models],
        )

    def _link(self, columns: dict[_Id, _Column], inputs: Mapping[_Id, Iterable[_Id]]) -> None:
        """Fill in the inputs of each column."""
        targets = [pk for kind, pk in columns if kind == _TARGET]
        for row in self.rows(ColumnInput, "column_id", targets, "source_column_id", "upstream_column_id"):
            source, upstream = row["source_column_id"], row["upstream_column_id"]
            columns[_TARGET, row["column_id"]].reads.append((_SOURCE, source) if source else (_TARGET, upstream))
        by_name: dict[_Id, dict[str, list[_Id]]] = {}
        for column_id, column in columns.items():
            for name in column.names:
                by_name.setdefault(column.dataset, {}).setdefault(name, []).append(column_id)
        for parent, child in self._ghosts:
            if parent in columns and child in columns:
                columns[parent].reads.append(child)
        for dataset, read in inputs.items():
            self._link_rows(dataset, read, columns, by_name)
        for column in columns.values():
            if column.dataset in self._models:
                continue
            named = _named_in(column.expression) if column.expression else column.names[:1]
            is_recorded = bool(column.reads) and not column.expression
            for read_id in inputs.get(column.dataset, ()):
                if is_recorded and read_id[0] == _TARGET:
                    continue
                # For a source, a load uses the name once the recorded column is retired.
                there = by_name.get(read_id, {})
                names = there if named is None else named
                column.reads += [column_id for name in names for column_id in there.get(name, ())]

    def _link_rows(
        self, dataset: _Id, read: Iterable[_Id], columns: dict[_Id, _Column], by_name: Mapping[_Id, _ByName]
    ) -> None:
        """Fill in what the rows of a dataset depend on, and the conditions over its columns."""
        node = (OF_ROWS, dataset[1])
        if dataset in self._models:
            reads = self._model_reads.of_model(dataset[1])
            of_columns, rows = reads if reads is not None else ({}, self._model_reads.everything_of(dataset[1]))
            self._rows_read[node] = rows.columns
            for name, own in by_name.get(dataset, {}).items():
                depends = of_columns.get(name, Reads()) if reads is not None else rows
                for column_id in own:
                    columns[column_id].reads += depends.columns
                    columns[column_id].choices += depends.conditions
            return
        conditions = self._model_reads.filter_of(dataset[1])
        choices: list[Condition[_Id]] = []
        compared: set[_Id] = set()
        for names in (by_name.get(each, {}) for each in read):
            of_input = [set(names)] if conditions is None else conditions
            own_ids = [frozenset(column_id for name in each for column_id in names.get(name, ())) for each in of_input]
            choices += [Condition(each) for each in own_ids if each]
            compared.update(*own_ids)
        self._rows_read[node] = [*compared, *((OF_ROWS, pk) for kind, pk in read if kind == _TARGET)]
        for own in by_name.get(dataset, {}).values():
            for column_id in own:
                columns[column_id].choices += choices

    def rows(self, model: type[models.Model], by: str, values: Collection[int], *fields: str) -> list[Values]:
        """Return the rows whose field ``by`` is one of these values."""
        if not values:
            return []
        before = self._before.get(model, {})
        path = "id" if by == "id" else f"{by.removesuffix('_id')}__id"
        now = model._base_manager.filter(**{f"{path}__among": values}).values("id", by, *fields)
        were = [row for row in before.values() if row is not None and row[by] in values]
        return [*(row for row in now if row["id"] not in before), *were]


def _column(kind: str, row: Values, levels: Mapping[int, str]) -> _Column:
    return _Column(
        (kind, row["dataset_id"]),
        str(row["key"]),
        tuple(name.lower() for name in (row["name"], *row.get("former_names", ()))),
        is_sensitive(personal=row["pii"], level=row["sensitivity"], of_dataset=levels.get(row["dataset_id"], "")),
        (row.get("expression") or "") if kind == _TARGET else "",
    )


@lru_cache(maxsize=4096)
def _named_in(expression: str) -> tuple[str, ...] | None:
    """Return the names in an expression in lower case; None if it cannot be parsed, which stands for all names."""
    try:
        return tuple(name.lower() for name in check_expression(expression))
    except MetadataError:
        return None
