"""Moves of a column within the order of its dataset's columns."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def moved(order: Sequence[T], item: T, by: int, beside: Callable[[T], bool]) -> list[T]:
    """Return ``order`` with ``item`` moved ``by`` places (negative: up) among some of its items.

    ``beside`` is true for the items that count as places. The others are skipped and stay in order. The move
    stops at either end.
    """
    group = [one for one in order if one == item or beside(one)]
    at = group.index(item)
    to = min(max(at + by, 0), len(group) - 1)
    if to == at:
        return list(order)
    neighbour = group[to]
    rest = [one for one in order if one != item]
    place = rest.index(neighbour) + (1 if to > at else 0)
    return [*rest[:place], item, *rest[place:]]
