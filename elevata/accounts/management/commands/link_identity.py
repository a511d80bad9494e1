"""Command that links an identity of the single sign-on provider to a user."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from elevata.accounts.services.users import link_identity, user_named


class Command(ProductCommand):
    help = "Link a subject of the single sign-on provider to an existing user."
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="user name in the product")
        parser.add_argument("subject", metavar="SUBJECT", help="claim sub of the user's ID token")
        parser.add_argument("--issuer", default="", help="the provider (default: ELEVATA_OIDC_ISSUER)")

    def run(self, *, name: str, subject: str, issuer: str, **options: Any) -> None:
        provider = settings.SINGLE_SIGN_ON
        issuer_url = issuer or (provider.issuer if provider is not None else "")
        if not issuer_url:
            raise CommandExit(INVALID, "no provider is set: give --issuer", "usage")
        link_identity(user=user_named(name), issuer=issuer_url, subject=subject)
        self.say(f"{subject} at {issuer_url} is {name}")
        self.print_json({"name": name, "issuer": issuer_url, "subject": subject})
