"""Command that writes two deliveries of synthetic data with known changes between them."""

import csv
import os
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from loader.contract.refusals import Refusal
from loader.domain.synthetic import PlanProblem, Row, SyntheticPlan, incremental, initial

# Each delivery is a folder with one file, which is written row by row.


CSV, PARQUET = "csv", "parquet"
FORMATS = (CSV, PARQUET)
INITIAL, INCREMENTAL = "initial", "incremental"

# Number of values that are buffered while Parquet is written.
_VALUES_IN_A_ROW_GROUP = 250_000


def write_deliveries(plan: SyntheticPlan, folder: Path, *, format: str, overwrite: bool = False) -> dict[str, Path]:
    """Write both deliveries below ``folder``; return their files by the delivery's name.

    The same plan gives the same bytes (of Parquet with the same pyarrow). A file gets its name when it is complete.
    Raise Refusal ``FOLDER_IN_USE`` before writing if a delivery's folder is not empty; with ``overwrite``, only if it
    has files that no earlier call wrote.
    """
    files = {name: folder / name / f"rows.{format}" for name in (INITIAL, INCREMENTAL)}
    for file in files.values():
        _refuse_other_files(file.parent, overwrite)
    write = _write_csv if format == CSV else _write_parquet
    for (name, file), rows in zip(files.items(), (initial(plan), incremental(plan)), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            write(unfinished, plan, rows)
            for old in (file.parent / f"rows.{other}" for other in FORMATS if other != format):
                old.unlink(missing_ok=True)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
        files[name] = file
    return files


def _refuse_other_files(folder: Path, overwrite: bool) -> None:
    if not folder.exists():
        return
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".rows."))
    others = [name for name in names if name not in {f"rows.{known}" for known in FORMATS}]
    if others:
        raise Refusal("FOLDER_IN_USE", f"{folder} holds other files ({', '.join(others[:3])})")
    if names and not overwrite:
        raise Refusal("FOLDER_IN_USE", f"{folder} already holds {names[0]}", hint="--overwrite replaces it")


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


class Command(ProductCommand):
    """Command to write synthetic data for change data capture."""

    help = (
        "Synthetic CDC data: FOLDER/initial holds a first delivery, FOLDER/incremental a second one in which exactly "
        "the given shares of the initial rows are deleted, updated and unchanged, and new rows fill up the rest. "
        "The shares must sum to 1. Keys are UUIDs, other values are whole numbers. The same seed gives the same "
        "bytes. Ends with 4 on invalid input, naming the option."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folder", metavar="FOLDER", type=Path, help="folder to write; it is created if it does not exist"
        )
        parser.add_argument("--initial-rows", type=int, metavar="N", default=10_000, help="default: 10000")
        parser.add_argument("--incremental-rows", type=int, metavar="N", help="default: as many as initial rows")
        parser.add_argument("--keys", type=int, metavar="N", default=2, help="number of key columns; default: 2")
        parser.add_argument("--nonkeys", type=int, metavar="N", default=3, help="number of other columns; default: 3")
        parser.add_argument("--deleted", metavar="SHARE", default="0.2", help="from 0 to 1; default: 0.2")
        parser.add_argument("--updated", metavar="SHARE", default="0.4", help="from 0 to 1; default: 0.4")
        parser.add_argument("--unchanged", metavar="SHARE", default="0.4", help="from 0 to 1; default: 0.4")
        parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="default: csv")
        parser.add_argument("--seed", type=int, metavar="N", default=0, help="default: 0")
        parser.add_argument("--overwrite", action="store_true", help="replace the files of an earlier call")

    def run(self, *, folder: Path, format: str, overwrite: bool, **options: Any) -> None:
        plan = _plan(options)
        try:
            files = write_deliveries(plan, folder, format=format, overwrite=overwrite)
        except Refusal as refusal:
            raise CommandExit(INVALID, f"FOLDER: {refusal.one_line()}", refusal.code) from refusal
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise CommandExit(INVALID, f"FOLDER: cannot write to {folder}: {error.strerror}", "bad_folder") from error
        except OSError as error:
            raise CommandExit(FAILED, f"{folder} was not written: {error.strerror or error}", "not_written") from error
        counts = plan.counts() | {"inserted": plan.inserted}
        message = ", ".join(f"{number} {change}" for change, number in counts.items())
        self.say(f"{plan.initial_rows} rows in {files[INITIAL]}")
        self.say(f"{plan.incremental_rows} rows in {files[INCREMENTAL]} ({message})")
        self.print_json(
            {
                "folder": str(folder),
                "format": format,
                "seed": plan.seed,
                "keys": list(plan.columns[: plan.keys]),
                "nonkeys": list(plan.columns[plan.keys :]),
                INITIAL: {"file": str(files[INITIAL]), "rows": plan.initial_rows},
                INCREMENTAL: {"file": str(files[INCREMENTAL]), "rows": plan.incremental_rows} | counts,
            }
        )


def _plan(options: dict[str, Any]) -> SyntheticPlan:
    """Return the plan of the options. Raise CommandExit with the invalid options."""
    names = ("initial_rows", "incremental_rows", "keys", "nonkeys", "deleted", "updated", "unchanged", "seed")
    values = {name: options[name] for name in names}
    if values["incremental_rows"] is None:
        values["incremental_rows"] = values["initial_rows"]
    try:
        return SyntheticPlan.of(**values)
    except PlanProblem as error:
        invalid = ", ".join(f"--{parameter.replace('_', '-')}" for parameter in error.parameters)
        raise CommandExit(INVALID, f"{invalid}: {error.message}", error.code) from error
