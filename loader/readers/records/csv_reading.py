"""Reader of whole CSV files in tasks, by ``CsvTable``."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from typing import Any
from urllib.parse import quote

from loader.contract.refusals import Refusal
from loader.domain.sources.encodings import encoding_hint
from loader.readers.records.csv_records import CsvRecord, CsvTable
from loader.readers.records.readers import LOCAL
from loader.readers.records.unpacking import UNREADABLE, unpacked, unreadable
from metadata.domain.sources.reading_options import ReadingOptions

_QUOTE_HINT = "A quote inside a quoted field must be escaped, and each quoted field be closed."


@dataclass(frozen=True)
class CsvReading:
    """Reader of files in Spark tasks. A file is (path with scheme, content); the content of a local file is None."""

    options: ReadingOptions
    contract: tuple[str, ...]

    def names(self, file: tuple[str, bytes | None]) -> dict[str, Any]:
        """Return ``{"path", "names", "header", "warning"}`` after reading the whole file, or ``{"refusal"}``."""
        try:
            with self._stored(file) as stored:
                table = self._table(file, stored)
                for _ in self._records(file, table):
                    pass
        except Refusal as refusal:
            return {"refusal": refusal.as_json()}
        quote, shown = table.stray_quote, file[0].removeprefix(LOCAL)
        warning = "" if quote is None else quote.warning(shown, table.names)
        return {"path": file[0], "names": table.names, "header": table.header, "warning": warning}

    def rows(self, file: tuple[str, bytes | None]) -> Iterator[tuple[str, int, list[str | None], str | None]]:
        """Yield (URI, line, fields, text of a malformed record) of each record. Raise Refusal."""
        uri = quote(file[0], safe="/:")
        with self._stored(file) as stored:
            table = self._table(file, stored)
            for record in self._records(file, table):
                fields = [] if record.malformed is not None else list(record.fields)
                yield uri, record.line, fields, record.malformed

    def _stored(self, file: tuple[str, bytes | None]) -> Any:
        path, content = file
        return BytesIO(content) if content is not None else open(path.removeprefix(LOCAL), "rb")

    def _table(self, file: tuple[str, bytes | None], stored: Any) -> CsvTable:
        shown = file[0].removeprefix(LOCAL)
        try:
            return CsvTable(_lines(stored, shown, self.options), shown, self.options, self.contract)
        except csv.Error as error:
            raise Refusal(
                "UNREADABLE_HEADER",
                f"{shown}: the header cannot be read: {error}",
                file=shown,
                row=self.options.skip_lines + 1,
                hint="A quote may not be closed.",
            ) from error

    def _records(self, file: tuple[str, bytes | None], table: CsvTable) -> Iterator[CsvRecord]:
        shown = file[0].removeprefix(LOCAL)
        try:
            yield from table
        except csv.Error as error:
            if "unexpected end" not in str(error) and "field larger" not in str(error):
                raise Refusal(
                    "STRAY_QUOTE",
                    f"{shown}, line {table.record_line}: text follows a quote that closes a field",
                    file=shown,
                    row=table.record_line,
                    hint=_QUOTE_HINT,
                ) from error
            raise Refusal(
                "UNCLOSED_QUOTE",
                f"{shown}, line {table.record_line}: a quote that opens in the record that begins here is never closed",
                file=shown,
                row=table.record_line,
                hint=_QUOTE_HINT,
            ) from error


def _lines(stored: Any, shown: str, options: ReadingOptions) -> Iterator[str]:
    """Yield the lines without the byte order mark. Raise Refusal WRONG_ENCODING or UNREADABLE_FILE."""
    number = 0
    try:
        for line in TextIOWrapper(unpacked(stored, shown), encoding=options.encoding, newline=""):
            yield line if number else line.removeprefix("\ufeff")
            number += 1
    except UnicodeDecodeError as error:
        raise Refusal(
            "WRONG_ENCODING",
            f"{shown}, after line {number}: cannot be decoded as {options.encoding}",
            file=shown,
            row=number + 1,
            samples=(repr(error.object[error.start : error.start + 40]),),
            hint=encoding_hint(options.encoding),
        ) from error
    except UNREADABLE as error:
        raise unreadable(shown, str(error)) from error
