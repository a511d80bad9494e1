"""Base of dialects: values of texts, as a load of the product reads them (``loader.engine.conversions``).

An expression is NULL where the text does not fit the type, and it never fails: databases do not promise the order in
which they compute, so a cast that could fail stands inside of a CASE.
"""

from collections.abc import Sequence

from loader.dialects import text_patterns
from loader.dialects.refusals import NotRendered
from loader.dialects.text_patterns import TimePattern
from loader.dialects.types_and_names import TypesAndNames
from metadata.domain import types as data_types
from metadata.domain.sources.value_formats import STANDARD, TimeFormat, ValueFormats
from metadata.domain.text_formats import TEXTS
from metadata.domain.types import DataType

_DIGITS = {data_types.INTEGER: 10, data_types.BIGINT: 19}
_BOUNDS = {data_types.INTEGER: 2**31, data_types.BIGINT: 2**63}


class TextValues(TypesAndNames):
    """Conversions of texts in dialects with regular expressions."""

    def text_value(self, text: str, data_type: DataType, formats: ValueFormats = STANDARD) -> str:
        """Return the value of a text; NULL where it does not fit. Raise NotRendered for a type without a rule."""
        trimmed = self.trimmed(text)
        match data_type.name:
            case data_types.STRING:
                return text if data_type.length is None else self.limited(text, data_type.length)
            case data_types.INTEGER | data_types.BIGINT:
                return self._integer(trimmed, data_type, formats)
            case data_types.DECIMAL:
                number, fits = self._number(trimmed, data_type, formats)
                return when([fits], self.try_cast(number, data_type))
            case data_types.FLOAT:
                number, declared = self._standard_number(trimmed, formats)
                return when(declared, self.double(number)) if declared else self.double(number)
            case data_types.BOOLEAN:
                return self._boolean(trimmed, formats)
            case data_types.DATE:
                day, declared = self._standard_time(trimmed, formats.dates, with_time=False)
                return when([*declared, self.is_date(day)], self.date_of(day))
            case data_types.TIMESTAMP:
                moment, declared = self._standard_time(trimmed, formats.timestamps, with_time=True)
                return self._timestamp(moment, declared)
            case data_types.TIME | data_types.UUID:
                return when([self.matches(trimmed, TEXTS[data_type.name])], trimmed)
            case data_types.BINARY:
                return when([self.matches(trimmed, text_patterns.BINARY)], self.bytes_of(trimmed))
        raise NotRendered(f"texts that are read as {data_type} are not checked by an expression of {self.title}")

    # --- rules that dialects replace ---------------------------------------------------------------

    @property
    def blanks(self) -> str:
        """Return the characters around a value that do not belong to it, as an expression."""
        return "' ' || chr(9) || chr(10) || chr(13)"

    def trimmed(self, text: str) -> str:
        return f"trim({text}, {self.blanks})"

    def matches(self, text: str, pattern: str) -> str:
        """Return the condition that a pattern matches a whole text."""
        raise NotRendered(f"{self.title} has no regular expressions")

    def is_one_of(self, text: str, patterns: Sequence[str]) -> str:
        """Return the condition that a text matches a pattern of single characters and sets of them."""
        return self.matches(text, f"({'|'.join(patterns)})")

    def rewritten(self, text: str, pattern: str, replacement: str) -> str:
        """Return the text with its only part that matches replaced, by groups like those of Python."""
        return f"regexp_replace({text}, {self.text(pattern)}, {self.text(replacement)})"

    def try_cast(self, value: str, data_type: DataType) -> str:
        """Return the value of a text that has the form of the type."""
        return f"TRY_CAST({value} AS {self.cast_type(data_type)})"

    def part(self, text: str, start: int, width: int | None = None) -> str:
        """Return a part of a text, from a character counted from 1."""
        return f"substr({text}, {start}{f', {width}' if width is not None else ''})"

    def length(self, value: str) -> str:
        return f"length({value})"

    def concat(self, *parts: str) -> str:
        """Return the parts joined; NULL if one is NULL."""
        return f"({' || '.join(parts)})"

    def null_if(self, value: str, text: str) -> str:
        """Return the value, NULL if it is exactly the text."""
        return f"NULLIF({value}, {self.text(text)})"

    def limited(self, text: str, length: int) -> str:
        """Return the text if it has no more characters."""
        return when([f"{self.length(text)} <= {length}"], text)

    def is_decimal(self, text: str, precision: int, scale: int) -> str:
        """Return the condition that a text is a number that is neither rounded nor out of range."""
        return self.matches(text, text_patterns.decimal(precision, scale))

    def double(self, text: str) -> str:
        """Return the double that is nearest to a number; NULL for other texts and beyond the largest one."""
        raise NotRendered(f"{self.title} does not document that the text of a float becomes the nearest double")

    def is_date(self, text: str) -> str:
        return self.matches(text, text_patterns.DATE)

    def date_of(self, text: str) -> str:
        """Return the date of a text like ``2024-01-31``."""
        return self.try_cast(text, DataType(data_types.DATE))

    def instant_of(self, text: str) -> str:
        """Return the instant of a text of ``text_patterns.TIMESTAMP``."""
        for pattern, replacement in text_patterns.TIMESTAMP_SPELLING:
            text = self.rewritten(text, pattern, replacement)
        return self.try_cast(text, DataType(data_types.TIMESTAMP))

    def bytes_of(self, text: str) -> str:
        """Return the bytes of hexadecimal digits."""
        return f"unhex({text})"

    def truth_value(self, conditions: tuple[str, str]) -> str:
        """Return TRUE under the first condition and FALSE under the second."""
        true, false = conditions
        return f"CASE WHEN {true} THEN {self.boolean(True)} WHEN {false} THEN {self.boolean(False)} END"

    # --- rules of all dialects ---------------------------------------------------------------------

    def _standard_number(self, text: str, formats: ValueFormats) -> tuple[str, list[str]]:
        """Return the standard text of a number, and the conditions that it is written as declared."""
        numbers = formats.numbers
        if numbers is None:
            return text, []
        declared = self.matches(text, text_patterns.number(numbers))
        for separator in numbers.separators:
            text = f"replace({text}, {self.text(separator)}, '')"
        if numbers.decimal != ".":
            text = f"replace({text}, {self.text(numbers.decimal)}, '.')"
        return text, [declared]

    def _number(self, text: str, data_type: DataType, formats: ValueFormats) -> tuple[str, str]:
        """Return the standard text of a number, and the condition that it is a value of the decimal type."""
        number, declared = self._standard_number(text, formats)
        fits = self.is_decimal(number, data_type.precision or 0, data_type.scale or 0)
        return number, " AND ".join([*declared, fits])

    def _integer(self, text: str, data_type: DataType, formats: ValueFormats) -> str:
        whole, bound = DataType(data_types.DECIMAL, precision=_DIGITS[data_type.name], scale=0), _BOUNDS[data_type.name]
        number, fits = self._number(text, whole, formats)
        value = self.try_cast(number, whole)
        least, most = (self.try_cast(f"'{limit}'", whole) for limit in (-bound, bound - 1))
        in_range = f"{value} BETWEEN {least} AND {most}"
        return when([fits], when([in_range], f"CAST({value} AS {self.cast_type(data_type)})"))

    def _boolean(self, text: str, formats: ValueFormats) -> str:
        true = formats.true_words or text_patterns.TRUE_WORDS
        false = formats.false_words or text_patterns.FALSE_WORDS
        listed = ([text_patterns.word(word) for word in words] for words in (true, false))
        is_true, is_false = (self.is_one_of(text, words) for words in listed)
        return self.truth_value((is_true, is_false))

    def _standard_time(self, text: str, declared: TimeFormat | None, *, with_time: bool) -> tuple[str, list[str]]:
        """Return the standard text of a date or timestamp, and the conditions that it is written as declared."""
        if declared is None:
            return text, []
        pattern = TimePattern(declared)
        values = {token: self.part(text, *place) for token, place in pattern.places.items()}
        parts = [values["%Y"], "'-'", values["%m"], "'-'", values["%d"]]
        if with_time:
            parts += ["' '", values["%H"], "':'", values.get("%M", "'00'"), "':'", values.get("%S", "'00'")]
        if not pattern.with_fraction:
            return self.concat(*parts), [self.is_one_of(text, [pattern.pattern])]
        parts += ["'.'", self.part(text, pattern.width + 1)]
        return self.concat(*parts), [self.matches(text, pattern.pattern + text_patterns.FRACTION)]

    def _timestamp(self, text: str, declared: Sequence[str]) -> str:
        """Return the instant of a text; NULL if it is not within the years 1 to 9999 in UTC."""
        value = self.instant_of(text)
        first, last = (self.timestamp(limit) for limit in ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"))
        fits = [*declared, self.matches(text, text_patterns.TIMESTAMP)]
        return when(fits, when([f"{value} BETWEEN {first} AND {last}"], value))


def when(conditions: Sequence[str], value: str) -> str:
    """Return the value under the conditions, else NULL."""
    return f"CASE WHEN {' AND '.join(conditions)} THEN {value} END"


def either(first: str, value: str, second: str, other: str) -> str:
    """Return a value under the first condition, another one under the second, else NULL."""
    return f"CASE WHEN {first} THEN {value} WHEN {second} THEN {other} END"
