"""Detection of how a CSV file is read, from its bytes.

What the values leave open is a question; its likeliest answer is among the options.
"""

import codecs
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.character_sets import UTF8, detect_character_set
from loader.domain.sources.file_detection.column_types import column_type
from loader.domain.sources.file_detection.dialects import Dialect, Row, detect_dialect
from loader.domain.sources.file_detection.examples import TextView, of_structure, of_values
from loader.domain.sources.file_detection.file_names import dated_name
from loader.domain.sources.file_detection.model import Detected, DetectedColumn, FileSample, Question
from loader.domain.sources.file_detection.numbers import detect_separators
from loader.domain.sources.file_detection.personal_columns import personal_reason
from loader.domain.sources.file_detection.structure import Structure, detect_structure
from loader.domain.sources.file_detection.times import detect_time_formats
from loader.domain.sources.file_detection.truth_words import detect_truth_words
from loader.domain.sources.headers import column_names, joined_names
from metadata.domain import naming
from metadata.domain.generation import RAWCORE
from metadata.domain.sources.formats import CSV
from metadata.domain.sources.option_kinds import NUMBERED
from metadata.domain.sources.value_formats import ValueFormats

_USUAL = {"delimiter": ",", "quote": '"', "encoding": UTF8}


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
    formats, asked = value_questions(values, str(options.get("delimiter", ",")))
    every = dict(options) | formats
    pattern, short_name = dated_name(name)
    return Detected(
        name,
        format_name,
        every,
        _columns(values, ValueFormats.of(every)),
        (*questions, *asked),
        pattern,
        naming.safe_table_part(short_name),
    )


def value_questions(
    columns: Mapping[str, Sequence[str | None]], delimiter: str = ","
) -> tuple[dict[str, Any], tuple[Question, ...]]:
    """Return the options of values in text, and what they leave open, with examples."""
    values = {name: [text or "" for text in texts] for name, texts in columns.items()}
    numbers, questions = detect_separators(values, delimiter)
    is_american = delimiter == "," and "decimal_separator" not in numbers
    times, asked = detect_time_formats(values, is_american=is_american)
    words, of_words = detect_truth_words(values)
    every = (*questions, *asked, *of_words)
    return numbers | times | words, tuple(of_values(question, values) for question in every)


def target_names(names: Sequence[str], dataset: str = "") -> list[str]:
    """Return the names in the warehouse by one rule for all columns: lower case, words joined by underscores.

    ``dataset`` is the name of the rawcore dataset, if it is known: its technical columns have their own names.
    """
    reserved = naming.reserved_column_names(RAWCORE, dataset)
    return naming.target_names([("", naming.plain_column_name(name, n)) for n, name in enumerate(names, 1)], reserved)


def _columns(values: Mapping[str, Sequence[str]], formats: ValueFormats) -> tuple[DetectedColumn, ...]:
    columns = []
    for (name, texts), target in zip(values.items(), target_names(list(values)), strict=True):
        type_, evidence = column_type([text or None for text in texts], formats)
        columns.append(DetectedColumn(name, type_, target, evidence, personal_reason(name, texts)))
    return tuple(columns)


def _table(sample: FileSample) -> _Table:
    content = b"".join((sample.beginning, *sample.pieces))
    if not content.strip(b"\r\n \t\0\xef\xbb\xbf\xff\xfe"):
        raise Refusal(
            "EMPTY_FILE",
            f"{sample.name} is empty: it has nothing that would name its columns",
            file=sample.name,
            hint="A delivery without rows still names its columns in its first line.",
        )
    character_set = detect_character_set(content, is_whole=False)
    lines = _lines(sample.beginning, character_set.name, is_whole=sample.is_whole)
    if any("\0" in line for line in lines[:100]):
        raise Refusal(
            "UNREADABLE_FILE",
            f"{sample.name} cannot be read: it has NUL bytes, and is no text",
            file=sample.name,
            hint="Check that its ending names its format.",
        )
    dialect, questions = detect_dialect(lines)
    rows = _rows(dialect, lines)
    # A piece has no byte order mark.
    of_pieces = "UTF-16BE" if content.startswith(codecs.BOM_UTF16_BE) else character_set.name
    later = [_rows(dialect, _lines(piece, of_pieces, is_piece=True)) for piece in sample.pieces]
    structure = detect_structure(rows, later[-1] if later else None)
    names, options = _names(structure)
    asked = [character_set.question] if character_set.question is not None else []
    read = {"delimiter": dialect.delimiter, "quote": dialect.quote, "encoding": character_set.name}
    read = {name: value for name, value in read.items() if value != _USUAL[name]}
    read |= {"escape": dialect.escape} if dialect.escape != dialect.quote else {}
    read |= {"quotes_inside": "keep"} if dialect.keeps_quotes else {}
    values = _values(names, structure, [row for piece in later for row in piece])
    nameless = [name for place, name in enumerate(names, 1) if name == f"(column {place})" and not any(values[name])]
    if nameless:
        options |= {"ignored_columns": ", ".join(nameless)}
    values = {name: texts for name, texts in values.items() if name not in nameless}
    table = [row for row in rows if row.line > structure.skip_lines]
    view = TextView(content, lines, dialect, table, later[-1] if later else table)
    every = (*asked, *questions, *structure.questions)
    return _Table(read | options, tuple(of_structure(question, view) for question in every), values)


def _lines(content: bytes, encoding: str, *, is_whole: bool = False, is_piece: bool = False) -> list[str]:
    """Return the whole lines of bytes; of a piece without its first one, which may have begun before it."""
    text = content.decode(encoding, "replace").removeprefix("\ufeff")
    lines = list(io.StringIO(text, newline=""))
    if is_piece:
        return lines[1:]
    return lines if is_whole or len(lines) < 2 else lines[:-1]


def _rows(dialect: Dialect, lines: Sequence[str]) -> list[Row]:
    try:
        return dialect.rows(lines)
    except csv.Error:
        return []


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
