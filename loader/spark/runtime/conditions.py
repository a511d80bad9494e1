"""Many expressions or frames as one, folded as a balanced tree.

Spark walks an expression and a plan by recursion: a chain as long as a contract has columns (``a | b | c …``)
ends in a StackOverflowError, a tree of the same parts is only a few levels deep.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_Part = TypeVar("_Part", Column, DataFrame)


def any_of(conditions: Iterable[Column]) -> Column:
    """Return whether one of the conditions holds; false if there is none."""
    return _folded(list(conditions) or [F.lit(False)], lambda one, other: one | other)


def all_of(conditions: Iterable[Column]) -> Column:
    """Return whether each of the conditions holds; true if there is none."""
    return _folded(list(conditions) or [F.lit(True)], lambda one, other: one & other)


def total(numbers: Iterable[Column]) -> Column:
    """Return the sum of the numbers; 0 if there is none."""
    return _folded(list(numbers) or [F.lit(0)], lambda one, other: one + other)


def united(
    frames: Iterable[DataFrame], join: Callable[[DataFrame, DataFrame], DataFrame] = DataFrame.unionAll
) -> DataFrame:
    """Return the rows of all the frames; ``join`` unites two of them, without it columns go by their place."""
    return _folded(list(frames), join)


def _folded(parts: list[_Part], join: Callable[[_Part, _Part], _Part]) -> _Part:
    while len(parts) > 1:
        pairs = [join(one, other) for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]
