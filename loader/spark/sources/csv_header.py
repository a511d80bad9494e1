"""First record of a CSV file: column names and line separator.

It is read before Spark reads the file, because Spark drops a header without checking it.
"""

import csv
from dataclasses import dataclass
from io import StringIO
from typing import Any

from pyspark.sql import SparkSession

from loader.domain.runs.refusals import Refusal
from loader.spark.sources.files import DeliveredFile, beginning
from loader.spark.sources.options import Options

_USUAL_HEADER, _LONGEST_HEADER = 1 << 14, 1 << 20  # bytes


@dataclass(frozen=True)
class Beginning:
    """``fields`` of the first record, the number of ``lines`` before its end, and the separator for Spark.

    ``separator`` is None if blank lines precede the first record: only Spark's own detection works then.
    """

    fields: tuple[str, ...]
    lines: int
    separator: str | None


def read_beginning(spark: SparkSession, file: DeliveredFile, options: Options) -> Beginning:
    """Return the file's first record that is not blank; without one, no fields.

    Raise Refusal WRONG_ENCODING, or UNREADABLE_HEADER if the record does not end.
    """
    for size in (_USUAL_HEADER, _LONGEST_HEADER):
        raw = beginning(spark, file, size)
        text = raw.decode(options.encoding, errors="replace").removeprefix("\ufeff")
        lines = list(StringIO(text, newline=""))
        try:
            fields, taken = _first_record(lines, options)
        except csv.Error as error:
            if len(raw) == size < _LONGEST_HEADER:
                continue
            raise _unreadable_header(file, error) from error
        if taken < len(lines) or len(raw) < size:
            break
    if any("\ufffd" in field for field in fields):
        _check_decodes(raw, file, options)
    blank_before = bool(lines) and not lines[0].strip("\r\n")
    ended_by_cr = bool(fields) and lines[taken - 1].endswith("\r")
    separator = None if blank_before else "\r" if ended_by_cr else "\n"
    return Beginning(tuple(fields), taken, separator)


def _first_record(lines: list[str], options: Options) -> tuple[list[str], int]:
    """Return the first record that is not blank, and the number of lines up to its end."""
    dialect: dict[str, Any] = {"delimiter": options.delimiter, "strict": True}
    if not options.quote:
        dialect |= {"quoting": csv.QUOTE_NONE}
    elif options.escape == options.quote:
        dialect |= {"quotechar": options.quote}
    else:
        dialect |= {"quotechar": options.quote, "escapechar": options.escape or None, "doublequote": False}
    reader = csv.reader(lines, **dialect)
    fields = next((record for record in reader if record), [])
    return fields, reader.line_num


def _unreadable_header(file: DeliveredFile, error: csv.Error) -> Refusal:
    return Refusal(
        "UNREADABLE_HEADER",
        f"{file.shown}: the first record cannot be read: {error}",
        file=file.shown,
        row=1,
        hint="A quote may not be closed.",
    )


def header_names(file: DeliveredFile, fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return a header's names without surrounding blanks; a column without a name is named by its position.

    Raise Refusal EMPTY_FILE or DUPLICATE_COLUMN.
    """
    if not fields:
        raise Refusal(
            "EMPTY_FILE",
            f"{file.shown} is empty: it has not even a header",
            file=file.shown,
            hint="A delivery without rows still names its columns in its first line.",
        )
    names = tuple(field.strip() or f"(column {place})" for place, field in enumerate(fields, start=1))
    twice = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise Refusal(
            "DUPLICATE_COLUMN",
            f"{file.shown}: the header names {', '.join(twice)} more than once",
            file=file.shown,
            row=1,
            column=twice[0],
            count=len(twice),
            samples=twice[:5],
            hint="Every column needs a name of its own.",
        )
    return names


def _check_decodes(raw: bytes, file: DeliveredFile, options: Options) -> None:
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
            f"{file.shown}: the header is not {options.encoding}",
            file=file.shown,
            row=1,
            samples=(raw[:80].decode(options.encoding, errors="replace"),),
            hint="Say the file's encoding in the source's options, or deliver it in the one that is said.",
        ) from error
