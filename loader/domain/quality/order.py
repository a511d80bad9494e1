"""Order of datasets whose checks read other datasets of the same run."""

from collections.abc import Iterable, Mapping


def waits_for_checks(
    depends_on: Mapping[str, Iterable[str]], reads: Mapping[str, Iterable[str]]
) -> dict[str, tuple[str, ...]]:
    """Return for each dataset those of the run that its checks read and that it can wait for.

    ``depends_on`` are the datasets that each one waits for anyway. A dataset that waits for the reader itself is left
    out: the check then reads the table as it is.
    """
    waiting = {key: set(upstreams) for key, upstreams in depends_on.items()}
    after: dict[str, tuple[str, ...]] = {}
    for key in sorted(reads):
        chosen = []
        for other in sorted(set(reads[key]) & waiting.keys() - {key}):
            if key in waiting and not _reaches(waiting, other, key):
                waiting[key].add(other)
                chosen.append(other)
        if chosen:
            after[key] = tuple(chosen)
    return after


def _reaches(waiting: Mapping[str, set[str]], start: str, end: str) -> bool:
    seen, pending = set(), [start]
    while pending:
        key = pending.pop()
        if key == end:
            return True
        if key not in seen:
            seen.add(key)
            pending += waiting.get(key, ())
    return False
