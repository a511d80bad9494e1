"""Give a person a role for one environment, one layer or one schema, or take it back."""

from argparse import ArgumentParser
from typing import Any

from elevata.core.cli import INVALID, ProductCommand
from elevata.core.errors import MetadataError
from metadata.domain.roles import Role
from metadata.models import RoleGrant, TargetSchema
from metadata.services.people import grant_role, person_named, revoke_grant


class Command(ProductCommand):
    help = "Grant a role for one place: it adds to the roles that the person has everywhere."
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="who gets it")
        parser.add_argument("role", metavar="ROLE", choices=[role.value for role in Role], help="which role")
        place = parser.add_mutually_exclusive_group(required=True)
        place.add_argument("--environment", default="", help="for this environment")
        place.add_argument("--layer", default="", choices=TargetSchema.Layer.values, help="for this layer")
        place.add_argument("--schema", default="", help="for this schema")
        parser.add_argument("--revoke", action="store_true", help="take it back")

    def run(
        self, *, name: str, role: str, environment: str, layer: str, schema: str, revoke: bool, **options: Any
    ) -> None:
        user, row = person_named(name), TargetSchema.objects.filter(name=schema).first() if schema else None
        if schema and row is None:
            raise MetadataError("unknown_schema", "there is no schema of this name", "schema", schema)
        place = {"environment": environment, "layer": layer, "schema": row}
        if revoke:
            for grant in RoleGrant.objects.filter(user=user, role=role, **place):
                revoke_grant(grant=grant)
        else:
            grant_role(user=user, role=role, **place)
        where = environment and f"environment {environment}" or layer and f"layer {layer}" or f"schema {schema}"
        self.say(f"{name} {'is no longer' if revoke else 'is'} {role} for {where}")
        self.print_json({"name": name, "role": role, "place": where, "granted": not revoke})
