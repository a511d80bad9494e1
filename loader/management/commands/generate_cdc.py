"""Two deliveries of synthetic data with known changes between them."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.core.cli import FAILED, INVALID, CommandExit, ProductCommand
from loader.domain.runs.refusals import Refusal
from loader.domain.sources.synthetic import PlanProblem, SyntheticPlan
from loader.management.synthetic_files import FORMATS, INCREMENTAL, INITIAL, write_deliveries


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
        parser.add_argument("folder", metavar="FOLDER", type=Path, help="where to write; is made if it is not there")
        parser.add_argument("--initial-rows", type=int, metavar="N", default=10_000, help="default: 10000")
        parser.add_argument("--incremental-rows", type=int, metavar="N", help="default: as many as initial rows")
        parser.add_argument("--keys", type=int, metavar="N", default=2, help="number of key columns; default: 2")
        parser.add_argument("--nonkeys", type=int, metavar="N", default=3, help="number of other columns; default: 3")
        parser.add_argument("--deleted", metavar="SHARE", default="0.2", help="from 0 to 1; default: 0.2")
        parser.add_argument("--updated", metavar="SHARE", default="0.4", help="from 0 to 1; default: 0.4")
        parser.add_argument("--unchanged", metavar="SHARE", default="0.4", help="from 0 to 1; default: 0.4")
        parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="default: csv")
        parser.add_argument("--seed", type=int, metavar="N", default=0, help="default: 0")
        parser.add_argument("--overwrite", action="store_true", help="replace what an earlier call wrote there")

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
        said = ", ".join(f"{number} {change}" for change, number in counts.items())
        self.say(f"{plan.initial_rows} rows in {files[INITIAL]}")
        self.say(f"{plan.incremental_rows} rows in {files[INCREMENTAL]} ({said})")
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
    """Return the plan by the options; a problem ends the command and names them."""
    wanted = ("initial_rows", "incremental_rows", "keys", "nonkeys", "deleted", "updated", "unchanged", "seed")
    given = {name: options[name] for name in wanted}
    if given["incremental_rows"] is None:
        given["incremental_rows"] = given["initial_rows"]
    try:
        return SyntheticPlan.of(**given)
    except PlanProblem as problem:
        named = ", ".join(f"--{parameter.replace('_', '-')}" for parameter in problem.parameters)
        raise CommandExit(INVALID, f"{named}: {problem.message}", problem.code) from problem
