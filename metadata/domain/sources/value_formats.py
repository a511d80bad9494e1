"""Formats of values in text: dates, times, numbers and truth values that are not written in the standard way.

A source declares them as options (``reading_options``). A text in a declared format is rewritten to the standard text
(``2024-12-31``, ``1234.5``, ``true``) before it is converted by the strict rules of all sources. A text in any other
format does not fit, not even in the standard one: ``1.234`` must not become 1.234 where the point separates
thousands.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cached_property, lru_cache
from typing import Any

from metadata.domain import types as data_types

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_SHORT_MONTHS = tuple(month[:3] for month in _MONTHS)
# Directives: regular expression of the text, and Spark's pattern letters. Digits below microseconds are zeros.
_DIRECTIVES = {
    "%Y": (r"(?!0000)\d{4}", "yyyy"),
    "%m": (r"\d{2}", "MM"),
    "%-m": (r"\d{1,2}", "M"),
    "%d": (r"\d{2}", "dd"),
    "%-d": (r"\d{1,2}", "d"),
    "%b": ("(?i:" + "|".join(_SHORT_MONTHS) + ")", "MMM"),
    "%B": ("(?i:" + "|".join(_MONTHS) + ")", "MMMM"),
    "%H": (r"\d{2}", "HH"),
    "%-H": (r"\d{1,2}", "H"),
    "%I": (r"\d{2}", "hh"),
    "%-I": (r"\d{1,2}", "h"),
    "%p": ("(?i:AM|PM)", "a"),
    "%M": (r"\d{2}", "mm"),
    "%S": (r"\d{2}", "ss"),
    "%f": (r"\d{1,6}0{0,3}", "SSSSSSSSS"),
    "%z": (r"Z|[+-](?:0\d|1[0-4])(?::?[0-5]\d)?", "xxx"),
}
_DATE_PARTS = ("year", "month", "day")
_PARTS = {
    "%Y": "year", "%m": "month", "%-m": "month", "%b": "month", "%B": "month", "%d": "day", "%-d": "day", "%H": "hour",
    "%-H": "hour", "%I": "half", "%-I": "half", "%p": "p", "%M": "minute", "%S": "second", "%f": "fraction",
    "%z": "zone",
}  # fmt: skip
_TOKEN = re.compile(r"%-?.|[^%]", re.DOTALL)
DECIMAL_SEPARATORS = ".,"
# Blank, no-break space and narrow no-break space, of which each stands for all.
BLANKS = " \u00a0\u202f"
THOUSANDS_SEPARATORS = ".,' _\u00a0\u202f’"


@dataclass(frozen=True)
class TimeFormat:
    """Format of dates or timestamps with the directives of strftime, like ``%d.%m.%Y``."""

    text: str

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Return the directives and the characters between them."""
        return tuple(_TOKEN.findall(self.text))

    @cached_property
    def directives(self) -> tuple[str, ...]:
        return tuple(token for token in self.tokens if token.startswith("%"))

    @property
    def has_zone(self) -> bool:
        return "%z" in self.directives

    @cached_property
    def pattern(self) -> str:
        """Return the regular expression of a whole text, for Python and Java alike."""
        return "^" + "".join(map(_expression, self.tokens)) + "$"

    @property
    def parts(self) -> str:
        """Return the replacement of a text that matches the pattern by its parts without the zone, blanks between."""
        return " ".join(f"${place}" for place, token in enumerate(self.directives, 1) if token != "%z")

    @property
    def spark(self) -> str:
        """Return Spark's pattern of ``parts``."""
        return " ".join(_DIRECTIVES[token][1] for token in self.directives if token != "%z")

    @property
    def zone_group(self) -> int:
        """Return the number of the zone's group in the pattern; 0 without a zone."""
        return self.directives.index("%z") + 1 if self.has_zone else 0

    def problem(self, *, with_time: bool) -> str | None:
        """Return the reason why this is no format of a date, or of a timestamp; None for a valid format."""
        for token in self.directives:
            if token == "%y":
                return "holds %y, and two digits do not tell the century; rewrite such dates before they are loaded"
            if token not in _DIRECTIVES:
                return f"holds {token}; known are {', '.join(_DIRECTIVES)}"
        parts = [_PARTS[token] for token in self.directives]
        twice = next((part for part in parts if parts.count(part) > 1), None)
        if twice is not None:
            return f"holds the {twice} twice"
        missing = [part for part in _DATE_PARTS if part not in parts]
        if missing:
            return f"lacks the {missing[0]}, as in %d.%m.%Y"
        has_clock = "hour" in parts or "half" in parts
        if not with_time and len(parts) > len(_DATE_PARTS):
            return "holds a time of day, which dates do not have"
        if with_time and not has_clock:
            return "lacks the hour, as in %d.%m.%Y %H:%M"
        if ("half" in parts) != ("p" in parts):
            return "needs %I and %p together, or %H"
        if "second" in parts and "minute" not in parts or "fraction" in parts and "second" not in parts:
            return "skips a part of the time between others"
        return None

    def read(self, text: str) -> str | None:
        """Return the standard text of a date or timestamp in this format, None for another text."""
        match = _compiled(self.pattern).fullmatch(text)
        if match is None:
            return None
        values = dict(zip((_PARTS[token] for token in self.directives), match.groups(), strict=True))
        try:
            moment = _moment(values)
        except (ValueError, OverflowError):
            return None
        if not {"hour", "half"} & values.keys():
            return moment.date().isoformat()
        text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if self.has_zone else text


