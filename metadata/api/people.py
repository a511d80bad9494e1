"""The API of people: who there is, which roles they have everywhere and for one place, who is out of use.

Passwords and tokens are not given out here: an answer may be kept for a request that is sent again.
"""

import hashlib
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers

from elevata.core.canonical_json import canonical_json
from elevata.core.errors import MetadataError
from metadata.api.permissions import permitted_to
from metadata.api.resources import NAME, Editable
from metadata.api.strict_fields import ChangeSerializer, StrictSerializer
from metadata.domain.roles import ROLES, Permission, Place, Role
from metadata.filtersets import PersonFilter
from metadata.models import RoleGrant, TargetSchema
from metadata.services.people import (
    create_person,
    create_service_account,
    grant_role,
    lock_person,
    person_named,
    put_into_use,
    put_out_of_use,
    revoke_grant,
    set_roles,
)

_MANAGES = permitted_to(Permission.MANAGE_PEOPLE, on=Place)
ROLE_NAMES = [role.value for role in Role]


class GrantSerializer(StrictSerializer):
    """A role for one place: an environment, a layer or a schema, by name."""

    role = serializers.ChoiceField(choices=ROLE_NAMES)
    environment = serializers.CharField(required=False, allow_blank=True, default="", max_length=100)
    layer = serializers.ChoiceField(choices=TargetSchema.Layer.choices, required=False, allow_blank=True, default="")
    schema = serializers.CharField(required=False, allow_blank=True, default="", max_length=100)

    def validate(self, attrs: dict[str, str]) -> dict[str, str]:
        """A grant is told as a whole, in an edit, too."""
        if "role" not in attrs:
            raise serializers.ValidationError({"role": ["This field is required."]})
        return {"environment": "", "layer": "", "schema": "", **attrs}


class PersonChange(ChangeSerializer):
    roles = serializers.ListField(
        child=serializers.ChoiceField(choices=ROLE_NAMES),
        required=False,
        max_length=len(ROLES),
        help_text="Everywhere.",
    )
    grants = GrantSerializer(many=True, required=False, max_length=100, help_text="For one place each; all of them.")
    active = serializers.BooleanField(required=False, help_text="Out of use, nobody signs in as them.")


class NewPerson(PersonChange):
    name = serializers.CharField(max_length=150)
    owner = serializers.CharField(
        required=False, max_length=150, help_text="Makes it a service account that this person answers for."
    )


class PersonSerializer(serializers.Serializer):
    name = serializers.CharField(source="username")
    active = serializers.BooleanField(source="is_active")
    roles = serializers.SerializerMethodField()
    grants = serializers.SerializerMethodField()
    owner = serializers.SerializerMethodField(help_text="Who answers for it, if it is a service account.")
    last_login = serializers.DateTimeField(allow_null=True)

    def get_roles(self, user: Any) -> list[str]:
        names = {group.name for group in user.groups.all()}
        return [role for role in ROLE_NAMES if role in names or (user.is_superuser and role == Role.ADMIN)]

    @extend_schema_field(GrantSerializer(many=True))
    def get_grants(self, user: Any) -> list[dict[str, str]]:
        return [_grant(row) for row in user.role_grants.all()]

    def get_owner(self, user: Any) -> str | None:
        account = getattr(user, "service_account", None)
        return None if account is None else account.owner.get_username()


@extend_schema_view(
    create=extend_schema(description="Somebody new, who signs in by the provider, or a program that acts by token."),
    partial_update=extend_schema(description="Change roles, grants, or whether they are in use."),
)
class PersonViewSet(Editable):
    """People and service accounts, for those who manage people."""

    queryset = get_user_model().objects.none()
    serializer_class = PersonSerializer
    create_serializer, change_serializer = NewPerson, PersonChange
    filterset_class = PersonFilter
    lookup_field = "username"
    lookup_url_kwarg = "name"
    lookup_value_regex = NAME
    needs = {"list": _MANAGES, "retrieve": _MANAGES}
    writes = _MANAGES

    def get_queryset(self) -> QuerySet:
        related = get_user_model().objects.select_related("service_account__owner")
        return related.prefetch_related("groups", "role_grants__schema").order_by("username", "pk")

    def version_of(self, row: Any) -> str:
        """Of what may be changed here; people are no rows of metadata with a number of their own."""
        shown = PersonSerializer(row).data
        told = {name: shown[name] for name in ("active", "roles", "grants")}
        return hashlib.sha256(canonical_json(told)).hexdigest()[:16]

    def make(self, *, name: str, owner: str = "", **given: Any) -> Any:
        roles = given.pop("roles", [])
        if owner:
            row = create_service_account(name=name, owner=person_named(owner), roles=roles)
        else:
            row = create_person(name=name, roles=roles)
        return self.change(row, "", **given)

    def change(self, row: Any, expected_version: object, **given: Any) -> Any:
        """``expected_version`` is what was seen, empty for somebody who was made just now."""
        if expected_version:
            self._must_be_as_seen(row, expected_version)
        if "roles" in given:
            set_roles(user=row, roles=given["roles"])
        if "grants" in given:
            _set_grants(row, given["grants"])
        if "active" in given:
            (put_into_use if given["active"] else put_out_of_use)(user=row)
        return row

    def _must_be_as_seen(self, row: Any, expected_version: object) -> None:
        """Compare under the lock that everything takes that changes what the version is made of."""
        lock_person(row)
        if self.version_of(self.get_queryset().get(pk=row.pk)) != expected_version:
            said = "was changed by somebody else in the meantime; look at it again before changing it"
            raise MetadataError("stale_version", said, where=row.get_username())


def _grant(row: RoleGrant) -> dict[str, str]:
    schema = row.schema.name if row.schema is not None else ""
    return {"role": row.role, "environment": row.environment, "layer": row.layer, "schema": schema}


def _set_grants(user: Any, wanted: list[dict[str, str]]) -> None:
    """Give exactly these roles for one place each."""
    there = {tuple(_grant(row).values()): row for row in user.role_grants.select_related("schema")}
    asked = {tuple(grant[name] for name in ("role", "environment", "layer", "schema")) for grant in wanted}
    for place in sorted(there.keys() - asked):
        revoke_grant(grant=there[place])
    for role, environment, layer, schema in sorted(asked - there.keys()):
        grant_role(user=user, role=role, environment=environment, layer=layer, schema=_schema(schema))


def _schema(name: str) -> TargetSchema | None:
    if not name:
        return None
    found = TargetSchema.objects.filter(name=name).first()
    if found is None:
        raise serializers.ValidationError({"grants": [f"There is no schema {name!r}."]})
    return found
