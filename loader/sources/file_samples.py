"""Samples of files: columns and first rows of the first file of a delivery, by a reader per format."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from elevata.core.errors import MetadataError
from loader.domain.refusals import Refusal
from loader.domain.sampling import SampledColumn, infer
from loader.records.readers import READERS
from loader.records.values import Number, Value, text_of
from loader.sources.files import Sample, files_at, sampled
from loader.sources.text_files import (
    ROWS,
    empty,
    guess_delimiter,
    nulls_of,
    read_csv,
    read_fixed_width,
    read_json_lines,
)
from metadata.domain import types as data_types
from metadata.domain.locations import Roots
from metadata.domain.source_formats import FIXED, XML, ReadingOptions, check_options
from metadata.domain.types import DataType

_Reader = Callable[[Path, dict[str, Any] | None, int], Sample]

MAX_COLUMNS = 2_000
LARGEST_WHOLE = 32 << 20  # bytes of a file that is held whole


def sample_files(
    path: Path, format_name: str, options: dict[str, Any] | None, rows: int = ROWS, *, roots: Roots
) -> Sample:
    """Return the first rows of the first file there. ``options`` None: how it is read is guessed, and reported.

    Files that links lead to must be below ``roots``, too.
    Raise Refusal where a load would refuse the file, too, as far as these rows show it.
    """
    files = files_at(path, roots)
    first = files[0]
    _check_options(format_name, options or {})
    read = _READERS.get(format_name)
    if read is None:
        raise Refusal("UNKNOWN_FORMAT", f"there is no format {format_name!r}", hint="Choose one above.")
    sample = read(first, options, rows)
    if len(files) > 1:
        note = f"Only the first of {len(files):,} files was read; a load reads all."
        sample = replace(sample, notes=(*sample.notes, note), whole=False)
    return sample


def _check_options(format_name: str, options: dict[str, Any]) -> None:
    try:
        check_options(format_name, options)
    except MetadataError as problem:
        message = f"{problem.field.removeprefix('options.')} {problem.message}"
        raise Refusal("BAD_OPTION", message, hint="Correct how the file is read.") from None


def _csv(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
    message = dict(options) if options is not None else {}
    if options is None and (delimiter := guess_delimiter(path, "UTF-8")) != ",":
        message["delimiter"] = delimiter
    names, records, whole = read_csv(path, message, rows)
    _check_width(path, names)
    values = [list(column) for column in zip(*records, strict=True)] or [[] for _ in names]
    notes = ()
    if len(names) == 1 and any(sign in names[0] for sign in ";\t|,"):
        notes = ("The file has one column only, and its name has a sign in it that may be the delimiter.",)
    columns = [_by_text(name, column) for name, column in zip(names, values, strict=True)]
    return sampled(columns, values, whole=whole, typed=False, where=path.name, notes=notes, options=message)


def _json_lines(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
    options = options or {}
    names, records, whole = read_json_lines(path, options, rows)
    _check_width(path, names)
    given = [[record.get(name) for record in records] for name in names]
    values = [[text_of(value) for value in column] for column in given]
    columns = [_by_notation(*each) for each in zip(names, given, values, strict=True)]
    return sampled(columns, values, whole=whole, typed=False, where=path.name, options=options)


def _fixed_width(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
    given = ReadingOptions.of(FIXED, options or {})
    names, records, whole = read_fixed_width(path, given, rows)
    nulls = nulls_of(options or {}, empty_is_null=given.empty_is_null)
    values = [
        [None if record[place] in nulls else record[place] for record in records] for place, _ in enumerate(names)
    ]
    described = [_by_text(*each) for each in zip(names, values, strict=True)]
    return sampled(described, values, whole=whole, typed=False, where=path.name, options=options)


def _records(name: str) -> _Reader:
    """Return the reader of a format that is read record by record."""

    def read(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
        given = ReadingOptions.of(name, options or {})
        if name != XML and path.stat().st_size > LARGEST_WHOLE:  # XML is read as a stream
            raise Refusal(
                "TOO_LARGE",
                f"{path.name} is more than {LARGEST_WHOLE >> 20} MB, the limit of these pages for this format",
                file=path.name,
                count=LARGEST_WHOLE,
                hint="A load reads larger files. Describe the source in YAML, or by a smaller file of the same kind.",
            )
        with path.open("rb") as stored:
            found = list(islice(READERS[name](stored, path.name, given, ()), rows + 1))
        names = list(dict.fromkeys(column for record in found for column in record.values))
        if not names:
            raise empty(path)
        _check_width(path, names)
        nulls = nulls_of(options or {}, empty_is_null=given.empty_is_null)
        shown = [[record.values.get(column) for record in found[:rows]] for column in names]
        values = [[None if value in nulls else value for value in column] for column in shown]
        columns = [_by_text(*each) for each in zip(names, values, strict=True)]
        whole = len(found) <= rows
        return sampled(columns, values, whole=whole, typed=False, where=path.name, options=options)

    return read


def _typed(name: str) -> _Reader:
    """Return the reader of a format whose files have their own types."""

    def read(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
        # Arrow takes a while to import, and only these formats need it.
        from loader.sources import typed_files

        found: typed_files.TypedRows = getattr(typed_files, name)(path, rows)
        _check_width(path, [name for name, _, _ in found.columns])
        columns = [_by_type(*column) for column in found.columns]
        return sampled(columns, found.values, whole=found.whole, typed=True, where=path.name)

    return read


def _by_type(name: str, own: str, found: DataType | None) -> SampledColumn:
    problem = "" if found else f"{own} cannot be held in the warehouse"
    return SampledColumn(name, found or DataType(data_types.STRING), f"the file says {own}", problem=problem)


def _by_text(name: str, values: list[Value]) -> SampledColumn:
    found, evidence = infer(values, len(values))
    return SampledColumn(name, found, evidence)


def _by_notation(name: str, given: list[Any], values: list[Value]) -> SampledColumn:
    """Return a column of JSON, which distinguishes numbers from text: ``"12"`` stays text."""
    found, evidence = infer(values, len(values))
    present = [value for value in given if value is not None]
    texts = [value for value in present if isinstance(value, str) and not isinstance(value, Number)]
    if texts and found.name in (
        data_types.BOOLEAN,
        data_types.INTEGER,
        data_types.BIGINT,
        data_types.DECIMAL,
        data_types.FLOAT,
    ):
        return SampledColumn(
            name, DataType(data_types.STRING), f"{len(texts):,} of the sampled values stand in quotes: text"
        )
    return SampledColumn(name, found, evidence)


def _check_width(path: Path, names: list[str]) -> None:
    if len(names) > MAX_COLUMNS:
        raise Refusal(
            "TOO_MANY_COLUMNS",
            f"{path.name} has {len(names):,} columns; these pages show {MAX_COLUMNS:,} at most",
            hint="Describe the source in YAML.",
        )


_READERS: dict[str, _Reader] = {
    "csv": _csv,
    "fixed": _fixed_width,
    "jsonl": _json_lines,
    **{name: _records(name) for name in READERS},
    "parquet": _typed("read_parquet"),
    "orc": _typed("read_orc"),
    "avro": _typed("read_avro"),
}
