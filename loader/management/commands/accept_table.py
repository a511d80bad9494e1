"""Command that accepts a table although runs applied to it are missing."""

from argparse import ArgumentParser

from loader.management.run_command import MaintenanceCommand
from loader.services.maintenance.acceptances import request_accept


class Command(MaintenanceCommand):
    """Command to accept a table, so that loads continue from it; missing runs count as reverted."""

    request = staticmethod(request_accept)
    help = (
        "Accept a dataset's table as it is, after it was restored, lost or created again, so that loads continue. "
        "Runs whose rows the table does not have count as reverted: load their deliveries again."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", metavar="DATASET", help="S.D, of the dataset or of its history")
        self.common_arguments(parser)
