"""Command that adopts rows that were changed outside of the product."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.cli import REFUSED, ProductCommand
from elevata.core.words import counted
from metadata.services.rows.adoption import adopt_rows


class Command(ProductCommand):
    help = (
        "Adopt all rows that verify_audit lists as changed outside of the product, as they are now. For "
        "administrators, by their token in ELEVATA_TOKEN: the administrator becomes the author of the changes, and "
        "another user approves them. Ends with 0 if they are adopted, 2 if the command is refused."
    )
    refused_exit = REFUSED

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reason", required=True, metavar="TEXT", help="reason, stored in the change log")

    def run(self, *, reason: str, **_: Any) -> None:
        rows = adopt_rows(reason=reason)
        for row in rows:
            self.say(row.describe())
        self.say(f"{counted(len(rows), 'row')} adopted")
        self.print_json({"adopted": [row.as_json() for row in rows]})
