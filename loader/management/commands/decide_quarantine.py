"""Command that releases or drops rows of a dataset's quarantine."""

from argparse import ArgumentParser

from loader.contract.run_states import DECISIONS
from loader.management.run_command import MaintenanceCommand
from loader.services.maintenance.quarantine import request_quarantine


class Command(MaintenanceCommand):
    """Command to decide on the rows that a dataset's loads quarantined."""

    request = staticmethod(request_quarantine)
    own_options = ("decision", "entries", "of_run")
    help = (
        "Release the quarantined rows of a dataset into its next load, or drop them. By default all waiting rows are "
        "meant; --of-run limits them to those of a load run, --entry to single rows."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", metavar="DATASET", help="S.D")
        parser.add_argument("decision", choices=DECISIONS)
        parser.add_argument("--of-run", default="", metavar="ID", help="only rows that this load run quarantined")
        parser.add_argument(
            "--entry",
            action="append",
            default=[],
            dest="entries",
            metavar="HASH",
            help="only this row; may be repeated",
        )
        self.common_arguments(parser)
