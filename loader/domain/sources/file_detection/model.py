"""Sample of a file, and what detection returns: options, columns, and questions that the values leave open."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from metadata.domain.types import DataType

_LINE_END = re.compile(rb"[\r\n]+")


@dataclass(frozen=True)
class FileSample:
    """Bytes of a file: from its beginning, and pieces from its middle and end, which begin anywhere in a line.

    Without pieces, the beginning is the whole file. ``is_cut``: the last piece is not the end of the file.
    """

    name: str
    beginning: bytes
    pieces: tuple[bytes, ...] = ()
    is_cut: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.pieces

    def whole_lines(self) -> bytes:
        """Return the bytes of all parts, each without a line that begins or ends outside of it."""
        if self.is_whole:
            return self.beginning
        parts = [self.beginning[: _end_of_lines(self.beginning)]]
        for number, piece in enumerate(self.pieces, 1):
            is_end = number == len(self.pieces) and not self.is_cut
            first = _LINE_END.search(piece)
            if first is not None:
                parts.append(piece[first.end() : None if is_end else _end_of_lines(piece)])
        return b"".join(parts)


def _end_of_lines(content: bytes) -> int:
    """Return the length of the whole lines of bytes; of all bytes if there are none."""
    return max(content.rfind(b"\n"), content.rfind(b"\r")) + 1 or len(content)


@dataclass(frozen=True)
class Question:
    """Option that the values leave open: possible values, the likeliest first, and the reason in words.

    ``examples`` have a text of the file as each candidate reads it; empty without one.
    """

    option: str
    candidates: tuple[Any, ...]
    reason: str
    examples: tuple[str, ...] = ()

    def without_values(self) -> "Question":
        """Return the question without texts of the file."""
        return replace(self, reason="the values leave it open", examples=())

    def as_json(self) -> dict[str, Any]:
        return {"option": self.option, "candidates": list(self.candidates), "reason": self.reason}


def first_names(names: Sequence[str]) -> str:
    """Return names as part of a sentence, of more than three the first ones."""
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def notes_of(unread_columns: Sequence[str]) -> tuple[str, ...]:
    """Return the sentence about columns of dates or numbers in a format that is not read; nothing without one."""
    return (
        (f"{first_names(unread_columns)} may have dates or numbers in a format that is not read; they stay texts.",)
        if unread_columns
        else ()
    )


@dataclass(frozen=True)
class DetectedColumn:
    """Column of a file; ``personal`` is the reason why it may hold personal data, empty if there is none."""

    name: str
    type: DataType
    target_name: str
    personal: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "type": str(self.type), "target_name": self.target_name}


@dataclass(frozen=True)
class Detected:
    """Way in which a file is read, with the options that differ from the defaults.

    ``pattern`` is the pattern of the names of such files if the name has a date, ``short_name`` the name without it.
    ``notes`` are warnings about names and values, ``unread_columns`` columns of dates or numbers in a
    format that is not read.
    """

    file: str
    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[DetectedColumn, ...] = ()
    questions: tuple[Question, ...] = ()
    pattern: str = ""
    short_name: str = ""
    unread_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Return the notes, and the one about columns in a format that is not read."""
        return (*self.notes, *notes_of(self.unread_columns))

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "format": self.format,
            "options": dict(self.options),
            "columns": [column.as_json() for column in self.columns],
            "questions": [question.as_json() for question in self.questions],
            "notes": list(self.all_notes),
        }
