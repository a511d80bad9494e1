"""Datasets that a model may read, with the columns of their published tables, and the models that read a dataset."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Prefetch, Q, QuerySet

from metadata.domain import naming
from metadata.domain.added_columns import Part, added_columns
from metadata.domain.history.history_columns import VALID_FROM, VALID_TO, time_type
from metadata.domain.history.history_policy import APPEND, HistoryPolicy
from metadata.domain.models import ModelProblem, ReadColumn, reads_of, versions_of
from metadata.domain.models.statement import parse_model
from metadata.models import DatasetInput, Reference, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.datasets import datasets_by_name
from metadata.selectors.history_columns import ShownColumn, described_columns, history_columns

_KEYS = ("entity key", "history key", "row hash", "load run", "load time", "start of the version", "partition")
_DATA = ("entity key", "foreign key")


@dataclass(frozen=True)
class Readable:
    """Dataset that models may read.

    ``name`` is its qualified name, and ``active`` its state, when it was read. ``rows`` are its described columns by
    name in lower case; ``identities`` are the names of all columns by a value that a rename does not change.
    ``made_of`` are the described columns that columns added by loads are made of, by the name of the added one.
    """

    dataset: TargetDataset
    name: str
    active: bool
    columns: tuple[ReadColumn, ...]
    versions: tuple[ReadColumn, ...] = ()
    rows: Mapping[str, TargetColumn] = field(default_factory=dict)
    identities: Mapping[object, str] = field(default_factory=dict)
    made_of: Mapping[str, tuple[TargetColumn, ...]] = field(default_factory=dict)

    def columns_behind(self, name: str) -> tuple[TargetColumn, ...]:
        """Return the described columns behind a name: the column itself, or those that an added one is made of."""
        row = self.rows.get(name.lower())
        return (row,) if row is not None else self.made_of.get(name.lower(), ())


def readable_datasets(text: str) -> dict[str, Readable]:
    """Return the datasets that a SELECT reads, by their qualified names in lower case.

    Raise ModelProblem with line and column for one that does not exist, is retired, or is raw.
    """
    names = [name.lower() for name in reads_of(text)]
    datasets = {str(row).lower(): row for row in _named(names)}
    for name in names:
        problem = _refused(datasets.get(name), name)
        if problem:
            raise _at_table(text, name, problem)
    return {name: readable(datasets[name]) for name in names}


def relations(datasets: Mapping[str, Readable]) -> dict[str, tuple[ReadColumn, ...]]:
    """Return the columns by name as ``describe_select`` takes them."""
    columns: dict[str, tuple[ReadColumn, ...]] = {}
    for each in datasets.values():
        columns[each.name] = each.columns
        if each.versions:
            columns[versions_of(each.name)] = each.versions
    return columns


def readable_now(datasets: Iterable[TargetDataset]) -> list[Readable]:
    """Return datasets and their histories as they are stored now."""
    pks = [dataset.pk for dataset in datasets]
    rows = _with_columns(TargetDataset.objects.filter(Q(id__among=pks) | Q(history_of__id__among=pks)))
    return list(map(readable, rows))


def readables(pks: Iterable[int]) -> list[Readable]:
    """Return the datasets or histories with these primary keys."""
    return list(map(readable, _with_columns(TargetDataset.objects.filter(id__among=list(pks)))))


def readable_called(name: str) -> Readable | None:
    """Return the dataset of a qualified name, ignoring case; None if models cannot read one of this name."""
    row = next(iter(_named([name.lower()])), None) if "." in name else None
    return readable(row) if row is not None and not _refused(row, name) else None


def readable_names() -> list[str]:
    """Return the qualified names of all datasets that models may read."""
    rows = TargetDataset.objects.filter(active=True).exclude(schema__layer=TargetSchema.Layer.RAW)
    return [
        f"{schema}.{name}"
        for schema, name in rows.order_by("schema__ordinal", "schema__name", "name").values_list("schema__name", "name")
    ]


def readable_columns(names: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of named datasets that models may read, as name and type, by qualified name."""
    rows = (row for row in _named(names) if not _refused(row, str(row)))
    return {each.name: [(column.name, str(column.type)) for column in each.columns] for each in map(readable, rows)}


def models_reading(datasets: Iterable[TargetDataset]) -> QuerySet[TargetDataset]:
    """Return the active models that read one of these datasets, or the history of one."""
    pks = [dataset.pk for dataset in datasets]
    reads = DatasetInput.objects.filter(Q(upstream__id__among=pks) | Q(upstream__history_of__id__among=pks)).order_by()
    rows = TargetDataset.objects.filter(pk__in=reads.values("dataset"), active=True).exclude(select="")
    return rows.select_related("schema").order_by("schema__name", "name")


