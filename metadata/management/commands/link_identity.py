"""Say that somebody at the provider of single sign-on is somebody here."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from elevata.core.cli import INVALID, CommandExit, ProductCommand
from metadata.services.people import link_identity, person_named


class Command(ProductCommand):
    help = "Link a subject of the provider of single sign-on to a person who is there already."
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="who they are here")
        parser.add_argument("subject", metavar="SUBJECT", help="who they are there: the claim sub of their ID token")
        parser.add_argument("--issuer", default="", help="the provider (default: ELEVATA_OIDC_ISSUER)")

    def run(self, *, name: str, subject: str, issuer: str, **options: Any) -> None:
        provider = settings.SINGLE_SIGN_ON
        told = issuer or (provider.issuer if provider is not None else "")
        if not told:
            raise CommandExit(INVALID, "no provider is set: give --issuer", "usage")
        link_identity(user=person_named(name), issuer=told, subject=subject)
        self.say(f"{subject} at {told} is {name}")
        self.print_json({"name": name, "issuer": told, "subject": subject})
