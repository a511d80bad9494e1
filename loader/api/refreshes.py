"""Serializers of refreshes, and of requests that follow one."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from architecture.api.serializers import ReportScopeSerializer
from architecture.domain.reports.scope import ALL
from loader.api.serializers import RefusalSerializer
from loader.models import ReadRequest
from metadata.api.strict_fields import ChangeSerializer


class AfterLookSerializer(ChangeSerializer):
    """A request that may name a refresh: it is refused until the refresh has succeeded."""

    look = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=2**63 - 1,
        help_text="The number of a look of one's own. Without it, what was seen last counts.",
    )


class ReportRequestSerializer(AfterLookSerializer, ReportScopeSerializer):
    """The scope of a report, and the refresh that it is made after."""


class LookRequestSerializer(ChangeSerializer, ReportScopeSerializer):
    """The tables to refresh: those of a scope (all, if none is given), or of a report, measured, too."""

    kind = serializers.ChoiceField(choices=ReportScopeSerializer().fields["kind"].choices, required=False, default=ALL)
    report = serializers.UUIDField(required=False, allow_null=True, default=None)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        scoped = {"kind", "name", "target_only"} & self.initial_data.keys()
        if attrs["report"] is not None and scoped:
            raise serializers.ValidationError({"report": ["Say either a report or a scope."]})
        return attrs


class LookForSerializer(serializers.Serializer):
    """Purpose of a refresh: a report of a scope, the preview of a report, or the drift."""

    do = serializers.ChoiceField(choices=("report", "preview", "drift"))
    scope = ReportScopeSerializer(required=False)
    report = serializers.UUIDField(required=False)


class LookSerializer(serializers.ModelSerializer):
    status = serializers.ChoiceField(choices=ReadRequest.STATUSES, read_only=True)
    environment = serializers.CharField(source="environment.name", read_only=True)
    then = serializers.SerializerMethodField()
    tables = serializers.SerializerMethodField(help_text="How many tables are looked at.")
    found = serializers.SerializerMethodField(help_text="How many of them are there; null until it is known.")
    error = serializers.SerializerMethodField()

    class Meta:
        model = ReadRequest
        fields = (
            "id",
            "status",
            "environment",
            "then",
            "tables",
            "reason",
            "found",
            "error",
            "requested_at",
            "finished_at",
        )

    @extend_schema_field(LookForSerializer)
    def get_then(self, look: ReadRequest) -> dict[str, Any]:
        return look.arguments["then"]

    def get_tables(self, look: ReadRequest) -> int:
        return len(look.arguments["tables"])

    def get_found(self, look: ReadRequest) -> int | None:
        return look.answer["found"] if look.answer else None

    @extend_schema_field(RefusalSerializer(allow_null=True))
    def get_error(self, look: ReadRequest) -> dict[str, Any] | None:
        return look.error
