"""Columns of a dataset for pages, the grid and the API."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from elevata.comments.selectors import with_comment_count
from metadata.domain import naming
from metadata.domain.grid import CELLS, Cell, cell_text, role_choices
from metadata.filtersets import called
from metadata.models import ColumnInput, SourceDataset, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.dataset_lineage import Lineage
from metadata.selectors.datasets import (
    ShownColumn,
    described_columns,
    history_columns,
    target_dataset_detail,
    target_datasets,
)

_HEAD = ("schema", "generated_from__system", "history__schema")


def headed() -> QuerySet[TargetDataset]:
    """Return datasets with the values that the head of their pages shows."""
    return with_comment_count(target_datasets(), "dataset").select_related(*_HEAD, "history_of__schema")


def details() -> QuerySet[TargetDataset]:
    """Return datasets with everything that their page shows; history datasets with their bases'."""
    # The base is prefetched, because nothing could be prefetched for a base that is joined.
    whole = target_dataset_detail().select_related(None).select_related(*_HEAD)
    return with_comment_count(whole, "dataset").prefetch_related(Prefetch("history_of", target_dataset_detail()))


def shown_columns(dataset: TargetDataset) -> tuple[ShownColumn, ...]:
    """Return the columns of a dataset's table or view, including technical columns."""
    if dataset.history_of_id is not None:
        return history_columns(dataset)
    run_id, loaded_at = naming.LOAD_COLUMNS
    load_columns = (
        ShownColumn(run_id, "string", "load run"),
        ShownColumn(loaded_at, "timestamp", "load time"),
    )
    is_plain_model = bool(dataset.select) and not dataset.historize
    if is_plain_model or dataset.materialization == TargetDataset.Materialization.VIEW:
        return described_columns(dataset)
    if dataset.schema.layer == TargetSchema.Layer.RAW:
        source_file, source_row = naming.PROVENANCE_COLUMNS
        provenance = (
            ShownColumn(source_file, "string", "source file"),
            ShownColumn(source_row, "bigint", "source row"),
            ShownColumn(naming.LOAD_DAY, "date", "load day"),
        )
        return (*described_columns(dataset), *load_columns, *provenance)
    return (
        ShownColumn(naming.entity_key_name(dataset.name), "string", "entity key"),
        *described_columns(dataset),
        ShownColumn("row_hash", "string", "row hash"),
        *load_columns,
    )


def retired_columns(dataset: TargetDataset) -> tuple[TargetColumn, ...]:
    """Return the retired columns, which the table still has."""
    described = dataset.history_of or dataset
    return tuple(column for column in described.columns.all() if not column.active)


def may_refer(dataset: TargetDataset) -> bool:
    """Return True if rows of a dataset can refer to others: its layer has keys, and it is no history."""
    keyed = dataset.history_of_id is None and dataset.schema.layer not in naming.KEYLESS_LAYERS
    return dataset.active and keyed


@dataclass(frozen=True)
class LayerCount:
    """Number of active datasets of a layer; histories are counted as a layer of their own."""

    layer: str
    label: str
    count: int


def layer_counts() -> list[LayerCount]:
    """Return the number of datasets of every layer, in order, in one query."""
    active = TargetDataset.objects.filter(active=True)
    counts = {
        (row["schema__layer"], row["is_history"]): row["count"]
        for row in active.order_by()
        .annotate(is_history=Q(history_of__isnull=False))
        .values("schema__layer", "is_history")
        .annotate(count=Count("pk"))
    }
    layers = []
    for value, label in TargetSchema.Layer.choices:
        layers.append(LayerCount(value, label, counts.get((value, False), 0)))
        if value == TargetSchema.Layer.RAWCORE:
            histories = sum(count for (_, is_history), count in counts.items() if is_history)
            layers.append(LayerCount("history", "History", histories))
    return layers


def stable_keys(lineage: Lineage) -> dict[str, UUID]:
    """Return the stable key of every node, by its id."""
    keys: dict[str, UUID] = {}
    for kind, model in (("source", SourceDataset), ("target", TargetDataset)):
        pks = [node.pk for node in lineage.nodes if node.id.startswith(kind)]
        keys |= {f"{kind}:{pk}": key for pk, key in model.objects.filter(pk__among=pks).values_list("pk", "key")}
    return keys


def found_by(datasets: Iterable[TargetDataset], text: str) -> dict[int, str]:
    """Return the reason why a dataset matches a search, by its row, if its own name does not.

    The reason is a former name or a column.
    """
    rows, wanted = list(datasets), text.rpartition(".")[2].strip().lower()
    if not wanted:
        return {}
    why = {row.pk: f"formerly {', '.join(row.former_names)}" for row in rows if _has(row.former_names, wanted)}
    unnamed = [row.pk for row in rows if row.pk not in why and wanted not in row.name.lower()]
    columns = TargetColumn.objects.filter(dataset__in=unnamed).filter(called(wanted)).order_by("ordinal", "id")
    for dataset, name, former in columns.values_list("dataset", "name", "former_names"):
        message = f"column {name}" + (f", formerly {', '.join(former)}" if _has(former, wanted) else "")
        why.setdefault(dataset, message)
    return why


