"""Critical path of a load run: the longest chain of datasets, each waiting for the one before.

A run cannot be shorter, however many datasets are loaded in parallel. A dataset outside the path may take longer by its
slack without delaying the run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter


@dataclass(frozen=True)
class CriticalPath:
    """Chain of datasets in load order and its ``seconds``; empty and 0 if nothing takes time.

    ``slack`` are the seconds that each dataset could take longer without lengthening the longest chain; 0 on the
    path.
    """

    path: tuple[str, ...] = ()
    seconds: float = 0.0
    slack: Mapping[str, float] = field(default_factory=dict)


def critical_path(seconds: Mapping[str, float], waits_for: Mapping[str, Iterable[str]]) -> CriticalPath:
    """Return the critical path of datasets with these durations and dependencies.

    A dependency without a duration is not part of the run. Of equally long chains, return the first by name. Raise
    ValueError for circular dependencies.
    """
    upstreams = {key: sorted(set(waits_for.get(key, ())) & seconds.keys()) for key in seconds}
    order = _topological_order(upstreams)
    ends: dict[str, float] = {}
    for key in order:
        ends[key] = seconds[key] + max((ends[upstream] for upstream in upstreams[key]), default=0.0)
    longest = max(ends.values(), default=0.0)
    slack = _slack(order, upstreams, seconds, ends, longest)
    if not longest:
        return CriticalPath(slack=slack)
    # A dataset that takes no time cannot be the last of the path, since it ends when its upstreams end.
    last = min(key for key in order if ends[key] == longest and seconds[key])
    path = _chain_to(last, upstreams, ends)
    # Floating-point sums differ slightly with their order, so the slack on the path is set to 0.
    return CriticalPath(path, longest, slack | dict.fromkeys(path, 0.0))


def _topological_order(upstreams: Mapping[str, list[str]]) -> list[str]:
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
    """Return the seconds between each dataset's earliest and latest possible end."""
    latest = dict.fromkeys(order, longest)
    for key in reversed(order):
        for upstream in upstreams[key]:
            latest[upstream] = min(latest[upstream], latest[key] - seconds[key])
    return {key: max(0.0, latest[key] - ends[key]) for key in order}


def _chain_to(last: str, upstreams: Mapping[str, list[str]], ends: Mapping[str, float]) -> tuple[str, ...]:
    """Return the chain that ends with ``last``, in load order. Before each dataset is its upstream that ended last."""
    path = [last]
    while upstreams[path[-1]]:
        before = min(upstreams[path[-1]], key=lambda key: (-ends[key], key))
        if not ends[before]:
            break
        path.append(before)
    return tuple(reversed(path))
