"""Intake of a source dataset: the rows of a delivery that a load reads.

Without a watermark each load reads the whole table. With one it reads the rows that are new or changed since the last
load, as the watermark columns show. The rules for the mark are in ``loader.domain.sources.marks``.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from elevata.core.errors import MetadataError
from metadata.domain.history.history_policy import APPEND, CDC, DELTA, EFFECTIVE, KEY_LIST, WINDOW, HistoryPolicy
from metadata.domain.sources.formats import FILE_FORMATS, KAFKA, REST, WATERMARK_FORMATS, reads_changes
from metadata.domain.types import BIGINT, DATE, DECIMAL, INTEGER, TIMESTAMP, DataType

NUMBERS = (INTEGER, BIGINT, DECIMAL)
WATERMARK_TYPES = (*NUMBERS, DATE, TIMESTAMP)
# Formats whose key list is at a place of its own; other sources are asked for their keys.
KEY_LIST_FORMATS = (*FILE_FORMATS, REST)
INPUTS = (DELTA, EFFECTIVE, CDC)
# Length of a unit in seconds.
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_TIME = re.compile(r"([1-9]\d{0,6}) (second|minute|hour|day)s?")
_NUMBER = re.compile(r"[1-9]\d{0,17}")


class IntakeProblem(MetadataError):
    """Error for an intake that is invalid, or that does not fit a dataset's columns or history policy."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__("bad_intake", message, f"intake.{field}" if field else "intake")


