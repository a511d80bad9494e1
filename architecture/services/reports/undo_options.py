"""Undo options of a record: for each executed operation the way to undo it, and whether it can be undone now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from architecture.domain.operations import operation_of
from architecture.domain.reports.workflow import Refused
from architecture.domain.states.flat import of_row
from architecture.domain.steps import rows as step_rows
from architecture.domain.steps.inverse_steps import inverse
from architecture.domain.steps.step import shape_of
from architecture.domain.undo.inverse_operations import Ground, Problem, stands_on, what_can_be
from architecture.domain.undo.undo_groups import Executed, WayBack, ways_back
from architecture.models import ExecutionOperation, ExecutionRecord
from architecture.selectors import applied_states
from architecture.services.states.observed_states import Seen, last_seen
from architecture.services.states.writing_runs import runs_that_wrote
from elevata.jobs import states

_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED
_RUNS_NAMED = 3


@dataclass(frozen=True)
class Offered:
    """One operation that was done (with its other side): ``back`` is what takes it back, step by step.

    ``refused`` is why it cannot be taken back now, None if it can (together with all others that can).
    """

    way: WayBack
    back: tuple[str, ...]
    refused: Refused | None

    @property
    def ordinals(self) -> tuple[int, ...]:
        return self.way.ordinals

    @property
    def done(self) -> tuple[str, ...]:
        """Descriptions of the executed steps."""
        return tuple(step.describe() for step in self.way.steps) or (self.way.describe(),)

    def as_json(self) -> dict[str, Any]:
        return {
            "operations": list(self.ordinals),
            "done": list(self.done),
            "back": list(self.back),
            "possible": self.refused is None,
            "refused": self.refused.as_json() if self.refused is not None else None,
        }


def offered(record: ExecutionRecord) -> tuple[Offered, ...]:
    """Return the record's undo options in the order in which they would be undone: the last first."""
    ways, ground = ways_of(record), ground_of(record)
    first = what_can_be(ways, ground)
    written = {way.ordinals: refused for way, refused in written_since(record, first.ways)}
    tried = what_can_be([way for way in first.ways if way.ordinals not in written], ground)
    reasons = {way.ordinals: already(way) for way in first.back} | written
    possible = {way.ordinals for way in tried.ways}
    for problem in (*first.problems, *tried.problems):
        others = [way for way in ways if way.ordinals not in possible and way.ordinals not in reasons]
        reasons[problem.way.ordinals] = why(problem, record, [way for way in others if way != problem.way])
    return tuple(Offered(way, _back(way), reasons.get(way.ordinals)) for way in reversed(ways))


def _back(way: WayBack) -> tuple[str, ...]:
    found = [inverse(one.step, one.version_before) for one in reversed(way.executed) if one.step is not None]
    return tuple(step.describe() for step in found if step is not None)


def ways_of(record: ExecutionRecord) -> tuple[WayBack, ...]:
    """The operations that were done, each with what belongs to it, in the order in which they were."""
    planned = record.execution.planned
    operations = [operation_of(row) for row in planned.get("rows", ())]
    steps = step_rows_of(record)
    done = record.execution.operations.filter(status=_SUCCEEDED, operation__isnull=False).order_by("ordinal")
    executed = [
        Executed(
            row.ordinal,
            row.operation,
            step_rows.of_row(steps[row.ordinal]) if row.ordinal < len(steps) else None,
            row.version_before,
        )
        for row in done
    ]
    before, left = _states(record)
    return ways_back(operations, executed, Ground({}, before, left, {}).described)


def step_rows_of(record: ExecutionRecord) -> list[dict[str, Any]]:
    """The steps of an execution as its preview, or its load's plan, has them."""
    preview = record.execution.preview
    if preview is None:
        return list(record.execution.planned.get("report", {}).get("content", {}).get("steps", ()))
    return [{name: value for name, value in row.items() if name != "statement"} for row in preview.document["steps"]]


