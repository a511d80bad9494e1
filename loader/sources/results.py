"""Results of a connection test, a listing and a sample of an outside system."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from loader.domain.sources.encodings import notes_of_texts
from loader.domain.sources.file_detection.model import Question, notes_of
from loader.domain.sources.sampling import SampledColumn, Value, suggest_key
from metadata.domain.sources.formats import label_of


@dataclass(frozen=True)
class ConnectionResult:
    """Result of a connection test: the place, and facts about it as (label, text)."""

    summary: str
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ListedItem:
    """File, folder of files or table. ``location`` is written as in a source dataset.

    ``size`` is in bytes. ``rows`` is an estimate; None if only reading everything would tell. ``description`` is the
    comment of a table.
    """

    name: str
    location: str
    format: str
    size: int | None = None
    rows: int | None = None
    modified: datetime | None = None
    files: int = 1
    note: str = ""
    description: str = ""

    @property
    def label(self) -> str:
        """Return the display name of the format."""
        return label_of(self.format)


@dataclass(frozen=True)
class Delivery:
    """Files that a location stands for now: number, bytes, and the file that was written last."""

    files: int
    size: int
    newest: str
    modified: datetime
    format: str

    @property
    def label(self) -> str:
        """Return the display name of the format; empty if the newest file's ending indicates none."""
        return label_of(self.format) if self.format else ""

    @property
    def signature(self) -> str:
        """Return a digest that differs once files are added, removed or written."""
        text = f"{self.files}/{self.size}/{self.modified.isoformat()}/{self.newest}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Listing:
    """One page of results. ``total`` counts all matches; ``cut`` is true if not every file was examined."""

    items: tuple[ListedItem, ...]
    total: int
    cut: bool = False


@dataclass(frozen=True)
class Sample:
    """Columns and first rows of a delivery. ``values`` has each column's values as text.

    ``typed`` is true if the delivery declares its types, ``whole`` if these are all its rows. ``extent`` describes the
    rows, like "the first 100 rows of orders.csv". ``questions`` are those of options that the values leave open,
    ``unread_columns`` the columns of dates or numbers in a format that is not read.
    """

    columns: tuple[SampledColumn, ...]
    rows: int
    whole: bool
    typed: bool
    extent: str
    values: tuple[tuple[Value, ...], ...] = ()
    notes: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    unread_columns: tuple[str, ...] = ()

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Return the notes, and the one about columns in a format that is not read."""
        return (*self.notes, *notes_of(self.unread_columns))


_SAMPLES = 3


def sampled(
    columns: list[SampledColumn],
    values: list[list[Value]],
    *,
    whole: bool,
    typed: bool,
    where: str,
    of_lines: bool = False,
    key: tuple[str, ...] = (),
    key_evidence: str = "the table's primary key",
    notes: Sequence[str] = (),
    options: dict[str, Any] | None = None,
) -> Sample:
    """Return the sample with counts per column and a key: ``key``, or else one that the data suggest.

    ``of_lines``: the records are lines of a text.
    """
    rows = len(values[0]) if values else 0
    if not typed:
        notes = (*notes, *notes_of_texts(values, of_lines=of_lines))
    places, evidence = suggest_key([column.name for column in columns], values)
    if key:
        places = tuple(place for name in key for place, column in enumerate(columns) if column.name == name)
        evidence = key_evidence
    described = [
        replace(
            column,
            rows=rows,
            nulls=sum(value is None for value in column_values),
            unique=rows > 1 and len(set(column_values)) == rows,
            key_ordinal=places.index(place) + 1 if place in places else None,
            key_evidence=evidence if place in places else "",
            nullable=column.nullable and place not in places,
            sample=tuple(dict.fromkeys(value[:60] for value in column_values if value))[:_SAMPLES],
        )
        for place, (column, column_values) in enumerate(zip(columns, values, strict=True))
    ]
    part = f"all {rows:,} rows" if whole else f"the first {rows:,} rows"
    texts = tuple(map(tuple, values))
    extent = f"{part} of {where}"
    return Sample(tuple(described), rows, whole, typed, extent, texts, tuple(notes), options or {})
