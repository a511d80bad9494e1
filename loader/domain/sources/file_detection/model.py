"""Sample of a file, and what detection returns: options, columns, and questions that the values leave open."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from metadata.domain.types import DataType


@dataclass(frozen=True)
class FileSample:
    """Bytes of a file: from its beginning, and pieces from its middle and end, which begin anywhere in a line.

    Without pieces, the beginning is the whole file.
    """

    name: str
    beginning: bytes
    pieces: tuple[bytes, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.pieces


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


@dataclass(frozen=True)
class DetectedColumn:
    """Column of a file; ``personal`` is the reason why it may hold personal data, empty if there is none."""

    name: str
    type: DataType
    target_name: str
    evidence: str = ""
    personal: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "type": str(self.type), "target_name": self.target_name}


@dataclass(frozen=True)
class Detected:
    """Way in which a file is read, with the options that differ from the defaults.

    ``pattern`` is the pattern of the names of such files if the name has a date, ``short_name`` the name without it.
    """

    file: str
    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[DetectedColumn, ...] = ()
    questions: tuple[Question, ...] = ()
    pattern: str = ""
    short_name: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "format": self.format,
            "options": dict(self.options),
            "columns": [column.as_json() for column in self.columns],
            "questions": [question.as_json() for question in self.questions],
        }
