"""List of the columns of all datasets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import QuerySet

from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.lists.columns import Column, yes_no
from elevata.web.list_pages import ListPage
from loader.filtersets import ColumnListFilter
from loader.selectors.quality_results import failing_columns
from metadata.domain.bulk_edits import COLUMN_ACTIONS
from metadata.models import TargetColumn
from metadata.selectors.datasets import schemas


@dataclass(frozen=True)
class ListedColumn:
    """Column with the names of its failed checks."""

    column: TargetColumn
    failed: tuple[str, ...]


class ColumnList(ListPage):
    """List of the columns of all datasets; those of a history are its base's."""

    filterset, template_name, file_name = ColumnListFilter, "loader/datasets/column_list.html", "columns"
    columns: ClassVar = (
        Column("Column", {"column": "column.name", "dataset": "column.dataset"}, sort="name"),
        Column("Layer", {"layer": "column.dataset.schema.layer"}, sort="layer"),
        Column("Type", {"type": "column.type"}, sort="type"),
        Column("Role", {"role": "column.role"}, sort="role"),
        Column("Personal", {"personal": lambda row: yes_no(row.column.pii)}, sort="personal", descends=True),
        Column("Sensitivity", {"sensitivity": "column.sensitivity"}, sort="sensitivity", descends=True),
        Column("Owner", {"owner": "column.owner"}, sort="owner"),
        Column("Tags", {"tags": lambda row: ", ".join(row.column.tags)}),
        Column("Failed checks", {"failed checks": lambda row: ", ".join(row.failed)}),
        Column("Active", {"active": lambda row: yes_no(row.column.active)}, shown=False, sort="active", descends=True),
        Column("Description", {"description": "column.description"}, sort="description"),
    )

    def listed(self) -> QuerySet[TargetColumn]:
        return TargetColumn.objects.select_related("dataset__schema").defer("expression", "dataset__select")

    def detailed(self, rows: Sequence[Any]) -> list[ListedColumn]:
        failed = failing_columns({row.dataset_id for row in rows})
        return [ListedColumn(row, tuple(failed.get(row.pk, ()))) for row in rows]

    def context(self) -> dict[str, Any]:
        all_schemas: list[Any] = list(schemas().order_by("ordinal", "name"))
        may_edit = may_somewhere(self.request.user, Permission.CHANGE_METADATA)
        return super().context() | {
            "rows": self.detailed_page,
            "actions": {"edits": COLUMN_ACTIONS} if may_edit else {},
            "schemas": [row.name for row in all_schemas],
        }
