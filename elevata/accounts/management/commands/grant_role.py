"""Command that grants or revokes a user's role for one environment, one layer or one schema."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.cli import INVALID, ProductCommand
from elevata.accounts.models import RoleGrant
from elevata.accounts.places import LAYERS
from elevata.accounts.roles import Role
from elevata.accounts.services.users import grant_role, revoke_grant, user_named


class Command(ProductCommand):
    help = "Grant a scoped role, in addition to the user's global roles."
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="user")
        parser.add_argument("role", metavar="ROLE", choices=[role.value for role in Role], help="role to grant")
        place = parser.add_mutually_exclusive_group(required=True)
        place.add_argument("--environment", default="", help="for this environment")
        place.add_argument("--layer", default="", choices=list(LAYERS), help="for this layer")
        place.add_argument("--schema", default="", help="for this schema")
        parser.add_argument("--revoke", action="store_true", help="revoke the role")

    def run(
        self, *, name: str, role: str, environment: str, layer: str, schema: str, revoke: bool, **options: Any
    ) -> None:
        user, place = user_named(name), {"environment": environment, "layer": layer, "schema": schema}
        if revoke:
            for grant in RoleGrant.objects.filter(user=user, role=role, **place):
                revoke_grant(grant=grant)
        else:
            grant_role(user=user, role=role, **place)
        where = environment and f"environment {environment}" or layer and f"layer {layer}" or f"schema {schema}"
        self.say(f"{name} {'is no longer' if revoke else 'is'} {role} for {where}")
        self.print_json({"name": name, "role": role, "place": where, "granted": not revoke})