def _expression(token: str) -> str:
    if token in _DIRECTIVES:
        return f"({_DIRECTIVES[token][0]})"
    return f"[{BLANKS}]" if token in BLANKS else re.escape(token)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _moment(values: Mapping[str, str]) -> datetime:
    month = values["month"]
    hour = int(values.get("hour", "0"))
    if "half" in values:
        half = int(values["half"])
        if not 1 <= half <= 12:
            raise ValueError(half)
        hour = half % 12 + (12 if values["p"].upper() == "PM" else 0)
    moment = datetime(
        int(values["year"]),
        int(month) if month.isdigit() else _SHORT_MONTHS.index(month[:3].title()) + 1,
        int(values["day"]),
        hour,
        int(values.get("minute", "0")),
        int(values.get("second", "0")),
        int(values.get("fraction", "0").ljust(6, "0")[:6]),
    )
    if "zone" not in values:
        return moment
    sign, digits = values["zone"][0], values["zone"][1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    zone = timezone(-offset if sign == "-" else offset)
    return moment.replace(tzinfo=zone).astimezone(UTC)


@dataclass(frozen=True)
class NumberFormat:
    """Separators of numbers: ``1.234,5`` has the decimal separator ``,`` and the thousands separator ``.``."""

    decimal: str = "."
    thousands: str = ""

    @property
    def separators(self) -> str:
        """Return the characters that may stand between groups of digits."""
        return BLANKS if self.thousands and self.thousands in BLANKS else self.thousands

    @cached_property
    def pattern(self) -> str:
        """Return the regular expression of a whole text, for Python and Java alike."""
        grouped = rf"|\d{{1,3}}(?:[{re.escape(self.separators)}]\d{{3}})+" if self.thousands else ""
        number = rf"(?:\d+{grouped})?(?:{re.escape(self.decimal)}\d+)?(?:[eE][+-]?\d+)?"
        return rf"^[+-]?(?:{number}|[nN]a[nN]|[iI]nf(?:inity)?)$"

    def read(self, text: str) -> str | None:
        """Return the standard text of a number in this format, None for another text."""
        if _compiled(self.pattern).fullmatch(text) is None:
            return None
        return text.translate(dict.fromkeys(map(ord, self.separators))).replace(self.decimal, ".")


@dataclass(frozen=True)
class ValueFormats:
    """Formats of the values of one source; None where values are written in the standard way.

    Words of truth values are compared without case.
    """

    dates: TimeFormat | None = None
    timestamps: TimeFormat | None = None
    numbers: NumberFormat | None = None
    true_words: tuple[str, ...] = ()
    false_words: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "ValueFormats":
        """Return the formats among a source's reading options, which were checked before."""
        dates, timestamps = options.get("date_format"), options.get("timestamp_format")
        decimal, thousands = options.get("decimal_separator"), options.get("thousands_separator")
        return cls(
            dates=TimeFormat(dates) if dates else None,
            timestamps=TimeFormat(timestamps) if timestamps else None,
            numbers=NumberFormat(decimal or ".", thousands or "") if decimal or thousands else None,
            true_words=words_of(options.get("true_words")),
            false_words=words_of(options.get("false_words")),
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the options that contradict each other, with the reason."""
        if self.numbers and self.numbers.decimal == self.numbers.thousands:
            yield "thousands_separator", "is the decimal separator, too"
        both = [word for word in self.true_words if word in self.false_words]
        if both:
            yield "false_words", f"has {both[0]!r}, which is a word for true, too"
        if bool(self.true_words) != bool(self.false_words):
            missing, other = ("false_words", "true_words") if self.true_words else ("true_words", "false_words")
            yield missing, f"is needed with {other}"

    def reader(self, type_name: str) -> Callable[[str], str | None] | None:
        """Return the function from a text to its standard text for values of a type, None if all texts stay."""
        match type_name:
            case data_types.DATE if self.dates:
                return self.dates.read
            case data_types.TIMESTAMP if self.timestamps:
                return self.timestamps.read
            case data_types.INTEGER | data_types.BIGINT | data_types.DECIMAL | data_types.FLOAT if self.numbers:
                return self.numbers.read
            case data_types.BOOLEAN if self.true_words:
                return self._truth
        return None

    def _truth(self, text: str) -> str | None:
        word = text.lower()
        return "true" if word in self.true_words else "false" if word in self.false_words else None


STANDARD = ValueFormats()


def words_of(text: Any) -> tuple[str, ...]:
    """Return the words of a text like ``ja, wahr`` in lower case; empty for another value or an empty word."""
    words = tuple(word.strip().lower() for word in text.split(",")) if isinstance(text, str) else ()
    return words if all(words) and len(set(words)) == len(words) else ()
