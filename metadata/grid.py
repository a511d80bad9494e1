"""A dataset's columns as the grid shows them: which lines can be edited, and what their cells say."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Prefetch, QuerySet

from metadata.computed_fields import shown_columns
from metadata.domain.cells import CELLS, Cell, cell_text, role_choices
from metadata.models import ColumnInput, TargetColumn, TargetDataset
from metadata.selectors import ShownColumn

ROLES = TargetColumn.Role


@dataclass(frozen=True)
class GridCell:
    """Content of a cell. After a refusal ``typed`` is the refused text, and ``problem`` the reason."""

    cell: Cell
    text: str
    typed: str = ""
    problem: str = ""


@dataclass(frozen=True)
class GridRow:
    """A line of the grid. Computed columns have no cells; ``first`` and ``last`` cannot move further."""

    shown: ShownColumn
    cells: tuple[GridCell, ...] = ()
    first: bool = False
    last: bool = False

    @property
    def column(self) -> TargetColumn | None:
        return self.shown.column


def grid_rows(dataset: TargetDataset) -> list[GridRow]:
    """Every column of a dataset (of ``metadata.computed_fields.details``) in the order of its table."""
    shown = list(shown_columns(dataset))
    aside = [c for c in dataset.columns.all() if c.active and c.role == ROLES.TECHNICAL]
    shown += [ShownColumn(column.name, str(column.type), column=column) for column in aside]
    ends = _ends([one.column for one in shown if one.column is not None])
    return [
        GridRow(one) if one.column is None else GridRow(one, cells_of(one.column), *ends[one.column.pk])
        for one in shown
    ]


def grid_row(column: TargetColumn, typed: Mapping[str, str] | None = None, problem: str = "") -> GridRow:
    """One line again, after a cell was saved or refused: ``typed`` is by the cell's name."""
    alike = column.dataset.columns.filter(active=True, role=column.role).order_by("ordinal", "id")
    pks = list(alike.values_list("pk", flat=True))
    ends = (pks[:1] == [column.pk], pks[-1:] == [column.pk])
    shown = ShownColumn(column.name, str(column.type), column=column)
    return GridRow(shown, cells_of(column, typed or {}, problem), *ends)


def cells_of(column: TargetColumn, typed: Mapping[str, str] | None = None, problem: str = "") -> tuple[GridCell, ...]:
    values, typed = values_of(column), typed or {}
    return tuple(
        GridCell(cell, cell_text(cell.name, values), typed.get(cell.name, ""), problem if cell.name in typed else "")
        for cell in CELLS
    )


def values_of(column: TargetColumn) -> dict[str, object]:
    """The fields of a column that cells are written from."""
    names = [cell.name for cell in CELLS if cell.name != "type"]
    return {"type": column.type, "key_ordinal": column.key_ordinal, **{name: getattr(column, name) for name in names}}


def described_in_order(dataset: TargetDataset) -> list[TargetColumn]:
    """The columns in use that people describe, in the order in which the grid has them."""
    rows = list(dataset.columns.filter(active=True).order_by("ordinal", "id"))
    return [row for role in (ROLES.BUSINESS_KEY, ROLES.ATTRIBUTE, ROLES.TECHNICAL) for row in rows if row.role == role]


def column_of(key: UUID) -> QuerySet[TargetColumn]:
    """The column of this key, with its dataset and what it reads."""
    inputs = ColumnInput.objects.select_related("source_column__dataset__system", "upstream_column__dataset__schema")
    rows = TargetColumn.objects.filter(key=key).select_related("dataset__schema", "dataset__history_of__schema")
    return rows.prefetch_related(Prefetch("inputs", inputs))


def role_options(columns: list[TargetColumn]) -> list[str]:
    """The roles that a cell may take in a dataset with these columns: one place more than the key has."""
    places = max([column.key_ordinal or 0 for column in columns if column.active], default=0)
    return role_choices(places + 1)


def _ends(columns: list[TargetColumn]) -> dict[int, tuple[bool, bool]]:
    """Return, by column, whether it is the first and whether it is the last of its role."""
    alike: dict[str, list[int]] = {}
    for column in columns:
        alike.setdefault(column.role, []).append(column.pk)
    return {pk: (pk == pks[0], pk == pks[-1]) for pks in alike.values() for pk in pks}
