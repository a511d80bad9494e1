"""Operations of a report on pages."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from architecture.domain import operations as ops
from architecture.domain.operations import Operation
from architecture.domain.policy_rules import RULES
from architecture.models import ChangeReport
from architecture.services.reports import operations_of
from metadata.models import SourceColumn, SourceDataset, TargetColumn, TargetDataset

_FIXES = {rule.code: rule.fix for rule in RULES}


@dataclass(frozen=True)
class OperationRow:
    """Operation on a page. ``what`` is the change, ``fix`` an alternative to it, ``described`` its dataset's key."""

    number: int
    operation: Operation
    what: str
    message: str
    fix: str
    described: UUID | None

    @property
    def on_history(self) -> bool:
        return self.operation.side == ops.HISTORY


def operation_rows(report: ChangeReport, *, limit: int | None = None) -> list[OperationRow]:
    """Return a report's first operations, in order. Datasets in the metadata get a link."""
    operations = operations_of(report)[:limit]
    keys = {operation.dataset_key for operation in operations}
    described = set(TargetDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    return [_operation_row(number, operation, described) for number, operation in enumerate(operations, start=1)]


def _operation_row(number: int, operation: Operation, described: set[UUID]) -> OperationRow:
    fix = _FIXES.get(operation.code, "") if operation.decision in (ops.BLOCKED, ops.NEEDS_APPROVAL) else ""
    message = operation.message.removesuffix(f"; {fix}") if fix else operation.message
    key = UUID(operation.dataset_key)
    return OperationRow(number, operation, what_changes(operation), message, fix, key if key in described else None)


def what_changes(operation: Operation) -> str:
    """Return ``full_name → display_name``, ``elevation: integer → bigint`` or ``lid``; empty for a table."""
    if operation.columns and not operation.column:
        return ", ".join(f"{before} → {after}" for _, before, after in operation.columns)
    if operation.op in ops.NAMING:
        return operation.renaming
    if operation.from_ and operation.to:
        subject = f"{operation.column}: " if operation.column else ""
        return f"{subject}{operation.from_} → {operation.to}"
    return operation.column


def names_of(keys: Collection[str]) -> dict[str, str]:
    """Return the current names of datasets and columns by stable key, without keys that are not in the metadata."""
    names: dict[str, str] = {}
    for model, fields in _NAME_FIELDS.items():
        for key, *parts in model.objects.filter(key__among=keys).values_list("key", *fields):
            names[str(key)] = ".".join(parts)
    return names


_NAME_FIELDS: dict[Any, tuple[str, ...]] = {
    TargetDataset: ("schema__name", "name"),
    SourceDataset: ("system__short_name", "name"),
    TargetColumn: ("dataset__schema__name", "dataset__name", "name"),
    SourceColumn: ("dataset__system__short_name", "dataset__name", "name"),
}
