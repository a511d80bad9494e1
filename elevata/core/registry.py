"""Registry of what an app needs of the apps above it, which it cannot import.

The app that needs something declares it as a ``Registered`` or a ``Provided``; the apps above fill it when they are
ready (``AppConfig.ready``), in the order of INSTALLED_APPS.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Registered(Generic[T]):
    """Items of one kind that apps register, in the order of their registration."""

    def __init__(self) -> None:
        self._items: list[T] = []

    def add(self, *items: T) -> None:
        """Register items. Raise ValueError for one that is registered already."""
        for item in items:
            if item in self._items:
                raise ValueError(f"{item} is registered twice")
            self._items.append(item)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._items))


class Provided(Generic[T]):
    """One item that an app above provides."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._items: list[T] = []

    def provide(self, item: T) -> None:
        """Provide the item. Raise ValueError if another app did so already."""
        if self._items:
            raise ValueError(f"{self._name} is provided twice")
        self._items.append(item)

    def get(self) -> T:
        """Return the item. Raise LookupError if no installed app provides it."""
        if not self._items:
            raise LookupError(f"no installed app provides {self._name}")
        return self._items[0]
