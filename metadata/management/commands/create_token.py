"""Make a personal token for somebody who is there already."""

from argparse import ArgumentParser
from typing import Any

from elevata.core.cli import INVALID, ProductCommand
from metadata.models import PersonalToken
from metadata.services.people import create_token, person_named


class Command(ProductCommand):
    help = (
        "Create a personal token: with it in ELEVATA_TOKEN commands act for its person, and the API takes it as "
        "'Authorization: Token …'. It is printed once and stored only as a hash."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="whose token it is")
        parser.add_argument("--label", default="", help="what it is for, to tell a person's tokens apart")
        parser.add_argument("--days", type=int, metavar="N", help="how long it is good (default: 90)")
        parser.add_argument(
            "--scope", choices=PersonalToken.Scope.values, default="write", help="read: it changes nothing"
        )

    def run(self, *, name: str, label: str, days: int | None, scope: str, **options: Any) -> None:
        token, text = create_token(user=person_named(name), name=label, days=days, scope=scope)
        self.say(f"personal token of {name}, good until {token.expiry:%Y-%m-%d}, shown once: {text}")
        self.print_json(
            {"name": name, "label": label, "scope": scope, "expiry": token.expiry.isoformat(), "token": text}
        )
