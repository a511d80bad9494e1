"""Command that reverts one load run in a history."""

from argparse import ArgumentParser

from loader.management.run_command import MaintenanceCommand
from loader.services.maintenance.reverts import request_revert


class Command(MaintenanceCommand):
    """Command to revert a run: versions that it opened are removed, and versions that it closed are reopened.

    It is refused if later runs depend on the run.
    """

    request = staticmethod(request_revert)
    own_options = ("of_run",)
    help = (
        "Revert one load run in a dataset's history: remove the versions it opened and reopen those it closed. It is "
        "refused, with the reason, if the results of later runs would be wrong without it. The run cannot be applied "
        "again."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("of_run", metavar="RUN_ID", help="the run to revert")
        parser.add_argument("dataset", metavar="DATASET", help="S.D, of the dataset or of its history")
        self.common_arguments(parser)
