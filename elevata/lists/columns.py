"""Columns of a list: on its page, and in its CSV file."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Column:
    """Column of a list's table. The tag ``cell`` renders its cells, by the label.

    ``csv`` are its columns in the file: heading, and attribute path or function of the value. ``shown``: it is shown
    unless the user chose other columns. ``sort`` is the order of the list's filter that the heading sorts by; with
    ``descends``, the first click sorts the highest value first. ``kind`` is the CSS class of the heading.
    """

    label: str
    csv: Mapping[str, str | Callable[[Any], Any]] = field(default_factory=dict)
    shown: bool = True
    sort: str = ""
    descends: bool = False
    kind: str = ""


def yes_no(value: bool) -> str:
    """Return a boolean as a word, for a file."""
    return "yes" if value else "no"


def shown_labels(columns: Sequence[Column], chosen: Collection[str] | None) -> list[str]:
    """Return the labels of the shown columns; the first is always shown, because it has the row's link."""
    labels = {column.label for column in columns if column.shown} if chosen is None else chosen
    return [column.label for number, column in enumerate(columns) if number == 0 or column.label in labels]


def csv_columns(columns: Sequence[Column], chosen: Collection[str] | None) -> dict[str, str | Callable[[Any], Any]]:
    """Return the columns of the file: those of the chosen columns; without a choice, of all."""
    wanted = {column.label for column in columns} if chosen is None else shown_labels(columns, chosen)
    return {name: source for column in columns if column.label in wanted for name, source in column.csv.items()}
