"""The API of environments and their policies: what each allows, and how many people must agree."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.api.refusing import refusals
from architecture.domain.policy import RISKS, RULE_CODES, SEVERITIES
from architecture.models import Environment
from architecture.services.environments import current_environment
from architecture.services.policies import policy_of, update_policies
from metadata.api.etags import check_match
from metadata.api.permits import permitted_to
from metadata.api.resources import NAME, ReadOnly
from metadata.api.strict import ChangeSerializer
from metadata.domain.roles import Permission
from metadata.services.common import writing

_RULES = {
    "type": "object",
    "properties": {code: {"enum": list(SEVERITIES)} for code in RULE_CODES},
    "additionalProperties": False,
}
_NEED = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 0}, "role": {"type": "string"}},
    "additionalProperties": False,
}
_POLICY = {
    "type": "object",
    "properties": {
        "severities": _RULES,
        "approvals": {
            "type": "object",
            "properties": dict.fromkeys(RISKS, _NEED),
            "additionalProperties": False,
        },
        "approver_may_execute": {"type": "boolean"},
        "automatic_safe_changes": {"type": "boolean"},
    },
}


@extend_schema_field(_POLICY)
class PolicyField(serializers.DictField):
    """Severities by rule, approvals by risk, and what loads and approvers may."""


class EnvironmentSerializer(serializers.ModelSerializer):
    current = serializers.SerializerMethodField(help_text="Whether it is the one that is worked in here.")
    policies = PolicyField(read_only=True, help_text="What it says differently from the installation's defaults.")
    policy = serializers.SerializerMethodField(help_text="What is in force.")
    version = serializers.IntegerField(source="policies_version", read_only=True)

    class Meta:
        model = Environment
        fields = ("name", "current", "policies", "policy", "version")

    def get_current(self, environment: Environment) -> bool:
        return environment.pk == current_environment().pk

    @extend_schema_field(_POLICY)
    def get_policy(self, environment: Environment) -> dict[str, Any]:
        return policy_of(environment).as_json()


class PolicyChange(ChangeSerializer):
    policies = PolicyField(help_text="All that the environment says differently from the defaults; {} for nothing.")


class EnvironmentViewSet(ReadOnly):
    """Environments, each with its policy. Reports made under an earlier policy are stale."""

    queryset = Environment.objects.none()
    serializer_class = EnvironmentSerializer
    change_serializer = PolicyChange
    lookup_field = "name"
    lookup_value_regex = NAME
    needs = {"partial_update": permitted_to(Permission.MANAGE_POLICIES)}
    tagged = True
    must_match = frozenset({"partial_update"})

    def get_queryset(self) -> QuerySet[Environment]:
        current_environment()
        return Environment.objects.order_by("name", "pk")

    def version_of(self, row: Environment) -> int:
        return row.policies_version

    @extend_schema(responses=EnvironmentSerializer)
    def partial_update(self, request: Request, name: str) -> Response:
        """Set what the environment says differently from the installation's policy."""
        row = self.get_object()
        check_match(request, row.policies_version, required=True)
        given, reason = self.given(PolicyChange)
        with refusals(), writing(reason):
            update_policies(
                environment=row,
                policies=given["policies"],
                expected_version=row.policies_version,
                person=request.user,
            )
        return self.answer(row)
