"""Command that revokes personal tokens at once."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.cli import INVALID, ProductCommand
from elevata.accounts.services.tokens import revoke_tokens
from elevata.accounts.services.users import user_named


class Command(ProductCommand):
    help = "Revoke the tokens of a user: all, or those with a label."
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="user of the tokens")
        parser.add_argument("--label", help="only tokens with this label")

    def run(self, *, name: str, label: str | None, **options: Any) -> None:
        revoked = revoke_tokens(user=user_named(name), name=label)
        self.say(f"{revoked} tokens of {name} revoked")
        self.print_json({"name": name, "revoked": revoked})
