"""What the API of architecture control needs a worker for: executing and resuming."""

from uuid import UUID

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.api import views
from architecture.api.refusing import refusals
from architecture.api.serializers import ExecuteSerializer, ExecutionSerializer
from architecture.selectors import executions
from architecture.services.executions import Requested, request_execution, resume_execution
from loader.services.executions import wake_for


class ReportViewSet(views.ReportViewSet):
    needs = {**views.ReportViewSet.needs, "execute": views.EXECUTES}

    @extend_schema(request=ExecuteSerializer, responses={202: ExecutionSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def execute(self, request: Request, report_id: UUID) -> Response:
        """Execute the report as it was previewed. Asking twice gives the same execution."""
        preview = views.given(ExecuteSerializer, request).validated_data["preview"]
        with refusals():
            asked = request_execution(
                report=self.get_object(), person=request.user, preview_fingerprint=preview, command="REST"
            )
        if asked.requested:
            transaction.on_commit(lambda: wake_for(asked))
        found = executions().prefetch_related("operations").get(pk=asked.execution.pk)
        return Response(ExecutionSerializer(found).data, status=status.HTTP_202_ACCEPTED)


class ExecutionViewSet(views.ExecutionViewSet):
    needs = {**views.ExecutionViewSet.needs, "resume": views.EXECUTES}

    @extend_schema(request=None, responses={202: ExecutionSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def resume(self, request: Request, pk: int) -> Response:
        """Queue an execution again that failed, was cancelled or lost."""
        with refusals():
            resumed = resume_execution(execution=self.get_object(), person=request.user)
        transaction.on_commit(lambda: wake_for(Requested(resumed, requested=True)))
        return self.answer(status.HTTP_202_ACCEPTED)