def ground_of(record: ExecutionRecord, seen: Seen | None = None) -> Ground:
    """Return the state now, before the record and after it. Without ``seen`` the last observations are used."""
    environment = record.environment
    seen = last_seen(environment=environment) if seen is None else seen
    before, left = _states(record)
    applied = {state.key: state for state in applied_states(environment=environment)}
    shapes = {key: shape for key, table in seen.tables.items() if (shape := shape_of(table)) is not None}
    return Ground(applied, before, left, shapes)


def _states(record: ExecutionRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    planned = record.execution.planned
    before, left = (
        {key: None if row is None else of_row(row) for key, row in (planned.get(side) or {}).items()}
        for side in ("before", "desired")
    )
    return before, left


# --- why not -----------------------------------------------------------------------------------


def already(way: WayBack) -> Refused:
    """For what was taken back before, by an undo or by a change of the metadata."""
    return Refused("ALREADY_UNDONE", f"{way.describe()} was taken back already")


def why(problem: Problem, record: ExecutionRecord, others: Sequence[WayBack]) -> Refused:
    """Return why one cannot be undone, naming what depends on it: of ``others`` in the record, or later changes."""
    what = problem.way.describe()
    if problem.way.version_is_lost:
        return Refused("NO_WAY_BACK", f"{what} cannot be taken back: {problem.differs}")
    if problem.reader:
        return Refused("LATER_OPERATIONS", f"{what} cannot be taken back: {problem.differs}")
    later = stands_on(problem.way, others)
    if later is not None:
        said = f"{what} cannot be taken back alone: {later.describe()} was done after it and stands on it"
        return Refused("LATER_OPERATIONS", said, "take both back")
    row = _done_since(record, problem.way.dataset_key)
    if row is None:
        return Refused("TABLE_MOVED", f"{what} cannot be taken back: {problem.differs}")
    on = f"{row.qualified_name}.{row.column_name}" if row.column_name else row.qualified_name
    said = f"{what} cannot be taken back: {problem.differs}; execution {row.execution_id} did {row.op} {on} since"
    return Refused("LATER_OPERATIONS", said, f"take execution {row.execution_id} back first")


def _done_since(record: ExecutionRecord, dataset_key: str) -> ExecutionOperation | None:
    """The newest operation on a dataset that another execution did after the record's."""
    after = Q(execution__finished_at__isnull=True) | Q(execution__finished_at__gt=_ended(record))
    rows = ExecutionOperation.objects.filter(
        after, execution__environment=record.environment, dataset_key=dataset_key, status=_SUCCEEDED
    )
    return rows.exclude(execution=record.execution_id).order_by("-execution_id", "-ordinal").first()


def written_since(record: ExecutionRecord, ways: Iterable[WayBack]) -> list[tuple[WayBack, Refused]]:
    """Of those that go back to a version: what cannot, because rows that a load wrote would go along."""
    going = [way for way in ways if way.goes_to_version]
    wrote = runs_that_wrote(
        environment=record.environment,
        dataset_keys={way.dataset_key for way in going},
        after=_ended(record),
    )
    return [(way, _written(way, wrote[way.dataset_key])) for way in going if wrote.get(way.dataset_key)]


def _ended(record: ExecutionRecord) -> datetime:
    """After when something else may have written: one that was given up ended some time before it was."""
    execution = record.execution
    given_up = execution.status == states.ABANDONED
    return (execution.started_at if given_up else execution.finished_at) or record.created_at


def _written(way: WayBack, runs: Sequence[str]) -> Refused:
    named = ", ".join(runs[:_RUNS_NAMED]) + (f" and {len(runs) - _RUNS_NAMED} more" if len(runs) > _RUNS_NAMED else "")
    said = f"load run{'s' if len(runs) > 1 else ''} {named} wrote rows since, which would go along"
    return Refused("WRITTEN_SINCE", f"{way.describe()} cannot be taken back: {said}")
