"""API of environments and their change policies."""

from typing import Any

from django.db.models import Prefetch, QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.domain.change_policy import RISKS
from architecture.domain.policy_rules import RULE_CODES, SEVERITIES
from architecture.domain.refusals import Refused
from architecture.domain.steps.features import READERS, SPARK
from architecture.models import Environment, PolicyProposal
from architecture.services.change_policy import (
    accept_policy,
    policy_of,
    reject_policy,
    update_policies,
    withdraw_policy,
)
from architecture.services.environments import current_environment
from elevata.accounts.roles import Permission
from elevata.api.preconditions import check_match
from elevata.api.requests import ChangeSerializer
from elevata.api.resources import NAME, ReadOnly, permitted_to
from elevata.audit.services.transactions import writing

_MANAGES = permitted_to(Permission.MANAGE_POLICIES)
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
        "readers": {"enum": list(READERS), "default": SPARK},
        "maintenance": _NEED,
    },
}


@extend_schema_field(_POLICY)
class PolicyField(serializers.DictField):
    """Severities by rule, approvals by risk, permissions of loads and approvers, and readers of tables."""


class LooseningSerializer(serializers.Serializer):
    choice = serializers.CharField(help_text="The choice of the policy, as `severities.DROP_TABLE`.")
    before = serializers.CharField(help_text="In force.")
    after = serializers.CharField(help_text="Proposed.")


class ProposalSerializer(serializers.ModelSerializer):
    """Looser policy that waits for a second user."""

    proposal_id = serializers.UUIDField(read_only=True)
    policies = PolicyField(read_only=True, help_text="Proposed choices other than the installation's defaults.")
    looser = LooseningSerializer(many=True, read_only=True)
    proposed_by = serializers.CharField(source="proposed_by.username", read_only=True)

    class Meta:
        model = PolicyProposal
        fields = ("proposal_id", "policies", "looser", "reason", "proposed_by", "proposed_at")
        read_only_fields = fields


class EnvironmentSerializer(serializers.ModelSerializer):
    current = serializers.SerializerMethodField(help_text="True for the environment of this installation.")
    policies = PolicyField(read_only=True, help_text="Choices that differ from the installation's defaults.")
    policy = serializers.SerializerMethodField(help_text="Policy in force, defaults included.")
    version = serializers.IntegerField(source="policies_version", read_only=True)
    proposal = serializers.SerializerMethodField(help_text="Looser policy that waits for a second user.")

    class Meta:
        model = Environment
        fields = ("name", "current", "policies", "policy", "version", "proposal")

    def get_current(self, environment: Environment) -> bool:
        return environment.pk == current_environment().pk

    @extend_schema_field(ProposalSerializer(allow_null=True))
    def get_proposal(self, environment: Environment) -> dict[str, Any] | None:
        waiting: list[PolicyProposal] = vars(environment)["open_proposals"]  # prefetched
        return ProposalSerializer(waiting[0]).data if waiting else None

    @extend_schema_field(_POLICY)
    def get_policy(self, environment: Environment) -> dict[str, Any]:
        return policy_of(environment).as_json()


class PolicyChange(ChangeSerializer):
    policies = PolicyField(help_text="All that the environment says differently from the defaults; {} for nothing.")


class ProposalDecision(ChangeSerializer):
    proposal = serializers.UUIDField(help_text="`proposal_id` that was read.")
    note = serializers.CharField(required=False, allow_blank=True, default="", max_length=1000)


class EnvironmentViewSet(ReadOnly):
    """Environments, each with its policy. Reports made under an earlier policy are outdated."""

    queryset = Environment.objects.none()
    serializer_class = EnvironmentSerializer
    change_serializer = PolicyChange
    lookup_field = "name"
    lookup_value_regex = NAME
    needs = dict.fromkeys(("partial_update", "accept", "reject", "withdraw"), _MANAGES)
    tagged = True
    must_match = frozenset({"partial_update"})

    def get_queryset(self) -> QuerySet[Environment]:
        current_environment()
        waiting = PolicyProposal.objects.filter(status=PolicyProposal.Status.PROPOSED).select_related("proposed_by")
        proposals = Prefetch("proposals", waiting, to_attr="open_proposals")
        return Environment.objects.prefetch_related(proposals).order_by("name", "pk")

    def version_of(self, row: Environment) -> int:
        return row.policies_version

    @extend_schema(responses={200: EnvironmentSerializer, 202: EnvironmentSerializer})
    def partial_update(self, request: Request, name: str) -> Response:
        """Set the environment's differences from the installation's policy.

        If anything in it is looser than the policy in force, the whole change waits as `proposal` until a second
        user accepts it, and the answer is 202.
        """
        row = self.get_object()
        check_match(request, row.policies_version, required=True)
        given, reason = self.given(PolicyChange)
        with writing(reason):
            proposal = update_policies(
                environment=row,
                policies=given["policies"],
                expected_version=row.policies_version,
                user=request.user,
                reason=reason,
            )
        return self.answer(self.get_object(), status.HTTP_200_OK if proposal is None else status.HTTP_202_ACCEPTED)

    @extend_schema(request=ProposalDecision, responses=EnvironmentSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def accept(self, request: Request, name: str) -> Response:
        """Accept the looser policy, as a second user who manages policies."""
        return self._decide(accept_policy, with_note=True)

    @extend_schema(request=ProposalDecision, responses=EnvironmentSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def reject(self, request: Request, name: str) -> Response:
        """Reject the looser policy; the policy in force stays."""
        return self._decide(reject_policy, with_note=True)

    @extend_schema(request=ProposalDecision, responses=EnvironmentSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def withdraw(self, request: Request, name: str) -> Response:
        """Withdraw your proposal."""
        return self._decide(withdraw_policy, with_note=False)

    def _decide(self, decide: Any, *, with_note: bool) -> Response:
        environment = self.get_object()
        given, reason = self.given(ProposalDecision)
        with writing(reason):
            proposal = environment.proposals.filter(proposal_id=given["proposal"]).first()
            if proposal is None:
                raise Refused("UNKNOWN_PROPOSAL")
            note = {"note": given["note"] or reason} if with_note else {}
            decide(proposal=proposal, user=self.request.user, **note)
        return self.answer(self.get_object())
