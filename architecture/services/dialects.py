"""Statements of a report on an environment in an SQL dialect, against the last observation of its tables."""

from collections.abc import Sequence

from architecture.domain.dialect_statements import RENDERER
from architecture.domain.operations import BLOCKED, Operation
from architecture.domain.report import ChangeReport
from architecture.domain.scope import Scope
from architecture.models import ChangeReport as StoredReport
from architecture.services.environments import environment_or_own
from architecture.services.report_basis import Basis, gather
from architecture.services.reports import operations_of, refuse_stale
from architecture.services.undo_options import undo_steps


def statements_of_warehouse(report: ChangeReport, scope: Scope, environment: str, dialect: str) -> list[list[str]]:
    """Return the statements of each operation of a report on an environment, against its last observation."""
    basis = gather(environment=environment_or_own(environment), scope=scope)
    return _planned(basis, report.operations, dialect)


def statements_of_report(report: StoredReport, dialect: str) -> list[list[str]]:
    """Return the statements of each operation of a stored report. Raise Refused if it is outdated."""
    basis, operations = refuse_stale(report), operations_of(report)
    if report.undo_of_id is None:
        return _planned(basis, operations, dialect)
    rendered = RENDERER.get().statements(undo_steps(report, basis), dialect)
    return [rendered.get(place, []) for place in range(len(operations))]


def _planned(basis: Basis, operations: Sequence[Operation], dialect: str) -> list[list[str]]:
    """Return the statements of each operation; a blocked one has none."""
    places = [place for place, item in enumerate(operations) if item.decision != BLOCKED]
    own = RENDERER.get().statements(basis.steps(operations[place] for place in places), dialect)
    rendered = {places[place]: statements for place, statements in own.items()}
    return [rendered.get(place, []) for place in range(len(operations))]
