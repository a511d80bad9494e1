"""Detection of how a CSV file is read, from its bytes.

What the values leave open is a question; its likeliest answer is among the options.
"""

import codecs
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loader.contract.refusals import Refusal
from loader.domain.sources.encodings import notes_of_texts
from loader.domain.sources.file_detection.character_sets import detect_character_set
from loader.domain.sources.file_detection.column_types import column_type
from loader.domain.sources.file_detection.dialects import Dialect, Row, detect_dialect, has_stray_quote, width_of
from loader.domain.sources.file_detection.examples import TextView, of_structure, of_values
from loader.domain.sources.file_detection.file_names import dated_name
from loader.domain.sources.file_detection.footers import without_footer
from loader.domain.sources.file_detection.model import Detected, DetectedColumn, FileSample, Question
from loader.domain.sources.file_detection.null_words import detect_null_string, without_word
from loader.domain.sources.file_detection.numbers import detect_numbers, unread_numbers
from loader.domain.sources.file_detection.personal_columns import personal_reason
from loader.domain.sources.file_detection.sentences import notes_of_names
from loader.domain.sources.file_detection.structure import Structure, detect_structure
from loader.domain.sources.file_detection.times import detect_time_formats, unread_dates
from loader.domain.sources.file_detection.truth_words import detect_truth_words
from loader.domain.sources.headers import column_names, joined_names
from metadata.domain import naming
from metadata.domain.generation import RAWCORE
from metadata.domain.sources.formats import CSV
from metadata.domain.sources.option_kinds import NUMBERED
from metadata.domain.sources.reading_options import options_of
from metadata.domain.sources.value_formats import ValueFormats

_OPTIONS = options_of(CSV)
MOST_COLUMNS = 2_000
_WITHOUT_MARK = {codecs.BOM_UTF16_BE: "UTF-16BE", codecs.BOM_UTF16_LE: "UTF-16LE"}


@dataclass(frozen=True)
class _Table:
    """Table of a file: how its lines are read, and the values of its columns by name."""

    options: dict[str, Any]
    questions: tuple[Question, ...]
    values: Mapping[str, list[str]]


def detect_csv(sample: FileSample) -> Detected:
    """Return how a CSV file is read. Raise Refusal EMPTY_FILE."""
    table = _table(sample)
    return _described(sample.name, CSV, table.values, table.options, table.questions)


def _described(
    name: str,
    format_name: str,
    values: Mapping[str, Sequence[str]],
    options: Mapping[str, Any],
    questions: Sequence[Question] = (),
) -> Detected:
    """Return the description of a file of texts: formats of its values, types, target names, name without a date."""
    formats, asked, unread = value_questions(values, str(options.get("delimiter", ",")))
    every = dict(options) | formats
    values = without_word(values, every.get("null_string"))
    pattern, short_name = dated_name(name)
    return Detected(
        name,
        format_name,
        every,
        _columns(values, ValueFormats.of(every)),
        (*questions, *asked),
        pattern,
        naming.safe_table_part(short_name),
        unread,
        (*notes_of_names(list(values)), *notes_of_texts(list(values.values()), of_lines=True)),
    )


def value_questions(
    columns: Mapping[str, Sequence[str | None]], delimiter: str = ","
) -> tuple[dict[str, Any], tuple[Question, ...], tuple[str, ...]]:
    """Return the options of values in text, what they leave open, with examples, and columns that no format reads."""
    values = {name: [text or "" for text in texts] for name, texts in columns.items()}
    nulls, of_nulls = detect_null_string(values)
    values = without_word(values, nulls.get("null_string"))
    numbers, questions = detect_numbers(values, delimiter)
    is_american = delimiter == "," and "decimal_separator" not in numbers
    times, asked = detect_time_formats(values, is_american=is_american)
    words, of_words = detect_truth_words(values)
    every = (*questions, *asked, *of_words, *of_nulls)
    options = numbers | times | words | nulls
    unread = (*unread_dates(values), *unread_numbers(values))
    return options, tuple(of_values(question, values, options) for question in every), unread


def target_names(names: Sequence[str], table: str = "") -> list[str]:
    """Return the names in the warehouse by one rule for all columns: lower case, words joined by underscores.

    ``table`` is the name of the rawcore table, whose technical columns have names of their own.
    """
    reserved = naming.reserved_column_names(RAWCORE, table)
    return naming.target_names([("", naming.plain_column_name(name, n)) for n, name in enumerate(names, 1)], reserved)


def _columns(values: Mapping[str, Sequence[str]], formats: ValueFormats) -> tuple[DetectedColumn, ...]:
    columns = []
    for (name, texts), target in zip(values.items(), target_names(list(values)), strict=True):
        type_, _ = column_type([text or None for text in texts], formats)
        columns.append(DetectedColumn(name, type_, target, personal_reason(name, texts)))
    return tuple(columns)


