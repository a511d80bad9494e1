"""Samples of files: columns and first rows of the first file of a delivery, by a reader per format."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.domain.extras import packages_of
from loader.domain.sources.file_detection.column_types import column_type
from loader.domain.sources.file_detection.detect import detect_csv, value_questions
from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.file_detection.sentences import notes_of_names, reading_sentences
from loader.domain.sources.folders import shared_columns, values_in
from loader.domain.sources.provenance import folder_of, name_below
from loader.domain.sources.sampling import SampledColumn, infer
from loader.readers.records.readers import LOCAL, READERS
from loader.readers.records.values import Number, Value, text_of
from loader.readers.records.xml_documents import ROW_TAG_HINT, without_rows
from loader.sources.file_bytes import sample_bytes
from loader.sources.files import files_at
from loader.sources.page_limits import LARGEST_READ, MAX_COLUMNS
from loader.sources.results import Sample, sampled
from loader.sources.text_files import (
    ROWS,
    empty,
    nulls_of,
    read_csv,
    read_fixed_width,
    read_json_lines,
    too_large_for_pages,
)
from metadata.domain import types as data_types
from metadata.domain.sources.formats import AVRO, CSV, FIXED, JSON, ORC, PARQUET, XML
from metadata.domain.sources.locations import Roots
from metadata.domain.sources.option_kinds import names_of
from metadata.domain.sources.reading_options import ReadingOptions, check_options
from metadata.domain.sources.value_formats import STANDARD, ValueFormats
from metadata.domain.types import DataType

if TYPE_CHECKING:
    from loader.sources.typed_files import TypedRows

_Reader = Callable[[Path, dict[str, Any] | None, int], Sample]

_DECLARED_BY_USERS = frozenset({"quotes_inside", "repeated_headers"})


def sample_files(
    path: Path, format_name: str, options: dict[str, Any] | None, rows: int = ROWS, *, roots: Roots, shown: str = ""
) -> Sample:
    """Return a sample of the first file at ``path``: its columns and its first ``rows`` rows.

    If ``options`` is None, those of CSV and of values in text are detected; the sample has the options used. Links
    must lead to files below ``roots``. ``shown`` is the location in messages, by default the path. Raise Refusal for
    errors in these rows for which a load would refuse the file.
    """
    files = files_at(path, roots, shown=shown)
    first = files[0]
    _check_options(format_name, options or {})
    read = _READERS.get(format_name)
    if read is None:
        raise Refusal("UNKNOWN_FORMAT", f"there is no format {format_name!r}", hint="Choose one above.")
    sample = _without_ignored(_with_folders(read(first, options, rows), path, files, options or {}))
    if len(files) > 1:
        note = f"Only the first of {len(files):,} files was read; a load reads all."
        sample = replace(sample, notes=(*sample.notes, note), whole=False)
    return sample


def _without_ignored(sample: Sample) -> Sample:
    """Return the sample without the columns that a load leaves out."""
    ignored = names_of(sample.options.get("ignored_columns"))
    kept = [place for place, column in enumerate(sample.columns) if column.name not in ignored]
    values = tuple(sample.values[place] for place in kept)
    return replace(sample, columns=tuple(sample.columns[place] for place in kept), values=values)


def _with_folders(sample: Sample, path: Path, files: Sequence[Path], options: dict[str, Any]) -> Sample:
    """Return the sample with the columns whose values are in the names of folders."""
    folder = folder_of(str(path))
    names = [name_below(f"{LOCAL}{file}", folder) for file in files]
    own = {column.name for column in sample.columns}
    columns, values = list(sample.columns), list(sample.values)
    for name in shared_columns(names):
        if name in own:
            continue
        of_files = [values_in(file)[name] for file in names]
        inferred, evidence = infer(of_files, len(of_files), ValueFormats.of(options))
        distinct = tuple(dict.fromkeys(value for value in of_files if value))
        evidence = f"in the names of folders: {evidence}"
        nulls = sample.rows if of_files[0] is None else 0
        columns.append(SampledColumn(name, inferred, evidence, sample.rows, nulls, sample=distinct[:3]))
        values.append((of_files[0],) * sample.rows)
    return replace(sample, columns=tuple(columns), values=tuple(values))


def _check_options(format_name: str, options: dict[str, Any]) -> None:
    try:
        check_options(format_name, options)
    except MetadataError as problem:
        message = f"{problem.field.removeprefix('options.')} {problem.message}"
        raise Refusal("BAD_OPTION", message, hint="Correct how the file is read.") from None


def _csv(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
    if options is not None:
        return _declared_csv(path, options, rows)
    detected = detect_csv(sample_bytes(path, path.name))
    # A quote inside of a value is refused until a user declares it.
    options = {name: value for name, value in detected.options.items() if name not in _DECLARED_BY_USERS}
    sample = _declared_csv(path, options, rows)
    notes = (" ".join(reading_sentences(CSV, options)), *sample.notes)
    return replace(sample, notes=notes, questions=detected.questions, unread_columns=detected.unread_columns)


def _declared_csv(path: Path, options: dict[str, Any], rows: int) -> Sample:
    names, records, whole = read_csv(path, options, rows)
    _check_width(path, names)
    values = [list(column) for column in zip(*records, strict=True)] or [[] for _ in names]
    columns, notes = _columns_of_texts(names, values, options), notes_of_names(names)
    return sampled(
        columns, values, whole=whole, typed=False, where=path.name, of_lines=True, notes=notes, options=options
    )


def _json_lines(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
    options = options or {}
    names, records, whole = read_json_lines(path, options, rows)
    _check_width(path, names)
    raw_values = [[record.get(name) for record in records] for name in names]
    values = [[text_of(value) for value in column] for column in raw_values]
    formats = ValueFormats.of(options)
    columns = [column_of_json(*each, formats) for each in zip(names, raw_values, values, strict=True)]
    return sampled(columns, values, whole=whole, typed=False, where=path.name, options=options)


def _fixed_width(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
    reading = ReadingOptions.of(FIXED, options or {})
    names, records, whole = read_fixed_width(path, reading, rows)
    nulls = nulls_of(options or {}, empty_is_null=reading.empty_is_null)
    values = [
        [None if record[place] in nulls else record[place] for record in records] for place, _ in enumerate(names)
    ]
    columns = _columns_of_texts(names, values, options or {})
    return sampled(columns, values, whole=whole, typed=False, where=path.name, of_lines=True, options=options)


def _record_reader(name: str) -> _Reader:
    """Return the reader of a format that is read record by record."""

    def read(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
        reading = ReadingOptions.of(name, options or {})
        with path.open("rb") as stored, _page_limit(path):
            records = list(islice(READERS[name](stored, path.name, reading, (), LARGEST_READ), rows + 1))
        for record in records:
            record.check((), reading.ignored)
        names = list(dict.fromkeys(column for record in records for column in record.values))
        if not names:
            raise _without_records(path, name, reading)
        _check_width(path, names)
        nulls = nulls_of(options or {}, empty_is_null=reading.empty_is_null)
        texts = [[record.values.get(column) for record in records[:rows]] for column in names]
        values = [[None if value in nulls else value for value in column] for column in texts]
        used, questions, unread = options, tuple[Question, ...](), tuple[str, ...]()
        if used is None and name != JSON:
            used, questions, unread = value_questions({column: values[n] for n, column in enumerate(names)})
            values = [[None if value == used.get("null_string") else value for value in column] for column in values]
        columns = _columns_of_texts(names, values, used or {})
        whole = len(records) <= rows
        notes = [record.note for record in records if record.note]
        sample = sampled(columns, values, whole=whole, typed=False, where=path.name, notes=notes, options=used)
        return replace(sample, questions=questions, unread_columns=unread)

    return read


@contextmanager
def _page_limit(path: Path) -> Iterator[None]:
    """Convert the refusal of more than LARGEST_READ bytes, which names the limit of a load, into that of a page."""
    try:
        yield
    except Refusal as refusal:
        if refusal.code != "TOO_LARGE" or refusal.count != LARGEST_READ:
            raise
        raise too_large_for_pages(path, LARGEST_READ) from None


def _without_records(path: Path, name: str, reading: ReadingOptions) -> Refusal:
    """Return the refusal of a file without records. Raise Refusal NO_SUCH_PATH for a row element in another case."""
    if name == XML and reading.row_tag:
        with path.open("rb") as stored, _page_limit(path):
            problem = without_rows(stored, path.name, reading.row_tag, LARGEST_READ)
        if problem:
            return Refusal("NO_SUCH_PATH", problem, file=path.name, hint=ROW_TAG_HINT)
    return empty(path)


def _typed_reader(name: str) -> _Reader:
    """Return the reader of a format whose files have their own types."""

    def read(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
        typed_rows = _read_typed(name, path, rows)
        _check_width(path, [column[0] for column in typed_rows.columns])
        columns = [_column_of_type(*column) for column in typed_rows.columns]
        return sampled(columns, typed_rows.values, whole=typed_rows.whole, typed=True, where=path.name)

    return read


def _read_typed(name: str, path: Path, rows: int) -> "TypedRows":
    # Arrow takes a while to import, and only these formats need it.
    if name == AVRO:
        with packages_of("avro"):
            from loader.sources.avro_files import read_avro
        return read_avro(path, rows)
    from loader.sources.typed_files import read_orc, read_parquet

    return {PARQUET: read_parquet, ORC: read_orc}[name](path, rows)


def _column_of_type(name: str, file_type: str, known_type: DataType | None, problem: str) -> SampledColumn:
    problem = problem or ("" if known_type else f"{file_type} cannot be held in the warehouse")
    return SampledColumn(name, known_type or DataType(data_types.STRING), f"the file says {file_type}", problem=problem)


def _columns_of_texts(names: Iterable[str], values: list[list[Value]], options: dict[str, Any]) -> list[SampledColumn]:
    formats = ValueFormats.of(options)
    return [SampledColumn(name, *column_type(column, formats)) for name, column in zip(names, values, strict=True)]


def column_of_json(
    name: str, raw_values: list[Any], values: list[Value], formats: ValueFormats = STANDARD
) -> SampledColumn:
    """Return a column of JSON, which distinguishes numbers from text: ``"12"`` stays text."""
    inferred, evidence = infer(values, len(values), formats)
    present = [value for value in raw_values if value is not None]
    texts = [value for value in present if isinstance(value, str) and not isinstance(value, Number)]
    if texts and inferred.name in (
        data_types.BOOLEAN,
        data_types.INTEGER,
        data_types.BIGINT,
        data_types.DECIMAL,
        data_types.FLOAT,
    ):
        return SampledColumn(
            name, DataType(data_types.STRING), f"{len(texts):,} of the sampled values stand in quotes: text"
        )
    return SampledColumn(name, inferred, evidence)


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
    **{name: _record_reader(name) for name in READERS},
    **{name: _typed_reader(name) for name in (PARQUET, ORC, AVRO)},
}
