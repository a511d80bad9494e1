"""Formats of values in text: dates, times, numbers and truth values that are not written in the standard way.

A source declares them as options (``reading_options``). A text in a declared format is rewritten to the standard text
(``2024-12-31``, ``1234.5``, ``true``) before it is converted by the strict rules of all sources. A text in any other
format does not fit, not even in the standard one: ``1.234`` must not become 1.234 where the point separates
thousands.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cached_property, lru_cache
from typing import Any

from metadata.domain import types as data_types

# Names of months in English, German and French, in lower case; no name is of two months.
_MONTHS = (
    "january januar jänner jaenner janvier",
    "february februar feber février fevrier",
    "march märz maerz mars",
    "april avril",
    "may mai",
    "june juni juin",
    "july juli juillet",
    "august août aout",
    "september septembre",
    "october oktober octobre",
    "november novembre",
    "december dezember décembre decembre",
)
# Short names, among them months that are not shortened beside others that are: Juni, mars, août.
_SHORT_MONTHS = (
    "jan jän jänn janv",
    "feb fév févr fev fevr",
    "mar mär mrz märz mars",
    "apr avr",
    "may mai",
    "jun juni juin",
    "jul juli juil",
    "aug août aout",
    "sep sept",
    "oct okt",
    "nov",
    "dec dez déc",
)
MONTH_NUMBERS = {
    name: number
    for months in (_MONTHS, _SHORT_MONTHS)
    for number, names in enumerate(months, 1)
    for name in names.split()
}


def _names_pattern(months: Sequence[str]) -> str:
    """Return the regular expression of names in any case, also where only ASCII is compared without case."""
    names = sorted({name for names in months for name in names.split()}, key=lambda name: (-len(name), name))
    letters = ("".join(sign if sign.isascii() else f"[{sign}{sign.upper()}]" for sign in name) for name in names)
    return f"(?i:{'|'.join(letters)})"


# Directives: regular expression of the text, and Spark's pattern letters. Digits below microseconds are zeros.
_DIRECTIVES = {
    "%Y": (r"(?!0000)\d{4}", "yyyy"),
    "%m": (r"\d{2}", "MM"),
    "%-m": (r"\d{1,2}", "M"),
    "%d": (r"\d{2}", "dd"),
    "%-d": (r"\d{1,2}", "d"),
    "%y": (r"\d{2}", ""),
    "%b": (_names_pattern(_SHORT_MONTHS) + r"\.?", ""),
    "%B": (_names_pattern(_MONTHS), ""),
    "%H": (r"\d{2}", "HH"),
    "%-H": (r"\d{1,2}", "H"),
    "%I": (r"\d{2}", "hh"),
    "%-I": (r"\d{1,2}", "h"),
    "%p": ("(?i:AM|PM)", "a"),
    "%M": (r"\d{2}", "mm"),
    "%S": (r"\d{2}", "ss"),
    "%f": (r"\d{1,6}0{0,3}", "SSSSSSSSS"),
    "%z": (r"Z|[+-](?:0\d|1[0-4])(?::?[0-5]\d)?", ""),
}
# Directives whose texts are computed before Spark reads them.
_COMPUTED = ("%y", "%b", "%B", "%z")
_DATE_PARTS = ("year", "month", "day")
_PARTS = {
    "%Y": "year", "%y": "year", "%m": "month", "%-m": "month", "%b": "month", "%B": "month", "%d": "day",
    "%-d": "day", "%H": "hour", "%-H": "hour", "%I": "half", "%-I": "half", "%p": "p", "%M": "minute", "%S": "second",
    "%f": "fraction", "%z": "zone",
}  # fmt: skip
_CENTURY_START = 1970  # of POSIX, for sources that declare none
_TOKEN = re.compile(r"%-?.|[^%]", re.DOTALL)
DECIMAL_SEPARATORS = ".,"
# Blank, no-break space and narrow no-break space, of which each stands for all.
BLANKS = " \u00a0\u202f"
THOUSANDS_SEPARATORS = ".,' _\u00a0\u202f’"
# Ways in which negative numbers are written beside a minus before them, with the regular expression around a number.
TRAILING, BRACKETS, SPACED = "trailing", "brackets", "spaced"
_NEGATIVE = {TRAILING: "{}-", BRACKETS: r"\({}\)", SPACED: f"-[{BLANKS}]{{}}"}
# Negative numbers of all ways, and their replacement, for Python and Java alike.
NEGATIVE_TEXT = rf"^(?:\(?([^()]*[^()-])(?:-|\))|-[{BLANKS}]([^()]*))$"
NEGATIVE_SIGN_FIRST = "-$1$2"


@dataclass(frozen=True)
class TimeFormat:
    """Format of dates or timestamps with the directives of strftime, like ``%d.%m.%Y``.

    Years of two digits (``%y``) are of the hundred years from ``first_year`` on; None if a source declares no century.
    """

    text: str
    first_year: int | None = None

    @property
    def century_start(self) -> int:
        """Return the first of the hundred years that years of two digits belong to."""
        return _CENTURY_START if self.first_year is None else self.first_year

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
        """Return the replacement of a text that matches the pattern by the parts that Spark reads, blanks between."""
        return " ".join(f"${place}" for place, token in enumerate(self.directives, 1) if token not in _COMPUTED)

    @property
    def spark(self) -> str:
        """Return Spark's pattern of ``parts``."""
        return " ".join(_DIRECTIVES[token][1] for token in self.directives if token not in _COMPUTED)

    def group(self, *directives: str) -> int:
        """Return the number of the group of one of these directives in the pattern; 0 without them."""
        return next((place for place, token in enumerate(self.directives, 1) if token in directives), 0)

    def problem(self, *, with_time: bool) -> str | None:
        """Return the reason why this is no format of a date, or of a timestamp; None for a valid format."""
        for token in self.directives:
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
            moment = self._moment(values)
        except (ValueError, OverflowError):
            return None
        if not {"hour", "half"} & values.keys():
            return moment.date().isoformat()
        text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if self.has_zone else text

    def _moment(self, values: Mapping[str, str]) -> datetime:
        month, year = values["month"], int(values["year"])
        if "%y" in self.directives:
            year = self.century_start + (year - self.century_start) % 100
        hour = int(values.get("hour", "0"))
        if "half" in values:
            half = int(values["half"])
            if not 1 <= half <= 12:
                raise ValueError(half)
            hour = half % 12 + (12 if values["p"].upper() == "PM" else 0)
        moment = datetime(
            year,
            int(month) if month.isdigit() else MONTH_NUMBERS[month.rstrip(".").lower()],
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


def _expression(token: str) -> str:
    if token in _DIRECTIVES:
        return f"({_DIRECTIVES[token][0]})"
    return f"[{BLANKS}]" if token in BLANKS else re.escape(token)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


@dataclass(frozen=True)
class NumberFormat:
    """Separators of numbers: ``1.234,5`` has the decimal separator ``,`` and the thousands separator ``.``.

    ``negative`` is the way in which negative numbers are written beside ``-12.5``: ``12.5-`` (TRAILING), ``(12.5)``
    (BRACKETS) or ``- 12.5`` (SPACED).
    """

    decimal: str = "."
    thousands: str = ""
    negative: str = ""

    @property
    def separators(self) -> str:
        """Return the characters that may stand between groups of digits."""
        return BLANKS if self.thousands and self.thousands in BLANKS else self.thousands

    @cached_property
    def pattern(self) -> str:
        """Return the regular expression of a whole text, for Python and Java alike."""
        grouped = rf"|\d{{1,3}}(?:[{re.escape(self.separators)}]\d{{3}})+" if self.thousands else ""
        number = rf"(?:\d+{grouped})?(?:{re.escape(self.decimal)}\d+)?(?:[eE][+-]?\d+)?"
        signed = rf"[+-]?(?:{number}|[nN]a[nN]|[iI]nf(?:inity)?)"
        if self.negative:
            signed = rf"(?:{signed}|{_NEGATIVE[self.negative].format(number)})"
        return f"^{signed}$"

    def read(self, text: str) -> str | None:
        """Return the standard text of a number in this format, None for another text."""
        if _compiled(self.pattern).fullmatch(text) is None:
            return None
        if self.negative:
            text = _compiled(NEGATIVE_TEXT).sub(NEGATIVE_SIGN_FIRST.replace("$", "\\"), text)
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
        negative = options.get("negative_numbers")
        first_year = options.get("first_year")
        return cls(
            dates=TimeFormat(dates, first_year) if dates else None,
            timestamps=TimeFormat(timestamps, first_year) if timestamps else None,
            numbers=NumberFormat(decimal or ".", thousands or "", negative or "")
            if decimal or thousands or negative
            else None,
            true_words=words_of(options.get("true_words")),
            false_words=words_of(options.get("false_words")),
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the options that contradict each other, with the reason."""
        if self.numbers and self.numbers.decimal == self.numbers.thousands:
            yield "thousands_separator", "is the decimal separator, too"
        formats = [shape for shape in (self.dates, self.timestamps) if shape is not None]
        if any("%y" in shape.directives and shape.first_year is None for shape in formats):
            yield "first_year", "is needed with %y: years of two digits have no century"
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
