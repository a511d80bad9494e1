"""Steps still to run when an execution is resumed, given the observed tables.

Steps of one table form a list in which each assumes what the one before leads to; tables do not wait
for each other here, for a list of steps is run in its order anyway. Whatever kills a worker, at most
one step ran without being recorded: so a table stands where its recorded steps left it, or one step
further. Anywhere else, somebody else changed it, and nothing is run.
"""

from collections.abc import Collection, Mapping, Sequence

from architecture.domain.states.tables import ObservedTable
from architecture.domain.steps.step import Step, assumed_by, done_by, half_done_by, moved


def steps_left(
    steps: Sequence[Step], *, finished: Collection[int], observed: Mapping[str, ObservedTable]
) -> tuple[int, ...]:
    """Places of the steps that are still to run, in order. ``finished`` are those that are recorded as done.

    Every table is checked before anything is returned. StepProblem TABLE_MOVED for the first one that
    stands somewhere else than its finished steps left it.
    """
    by_table: dict[str, list[int]] = {}
    for place, step in enumerate(steps):
        by_table.setdefault(step.table.key, []).append(place)
    left: list[int] = []
    for key, places in by_table.items():
        own = [steps[place] for place in places]
        done = sum(place in finished for place in places)
        _must_stand(own, done, observed.get(key))
        left.extend(places[done:])
    return tuple(sorted(left))


def _must_stand(steps: Sequence[Step], done: int, observed: ObservedTable | None) -> None:
    """The table is where ``done`` steps left it, or where the next one leaves it, whole or half."""
    if done == len(steps):
        last = steps[-1]
        if not _stands_behind(last, observed):
            raise moved(last, observed)
        return
    following = steps[done]
    if not (assumed_by(following, observed) or done_by(following, observed) or half_done_by(following, observed)):
        raise moved(following, observed)


def _stands_behind(last: Step, observed: ObservedTable | None) -> bool:
    return done_by(last, observed) if last.leaves_trace else assumed_by(last, observed)
