"""The critical path of a run: the chain of datasets, each waiting for the one before, that takes longest.

A run cannot be shorter than it, however many datasets are loaded side by side; what lies beside it may
take longer by its slack before anybody notices.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter


@dataclass(frozen=True)
class CriticalPath:
    """``path`` in the order of loading and the ``seconds`` it takes; empty and 0 where nothing takes time.

    ``slack`` says of every dataset how many seconds longer it might take without the longest chain
    becoming longer; on the path it is 0.
    """

    path: tuple[str, ...] = ()
    seconds: float = 0.0
    slack: Mapping[str, float] = field(default_factory=dict)


def critical_path(seconds: Mapping[str, float], waits_for: Mapping[str, Iterable[str]]) -> CriticalPath:
    """The critical path of datasets that take these seconds and wait for each other like that.

    What is waited for and has no seconds is no part of the run. Of chains that take equally long it is
    the one whose names come first. ValueError for datasets that wait for each other in a circle.
    """
    upstreams = {key: sorted(set(waits_for.get(key, ())) & seconds.keys()) for key in seconds}
    order = _ordered(upstreams)
    ends: dict[str, float] = {}
    for key in order:
        ends[key] = seconds[key] + max((ends[one] for one in upstreams[key]), default=0.0)
    longest = max(ends.values(), default=0.0)
    slack = _slack(order, upstreams, seconds, ends, longest)
    if not longest:
        return CriticalPath(slack=slack)
    # What takes no time ends with what it waits for, and is no end of the path.
    last = min(key for key in order if ends[key] == longest and seconds[key])
    path = _back_from(last, upstreams, ends)
    # Sums of floating point seconds may differ by a hair with their order.
    return CriticalPath(path, longest, slack | dict.fromkeys(path, 0.0))


def _ordered(upstreams: Mapping[str, list[str]]) -> list[str]:
    try:
        return list(TopologicalSorter({key: upstreams[key] for key in sorted(upstreams)}).static_order())
    except CycleError as error:
        raise ValueError(f"these wait for each other in a circle: {' → '.join(error.args[1])}") from None


def _slack(
    order: list[str],
    upstreams: Mapping[str, list[str]],
    seconds: Mapping[str, float],
    ends: Mapping[str, float],
    longest: float,
) -> dict[str, float]:
    """Between when a dataset ends at the earliest, and when it must end at the latest."""
    latest = dict.fromkeys(order, longest)
    for key in reversed(order):
        for one in upstreams[key]:
            latest[one] = min(latest[one], latest[key] - seconds[key])
    return {key: max(0.0, latest[key] - ends[key]) for key in order}


def _back_from(last: str, upstreams: Mapping[str, list[str]], ends: Mapping[str, float]) -> tuple[str, ...]:
    """From the last dataset back to the first one that takes time: always the upstream that ended last."""
    path = [last]
    while upstreams[path[-1]]:
        before = min(upstreams[path[-1]], key=lambda key: (-ends[key], key))
        if not ends[before]:
            break
        path.append(before)
    return tuple(reversed(path))
