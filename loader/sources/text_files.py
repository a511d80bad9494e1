"""First rows and columns of CSV, fixed-width and JSON lines files.

CSV is read by the standard library's reader, which preserves ``007``.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from elevata.core import strict_json
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.sources.fixed_width import EBCDIC_LINE_ENDS, HINT, check_encoding, problem_of
from loader.domain.sources.repeated_headers import JOINED_HINT, REPEATED_HEADER, repeats_header
from loader.domain.sources.sampling import Value
from loader.readers.records import unpacking
from loader.readers.records.csv_records import CsvRecord, CsvTable
from loader.readers.records.unpacking import unpacked
from loader.readers.records.values import Number, text_of
from metadata.domain.sources.formats import CSV
from metadata.domain.sources.option_kinds import REFUSE, columns_of
from metadata.domain.sources.reading_options import ReadingOptions
from metadata.domain.text_formats import BLANKS

ROWS = 2_000
# Characters of one file; a file whose first rows are longer is sampled by fewer rows.
MOST_CHARACTERS = 16_000_000
_DELIMITERS = (",", ";", "\t", "|")

Rows = tuple[list[str], list[list[Value]], bool]


def read_csv(path: Path, options: dict[str, Any], rows: int = ROWS) -> Rows:
    """Return column names, at most ``rows`` rows of text, and True if these are all. Raise Refusal as a load would."""
    reading = ReadingOptions.of(CSV, options)
    refuses_repeated = reading.header and reading.repeated_headers == REFUSE
    result: list[list[Value]] = []
    with _open_text(path, reading.encoding) as stream:
        lines = _lines(stream, path, reading.encoding)
        table = None
        try:
            table = CsvTable(lines, path.name, reading)
            if not table.names:
                raise empty(path)
            names = list(table.names)
            for record in table:
                if record.is_empty:
                    continue
                if record.malformed is not None:
                    raise _ragged_row(path, record, names, reading.delimiter)
                if refuses_repeated and repeats_header(record.fields, table.header):
                    raise _repeated_header(path, record.line)
                if len(result) == rows:
                    return names, result, False
                result.append(list(record.fields))
        except csv.Error as error:
            line = table.line if table is not None else reading.skip_lines + 1
            raise Refusal(
                "UNREADABLE_ROW",
                f"{path.name}, line {line}: {error}",
                file=path.name,
                row=line,
                hint="A quote may not be closed, or another sign may be the quote: correct how the file is read.",
            ) from error
    return names, result, True


def read_fixed_width(path: Path, options: ReadingOptions, rows: int = ROWS) -> Rows:
    """Return column names, at most ``rows`` rows of text, and True if these are all. Raise Refusal as a load would."""
    check_encoding(path.name, options)
    positions = columns_of(options.columns)
    last = max(end for _, _, end in positions)
    names = [name for name, _, _ in positions]
    result: list[list[Value]] = []
    with _open_text(path, options.encoding) as stream:
        lines = (_ebcdic_lines if options.is_ebcdic else _lines)(stream, path, options.encoding)
        for number, text in enumerate(lines, start=1):
            line = text.rstrip("\r\n")
            if not line:
                continue
            if len(result) == rows:
                return names, result, False
            is_short = len(line) < last and not options.short_lines
            has_other_end = options.is_ebcdic and any(end in line for end in EBCDIC_LINE_ENDS.values())
            if is_short or line[last:].strip(" ") or has_other_end:
                raise Refusal(
                    "RAGGED_ROW",
                    f"{path.name}, line {number}: {problem_of(line, positions)}",
                    file=path.name,
                    row=number,
                    samples=(line[:80],),
                    hint=HINT,
                )
            result.append([line[start - 1 : end].strip(" ") for _, start, end in positions])
    return names, result, True


def _ebcdic_lines(stream: TextIO, path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of the first MOST_CHARACTERS characters, which end as a load finds it."""
    text = "".join(_lines(stream, path, encoding))
    is_cut = len(text) >= MOST_CHARACTERS
    places = [(text.find(end), end) for end in EBCDIC_LINE_ENDS.values() if end in text]
    lines = text.split(min(places)[1] if places else "\n")
    yield from lines[:-1] if is_cut else lines


