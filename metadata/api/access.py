"""API of access: users with their permissions at a place, and permissions of a user by place."""

from typing import TYPE_CHECKING, Any, ClassVar

from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from elevata.accounts import api as accounts
from elevata.accounts.access import all_users
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.api.resources import Resource, permitted_to
from elevata.web.requests import user_of
from metadata.selectors import access as selectors

_LABELS = {name: label for name, (label, _) in selectors.ACTIONS.items()}


class AccessRequest(serializers.Serializer):
    """Action that the listed users may do."""

    may = serializers.ChoiceField(
        choices=[(name, _LABELS[name]) for name in selectors.PLACED],
        required=False,
        default="",
        help_text="Only users who may do this.",
    )


class GroundSerializer(serializers.Serializer):
    """Reason of a permission: a role, another group, ``superuser`` or ``direct permission``, and its place."""

    by = serializers.CharField()
    place = serializers.CharField(allow_blank=True, help_text="Place of a scoped role; empty for everywhere.")


class PermittedSerializer(serializers.Serializer):
    """Permitted action, and the reasons."""

    action = serializers.ChoiceField(choices=tuple(_LABELS.items()), source="action.name")
    grounds = GroundSerializer(many=True)


class AccessSerializer(serializers.Serializer):
    """Access of a user at a place: the permitted actions, and if values of sensitive columns are masked."""

    user = serializers.CharField(source="user.username")
    owner = serializers.CharField(allow_null=True, help_text="Responsible user, if it is a service account.")
    masked = serializers.BooleanField(help_text="True for a reader of data without sensitive values.")
    permitted = PermittedSerializer(many=True)


class ReachedSerializer(serializers.Serializer):
    """Access to a schema; to all sources, if ``name`` is empty."""

    name = serializers.CharField(allow_blank=True)
    layer = serializers.CharField()
    sensitive = serializers.IntegerField(help_text="Number of sensitive columns.")
    masked = serializers.BooleanField(source="access.masked")
    permitted = PermittedSerializer(source="access.permitted", many=True)


class ReachedEnvironmentSerializer(serializers.Serializer):
    """Access to the reports of any schema, loads and policies of an environment."""

    name = serializers.CharField()
    permitted = PermittedSerializer(source="access.permitted", many=True)


class ReachSerializer(serializers.Serializer):
    """Permissions of a user by place."""

    user = serializers.CharField(source="user.username")
    active = serializers.BooleanField(source="user.is_active")
    places = ReachedSerializer(many=True)
    environments = ReachedEnvironmentSerializer(many=True)
    manages = PermittedSerializer(source="manages.permitted", many=True)


if TYPE_CHECKING:
    _Mixed = Resource
else:
    _Mixed = object


class HasAccess(_Mixed):
    """Mixin of resources with a place: users with permissions there."""

    def known_parameters(self) -> frozenset[str]:
        if self.action == "access":
            return frozenset({"may", "page", "page_size"})
        return super().known_parameters()

    @extend_schema(responses=AccessSerializer(many=True), filters=False, parameters=[AccessRequest])
    @action(detail=True, filter_backends=())
    def access(self, request: Request, **key: Any) -> Response:
        """Return the users who may do anything here, with their roles, by name.

        Administrators, stewards of the place and owners see all users, others themselves.
        """
        row, query = self.get_object(), AccessRequest(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        actions = selectors.actions_at(row)
        users = selectors.users_at(actions, query.validated_data["may"])
        if not selectors.sees_others(request.user, row):
            users = users.filter(pk=request.user.pk)
        page = self.paginate_queryset(list(users.values_list("pk", flat=True)))
        rows = [selectors.access_of(user, actions) for user in all_users().filter(pk__in=page)]
        return self.get_paginated_response(AccessSerializer(rows, many=True).data)


class UserViewSet(accounts.UserViewSet):
    __doc__ = accounts.UserViewSet.__doc__

    needs: ClassVar = accounts.UserViewSet.needs | {"access": permitted_to(Permission.MANAGE_USERS, on=Place)}

    @extend_schema(responses=ReachSerializer, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def access(self, request: Request, name: str) -> Response:
        """Return the permissions of a user by place, with their roles."""
        return Response(_reach(self.get_object().pk))


class OwnAccessViewSet(Resource, GenericViewSet):
    """Permissions of the caller by place."""

    serializer_class = ReachSerializer
    filter_backends = ()
    pagination_class = None

    @extend_schema(operation_id="own_access", responses=forced_singular_serializer(ReachSerializer))
    def list(self, request: Request) -> Response:
        """Return your own permissions by place, with their roles."""
        return Response(_reach(user_of(request).pk))


def _reach(pk: int) -> dict[str, Any]:
    reach = selectors.reach_of(pk)
    environments = [{"name": each, "access": access} for each, access in reach.environments]
    fields = {"user": reach.user, "places": reach.places, "environments": environments, "manages": reach.manages}
    return ReachSerializer(fields).data
