"""Effects of a report's operations on columns downstream."""

from dataclasses import dataclass

from architecture.domain import operations as ops
from architecture.domain.operations import Operation
from architecture.models import ChangeReport
from architecture.services.reports import operations_of
from metadata.domain.impact import DROP, RENAME, RETYPE
from metadata.models import TargetColumn
from metadata.selectors.impact import impact_of
from metadata.selectors.model_dependents import Dependent

# Columns with effects that the part of a report lists.
IMPACTS_SHOWN = 30
_IMPACTS = {
    ops.DROP_COLUMN: DROP,
    ops.RETIRE_COLUMN: DROP,
    ops.RENAME_COLUMN: RENAME,
    ops.RETYPE_COLUMN: RETYPE,
    ops.WIDEN_COLUMN: RETYPE,
}


@dataclass(frozen=True)
class ColumnImpacts:
    """The first ``examined`` of ``count`` changed columns, as far as anything depends on them."""

    shown: list[tuple[Operation, list[Dependent]]]
    examined: int
    count: int


def column_impacts(report: ChangeReport) -> ColumnImpacts:
    """Return the first column operations with what each affects in the current metadata.

    Columns that are not in the metadata any more are omitted: nothing reads them.
    """
    changes = [each for each in operations_of(report) if each.op in _IMPACTS and each.side == ops.BASE]
    keys = [operation.column_key for operation in changes if operation.column_key]
    rows = TargetColumn.objects.filter(key__among=keys).select_related("dataset__schema") if keys else ()
    columns = {str(row.key): row for row in rows}
    known = [operation for operation in changes if operation.column_key in columns]
    impacts = [(each, _impact(each, columns[each.column_key])) for each in known[:IMPACTS_SHOWN]]
    return ColumnImpacts([(each, affected) for each, affected in impacts if affected], len(impacts), len(known))


def _impact(operation: Operation, column: TargetColumn) -> list[Dependent]:
    """Return the effects of an operation; in the metadata, the column has its new type already."""
    return impact_of(column, _IMPACTS[operation.op], type=column.type)
