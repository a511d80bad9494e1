"""What looking at a system answers."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from loader.domain.sampling import SampledColumn, Value


@dataclass(frozen=True)
class Reached:
    """A connection that works: what was reached, and facts about it as (label, text)."""

    said: str
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Found:
    """A file, a folder of files or a table. ``location`` is what a source dataset would say.

    ``size`` is in bytes. ``rows`` is an estimate; None where nobody knows it without reading everything.
    """

    name: str
    location: str
    format: str
    size: int | None = None
    rows: int | None = None
    modified: datetime | None = None
    files: int = 1
    note: str = ""


@dataclass(frozen=True)
class Listing:
    """One page of what was found; ``total`` is how much fits the search. ``cut``: there is more than was looked at."""

    items: tuple[Found, ...]
    total: int
    cut: bool = False


@dataclass(frozen=True)
class Sample:
    """The columns of a delivery by its first rows. ``values`` holds each column's values as text.

    ``typed``: the delivery says its types itself. ``whole``: these are all its rows.
    """

    columns: tuple[SampledColumn, ...]
    rows: int
    whole: bool
    typed: bool
    said: str
    values: tuple[tuple[Value, ...], ...] = ()
    notes: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