def _has(names: Iterable[str], wanted: str) -> bool:
    return any(wanted in name.lower() for name in names)


# Columns of a dataset for the grid: editable rows, and the texts of their cells.


ROLES = TargetColumn.Role
# Cells of a model's column that follow from the SELECT.
DERIVED = ("type", "nullable", "expression")


@dataclass(frozen=True)
class GridCell:
    """Content of a cell; that of a ``readonly`` one follows from a SELECT.

    After a refusal ``typed`` is the refused text, and ``problem`` the reason.
    """

    cell: Cell
    text: str
    typed: str = ""
    problem: str = ""
    readonly: bool = False


@dataclass(frozen=True)
class GridRow:
    """Row of the grid. Computed columns have no cells; columns that are ``first`` or ``last`` cannot move further."""

    shown: ShownColumn
    cells: tuple[GridCell, ...] = ()
    first: bool = False
    last: bool = False

    @property
    def column(self) -> TargetColumn | None:
        return self.shown.column


def grid_rows(dataset: TargetDataset) -> list[GridRow]:
    """Return every column of a dataset (of ``metadata.selectors.columns.details``) in the order of its table."""
    shown = list(shown_columns(dataset))
    aside = [c for c in dataset.columns.all() if c.active and c.role == ROLES.TECHNICAL]
    shown += [ShownColumn(column.name, str(column.type), column=column) for column in aside]
    ends = _ends([entry.column for entry in shown if entry.column is not None])
    return [
        GridRow(entry) if entry.column is None else GridRow(entry, cells_of(entry.column), *ends[entry.column.pk])
        for entry in shown
    ]


def grid_row(column: TargetColumn, typed: Mapping[str, str] | None = None, problem: str = "") -> GridRow:
    """Return a row again after a cell was saved or refused: ``typed`` is by the cell's name."""
    alike = column.dataset.columns.filter(active=True, role=column.role).order_by("ordinal", "id")
    pks = list(alike.values_list("pk", flat=True))
    ends = (pks[:1] == [column.pk], pks[-1:] == [column.pk])
    shown = ShownColumn(column.name, str(column.type), column=column)
    return GridRow(shown, cells_of(column, typed or {}, problem), *ends)


def cells_of(column: TargetColumn, typed: Mapping[str, str] | None = None, problem: str = "") -> tuple[GridCell, ...]:
    values, typed = values_of(column), typed or {}
    return tuple(
        GridCell(
            cell,
            cell_text(cell.name, values),
            typed.get(cell.name, ""),
            problem if cell.name in typed else "",
            readonly=bool(column.dataset.select) and cell.name in DERIVED,
        )
        for cell in CELLS
    )


def values_of(column: TargetColumn) -> dict[str, object]:
    """Return the fields of a column that fill the cells."""
    names = [cell.name for cell in CELLS if cell.name != "type"]
    return {"type": column.type, "key_ordinal": column.key_ordinal, **{name: getattr(column, name) for name in names}}


def described_in_order(dataset: TargetDataset) -> list[TargetColumn]:
    """Return the active described columns, in the order of the grid."""
    rows = list(dataset.columns.filter(active=True).order_by("ordinal", "id"))
    return [row for role in (ROLES.BUSINESS_KEY, ROLES.ATTRIBUTE, ROLES.TECHNICAL) for row in rows if row.role == role]


def column_of(key: UUID) -> QuerySet[TargetColumn]:
    """Return the column with this key, its dataset and its inputs."""
    inputs = ColumnInput.objects.select_related("source_column__dataset__system", "upstream_column__dataset__schema")
    rows = TargetColumn.objects.filter(key=key).select_related("dataset__schema", "dataset__history_of__schema")
    return rows.prefetch_related(Prefetch("inputs", inputs))


def role_options(columns: list[TargetColumn]) -> list[str]:
    """Return the roles that a cell may take in a dataset with these columns: one position more than the key has."""
    places = max([column.key_ordinal or 0 for column in columns if column.active], default=0)
    return role_choices(places + 1)


def _ends(columns: list[TargetColumn]) -> dict[int, tuple[bool, bool]]:
    """Return, by column, whether it is the first and whether it is the last of its role."""
    alike: dict[str, list[int]] = {}
    for column in columns:
        alike.setdefault(column.role, []).append(column.pk)
    return {pk: (pk == pks[0], pk == pks[-1]) for pks in alike.values() for pk in pks}
