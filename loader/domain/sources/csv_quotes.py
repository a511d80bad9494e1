"""Quotes inside of CSV fields that do not begin with one.

Such a quote hides a delimiter that was lost: ``12.00"Table, round"`` is one field less, and has a delimiter too much.
"""

from dataclasses import dataclass

from loader.contract.refusals import Refusal

HINT = (
    'A delimiter before the quote may be missing. If quotes are part of such values, like 5" for inches, set the '
    "option quotes_inside to keep."
)
# Noncharacter that Spark's parser takes for the quote or the escape if a source has none.
NO_QUOTE = "\uffff"
_SAMPLE = 40  # characters before and after the quote


def has_no_quote(quote: str, escape: str) -> bool:
    """Return True if a noncharacter stands for the quote or the escape of a source."""
    return not quote or not escape


def reserved_character(shown: str, line: int) -> Refusal:
    """Return the refusal of a file with the noncharacter that would be taken for a quote or an escape."""
    return Refusal(
        "UNREADABLE_ROW",
        f"{shown}, line {line}: the character U+FFFF, which cannot be read without a quote and an escape",
        file=shown,
        row=line,
        hint="U+FFFF is no character of a text: deliver the file without it, or set the options quote and escape.",
    )


@dataclass(frozen=True)
class StrayQuote:
    """Place of a quote: its line from 1, its field from 1 (0 if that is unknown), and the text around it."""

    line: int
    field: int
    text: str

    def refusal(self, shown: str, names: tuple[str, ...] = ()) -> Refusal:
        """Return the refusal; ``names`` are those of the fields."""
        return Refusal(
            "STRAY_QUOTE",
            f"{self._place(shown, names)}: a quote inside of a field that does not begin with one",
            file=shown,
            row=self.line,
            column=self._column(names),
            samples=(f"line {self.line}: {self.text}",),
            hint=HINT,
        )

    def warning(self, shown: str, names: tuple[str, ...] = ()) -> str:
        """Return the warning for a source that keeps such quotes; its text holds no value."""
        return (
            f"{self._place(shown, names)}: the first quote inside of a field that does not begin with one. It is part "
            "of the value, as quotes_inside: keep says; with refuse, such a delivery is refused."
        )

    def _place(self, shown: str, names: tuple[str, ...]) -> str:
        column = self._column(names)
        field = f", field {self.field}" + (f" ({column})" if column else "") if self.field else ""
        return f"{shown}, line {self.line}{field}"

    def _column(self, names: tuple[str, ...]) -> str:
        return names[self.field - 1] if 0 < self.field <= len(names) else ""


class QuoteScanner:
    """Scanner of a CSV text in pieces, whose quoted fields are opened and closed rightly up to the first stray quote.

    ``escape`` stands before a quote inside of a quoted field; the quote itself if it is doubled, empty if none.
    """

    def __init__(self, *, delimiter: str, quote: str, escape: str, line_end: str = "\n"):
        self._delimiter, self._quote, self._line_end = delimiter, quote, line_end
        self._escape = escape if escape != quote else ""
        self._field_starts = (delimiter, "\n", "\r")
        self._is_inside = False
        self._is_field_start = self._is_record_start = True  # after what was fed
        self._lines = 1
        self._rest = ""  # end of the last piece, which the next one may escape

    def feed(self, piece: str) -> StrayQuote | None:
        """Return the first stray quote of the text up to here; None if there is none yet."""
        text, self._rest = self._rest + piece, ""
        if self._escape and text.endswith(self._escape):
            kept = len(text.rstrip(self._escape))
            text, self._rest = text[:kept], text[kept:]
        if not text:
            return None
        parts = text.split(self._quote)
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            if self._is_inside:
                if not is_last and not self._is_escaped(part):
                    self._is_inside, self._is_field_start = False, True  # A quote that follows is a doubled one.
                continue
            if part:
                self._is_field_start = part[-1] in self._field_starts
            if is_last:
                break
            if not self._is_field_start:
                return self._stray_quote(text, parts, number)
            self._is_inside = True
        self._lines += text.count(self._line_end)
        self._is_record_start = not self._is_inside and text[-1] in "\r\n"
        return None

    def _is_escaped(self, part: str) -> bool:
        if not self._escape:
            return False
        return (len(part) - len(part.rstrip(self._escape))) % 2 == 1

    def _stray_quote(self, text: str, parts: list[str], number: int) -> StrayQuote:
        at = sum(map(len, parts[: number + 1])) + number
        line = self._lines + text.count(self._line_end, 0, at)
        start = text.rfind(self._line_end, 0, at) + 1
        around = text[max(start, at - _SAMPLE) : at + _SAMPLE]
        shown = around.split("\n")[0].split("\r")[0]
        return StrayQuote(line, self._field_of(parts, number), shown)

    def _field_of(self, parts: list[str], number: int) -> int:
        """Return the number of the field with the quote after a part; 0 if its record began before this text.

        Parts before it alternate between the outside and the inside of quoted fields.
        """
        delimiters = 0
        for place in range(number, -1, -2):
            end = max(parts[place].rfind("\n"), parts[place].rfind("\r"))
            delimiters += parts[place].count(self._delimiter, end + 1)
            if end >= 0 or (place == 0 and self._is_record_start):
                return delimiters + 1
        return 0
