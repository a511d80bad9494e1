"""Remaining steps of a resumed execution.

Each step of a table assumes the result of the table's previous step. If a worker died, at most one step ran without
being recorded, so a table matches its recorded steps or one step more. In any other state it was changed outside the
product, and nothing is run.
"""

from collections.abc import Collection, Mapping, Sequence

from architecture.domain.steps.step import (
    Step,
    assumed_by,
    done_by,
    half_done_by,
    moved,
)
from architecture.domain.tables import ObservedTable


def steps_left(
    steps: Sequence[Step], *, finished: Collection[int], observed: Mapping[str, ObservedTable]
) -> tuple[int, ...]:
    """Return the ordinals of the steps still to run, in order. ``finished`` are the ordinals of the recorded steps.

    Raises StepProblem TABLE_MOVED for the first table that does not match its finished steps.
    """
    by_table: dict[str, list[int]] = {}
    for ordinal, step in enumerate(steps):
        by_table.setdefault(step.table.key, []).append(ordinal)
    remaining: list[int] = []
    for key, ordinals in by_table.items():
        own = [steps[ordinal] for ordinal in ordinals]
        done = sum(ordinal in finished for ordinal in ordinals)
        _check_table(own, done, observed.get(key))
        remaining.extend(ordinals[done:])
    return tuple(sorted(remaining))


def _check_table(steps: Sequence[Step], done: int, observed: ObservedTable | None) -> None:
    """Raise StepProblem unless the table matches its ``done`` steps, perhaps with the next one done or half done."""
    if done == len(steps):
        last = steps[-1]
        if not _is_done(last, observed):
            raise moved(last, observed)
        return
    following = steps[done]
    if not (assumed_by(following, observed) or done_by(following, observed) or half_done_by(following, observed)):
        raise moved(following, observed)


def _is_done(last: Step, observed: ObservedTable | None) -> bool:
    return done_by(last, observed) if last.leaves_trace else assumed_by(last, observed)
