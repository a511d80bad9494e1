"""Columns of a dataset for the grid: editable rows, and the texts of their cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Prefetch, QuerySet

from metadata.domain.grid import CELLS, Cell, cell_text, role_choices
from metadata.models import ColumnInput, TargetColumn, TargetDataset
from metadata.selectors.columns import shown_columns
from metadata.selectors.history_columns import ShownColumn

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
