"""Command that creates a user or a service account."""

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_service_account, create_user, user_named
from elevata.audit.services.transactions import writing


class Command(ProductCommand):
    help = (
        "Create a user with roles. The user signs in with a password; programs use a personal token, which is shown "
        "once."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="sign-in name")
        parser.add_argument(
            "--role",
            action="append",
            required=True,
            choices=[role.value for role in Role],
            help="role of the user; repeatable",
        )
        password = parser.add_mutually_exclusive_group()
        password.add_argument("--password", help="visible to others on this machine: for tests and demos")
        password.add_argument("--ask-password", action="store_true", help="ask for it, or read it from standard input")
        parser.add_argument("--token", action="store_true", help="create a personal token and print it")
        parser.add_argument(
            "--service-account-of", default="", metavar="OWNER", help="create a service account of this user"
        )
        parser.add_argument("--days", type=int, metavar="N", help="days until the token expires (default: 90)")

    def run(
        self,
        *,
        name: str,
        role: list[str],
        password: str | None,
        ask_password: bool,
        token: bool,
        days: int | None,
        service_account_of: str,
        **options: Any,
    ) -> None:
        if service_account_of and (password or ask_password):
            raise CommandExit(INVALID, "a service account has no password: give --token", "usage")
        if not (password or ask_password or token):
            raise CommandExit(INVALID, "give --password, --ask-password or --token", "usage")
        if days is not None and not token:
            raise CommandExit(INVALID, "--days goes with --token", "usage")
        if ask_password:
            password = _ask_password()
        with writing():
            if service_account_of:
                user = create_service_account(name=name, owner=user_named(service_account_of), roles=role)
            else:
                user = create_user(name=name, roles=role, password=password)
            text = create_token(user=user, days=days)[1] if token else None
        self.say(f"{name} is there: {', '.join(sorted(set(role)))}")
        if text is not None:
            self.say(f"personal token, shown once: {text}")
        self.print_json({"name": name, "roles": sorted(set(role)), "token": text})


def _ask_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if password != getpass.getpass("Again: "):
        raise CommandExit(INVALID, "the two passwords differ", "passwords_differ")
    return password
