"""Command that creates a personal token of an existing user."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.cli import INVALID, ProductCommand
from elevata.accounts.models import PersonalToken
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import user_named


class Command(ProductCommand):
    help = (
        "Create a personal token: commands read it from ELEVATA_TOKEN, the API from the header 'Authorization: "
        "Token …'. It is printed once and stored only as a hash."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="user of the token")
        parser.add_argument("--label", default="", help="purpose of the token")
        parser.add_argument("--days", type=int, metavar="N", help="days until it expires (default: 90)")
        parser.add_argument(
            "--scope",
            choices=PersonalToken.Scope.values,
            default="write",
            help="read: the token cannot change anything",
        )

    def run(self, *, name: str, label: str, days: int | None, scope: str, **options: Any) -> None:
        token, text = create_token(user=user_named(name), name=label, days=days, scope=scope)
        self.say(f"personal token of {name}, good until {token.expiry:%Y-%m-%d}, shown once: {text}")
        self.print_json(
            {"name": name, "label": label, "scope": scope, "expiry": token.expiry.isoformat(), "token": text}
        )
