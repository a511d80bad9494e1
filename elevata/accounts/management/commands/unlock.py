"""Command that unlocks a user, or an address, after too many wrong passwords."""

from argparse import ArgumentParser
from ipaddress import ip_address
from typing import Any

from elevata.accounts.cli import INVALID, ProductCommand
from elevata.accounts.lockouts import unlock, unlock_address
from elevata.core.errors import MetadataError


class Command(ProductCommand):
    help = (
        "Unlock a user name after too many wrong passwords from any address, or an address after too many attempts. "
        "Recorded in the change log."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("name", metavar="NAME", nargs="?", default="", help="locked user name")
        which.add_argument("--address", default="", metavar="ADDRESS", help="locked address")

    def run(self, *, name: str, address: str, **options: Any) -> None:
        if address:
            self._address(address)
            return
        locks = unlock(name=name)
        self.say(f"{locks} locks of {name} opened" if locks else f"{name} is not locked")
        self.print_json({"name": name, "opened": locks})

    def _address(self, address: str) -> None:
        try:
            normalized = str(ip_address(address))
        except ValueError:
            raise MetadataError("invalid", f"{address!r} is no address", "address") from None
        was_locked = unlock_address(address=normalized)
        self.say(f"{normalized} is open again" if was_locked else f"{normalized} is not locked")
        self.print_json({"address": normalized, "opened": int(was_locked)})
