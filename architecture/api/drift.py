"""API of drift: differences between the warehouse and its applied state, and their adoption as the baseline."""

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from architecture.domain.states.dataset_drift import DRIFTED, IN_SYNC, UNKNOWN
from architecture.services.drift import adopt_as_baseline, current_drift
from architecture.services.environments import current_environment
from elevata.accounts.roles import Permission
from elevata.api.requests import ChangeSerializer, joined_reason
from elevata.api.resources import Resource, permitted_to
from elevata.audit.services.transactions import writing

_STATES = ((IN_SYNC, "In sync"), (DRIFTED, "Drifted"), (UNKNOWN, "Unknown"))
EXECUTES = permitted_to(Permission.EXECUTE_REPORTS)


class DifferenceSerializer(serializers.Serializer):
    """Difference of a table or column. `applied` and `observed` are names or types, empty if there is none."""

    table = serializers.CharField()
    what = serializers.CharField(
        help_text="table_missing, table_name, column_missing, column_name, column_type or column_unexpected."
    )
    column = serializers.CharField(allow_blank=True)
    applied = serializers.CharField(allow_blank=True)
    observed = serializers.CharField(allow_blank=True)


class DatasetDriftSerializer(serializers.Serializer):
    key = serializers.CharField(help_text="Stable key of the dataset; send it to adopt.")
    dataset = serializers.CharField()
    status = serializers.ChoiceField(choices=_STATES)
    reason = serializers.CharField(allow_blank=True, help_text="Why it is unknown, or in sync though of no dataset.")
    differences = DifferenceSerializer(many=True)


@extend_schema_serializer(many=False)
class DriftSerializer(serializers.Serializer):
    """Drift of this installation's environment, by dataset."""

    environment = serializers.CharField()
    observed_at = serializers.DateTimeField(allow_null=True, help_text="Time of the last refresh; null without one.")
    in_sync = serializers.IntegerField()
    drifted = serializers.IntegerField()
    unknown = serializers.IntegerField()
    datasets = DatasetDriftSerializer(many=True)


class AdoptSerializer(ChangeSerializer):
    datasets = serializers.ListField(child=serializers.CharField(max_length=64), allow_empty=False, max_length=10_000)
    reason = serializers.CharField(max_length=200)


class DriftViewSet(Resource, GenericViewSet):
    """Drift by the last observations."""

    serializer_class = DriftSerializer
    filter_backends = ()
    pagination_class = None
    needs = {"adopt": EXECUTES}

    @extend_schema(operation_id="drift_read", responses=DriftSerializer)
    def list(self, request: Request) -> Response:
        """Return the differences between applied state and warehouse, as far as tables were observed."""
        return self.answer()

    @extend_schema(request=AdoptSerializer, responses=DriftSerializer)
    @action(detail=False, methods=["post"])
    def adopt(self, request: Request) -> Response:
        """Adopt the tables of these datasets as applied state; the next report starts from there."""
        given, message = self.given(AdoptSerializer)
        with writing(joined_reason(given["reason"], message)):
            adopt_as_baseline(
                environment=current_environment(),
                dataset_keys=given["datasets"],
                user=request.user,
                reason=given["reason"],
            )
        return self.answer()

    def answer(self) -> Response:
        """Return the drift by the newest observations."""
        environment = current_environment()
        drift = current_drift(environment)
        document = {
            "environment": environment.name,
            "observed_at": drift.at,
            "datasets": drift.datasets,
            **{state: drift.count(state) for state, _ in _STATES},
        }
        return Response(DriftSerializer(document).data)
