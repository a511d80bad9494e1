"""Statements of a stored report in an SQL dialect, against the last observation of its tables."""

from architecture.domain.dialect_statements import RENDERER, keys_hashed_otherwise, statements_of_operations
from architecture.models import ChangeReport
from architecture.services.reports import operations_of, refuse_stale
from architecture.services.undo_options import undo_steps


def statements_of_report(report: ChangeReport, dialect: str) -> list[list[str]]:
    """Return the statements of each operation. Raise Refused if the report is outdated."""
    basis, operations = refuse_stale(report), operations_of(report)
    datasets = (*basis.applied, *basis.desired)
    if report.undo_of_id is None:
        return statements_of_operations(operations, basis.steps, datasets, dialect)
    refused = keys_hashed_otherwise(operations, datasets)
    rendered = RENDERER.get().statements(undo_steps(report, basis), dialect, refused)
    return [rendered.get(place, []) for place in range(len(operations))]