@dataclass(frozen=True)
class Intake:
    """Choices for the rows that a load reads from a source.

    Attributes:
        watermark: columns whose values grow with each change of a row; empty reads everything.
        look_back: how far before the mark a load reads again: a number, or a time like ``2 days``; None for nothing.
        key_list: place of the keys of all rows, for delete detection; empty if the source itself is asked.
        tolerance: how far a mark may be ahead: of the run's time, or of the mark before; None for the usual limits.
    """

    watermark: tuple[str, ...] = ()
    look_back: int | str | None = None
    key_list: str = ""
    tolerance: int | str | None = None

    def __post_init__(self) -> None:
        for name in ("look_back", "tolerance"):
            if getattr(self, name) is not None and not self.watermark:
                raise IntakeProblem(name, "needs a watermark")

    @classmethod
    def from_dict(cls, described: Any) -> "Intake":
        """Return the intake with these fields. Raise IntakeProblem for an unknown field or an invalid value."""
        if not isinstance(described, Mapping):
            raise IntakeProblem("", f"must be fields with values, not {described!r}")
        known = [field.name for field in fields(cls)]
        for name in described:
            if name not in known:
                raise IntakeProblem(str(name), f"is not known; known are {', '.join(known)}")
        return cls(**{name: _READERS[name](value) for name, value in described.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    @property
    def time_back(self) -> timedelta | None:
        """Return the look-back of times, None if it is a number or missing."""
        return self.time_of(self.look_back)

    @staticmethod
    def time_of(span: int | str | None) -> timedelta | None:
        """Return the length of a time like ``2 days``, None for a number or none."""
        match = _TIME.fullmatch(span) if isinstance(span, str) else None
        return timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match else None

    def renamed(self, names: Mapping[str, str]) -> "Intake":
        """Return the intake after columns were renamed (old name to new)."""
        return replace(self, watermark=tuple(names.get(name, name) for name in self.watermark))

    def check_against(
        self, format_name: str, columns: Mapping[str, DataType], options: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Raise IntakeProblem unless a source of this format with these columns (name to type) can be read so.

        ``options`` are the source's reading options.
        """
        if not self.watermark:
            return
        if reads_changes(format_name, options):
            raise IntakeProblem("watermark", "does not go with the option changes, whose mark is the table's version")
        if format_name not in WATERMARK_FORMATS:
            message = (
                f"goes with the formats {', '.join(WATERMARK_FORMATS)} only: values of {format_name} can be compared "
                "only after a whole delivery is read, and each file of a feed is read once anyway"
            )
            raise IntakeProblem("watermark", message)
        if format_name == REST and "incremental_parameter" not in options:
            raise IntakeProblem("watermark", "needs the option incremental_parameter, which receives the mark")
        if format_name == REST and len(self.watermark) > 1:
            raise IntakeProblem("watermark", "is one column for an endpoint, whose parameter receives one mark")
        for name in self.watermark:
            if name not in columns:
                raise IntakeProblem("watermark", f"there is no column {name!r}")
            type_ = columns[name]
            if type_.name not in WATERMARK_TYPES:
                raise IntakeProblem("watermark", f"column {name!r} is {type_}; {', '.join(WATERMARK_TYPES)} have marks")
            for field, span in (("look_back", self.look_back), ("tolerance", self.tolerance)):
                self._check_span(field, span, name, type_)

    def _check_span(self, field: str, span: int | str | None, name: str, type_: DataType) -> None:
        if span is None:
            return
        is_number = type_.name in NUMBERS
        if is_number != isinstance(span, int):
            wanted = "a number" if is_number else "a time like 2 days"
            raise IntakeProblem(field, f"must be {wanted}, because column {name!r} is {type_}")
        time = self.time_of(span)
        if type_.name == DATE and time is not None and time.seconds:
            raise IntakeProblem(field, f"must be whole days, because column {name!r} is {type_}")

    def check_reader(self, policy: HistoryPolicy) -> None:
        """Raise IntakeProblem if a reader's policy does not go with reading changed rows only."""
        if self.watermark:
            check_takes_changes(policy)

    def check_detection(self, policy: HistoryPolicy, format_name: str) -> None:
        """Raise IntakeProblem if a source of this format cannot show the deletes that a reader's policy looks for."""
        if self.key_list and format_name not in KEY_LIST_FORMATS:
            raise IntakeProblem("key_list", f"goes with files and endpoints, not with {format_name}")
        if policy.delete_detection == WINDOW and len(self.watermark) != 1:
            message = f"must be one column for delete_detection {WINDOW}, which closes keys by their values in it"
            raise IntakeProblem("watermark", message)
        if policy.delete_detection != KEY_LIST:
            return
        if format_name == KAFKA:
            raise IntakeProblem("key_list", f"does not go with {format_name}: a topic has no list of its keys")
        if format_name in KEY_LIST_FORMATS and not self.key_list:
            message = f"is needed for delete_detection {KEY_LIST}: the place of the keys of all rows"
            raise IntakeProblem("key_list", message)


# Parts of names of columns that grow with each change of a row, the likeliest first.
_CHANGE_WORDS = ("updated", "modified", "changed", "geaendert", "geändert", "aktualisiert", "version", "sequence")


def proposed_watermarks(
    format_name: str, columns: Mapping[str, DataType], keys: Collection[str], options: Mapping[str, Any]
) -> list[str]:
    """Return the columns by which a source can be read in part, the likeliest first; empty if it is read whole.

    Times come before dates and numbers, and names that speak of changes first. A key does not grow with a change, but
    finds new rows.
    """
    order = (TIMESTAMP, DATE, *NUMBERS)

    def is_possible(name: str) -> bool:
        try:
            Intake((name,)).check_against(format_name, columns, options)
        except IntakeProblem:
            return False
        return True

    def rank(name: str) -> tuple[bool, int, int]:
        words = (index for index, word in enumerate(_CHANGE_WORDS) if word in name.lower())
        return name in keys, next(words, len(_CHANGE_WORDS)), order.index(columns[name].name)

    return sorted(filter(is_possible, columns), key=rank)


def possible_detections(format_name: str) -> tuple[str, ...]:
    """Return the ways in which a load with a watermark finds deleted rows without further settings."""
    has_keys = format_name not in (*KEY_LIST_FORMATS, KAFKA)
    return (KEY_LIST, WINDOW) if has_keys else (WINDOW,)


def check_takes_changes(policy: HistoryPolicy) -> None:
    """Raise IntakeProblem for a policy that needs all rows, or would add rows that are read again."""
    if policy.input not in INPUTS:
        effect = "add rows that are read again" if policy.input == APPEND else "take all others for deleted"
        raise IntakeProblem(
            "watermark",
            f"needs history input {', '.join(INPUTS)}: a load reads changed rows only, and {policy.input} would "
            f"{effect}",
        )
    if policy.absent_keys == "deleted":
        raise IntakeProblem(
            "watermark", "does not go with absent_keys deleted: a load reads changed rows only, others are absent"
        )


def _columns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) and item for item in value):
        raise IntakeProblem("watermark", f"must be a list of column names, not {value!r}")
    if len(set(value)) != len(value):
        raise IntakeProblem("watermark", "names a column twice")
    return tuple(value)


def _span(field: str, value: Any) -> int | str:
    """Return a number as such, and a time with one blank and in lower case."""
    text = " ".join(str(value).lower().split())
    if not isinstance(value, bool) and _NUMBER.fullmatch(text):
        return int(text)
    if isinstance(value, str) and _TIME.fullmatch(text):
        return text
    raise IntakeProblem(field, f"must be a number from 1, or a time like 2 days or 3 hours, not {value!r}")


def _place(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise IntakeProblem("key_list", f"must be the place of the keys, not {value!r}")
    return value.strip()


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "watermark": _columns,
    "look_back": partial(_span, "look_back"),
    "key_list": _place,
    "tolerance": partial(_span, "tolerance"),
}
