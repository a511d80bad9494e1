"""Statements of a report on an environment in an SQL dialect, against the last observation of its tables."""

from architecture.domain.dialect_statements import RENDERER
from architecture.domain.operations import BLOCKED
from architecture.domain.report import ChangeReport
from architecture.domain.scope import Scope
from architecture.services.environments import environment_or_own
from architecture.services.report_basis import gather


def statements_of_warehouse(report: ChangeReport, scope: Scope, environment: str, dialect: str) -> list[list[str]]:
    """Return the statements of each operation of a report on an environment, against its last observation."""
    basis = gather(environment=environment_or_own(environment), scope=scope)
    places = [place for place, item in enumerate(report.operations) if item.decision != BLOCKED]
    steps = basis.steps(report.operations[place] for place in places)
    own = RENDERER.get().statements(steps, dialect)
    rendered = {places[place]: statements for place, statements in own.items()}
    return [rendered.get(place, []) for place in range(len(report.operations))]