def _table(sample: FileSample) -> _Table:
    content = sample.whole_lines()
    if not content.strip(b"\r\n \t\0\xef\xbb\xbf\xff\xfe"):
        raise Refusal(
            "EMPTY_FILE",
            f"{sample.name} is empty: it has nothing that would name its columns",
            file=sample.name,
            hint="A delivery without rows still names its columns in its first line.",
        )
    has_end = sample.is_whole or content.endswith((b"\r", b"\n"))
    character_set = detect_character_set(content, is_whole=has_end)
    lines = _lines(sample.beginning, character_set.name, has_end=sample.is_whole)
    if any("\0" in line for line in lines[:100]):
        raise Refusal(
            "UNREADABLE_FILE",
            f"{sample.name} cannot be read: it has NUL bytes, and is no text",
            file=sample.name,
            hint="Check that its ending names its format.",
        )
    dialect, questions = detect_dialect(lines)
    rows = _rows(dialect, lines)
    width = width_of(rows)
    if not width or width > MOST_COLUMNS:
        raise _unreadable(sample, width)
    # A piece has no byte order mark.
    of_pieces = _WITHOUT_MARK.get(content[:2], character_set.name) if sample.pieces else ""
    last_place = len(sample.pieces) - 1
    later = [
        _rows_of_piece(dialect, _lines(piece, of_pieces), width, is_last=place == last_place)
        for place, piece in enumerate(sample.pieces)
    ]
    structure = detect_structure(rows, later[-1] if later else None, has_end=not sample.is_cut)
    names, options = _names(structure)
    if dialect.keeps_quotes and not has_stray_quote(dialect, lines[structure.skip_lines :]):
        dialect = replace(dialect, keeps_quotes=False)
        questions = [question for question in questions if question.option != "quotes_inside"]
    asked = [character_set.question] if character_set.question is not None else []
    read = {"delimiter": dialect.delimiter, "quote": dialect.quote, "encoding": character_set.name}
    read = {name: value for name, value in read.items() if value != _OPTIONS[name].default_of(CSV)}
    read |= {"escape": dialect.escape} if dialect.escape != dialect.quote else {}
    read |= {"quotes_inside": "keep"} if dialect.keeps_quotes else {}
    if later:
        later[-1] = list(without_footer(later[-1], structure.footer_lines))
    values = _values(names, structure, [row for piece in later for row in piece])
    nameless = [name for place, name in enumerate(names, 1) if name == f"(column {place})" and not any(values[name])]
    if nameless:
        options |= {"ignored_columns": ", ".join(nameless)}
    unnamed_at_end = nameless == names[-1:] and sample.is_whole
    if nameless and not unnamed_at_end:
        reason = "no record of the sample has a value there, and the header no name"
        asked.append(Question("ignored_columns", (options["ignored_columns"], None), reason))
    values = {name: texts for name, texts in values.items() if name not in nameless}
    table = [row for row in rows if row.line > structure.skip_lines]
    view = TextView(content, lines, dialect, table, later[-1] if later else table)
    every = (*asked, *questions, *structure.questions)
    return _Table(read | options, tuple(of_structure(question, view) for question in every), values)


def _unreadable(sample: FileSample, width: int) -> Refusal:
    """Return the refusal of a file without records, or with more columns than detection reads."""
    if width:
        return Refusal(
            "TOO_MANY_COLUMNS",
            f"{sample.name} has {width:,} columns; detection reads {MOST_COLUMNS:,} at most",
            hint="Describe the source in YAML.",
        )
    return Refusal(
        "UNREADABLE_FILE",
        f"{sample.name} cannot be read: it has no records",
        file=sample.name,
        hint="Check that its ending names its format.",
    )


def _lines(content: bytes, encoding: str, *, has_end: bool = True) -> list[str]:
    """Return the lines of bytes, without the last one if it may end after them."""
    text = content.decode(encoding, "replace").removeprefix("\ufeff")
    lines = list(io.StringIO(text, newline=""))
    return lines if has_end or len(lines) < 2 else lines[:-1]


def _rows(dialect: Dialect, lines: Sequence[str]) -> list[Row]:
    try:
        return dialect.rows(lines)
    except csv.Error:
        return []


def _rows_of_piece(dialect: Dialect, lines: Sequence[str], width: int, *, is_last: bool) -> list[Row]:
    """Return the records of a piece that may begin within a quoted field, without those that are not whole."""
    rows = _rows(dialect, lines[1:])
    if not rows:
        return []
    if dialect.quote and any(dialect.quote in line for line in lines):
        within = _rows(dialect, [dialect.quote + lines[0], *lines[1:]])[1:]
        rows = max(rows, within, key=lambda each: _fitness(each, dialect.quote, width))
    return rows if is_last or lines[-1].endswith(("\r", "\n")) else rows[:-1]


def _fitness(rows: Sequence[Row], quote: str, width: int) -> int:
    """Return by how much rows of a width without a quote in a value outnumber the others."""
    return sum(1 if len(row.cells) == width and not any(quote in cell for cell in row.cells) else -1 for row in rows)


def _names(structure: Structure) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the columns, and the options of the lines."""
    options: dict[str, Any] = {}
    if structure.skip_lines:
        options["skip_lines"] = structure.skip_lines
    if structure.footer_lines:
        options["footer_lines"] = structure.footer_lines
    if not structure.header_lines:
        return [f"column_{place}" for place in range(1, structure.width + 1)], options | {"header": False}
    if structure.header_lines > 1:
        options["header_lines"] = structure.header_lines
    joined = joined_names(structure.header) if structure.header_lines > 1 else structure.header[0]
    names = column_names(joined[: max(structure.width, 1)])
    if len({name.lower() for name in names}) < len(names):
        options["repeated_names"] = NUMBERED
        names = column_names(joined[: structure.width], numbered=True)
    return list(names), options


def _values(names: Sequence[str], structure: Structure, later: Sequence[Row]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {name: [] for name in names}
    for row in (*structure.rows, *later):
        is_record = len(row.cells) == len(names) or (len(row.cells) == len(names) + 1 and not row.cells[-1])
        if not is_record or row.is_empty:
            continue
        for name, cell in zip(names, row.cells, strict=False):
            values[name].append(cell.strip("\r\n"))
    return values
