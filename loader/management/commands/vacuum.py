"""Command that removes former files of a dataset's tables."""

from argparse import ArgumentParser

from loader.domain.vacuum import SAFE_HOURS
from loader.management.run_command import MaintenanceCommand
from loader.services.maintenance.vacuums import request_vacuum


class Command(MaintenanceCommand):
    """Command to remove former files and expired log files of a dataset's tables, or to list them."""

    request = staticmethod(request_vacuum)
    own_options = ("retention_hours", "dry_run")
    help = (
        "Remove the files that the tables of a dataset have not used for a number of hours, and expired log files. "
        "With --dry-run they are only listed, with their sizes. Both measure the disk use of the dataset."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", metavar="DATASET", help="S.D, of the dataset or of its history")
        parser.add_argument(
            "--retention-hours",
            type=int,
            default=SAFE_HOURS,
            metavar="N",
            help=f"keep files that were current within so many hours; {SAFE_HOURS} or more, the default",
        )
        parser.add_argument("--dry-run", action="store_true", help="list the files, and remove nothing")
        self.common_arguments(parser)
