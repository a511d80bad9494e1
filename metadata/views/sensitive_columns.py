"""Pages of sensitive columns: of the warehouse, and of the sources."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet

from elevata.accounts.roles import Permission
from elevata.lists.columns import Column, yes_no
from elevata.web.list_pages import ListPage
from metadata.models import SourceColumn, TargetColumn
from metadata.selectors import sensitive_columns as selectors
from metadata.selectors import sensitive_details
from metadata.selectors.sensitive_counts import SensitiveCount, counts_by_schema, counts_by_system
from metadata.selectors.sensitive_details import SensitiveColumn, detailed
from metadata.selectors.sensitive_filters import SensitiveColumnFilter, SensitiveSourceColumnFilter


def _read_at(row: SensitiveColumn) -> Any:
    return row.last_read.at if row.last_read is not None else None


def _read_by(row: SensitiveColumn) -> str:
    return row.last_read.actor if row.last_read is not None else ""


_DETAILS = (
    Column("Class", {"class": lambda row: ", ".join(row.classes)}),
    Column("Owner", {"owner": "owner"}, sort="owner"),
    Column("Copies", {"copies": lambda row: len(row.copies), "copied to": lambda row: ", ".join(row.copied_to)}),
    Column("Readers", {"readers": lambda row: ", ".join(row.readers)}),
    Column("Last read", {"last read": _read_at, "read by": _read_by}),
    Column("Active", {"active": lambda row: yes_no(row.column.active)}, shown=False, sort="active"),
)


class SensitiveList(ListPage):
    """Base of lists of sensitive columns, for stewards and administrators."""

    permissions = (Permission.READ_SENSITIVE, Permission.MANAGE_USERS)
    template_name = "metadata/sensitive_list.html"
    counts: ClassVar[Callable[[Any], dict[str, SensitiveCount]]]
    # Filter by which the numbers are grouped.
    side: ClassVar[str]

    def detailed(self, rows: Sequence[Any]) -> list[SensitiveColumn]:
        return detailed(rows)

    def context(self) -> dict[str, Any]:
        counts = list(type(self).counts(self.request.user).values())
        names = [count.name for count in counts]
        return super().context() | {
            "rows": self.detailed_page,
            "counts": counts,
            "names": names,
            "side": self.side,
            "sees_all": selectors.sees_all(self.request.user),
            "reads_searched": sensitive_details.READS_SEARCHED,
        }


class SensitiveColumnList(SensitiveList):
    """Sensitive columns of the warehouse."""

    filterset, file_name = SensitiveColumnFilter, "sensitive_columns"
    counts, side = staticmethod(counts_by_schema), "schema"
    columns: ClassVar = (
        Column("Column", {"column": "column.name", "dataset": "column.dataset"}, sort="name"),
        Column("Layer", {"layer": "column.dataset.schema.layer"}, sort="layer"),
        *_DETAILS,
    )

    def listed(self) -> QuerySet[TargetColumn]:
        return selectors.target_columns(self.request.user)


class SensitiveSourceColumnList(SensitiveList):
    """Sensitive columns of the sources."""

    filterset, file_name = SensitiveSourceColumnFilter, "sensitive_source_columns"
    counts, side = staticmethod(counts_by_system), "system"
    columns: ClassVar = (
        Column("Column", {"column": "column.name", "dataset": "column.dataset"}, sort="name"),
        Column("System", {"system": "column.dataset.system.short_name"}, sort="system"),
        *_DETAILS,
    )

    def listed(self) -> QuerySet[SourceColumn]:
        return selectors.source_columns(self.request.user)
