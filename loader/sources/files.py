"""Sample of a delivery in files: names, types with their evidence, and a possible business key."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from loader.domain.runs.refusals import Refusal
from loader.domain.sources.sampling import SampledColumn, Value, infer, suggest_key
from loader.sources.listing import files_at
from loader.sources.results import Sample
from loader.sources.text_files import ROWS, guess_delimiter, is_number, read_csv, read_json_lines, text_of
from metadata.domain import types as ours
from metadata.domain.locations import Roots
from metadata.domain.source_options import check_options
from metadata.domain.types import DataType

MAX_COLUMNS = 2_000
_SAMPLES = 3


def sample_files(
    path: Path, format_name: str, options: dict[str, Any] | None, rows: int = ROWS, *, roots: Roots
) -> Sample:
    """Return the first rows of the first file there. ``options`` None: how it is read is guessed, and reported.

    Files that links lead to must be below ``roots``, too.
    Raise Refusal where a load would refuse the file, too, as far as these rows show it.
    """
    files = files_at(path, roots)
    first = files[0]
    check_options(format_name, options or {})
    match format_name:
        case "csv":
            sample = _csv(first, options, rows)
        case "jsonl":
            sample = _json_lines(first, options or {}, rows)
        case "parquet":
            sample = _parquet(first, rows)
        case _:
            raise Refusal("UNKNOWN_FORMAT", f"there is no format {format_name!r}", hint="Choose one above.")
    if len(files) > 1:
        note = f"The first of {len(files):,} files was looked at; a load reads them all."
        sample = replace(sample, notes=(*sample.notes, note), whole=False)
    return sample


def _csv(path: Path, options: dict[str, Any] | None, rows: int) -> Sample:
    said = dict(options) if options is not None else {}
    if options is None and (delimiter := guess_delimiter(path, "UTF-8")) != ",":
        said["delimiter"] = delimiter
    names, records, whole = read_csv(path, said, rows)
    _check_width(path, names)
    values = [list(column) for column in zip(*records, strict=True)] or [[] for _ in names]
    notes = ()
    if len(names) == 1 and any(sign in names[0] for sign in ";\t|,"):
        notes = ("The file has one column only, and its name has a sign in it that may be the delimiter.",)
    columns = [_by_text(name, column) for name, column in zip(names, values, strict=True)]
    return sampled(columns, values, whole=whole, typed=False, where=path.name, notes=notes, options=said)


def _json_lines(path: Path, options: dict[str, Any], rows: int) -> Sample:
    names, records, whole = read_json_lines(path, options, rows)
    _check_width(path, names)
    given = [[record.get(name) for record in records] for name in names]
    values = [[text_of(value) for value in column] for column in given]
    columns = [_by_notation(*each) for each in zip(names, given, values, strict=True)]
    return sampled(columns, values, whole=whole, typed=False, where=path.name, options=options)


def _parquet(path: Path, rows: int) -> Sample:
    # Arrow takes a while to import, and only Parquet needs it.
    from loader.sources.parquet_files import read_parquet

    described, values, total = read_parquet(path, rows)
    _check_width(path, [name for name, _, _ in described])
    columns = [
        SampledColumn(name, found or DataType(ours.STRING), f"the file says {own}")
        if found
        else SampledColumn(
            name, DataType(ours.STRING), f"the file says {own}", problem=f"{own} cannot be held in the warehouse"
        )
        for name, own, found in described
    ]
    return sampled(columns, values, whole=len(values[0] if values else []) == total, typed=True, where=path.name)


def sampled(
    columns: list[SampledColumn],
    values: list[list[Value]],
    *,
    whole: bool,
    typed: bool,
    where: str,
    key: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    options: dict[str, Any] | None = None,
) -> Sample:
    """Return the sample with counts per column and a key: the known one, or else one that the data suggest."""
    rows = len(values[0]) if values else 0
    places, why = suggest_key([column.name for column in columns], values)
    if key:
        places = tuple(place for name in key for place, column in enumerate(columns) if column.name == name)
        why = "the table's primary key"
    counted = [
        replace(
            column,
            rows=rows,
            nulls=sum(value is None for value in held),
            unique=rows > 1 and len(set(held)) == rows,
            key_ordinal=places.index(place) + 1 if place in places else None,
            key_evidence=why if place in places else "",
            nullable=column.nullable and place not in places,
            sample=tuple(dict.fromkeys(value[:60] for value in held if value))[:_SAMPLES],
        )
        for place, (column, held) in enumerate(zip(columns, values, strict=True))
    ]
    part = f"all {rows:,} rows" if whole else f"the first {rows:,} rows"
    return Sample(
        tuple(counted), rows, whole, typed, f"{part} of {where}", tuple(map(tuple, values)), notes, options or {}
    )


def _by_text(name: str, values: list[Value]) -> SampledColumn:
    found, evidence = infer(values, len(values))
    return SampledColumn(name, found, evidence)


def _by_notation(name: str, given: list[Any], values: list[Value]) -> SampledColumn:
    """Return a column of JSON, which distinguishes numbers from text: ``"12"`` stays text."""
    found, evidence = infer(values, len(values))
    present = [value for value in given if value is not None]
    texts = [value for value in present if isinstance(value, str) and not is_number(value)]
    if texts and found.name in (ours.BOOLEAN, ours.INTEGER, ours.BIGINT, ours.DECIMAL, ours.FLOAT):
        return SampledColumn(name, DataType(ours.STRING), f"{len(texts):,} of the sampled values stand in quotes: text")
    return SampledColumn(name, found, evidence)


def _check_width(path: Path, names: list[str]) -> None:
    if len(names) > MAX_COLUMNS:
        raise Refusal(
            "TOO_MANY_COLUMNS",
            f"{path.name} has {len(names):,} columns; these pages show {MAX_COLUMNS:,} at most",
            hint="Describe the source in YAML.",
        )
