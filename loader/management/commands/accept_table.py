"""Acceptance of a table as it is, though runs applied to it are missing."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from loader.management.run_command import GovernedCommand
from loader.services.maintenance.maintenance import request_accept


class Command(GovernedCommand):
    """Command to accept a table, from which loads go on; the runs that it does not hold count as reverted."""

    help = (
        "Accept a dataset's table as it is after a restore, a lost volume or a table made anew, so that loads go on. "
        "Runs that the table does not hold count as reverted from then: load their deliveries again."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", metavar="DATASET", help="S.D, of the dataset or of its history")
        parser.add_argument("--reason", required=True, help="why; it stays with the run")
        parser.add_argument("--run-id", metavar="ID", help="name the run, or repeat the run of that name")
        self.local_argument(parser)

    def run(self, *, dataset: str, reason: str, run_id: str | None, local: bool, **_: Any) -> None:
        request = partial(request_accept, dataset=dataset, reason=reason, run_id=run_id)
        self.perform(request, local=local)
