"""Balanced combination of many expressions or frames.

Spark processes expressions and plans by recursion: a chain over the columns of a wide table (``a | b | c …``) ends in
a StackOverflowError; a balanced tree has only a few levels.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_Part = TypeVar("_Part", Column, DataFrame)


def any_of(conditions: Iterable[Column]) -> Column:
    """Return the condition that at least one of the conditions holds; false if there are none."""
    return _combine(list(conditions) or [F.lit(False)], lambda left, right: left | right)


def all_of(conditions: Iterable[Column]) -> Column:
    """Return the condition that all conditions hold; true if there are none."""
    return _combine(list(conditions) or [F.lit(True)], lambda left, right: left & right)


def total(numbers: Iterable[Column]) -> Column:
    """Return the sum of the numbers; 0 if there are none."""
    return _combine(list(numbers) or [F.lit(0)], lambda left, right: left + right)


def united(
    frames: Iterable[DataFrame], join: Callable[[DataFrame, DataFrame], DataFrame] = DataFrame.unionAll
) -> DataFrame:
    """Return the rows of all frames. ``join`` unites two frames, by default by column position."""
    return _combine(list(frames), join)


def _combine(parts: list[_Part], join: Callable[[_Part, _Part], _Part]) -> _Part:
    while len(parts) > 1:
        pairs = [join(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]
