"""First record of a CSV file: column names and line separator."""

import csv
from dataclasses import dataclass
from io import StringIO

from pyspark.sql import SparkSession

from loader.contract.refusals import Refusal
from loader.domain.sources.encodings import encoding_hint
from loader.engine.sources.files import DeliveredFile, beginning
from loader.readers.records.csv_records import dialect_of
from metadata.domain.sources.reading_options import ReadingOptions

_USUAL_HEADER, _LONGEST_HEADER = 1 << 14, 1 << 20  # bytes


@dataclass(frozen=True)
class Beginning:
    """Beginning of a file: ``fields`` of the first record, number of ``lines`` to its end, separator for Spark.

    ``separator`` is None if blank lines precede the first record: only Spark's own detection works then. ``first_row``
    are the fields of the first record with a value that is no header, if it ends in the bytes that are read for it.
    """

    fields: tuple[str, ...]
    lines: int
    separator: str | None
    first_row: tuple[str, ...] = ()


def read_beginning(spark: SparkSession, file: DeliveredFile, options: ReadingOptions) -> Beginning:
    """Return the file's first record that is not blank; without one, ``fields`` is empty.

    Raise Refusal WRONG_ENCODING, or UNREADABLE_HEADER if the record does not end.
    """
    for size in (_USUAL_HEADER, _LONGEST_HEADER):
        raw = beginning(spark, file, size)
        text = raw.decode(options.encoding, errors="replace").removeprefix("\ufeff")
        lines = list(StringIO(text, newline=""))
        try:
            fields, taken = first_record(lines, options)
        except csv.Error as error:
            if len(raw) == size < _LONGEST_HEADER:
                continue
            raise _unreadable_header(file, error) from error
        if taken < len(lines) or len(raw) < size:
            break
    if options.header and taken == len(lines) and len(raw) == _LONGEST_HEADER:
        raise _unreadable_header(file, f"it has more than {_LONGEST_HEADER:,} bytes")
    if any("\ufffd" in field for field in fields):
        _check_decodes(raw, file, options)
    blank_before = bool(lines) and not lines[0].strip("\r\n")
    ended_by_cr = bool(fields) and lines[taken - 1].endswith("\r")
    separator = None if blank_before else "\r" if ended_by_cr else "\n"
    row = _first_row(lines[taken:] if options.header else lines, options, is_whole=len(raw) < size)
    return Beginning(tuple(fields), taken, separator, row)


def _first_row(lines: list[str], options: ReadingOptions, *, is_whole: bool) -> tuple[str, ...]:
    """Return the fields of the first record with a value; empty if there is none that ends in these lines."""
    reader = csv.reader(lines, **dialect_of(options))
    try:
        for fields in reader:
            if any(fields):
                return tuple(fields) if is_whole or reader.line_num < len(lines) else ()
    except csv.Error:  # the checks of the quotes refuse it
        pass
    return ()


def first_record(lines: list[str], options: ReadingOptions) -> tuple[list[str], int]:
    """Return the first record that is not blank, and the number of lines up to its end."""
    reader = csv.reader(lines, **dialect_of(options))
    fields = next((record for record in reader if record), [])
    return fields, reader.line_num


def _unreadable_header(file: DeliveredFile, error: csv.Error | str) -> Refusal:
    return Refusal(
        "UNREADABLE_HEADER",
        f"{file.shown}: the first record cannot be read: {error}",
        file=file.shown,
        row=1,
        hint="A quote may not be closed.",
    )


def _check_decodes(raw: bytes, file: DeliveredFile, options: ReadingOptions) -> None:
    """Raise Refusal WRONG_ENCODING if the header's bytes are invalid in the encoding.

    A replacement character that the file itself contains is valid.
    """
    try:
        raw.decode(options.encoding)
    except UnicodeDecodeError as error:
        if error.end == len(raw) in (_USUAL_HEADER, _LONGEST_HEADER):
            return  # only cut in the middle of a character
        raise Refusal(
            "WRONG_ENCODING",
            f"{file.shown}: the header cannot be decoded as {options.encoding}",
            file=file.shown,
            row=1,
            samples=(raw[:80].decode(options.encoding, errors="replace"),),
            hint=encoding_hint(options.encoding),
        ) from error
