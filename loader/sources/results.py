"""Results of a connection test, a listing and a sample of an outside system."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from loader.domain.sources.sampling import SampledColumn, Value


@dataclass(frozen=True)
class Reached:
    """Result of a connection test: what was reached, and facts about it as (label, text)."""

    said: str
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Found:
    """A file, a folder of files or a table. ``location`` is written as in a source dataset.

    ``size`` is in bytes. ``rows`` is an estimate; None where it takes reading everything.
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
    """One page of results; ``total`` is how many match the search. ``cut``: there are more than were examined."""

    items: tuple[Found, ...]
    total: int
    cut: bool = False


@dataclass(frozen=True)
class Sample:
    """Columns of a delivery by its first rows. ``values`` holds each column's values as text.

    ``typed``: the delivery declares its types. ``whole``: these are all its rows.
    """

    columns: tuple[SampledColumn, ...]
    rows: int
    whole: bool
    typed: bool
    said: str
    values: tuple[tuple[Value, ...], ...] = ()
    notes: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
