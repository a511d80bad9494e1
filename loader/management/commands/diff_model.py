"""Command that compares the rows of a model's SELECT with those of its table."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, INVALID, CommandExit, printable
from elevata.jobs import states
from elevata.jobs.waiting import NoWorker
from loader.contract.refusals import Refusal
from loader.domain.queries.differences import difference_text
from loader.management.run_command import ReadingCommand
from loader.services.reads.read_requests import request_trial
from metadata.models import TargetDataset
from metadata.selectors.datasets import datasets_by_name


class Command(ReadingCommand):
    """Command to show what a load of a model would change in its table: added, changed and gone rows."""

    help = (
        "Compare the rows of a model's SELECT with its table, by its key or else by whole rows; nothing is written. "
        "With the personal token in ELEVATA_TOKEN it is that user's read. Ends with 0 if the rows were compared, 1 if "
        "that failed, 4 if the SELECT is invalid or may not be compared."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", metavar="DATASET", help="model, like mart.daily_delay")
        parser.add_argument("--select", metavar="FILE", help="compare this SELECT instead of the saved one")
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def run(self, *, dataset: str, select: str | None, local: bool, **options: Any) -> None:
        model = _model(dataset)
        text = _read(Path(select)) if select else model.select
        request = partial(request_trial, text, dataset=model, limit=1, compare=True, user=current_actor().user)
        try:
            with self.reading(local=local) as answer_of:
                read = answer_of(request)
        except NoWorker as unavailable:
            raise CommandExit(FAILED, unavailable.one_line(), unavailable.code) from unavailable
        if read.status != states.SUCCEEDED:
            error = Refusal.from_json(
                read.error or {"code": "UNEXPECTED", "message": "the comparison ended without a reason"}
            )
            raise CommandExit(FAILED, error.one_line(), error.code)
        difference = (read.answer or {})["difference"]
        self.print_json(difference)
        if not self._as_json:
            self.stdout.write(printable(difference_text(difference), self.stdout), ending="")


def _model(name: str) -> TargetDataset:
    model = datasets_by_name(name).exclude(select="").first()
    if model is None:
        raise Refusal("UNKNOWN_DATASET", f"there is no model {name}", hint="Name a model with its schema.")
    return model


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandExit(INVALID, f"{path}: {reason}", "unreadable") from None
