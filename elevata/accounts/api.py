"""API of users: their roles, their grants for one place, and their active state.

It never returns passwords and tokens, because responses are stored for repeated requests.
"""

import hashlib
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers

from elevata.accounts.filtersets import UserFilter
from elevata.accounts.models import RoleGrant
from elevata.accounts.places import LAYERS, Place
from elevata.accounts.roles import ROLES, Permission, Role
from elevata.accounts.services.users import (
    activate_user,
    create_service_account,
    create_user,
    deactivate_user,
    grant_role,
    lock_user,
    revoke_grant,
    set_roles,
    user_named,
)
from elevata.api.requests import ChangeSerializer, StrictSerializer
from elevata.api.resources import NAME, Editable, permitted_to
from elevata.core.canonical_json import canonical_json
from elevata.core.errors import MetadataError

_MANAGES = permitted_to(Permission.MANAGE_USERS, on=Place)
ROLE_NAMES = [role.value for role in Role]


class GrantSerializer(StrictSerializer):
    """A role for one place: an environment, a layer or a schema, by name."""

    role = serializers.ChoiceField(choices=ROLE_NAMES)
    environment = serializers.CharField(required=False, allow_blank=True, default="", max_length=100)
    layer = serializers.ChoiceField(choices=list(LAYERS.items()), required=False, allow_blank=True, default="")
    schema = serializers.CharField(required=False, allow_blank=True, default="", max_length=100)

    def validate(self, attrs: dict[str, str]) -> dict[str, str]:
        """Return the grant with all fields, also in updates."""
        if "role" not in attrs:
            raise serializers.ValidationError({"role": ["This field is required."]})
        return {"environment": "", "layer": "", "schema": "", **attrs}


class UserChange(ChangeSerializer):
    roles = serializers.ListField(
        child=serializers.ChoiceField(choices=ROLE_NAMES),
        required=False,
        max_length=len(ROLES),
        help_text="Everywhere.",
    )
    grants = GrantSerializer(
        many=True,
        required=False,
        max_length=100,
        help_text="All scoped roles.",  # type: ignore[call-arg]  # of many
    )
    active = serializers.BooleanField(required=False, help_text="An inactive user cannot sign in.")


class NewUser(UserChange):
    name = serializers.CharField(max_length=150)
    owner = serializers.CharField(required=False, max_length=150, help_text="Creates a service account of this user.")


class UserSerializer(serializers.Serializer):
    name = serializers.CharField(source="username")
    active = serializers.BooleanField(source="is_active")
    roles = serializers.SerializerMethodField()
    grants = serializers.SerializerMethodField()
    owner = serializers.SerializerMethodField(help_text="Responsible user, if it is a service account.")
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
    create=extend_schema(description="Create a user for single sign-on, or a service account that uses tokens."),
    partial_update=extend_schema(description="Change roles, scoped roles or the active state."),
)
class UserViewSet(Editable):
    """Users and service accounts, for administrators."""

    queryset = get_user_model().objects.none()
    serializer_class = UserSerializer
    create_serializer, change_serializer = NewUser, UserChange
    filterset_class = UserFilter
    lookup_field = "username"
    lookup_url_kwarg = "name"
    lookup_value_regex = NAME
    needs = {"list": _MANAGES, "retrieve": _MANAGES}
    writes = _MANAGES

    def get_queryset(self) -> QuerySet:
        related = get_user_model().objects.select_related("service_account__owner")
        return related.prefetch_related("groups", "role_grants").order_by("username", "pk")

    def version_of(self, row: Any) -> str:
        """Return a digest of the editable fields; users have no version number."""
        fields = UserSerializer(row).data
        editable = {name: fields[name] for name in ("active", "roles", "grants")}
        return hashlib.sha256(canonical_json(editable)).hexdigest()[:16]

    def make(self, *, name: str, owner: str = "", **given: Any) -> Any:
        roles = given.pop("roles", [])
        if owner:
            row = create_service_account(name=name, owner=user_named(owner, "owner"), roles=roles)
        else:
            row = create_user(name=name, roles=roles)
        return self.change(row, "", **given)

    def change(self, row: Any, expected_version: object, **given: Any) -> Any:
        """Change the user after a check of the version; ``expected_version`` is empty for a new user."""
        if expected_version:
            self._check_version(row, expected_version)
        if "roles" in given:
            set_roles(user=row, roles=given["roles"])
        if "grants" in given:
            _set_grants(row, given["grants"])
        if "active" in given:
            (activate_user if given["active"] else deactivate_user)(user=row)
        return row

    def _check_version(self, row: Any, expected_version: object) -> None:
        """Lock the user and raise MetadataError ``stale_version`` if the version differs."""
        lock_user(row)
        if self.version_of(self.get_queryset().get(pk=row.pk)) != expected_version:
            message = "was changed by another user; reload it before changing it"
            raise MetadataError("stale_version", message, where=row.get_username())


def _grant(row: RoleGrant) -> dict[str, str]:
    return {"role": row.role, "environment": row.environment, "layer": row.layer, "schema": row.schema}


def _set_grants(user: Any, grants: list[dict[str, str]]) -> None:
    """Set the user's grants to exactly these."""
    stored = {tuple(_grant(row).values()): row for row in user.role_grants.all()}
    requested = {tuple(grant[name] for name in ("role", "environment", "layer", "schema")) for grant in grants}
    for place in sorted(stored.keys() - requested):
        revoke_grant(grant=stored[place])
    for role, environment, layer, schema in sorted(requested - stored.keys()):
        grant_role(user=user, role=role, environment=environment, layer=layer, schema=schema)
