"""The order of a dataset's columns, and how one of them moves in it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def moved(order: Sequence[T], item: T, by: int, beside: Callable[[T], bool]) -> list[T]:
    """``order`` with ``item`` moved ``by`` places (below zero: up) among the items it stands ``beside``.

    What it does not stand beside keeps its order and is stepped over; at the ends it stays where it is.
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
