"""Records of CSV texts: the lines around them, the names of their fields, and the values in them.

Pages read their samples by it, and tasks read files whose header or records Spark's reader does not find
(``ReadingOptions.has_other_lines``).
"""

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from loader.domain.sources.csv_lines import is_blank, reader_arguments
from loader.domain.sources.csv_quotes import NO_QUOTE, QuoteScanner, StrayQuote, has_no_quote, reserved_character
from loader.domain.sources.headers import joined_names
from loader.domain.sources.repeated_headers import header_texts
from loader.readers.records.headers import header_names
from loader.readers.records.values import Value
from metadata.domain.sources.option_kinds import NUMBERED, REFUSE
from metadata.domain.sources.reading_options import ReadingOptions


def dialect_of(options: ReadingOptions) -> dict[str, Any]:
    """Return the arguments of ``csv.reader``."""
    return reader_arguments(options.delimiter, options.quote, options.escape) | {"strict": True}


def table_lines(lines: Iterable[str], skip: int, footer: int) -> Iterator[str]:
    """Yield the lines without the first ``skip`` and the last ``footer``; blank lines at the end do not count."""
    buffered: deque[str] = deque()  # the lines that may be the last ones
    for line in islice(lines, skip, None):
        if not footer:
            yield line
            continue
        buffered.append(line)
        while len(buffered) > footer and not is_blank(line):
            yield buffered.popleft()


def is_ended_by_delimiter(fields: Sequence[str], width: int) -> bool:
    """Return True for the first record of a table of this width that has a further delimiter at its end."""
    return len(fields) == width + 1 and width > 0 and fields[-1].strip("\r") == "" and any(fields)


