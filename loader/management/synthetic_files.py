"""Synthetic deliveries as files: a folder per delivery, one file each, written row by row."""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from loader.domain.runs.refusals import Refusal
from loader.domain.sources.synthetic import Row, SyntheticPlan, incremental, initial

CSV, PARQUET = "csv", "parquet"
FORMATS = (CSV, PARQUET)
INITIAL, INCREMENTAL = "initial", "incremental"

# Values held in memory while Parquet is written, whatever the number of rows and columns.
_VALUES_IN_A_ROW_GROUP = 250_000


def write_deliveries(plan: SyntheticPlan, folder: Path, *, format: str, overwrite: bool = False) -> dict[str, Path]:
    """Write both deliveries below ``folder``; return the file of each, by the delivery's name.

    The same plan gives the same bytes (of Parquet: with the same pyarrow). A file appears when it is
    complete. Raise Refusal ``FOLDER_IN_USE``, before anything is written, if a delivery's folder is not
    empty, unless ``overwrite`` is set and it holds only what an earlier call wrote.
    """
    files = {name: folder / name / f"rows.{format}" for name in (INITIAL, INCREMENTAL)}
    for file in files.values():
        _refuse_what_is_not_ours(file.parent, overwrite)
    write = _write_csv if format == CSV else _write_parquet
    for (name, file), rows in zip(files.items(), (initial(plan), incremental(plan)), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            write(unfinished, plan, rows)
            for old in (file.parent / f"rows.{one}" for one in FORMATS if one != format):
                old.unlink(missing_ok=True)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
        files[name] = file
    return files


def _refuse_what_is_not_ours(folder: Path, overwrite: bool) -> None:
    if not folder.exists():
        return
    found = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".rows."))
    others = [name for name in found if name not in {f"rows.{one}" for one in FORMATS}]
    if others:
        raise Refusal("FOLDER_IN_USE", f"{folder} holds other files ({', '.join(others[:3])})")
    if found and not overwrite:
        raise Refusal("FOLDER_IN_USE", f"{folder} already holds {found[0]}", hint="--overwrite replaces it")


def _write_csv(path: Path, plan: SyntheticPlan, rows: Iterable[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(plan.columns)
        writer.writerows(rows)


def _write_parquet(path: Path, plan: SyntheticPlan, rows: Iterator[Row]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    types = [pa.string()] * plan.keys + [pa.int32()] * plan.nonkeys
    schema = pa.schema(list(zip(plan.columns, types, strict=True)))
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(rows, max(1, _VALUES_IN_A_ROW_GROUP // len(types))):
            arrays = [pa.array(values, type_) for values, type_ in zip(zip(*group, strict=True), types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _groups(rows: Iterator[Row], size: int) -> Iterator[Sequence[Row]]:
    while group := list(islice(rows, size)):
        yield group