def read_json_lines(path: Path, options: dict[str, Any], rows: int = ROWS) -> tuple[list[str], list[dict], bool]:
    """Return keys in order of appearance, at most ``rows`` objects, and True if these are all.

    Raise Refusal as a load would. Text stays ``str``; numbers are ``loader.readers.records.values.Number``.
    """
    objects: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    nulls = nulls_of(options, empty_is_null=False)
    with _open_text(path, "UTF-8") as stream:
        for number, line in enumerate(_lines(stream, path, "UTF-8"), start=1):
            if not line.strip(BLANKS):
                continue
            if len(objects) == rows:
                return list(names), objects, False
            record = _object(path, number, line)
            objects.append({name: None if text_of(value) in nulls else value for name, value in record.items()})
            names.update(dict.fromkeys(objects[-1]))
    if not objects:
        raise empty(path)
    return list(names), objects, True


def _open_text(path: Path, encoding: str) -> TextIO:
    try:
        return io.TextIOWrapper(unpacked(path.open("rb"), path.name), encoding=encoding, newline="")
    except OSError as error:
        raise unreadable(path, error) from error


def _lines(stream: TextIO, path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of the first MOST_CHARACTERS characters, without the byte order mark."""
    size = 0
    try:
        while size < MOST_CHARACTERS and (line := stream.readline(MOST_CHARACTERS)):
            yield line.removeprefix("\ufeff") if size == 0 else line
            size += len(line)
    except UnicodeDecodeError as error:
        raise Refusal(
            "WRONG_ENCODING",
            f"{path.name} is not {encoding}: the bytes {error.object[error.start : error.start + 4].hex(' ')} "
            "are no character there",
            file=path.name,
            hint="Say the file's encoding above; windows-1252 and ISO-8859-1 are common.",
        ) from None
    except unpacking.UNREADABLE as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> Refusal:
    return unpacking.unreadable(path.name, getattr(error, "strerror", None) or str(error))


def too_large_for_pages(path: Path, limit: int) -> Refusal:
    """Return the refusal of a file whose first rows take more than ``limit`` bytes, unpacked."""
    return Refusal(
        "TOO_LARGE",
        f"{path.name}: reading its first rows takes more than {limit >> 20} MB, unpacked, the limit of these pages "
        "for this format",
        file=path.name,
        count=limit,
        hint="A load reads larger files. Describe the source in YAML, or by a smaller file of the same kind.",
    )


def nulls_of(options: dict[str, Any], *, empty_is_null: bool) -> frozenset[str]:
    """Return the texts that mean NULL."""
    empty = [""] if options.get("empty_is_null", empty_is_null) else []
    return frozenset([*empty, *([options["null_string"]] if options.get("null_string") else [])])


def empty(path: Path) -> Refusal:
    return Refusal(
        "EMPTY_FILE",
        f"{path.name} is empty: it has nothing that would name its columns",
        file=path.name,
        hint="A delivery without rows still names its columns in its first line.",
    )


def _ragged_row(path: Path, record: CsvRecord, names: list[str], delimiter: str) -> Refusal:
    other = next((sign for sign in _DELIMITERS if sign != delimiter and len(names) == 1 and sign in names[0]), "")
    hint = "A field that holds the delimiter or a line end must be in quotes. Is the delimiter right?"
    if other:
        hint = f"The header has {other!r} in it: is that the delimiter?"
    return Refusal(
        "RAGGED_ROW",
        f"{path.name}, line {record.line}: {counted(len(record.fields), 'field')}, where the header has {len(names)}",
        file=path.name,
        row=record.line,
        samples=((record.malformed or "")[:80],),
        hint=hint,
    )


def _repeated_header(path: Path, line: int) -> Refusal:
    return Refusal(
        REPEATED_HEADER,
        f"{path.name}, line {line}: the record repeats the header",
        file=path.name,
        row=line,
        hint=JOINED_HINT,
    )


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = strict_json.loads(line, parse_int=Number, parse_float=Number)
    except strict_json.BadJson as error:
        message = str(error)
    else:
        if isinstance(value, dict):
            return value
        message = "it is no object"
    raise Refusal(
        "BAD_JSON",
        f"{path.name}, line {number}: not one JSON object ({message})",
        file=path.name,
        row=number,
        samples=(line.strip()[:80],),
        hint="JSON lines hold one object per line, from { to }.",
    )
