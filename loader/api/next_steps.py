"""Endpoint of the next step of a dataset, source, load run, report or execution."""

from typing import Any, ClassVar

from django.core.exceptions import ObjectDoesNotExist
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from elevata.api.resources import Resource
from loader.domain.next_steps import STEPS
from loader.models import LoadRun
from loader.selectors.next_step_facts import KINDS
from loader.selectors.next_steps import next_step_of


class NextStepRequest(serializers.Serializer):
    """Subject of the step: exactly one of these."""

    dataset = serializers.UUIDField(required=False, help_text="Key of a dataset.")
    source = serializers.UUIDField(  # type: ignore[assignment]  # a parameter, which is only described
        required=False, help_text="Key of a source dataset."
    )
    report = serializers.UUIDField(required=False, help_text="Id of a change report.")
    execution = serializers.IntegerField(required=False, min_value=1, help_text="Number of an execution.")
    run = serializers.CharField(required=False, max_length=100, help_text="Id of a load run.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs) != 1:
            raise serializers.ValidationError(f"Give one of {', '.join(KINDS)}.")
        return attrs


class NextStepSerializer(serializers.Serializer):
    """Next step, and the users who can take it."""

    do = serializers.ChoiceField(choices=STEPS, help_text="The step; `nothing` if nothing is to be done.")
    text = serializers.CharField(help_text="Reason of the step.")
    who = serializers.ListField(child=serializers.CharField(), help_text="Users who can take the step.")
    allowed = serializers.BooleanField(help_text="True if you can take it.")
    refusal = serializers.CharField(allow_blank=True, help_text="Reason why you cannot.")
    page = serializers.CharField(allow_blank=True, help_text="Path of the page on which it is taken.")


class NextStepViewSet(Resource, GenericViewSet):
    """Next step of a dataset, source, load run, report or execution."""

    queryset = LoadRun.objects.none()
    serializer_class = NextStepSerializer
    parameters: ClassVar = {"list": frozenset(NextStepRequest._declared_fields)}
    filter_backends = ()
    pagination_class = None

    @extend_schema(operation_id="next_step", responses=NextStepSerializer, parameters=[NextStepRequest])
    def list(self, request: Request) -> Response:
        """Return what is to be done now, as the bar of the thing's page shows it."""
        query = NextStepRequest(data=request.query_params)
        query.is_valid(raise_exception=True)
        ((kind, key),) = query.validated_data.items()
        try:
            step = next_step_of(kind, str(key), request.user)
        except ObjectDoesNotExist:
            raise NotFound from None
        return Response(NextStepSerializer(step.as_json()).data)
