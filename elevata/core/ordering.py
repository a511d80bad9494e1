"""Type of values that can be compared with values of their own type."""

from typing import Any, Protocol


class Ordered(Protocol):
    """Value with an order, for example a date or a number; its user sees to it that it meets its own type only."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __le__(self, other: Any, /) -> bool: ...

    def __gt__(self, other: Any, /) -> bool: ...

    def __ge__(self, other: Any, /) -> bool: ...