def readable(dataset: TargetDataset) -> Readable:
    """Return a dataset (of ``_named`` or ``_with_columns``) with its columns."""
    described = dataset.history_of or dataset
    rows = {column.name.lower(): column for column in described.columns.all() if column.active}
    head = (dataset, str(dataset), dataset.active)
    if dataset.history_of is None:
        shown = _shown(dataset)
        read = _of_model if dataset.select else _of_table
        return Readable(*head, tuple(map(read, shown)), (), rows, _identities(shown), _made_of(dataset, rows))
    shown = history_columns(dataset)
    dated = time_type(
        HistoryPolicy.from_dict(described.history_policy),
        {column.name: str(column.type) for column in described.columns.all()},
    )
    data = tuple(_of_table(each) for each in shown if each.column is not None or each.purpose in _DATA)
    versions = (*data, ReadColumn(VALID_FROM, dated, False, True), ReadColumn(VALID_TO, dated, True, True))
    made_of = _made_of(described, rows, of_history=True)
    return Readable(*head, tuple(map(_of_table, shown)), versions, rows, _identities(shown), made_of)


def _identities(shown: Sequence[ShownColumn]) -> dict[object, str]:
    """Return the names of columns: described ones by their row, technical ones by purpose and position."""
    purposes: dict[str, int] = {}
    identities: dict[object, str] = {}
    for each in shown:
        purposes[each.purpose] = purposes.get(each.purpose, 0) + 1
        identities[each.column.pk if each.column else (each.purpose, purposes[each.purpose])] = each.name
    return identities


def _made_of(
    dataset: TargetDataset, rows: Mapping[str, TargetColumn], *, of_history: bool = False
) -> dict[str, tuple[TargetColumn, ...]]:
    """Return the described columns that each added column is made of, by name in lower case."""
    by_pk = {row.pk: row for row in rows.values()}
    foreign = {
        naming.foreign_key_name(each.role_name, each.parent.name): [
            by_pk[pair.child_column_id] for pair in each.pairs.all() if pair.child_column_id in by_pk
        ]
        for each in dataset.references.all()
        if each.active
    }
    parts = [Part(row, row.name, row.role == TargetColumn.Role.BUSINESS_KEY) for row in rows.values()]
    added = added_columns(dataset.name, HistoryPolicy.from_dict(dataset.history_policy), parts, foreign)[of_history]
    return {name: columns for name, columns in added.items() if columns and name not in rows}


def _named(names: Iterable[str]) -> Iterable[TargetDataset]:
    return _with_columns(datasets_by_name(*names))


def _with_columns(rows: QuerySet[TargetDataset]) -> QuerySet[TargetDataset]:
    columns = Prefetch("columns", TargetColumn.objects.order_by("ordinal", "id"))
    references = Prefetch("references", Reference.objects.select_related("parent").prefetch_related("pairs"))
    bases = Prefetch("history_of", TargetDataset.objects.select_related("schema").prefetch_related(columns, references))
    return rows.select_related("schema").prefetch_related(columns, references, bases)


def _shown(dataset: TargetDataset) -> tuple[ShownColumn, ...]:
    """Return the columns of a table or view: a model without a history has those of its SELECT only."""
    described = described_columns(dataset)
    is_plain = dataset.schema.layer == TargetSchema.Layer.STAGE or (dataset.select and not dataset.historize)
    if is_plain or dataset.materialization == TargetDataset.Materialization.VIEW:
        return described
    appended = HistoryPolicy.from_dict(dataset.history_policy).input == APPEND
    has_key = not appended or any(each.column and each.column.role == "business_key" for each in described)
    key = [ShownColumn(naming.entity_key_name(dataset.name), "string", "entity key")] if has_key else []
    run_id, loaded_at = naming.LOAD_COLUMNS
    return (
        *key,
        *described,
        ShownColumn("row_hash", "string", "row hash"),
        ShownColumn(run_id, "string", "load run"),
        ShownColumn(loaded_at, "timestamp", "load time"),
    )


def _of_model(shown: ShownColumn) -> ReadColumn:
    """Return a column of a model, whose SELECT gives all rows of its table."""
    nullable = shown.column.nullable if shown.column is not None else shown.purpose not in _KEYS
    return ReadColumn(shown.name, shown.type, nullable, _is_technical(shown))


def _of_table(shown: ShownColumn) -> ReadColumn:
    """Return a column of a table or history that loads write.

    Only keys have a value in every row. Another column that may not be NULL has none in versions, and in rows of a
    delta, that are older than the column, nor in rows whose newer values are in quarantine.
    """
    is_key = shown.column is not None and shown.column.role == TargetColumn.Role.BUSINESS_KEY
    return ReadColumn(shown.name, shown.type, not is_key and shown.purpose not in _KEYS, _is_technical(shown))


def _is_technical(shown: ShownColumn) -> bool:
    return shown.column is None and shown.purpose != "foreign key"


def _refused(row: TargetDataset | None, name: str) -> str:
    if row is None:
        return f"there is no dataset {name}"
    if not row.active:
        return f"{row} is retired"
    if row.schema.layer == TargetSchema.Layer.RAW:
        return f"{row} is raw: models read stage, rawcore, histories and other models"
    return ""


def _at_table(text: str, name: str, problem: str) -> ModelProblem:
    statement = parse_model(text)
    table = next(each for each in statement.tables if statement.dataset_of(each).lower() == name)
    return statement.problem(table, problem, "unknown_dataset")
