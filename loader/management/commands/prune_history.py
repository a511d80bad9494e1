"""Command that removes closed versions from a history, by age."""

from argparse import ArgumentParser

from loader.management.run_command import MaintenanceCommand
from loader.services.maintenance.prunes import request_prune


class Command(MaintenanceCommand):
    """Command to remove closed versions that ended before a date, after archiving them on request."""

    request = staticmethod(request_prune)
    own_options = ("ended_before", "older_than_days", "archive")
    help = (
        "Remove the closed versions of a history that ended before a date or a number of days ago; open versions "
        "stay. With --archive they are written to a Delta table first. Later loads refuse rows that are dated in the "
        "pruned time."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", metavar="DATASET", help="S.D, of the dataset or of its history")
        rule = parser.add_mutually_exclusive_group(required=True)
        rule.add_argument(
            "--ended-before",
            metavar="DATE",
            help="a date, a time, or a sequence number, as the history's versions have",
        )
        rule.add_argument(
            "--older-than-days",
            type=int,
            metavar="N",
            help="remove versions that ended more than this number of days ago",
        )
        parser.add_argument("--archive", metavar="PATH", help="folder of the Delta table for the removed versions")
        self.common_arguments(parser)