@dataclass(frozen=True)
class CsvRecord:
    """Values of one record, and the number of its first line in the file, from 1.

    ``malformed`` is its text if it has another number of fields than the header; then ``fields`` are as they are.
    """

    line: int
    fields: tuple[Value, ...]
    malformed: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return True for a record without any value, which is no row."""
        return self.malformed is None and not any(field is not None for field in self.fields)


class CsvTable:
    """Names and records of one CSV text, given by its lines.

    Raise Refusal for its header or a stray quote, and csv.Error for its quotes; ``line`` is the last one read.
    """

    def __init__(self, lines: Iterable[str], shown: str, options: ReadingOptions, contract: Sequence[str] = ()):
        self._shown, self._options = shown, options
        self.stray_quote: StrayQuote | None = None  # the first one so far, if the source keeps them
        self._lines = _NumberedLines(self._checked(lines), options.skip_lines)
        self._reader = csv.reader(self._lines, **dialect_of(options))
        self._is_ended: bool | None = None
        self._first: tuple[int, list[str], str] | None = None
        self.header: tuple[str, ...] = ()  # texts of the header's last record
        self.names = self._header() if options.header else self._numbered_columns(contract)

    @property
    def line(self) -> int:
        return self._lines.number

    @property
    def record_line(self) -> int:
        """Return the line on which the last record begins."""
        return self._lines.first

    def __iter__(self) -> Iterator[CsvRecord]:
        width = len(self.names)
        record = self._first or self._next()
        while record is not None:
            yield self._record(*record, width)
            record = self._next()

    def _checked(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines of the table.

        Raise Refusal STRAY_QUOTE for a quote inside of a field without one, UNREADABLE_ROW as a load by Spark would.
        """
        options = self._options
        table = table_lines(lines, options.skip_lines, options.footer_lines)
        if has_no_quote(options.quote, options.escape):
            table = self._without_reserved(table)
        if not options.quote:
            yield from table
            return
        scanner = QuoteScanner(delimiter=options.delimiter, quote=options.quote, escape=options.escape)
        for number, line in enumerate(table, start=options.skip_lines + 1):
            if self.stray_quote is None and (quote := scanner.feed(line)) is not None:
                self.stray_quote = replace(quote, line=number)
                if options.quotes_inside == REFUSE:
                    raise self.stray_quote.refusal(self._shown)
            yield line

    def _without_reserved(self, lines: Iterable[str]) -> Iterator[str]:
        for number, line in enumerate(lines, start=self._options.skip_lines + 1):
            if NO_QUOTE in line:
                raise reserved_character(self._shown, number)
            yield line

    def _next(self) -> tuple[int, list[str], str] | None:
        """Return line, fields and text of the next record that is not blank."""
        self._lines.begin()
        for fields in self._reader:
            if fields:
                return self._lines.first, fields, self._lines.text
            self._lines.begin()
        return None

    def _header(self) -> tuple[str, ...]:
        records = [record for _ in range(self._options.header_lines) if (record := self._next()) is not None]
        lines = [fields for _, fields, _ in records]
        names = joined_names(lines) if len(lines) > 1 else next(iter(lines), [])
        row = records[0][0] if records else 1
        last = [*lines[-1], *[""] * (len(names) - len(lines[-1]))] if lines else []
        self.header = header_texts(last, self._options.null_string)
        return header_names(self._shown, names, row, numbered=self._options.repeated_names == NUMBERED)

    def _numbered_columns(self, contract: Sequence[str]) -> tuple[str, ...]:
        self._first = self._next()
        fields = self._first[1] if self._first is not None else []
        return tuple(contract) or tuple(f"column_{place}" for place, _ in enumerate(fields, start=1))

    def _record(self, line: int, fields: list[str], text: str, width: int) -> CsvRecord:
        if self._is_ended is None and any(fields):
            self._is_ended = is_ended_by_delimiter(fields, width)
        if self._is_ended and len(fields) == width + 1 and not fields[-1]:
            fields = fields[:-1]
        elif len(fields) != width or self._is_ended:
            # A record of delimiters only is none, whatever their number.
            is_empty = not text.strip(f"{self._options.delimiter}\r\n")
            return CsvRecord(line, (None,) * width) if is_empty else CsvRecord(line, tuple(fields), text)
        return CsvRecord(line, self._values(fields, text))

    def _values(self, fields: list[str], text: str) -> tuple[Value, ...]:
        options = self._options
        nulls = {options.null_string} if options.null_string is not None else set()
        if options.empty_is_null:
            nulls.add("")
        values: list[Value] = [None if field in nulls else field for field in fields]
        if not options.empty_is_null and "" in values:
            quoted = self._quoted(text)
            values = [
                None if value == "" and not (place < len(quoted) and quoted[place]) else value
                for place, value in enumerate(values)
            ]
        return tuple(values)

    def _quoted(self, text: str) -> list[bool]:
        """Return for each field of a record if it is in quotes."""
        flags, place = [], 0
        while (match := self._field.match(text, place)) is not None:
            flags.append(match[1] is not None)
            place = match.end() + 1
            if match.end() >= len(text) or text[match.end()] != self._options.delimiter:
                break
        return flags

    @cached_property
    def _field(self) -> re.Pattern[str]:
        quote, escape = re.escape(self._options.quote), re.escape(self._options.escape)
        unquoted = rf"[^{re.escape(self._options.delimiter)}\r\n]*"
        if not quote:
            return re.compile(f"(?!)()|{unquoted}")
        inside = f"[^{quote}]|{quote}{quote}" if escape in ("", quote) else f"[^{quote}{escape}]|{escape}."
        return re.compile(f"({quote}(?:{inside})*+{quote})|{unquoted}", re.DOTALL)


class _NumberedLines:
    """Lines with the number of the last one that was read, and the text since ``begin``."""

    def __init__(self, lines: Iterable[str], before: int):
        self._lines, self.number, self.first = iter(lines), before, before
        self._read: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        self._read.append(line)
        return line

    def begin(self) -> None:
        self.first, self._read = self.number + 1, []

    @property
    def text(self) -> str:
        return "".join(self._read).rstrip("\r\n")
