"""Revert of one load run in a history."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from loader.management.run_command import GovernedCommand
from loader.services.maintenance.maintenance import request_revert


class Command(GovernedCommand):
    """Command to revert a run: versions it opened are removed, those it closed open again.

    It is refused where later runs depend on the run.
    """

    help = (
        "Take one load run out of a dataset's history: what it opened goes, what it closed opens again. "
        "Refused, with the reason, where later runs would not stay right. The run cannot be applied again."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("of_run", metavar="RUN_ID", help="the run to revert")
        parser.add_argument("dataset", metavar="DATASET", help="S.D, of the dataset or of its history")
        parser.add_argument("--reason", required=True, help="why; it stays with the run")
        parser.add_argument("--run-id", metavar="ID", help="name the reverting run, or repeat the run of that name")
        self.local_argument(parser)

    def run(self, *, of_run: str, dataset: str, reason: str, run_id: str | None, local: bool, **_: Any):
        request = partial(request_revert, of_run=of_run, dataset=dataset, reason=reason, run_id=run_id)
        self.perform(request, local=local)
