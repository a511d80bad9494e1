"""The API of drift: where the warehouse is not as it was left, and taking what is there as the baseline."""

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from architecture.api.errors import refusals
from architecture.domain.states.drift import DRIFTED, IN_SYNC, UNKNOWN
from architecture.drift_pages import current_drift
from architecture.services.states.drift import adopt_as_baseline
from architecture.services.states.environments import current_environment
from metadata.api.permissions import permitted_to
from metadata.api.resources import Resource
from metadata.api.strict_fields import ChangeSerializer, both
from metadata.domain.roles import Permission
from metadata.services.common import writing

_STATES = ((IN_SYNC, "In sync"), (DRIFTED, "Drifted"), (UNKNOWN, "Unknown"))
EXECUTES = permitted_to(Permission.EXECUTE_REPORTS)


class DifferenceSerializer(serializers.Serializer):
    """Difference of a table or a column; names or types, empty where there is none."""

    table = serializers.CharField()
    what = serializers.CharField(
        help_text="table_missing, table_name, column_missing, column_name, column_type or column_unexpected."
    )
    column = serializers.CharField(allow_blank=True)
    applied = serializers.CharField(allow_blank=True)
    observed = serializers.CharField(allow_blank=True)


class DatasetDriftSerializer(serializers.Serializer):
    key = serializers.CharField(help_text="The dataset's stable key; what adopt is told.")
    dataset = serializers.CharField()
    status = serializers.ChoiceField(choices=_STATES)
    reason = serializers.CharField(allow_blank=True, help_text="Why it is unknown, or in sync though of no dataset.")
    differences = DifferenceSerializer(many=True)


@extend_schema_serializer(many=False)
class DriftSerializer(serializers.Serializer):
    """The drift of the environment that is worked in, dataset by dataset."""

    environment = serializers.CharField()
    observed_at = serializers.DateTimeField(allow_null=True, help_text="How old what was seen is; null if nothing was.")
    in_sync = serializers.IntegerField()
    drifted = serializers.IntegerField()
    unknown = serializers.IntegerField()
    datasets = DatasetDriftSerializer(many=True)


class AdoptSerializer(ChangeSerializer):
    datasets = serializers.ListField(child=serializers.CharField(max_length=64), allow_empty=False, max_length=10_000)
    reason = serializers.CharField(max_length=200)


class DriftViewSet(Resource, GenericViewSet):
    """Drift as it was seen last."""

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
        """Take the tables of these datasets as they were seen for applied; the next report starts from there."""
        given, message = self.given(AdoptSerializer)
        with refusals(), writing(both(given["reason"], message)):
            adopt_as_baseline(
                environment=current_environment(),
                dataset_keys=given["datasets"],
                person=request.user,
                reason=given["reason"],
            )
        return self.answer()

    def answer(self) -> Response:
        """The drift as it is known now."""
        environment = current_environment()
        found = current_drift(environment)
        said = {
            "environment": environment.name,
            "observed_at": found.at,
            "datasets": found.datasets,
            **{state: found.count(state) for state, _ in _STATES},
        }
        return Response(DriftSerializer(said).data)
