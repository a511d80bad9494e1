"""Results of a connection test, a listing and a sample of an outside system."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from elevata.core.words import counted
from loader.domain.sources.encodings import c1_warning, has_c1_controls, joined_files_warning
from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.repeated_headers import BYTE_ORDER_MARK
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
    ``unread_dates`` the columns of dates in a format that is not read.
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
    unread_dates: tuple[str, ...] = ()


_SAMPLES = 3


def joined_files_notes(values: list[list[Value]]) -> tuple[str, ...]:
    """Return the note about rows that begin with a byte order mark; nothing without such a row."""
    marks = sum((value or "").startswith(BYTE_ORDER_MARK) for value in values[0]) if values else 0
    return (joined_files_warning(counted(marks, "row")),) if marks else ()


def sampled(
    columns: list[SampledColumn],
    values: list[list[Value]],
    *,
    whole: bool,
    typed: bool,
    where: str,
    key: tuple[str, ...] = (),
    key_evidence: str = "the table's primary key",
    notes: Sequence[str] = (),
    options: dict[str, Any] | None = None,
) -> Sample:
    """Return the sample with counts per column and a key: ``key``, or else one that the data suggest."""
    rows = len(values[0]) if values else 0
    controls = 0 if typed else sum(any(map(has_c1_controls, filter(None, row))) for row in zip(*values, strict=True))
    if controls:
        notes = (*notes, c1_warning(counted(controls, "row")))
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
