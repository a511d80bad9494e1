"""API of refreshes, and of the reports, previews and drift after them."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.viewsets import GenericViewSet

from architecture.api import drift
from architecture.api.serializers import RefusedSerializer, ReportScopeSerializer, scope_of
from architecture.api.views import EXECUTES
from architecture.domain.refusals import Refused
from architecture.models import Refresh
from architecture.permissions import place_of_report
from architecture.selectors.reports import report_named
from architecture.services.environments import current_environment
from architecture.services.refreshes import refreshes_of, request_refresh
from architecture.services.report_basis import named_scope, tables_in_scope
from architecture.services.reports import tables_of
from architecture.views.refusals import MayBuild
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.api.requests import ChangeSerializer, NoParametersSerializer
from elevata.api.resources import Resource
from elevata.audit.services.transactions import writing
from metadata.domain.scope import ALL, REQUESTED, Scope


class RefreshRequestSerializer(ChangeSerializer, ReportScopeSerializer):
    """Request of a refresh for the report of a scope (default: all), or for the preview of a report."""

    kind = serializers.ChoiceField(choices=REQUESTED, required=False, default=ALL)
    report = serializers.UUIDField(required=False, allow_null=True, default=None)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        scoped = ReportScopeSerializer().fields.keys() & self.initial_data.keys()
        if attrs["report"] is not None and scoped:
            raise serializers.ValidationError({"report": ["Send either a report or a scope."]})
        return attrs


class RefreshSerializer(serializers.ModelSerializer):
    status = serializers.ChoiceField(choices=Refresh.STATUSES, read_only=True)
    environment = serializers.CharField(source="environment.name", read_only=True)
    purpose = serializers.CharField(read_only=True, help_text="report, preview or drift.")
    scope = serializers.SerializerMethodField()
    tables = serializers.SerializerMethodField(help_text="Number of tables to scan.")
    found = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="Number of tables found; null until finished."
    )
    report = serializers.UUIDField(
        source="report.report_id",
        read_only=True,
        default=None,
        allow_null=True,
        help_text="The created report, or the report to preview.",
    )
    preview = serializers.CharField(
        source="preview.fingerprint",
        read_only=True,
        default=None,
        allow_null=True,
        help_text="Fingerprint of the created preview.",
    )
    error = serializers.SerializerMethodField()

    class Meta:
        model = Refresh
        fields = (
            "id",
            "status",
            "environment",
            "purpose",
            "scope",
            "report",
            "preview",
            "tables",
            "reason",
            "found",
            "error",
            "requested_at",
            "finished_at",
        )

    @extend_schema_field(ReportScopeSerializer(allow_null=True))
    def get_scope(self, refresh: Refresh) -> dict[str, Any] | None:
        return refresh.scope

    def get_tables(self, refresh: Refresh) -> int:
        return len(refresh.tables)

    @extend_schema_field(RefusedSerializer(allow_null=True))
    def get_error(self, refresh: Refresh) -> dict[str, Any] | None:
        return refresh.error


class RefreshViewSet(Resource, ListModelMixin, RetrieveModelMixin, GenericViewSet):
    """Refreshes of the warehouse's observed state, each visible to the user who requested it."""

    queryset = Refresh.objects.none()
    serializer_class = RefreshSerializer
    needs = dict.fromkeys(("list", "retrieve", "create"), MayBuild)
    # The job's own number: beyond its range it is found nowhere, where the key to the job would overflow.
    lookup_field, lookup_url_kwarg = "id", "pk"
    lookup_value_converter = "int"
    filter_backends = ()

    def get_queryset(self) -> QuerySet[Refresh]:
        return refreshes_of(self.request.user)

    @extend_schema(
        request=RefreshRequestSerializer,
        responses={202: RefreshSerializer},
        parameters=[OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])],
    )
    def create(self, request: Request) -> Response:
        """Refresh the tables of a scope and create its report, or those of a report and create its preview."""
        given, reason = self.given(RefreshRequestSerializer)
        report = given["report"]
        if report is not None and not may(request.user, Permission.EXECUTE_REPORTS, place_of_report(report)):
            raise PermissionDenied
        with writing(reason):
            asked = _for_preview(report) if report is not None else _for_report(scope_of(given))
            refresh = request_refresh(**asked, user=request.user, reason=reason).job
        return accepted(refresh, request)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the state of a refresh; ``Retry-After`` says when to ask again while it is not finished."""
        answer = super().retrieve(request, *args, **kwargs)
        if answer.data["finished_at"] is None:
            answer.headers["Retry-After"] = "1"
        return answer


class DriftViewSet(drift.DriftViewSet):
    needs = {**drift.DriftViewSet.needs, "check": EXECUTES}

    @extend_schema(
        request=NoParametersSerializer,
        responses={202: RefreshSerializer},
        parameters=[OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])],
    )
    @action(detail=False, methods=["post"])
    def check(self, request: Request) -> Response:
        """Request a refresh of every table that was applied or is described; afterwards the drift can be read again."""
        _, reason = self.given(NoParametersSerializer)
        with writing(reason):
            requested = request_refresh(
                keys=_tables(Scope()), purpose=Refresh.Purpose.DRIFT, user=request.user, reason=reason
            )
            refresh = requested.job
        return accepted(refresh, request)


def accepted(refresh: Refresh, request: Request) -> Response:
    """Return the answer to the request of a refresh: 202 with its state and address."""
    where = reverse("api-refresh-detail", args=[refresh.pk], request=request)
    return Response(RefreshSerializer(refresh).data, status.HTTP_202_ACCEPTED, headers={"Location": where})


def _tables(scope: Scope) -> Collection[str]:
    keys = tables_in_scope(environment=current_environment(), scope=scope)
    if not keys:
        raise Refused("UNKNOWN_DATASET", "no dataset is described yet", "import metadata first")
    return keys


def _for_report(scope: Scope) -> dict[str, Any]:
    scope = named_scope(environment=current_environment(), scope=scope)
    return {"keys": _tables(scope), "purpose": Refresh.Purpose.REPORT, "scope": scope.as_json()}


def _for_preview(report_id: UUID) -> dict[str, Any]:
    report = report_named(str(report_id))
    return {"keys": tables_of(report), "purpose": Refresh.Purpose.PREVIEW, "report": report, "sizes": True}
