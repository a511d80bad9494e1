"""Balanced combination of many expressions or frames.

Spark walks expressions and plans by recursion: a chain as long as a contract has columns (``a | b | c …``)
ends in a StackOverflowError, while a balanced tree of the same parts is only a few levels deep.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_Part = TypeVar("_Part", Column, DataFrame)


def any_of(conditions: Iterable[Column]) -> Column:
    """Return the condition that at least one of the conditions holds; false if there are none."""
    return _folded(list(conditions) or [F.lit(False)], lambda one, other: one | other)


def all_of(conditions: Iterable[Column]) -> Column:
    """Return the condition that all conditions hold; true if there are none."""
    return _folded(list(conditions) or [F.lit(True)], lambda one, other: one & other)


def total(numbers: Iterable[Column]) -> Column:
    """Return the sum of the numbers; 0 if there are none."""
    return _folded(list(numbers) or [F.lit(0)], lambda one, other: one + other)


def united(
    frames: Iterable[DataFrame], join: Callable[[DataFrame, DataFrame], DataFrame] = DataFrame.unionAll
) -> DataFrame:
    """Return the rows of all frames; ``join`` unites two of them, by default by column position."""
    return _folded(list(frames), join)


def _folded(parts: list[_Part], join: Callable[[_Part, _Part], _Part]) -> _Part:
    while len(parts) > 1:
        pairs = [join(one, other) for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]
