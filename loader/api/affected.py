"""Endpoint of what a dataset, column, source, report or load run affects, by name."""

from typing import Any, ClassVar

from django.core.exceptions import ObjectDoesNotExist
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from architecture.views.refusals import MayBuild
from elevata.api.requests import ChangeSerializer
from elevata.api.resources import Resource
from loader.domain.affected import KINDS as AFFECTED_KINDS
from loader.models import LoadRun
from loader.selectors.affected import KINDS, Subject, affected_by, subject_of
from loader.services.affected import LONGEST_NOTE, notify_owners


class AffectedRequest(serializers.Serializer):
    """Subject that changes or failed: exactly one of these."""

    dataset = serializers.UUIDField(required=False, help_text="Key of a dataset.")
    source = serializers.UUIDField(  # type: ignore[assignment]  # a parameter, which is only described
        required=False, help_text="Key of a source dataset."
    )
    column = serializers.UUIDField(required=False, help_text="Key of a column.")
    source_column = serializers.UUIDField(required=False, help_text="Key of a column of a source.")
    report = serializers.UUIDField(required=False, help_text="Id of a change report.")
    run = serializers.CharField(required=False, max_length=100, help_text="Id of a load run: its failed datasets.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs) != 1:
            raise serializers.ValidationError(f"Give one of {', '.join(KINDS)}.")
        return attrs


class AffectedSerializer(serializers.Serializer):
    """Something that uses the data."""

    kind = serializers.ChoiceField(choices=AFFECTED_KINDS)
    name = serializers.CharField()
    owner = serializers.CharField(allow_blank=True)
    datasets = serializers.ListField(child=serializers.CharField(), help_text="Datasets through which it is affected.")
    page = serializers.CharField(allow_blank=True, help_text="Path of its page in the browser.")

    class Meta:
        ref_name = "AffectedThing"


class NotificationSerializer(ChangeSerializer):
    """Message to the owners."""

    note = serializers.CharField(required=False, allow_blank=True, default="", max_length=LONGEST_NOTE)


class NotifiedSerializer(serializers.Serializer):
    users = serializers.ListField(child=serializers.CharField(), help_text="Users who got a notice.")
    unknown = serializers.ListField(child=serializers.CharField(), help_text="Owners without an account.")


class AffectedViewSet(Resource, GenericViewSet):
    """Exposures, copies, owners, contracts, saved queries and schedules downstream of something."""

    queryset = LoadRun.objects.none()
    serializer_class = AffectedSerializer
    needs: ClassVar = {"notify": MayBuild}
    parameters: ClassVar = {
        "list": frozenset(AffectedRequest._declared_fields),
        "notify": frozenset(AffectedRequest._declared_fields),
    }
    filter_backends = ()
    pagination_class = None

    @extend_schema(operation_id="list_affected", responses=AffectedSerializer(many=True), parameters=[AffectedRequest])
    def list(self, request: Request) -> Response:
        """List what is affected, by kind and name."""
        return Response(AffectedSerializer(affected_by(self._subject(), request.user), many=True).data)

    @extend_schema(
        operation_id="notify_owners",
        request=NotificationSerializer,
        responses=NotifiedSerializer,
        parameters=[AffectedRequest],
    )
    @action(detail=False, methods=["post"])
    def notify(self, request: Request) -> Response:
        """Send each owner with an account one notice that names what changes for that owner."""
        values, _ = self.given(NotificationSerializer)
        notified = notify_owners(subject=self._subject(), user=request.user, note=values["note"])
        return Response(NotifiedSerializer(notified).data)

    def _subject(self) -> Subject:
        query = AffectedRequest(data=self.request.query_params)
        query.is_valid(raise_exception=True)
        ((kind, key),) = query.validated_data.items()
        try:
            return subject_of(kind, str(key))
        except ObjectDoesNotExist:
            raise NotFound from None
