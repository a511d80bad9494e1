"""Let somebody sign in again who gave too many wrong passwords."""

from argparse import ArgumentParser
from typing import Any

from elevata.cli import INVALID, ProductCommand
from elevata.locks import unlock


class Command(ProductCommand):
    help = "Unlock a name that gave too many wrong passwords, wherever they came from. Stands in the change log."
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the name that was tried")

    def run(self, *, name: str, **options: Any) -> None:
        opened = unlock(name=name)
        self.say(f"{opened} locks of {name} opened" if opened else f"{name} is not locked")
        self.print_json({"name": name, "opened": opened})
