"""Make personal tokens worthless, at once."""

from argparse import ArgumentParser
from typing import Any

from elevata.core.cli import INVALID, ProductCommand
from metadata.services.people import person_named, revoke_tokens


class Command(ProductCommand):
    help = "Revoke a person's tokens: all of them, or those with a label."
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="whose tokens")
        parser.add_argument("--label", help="only tokens with this label")

    def run(self, *, name: str, label: str | None, **options: Any) -> None:
        revoked = revoke_tokens(user=person_named(name), name=label)
        self.say(f"{revoked} tokens of {name} revoked")
        self.print_json({"name": name, "revoked": revoked})
