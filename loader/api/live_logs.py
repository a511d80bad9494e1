"""Logs of load runs and executions, in pages or as streams of events."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request

from architecture.api.serializers import ExecutionEventSerializer, ExecutionListSerializer
from architecture.models import Execution
from architecture.selectors import execution_events, executions
from loader.api.progress import EVENT_STREAM, LINES_AT_ONCE, Work, is_wanted, line_after, stream
from loader.api.serializers import LoadRunListSerializer, RunEventSerializer
from loader.models import LoadRun
from loader.selectors import load_runs, run_events
from metadata.api.openapi import PROBLEM_TYPE, ProblemSerializer

_AFTER = OpenApiParameter("after", int, description="Only lines after the one with this id.")
_LAST = OpenApiParameter(
    "Last-Event-ID", int, OpenApiParameter.HEADER, description="Of a stream: go on after the line with this id."
)


def as_followed(lines: Any) -> Any:
    """Describe the endpoint of a log: it comes in pages, or as a stream of events by ``Accept``."""
    return extend_schema(
        responses={
            (200, "application/json"): lines(many=True),
            (200, EVENT_STREAM): OpenApiTypes.STR,
            (429, PROBLEM_TYPE): OpenApiResponse(
                ProblemSerializer, "Of a stream: too many are open, or too many of yours. `Retry-After` says when."
            ),
        },
        filters=False,
        parameters=[_AFTER, _LAST],
    )


def work_of_run(run: LoadRun) -> Work:
    """Return the work of a load run, whose state has the fields of lists of runs."""

    def standing() -> tuple[dict[str, Any], bool]:
        now = load_runs().get(pk=run.pk)
        return dict(LoadRunListSerializer(now).data), now.is_finished

    def lines(after: int) -> list[dict[str, Any]]:
        return list(RunEventSerializer(run_events(run=run, after=after)[:LINES_AT_ONCE], many=True).data)

    return Work(standing, lines)


def work_of_execution(execution: Execution) -> Work:
    """Return the work of an execution, whose state has the fields of lists of executions."""

    def standing() -> tuple[dict[str, Any], bool]:
        now = executions().get(pk=execution.pk)
        return dict(ExecutionListSerializer(now).data), now.is_finished

    def lines(after: int) -> list[dict[str, Any]]:
        found = execution_events(execution=execution, after=after)[:LINES_AT_ONCE]
        return list(ExecutionEventSerializer(found, many=True).data)

    return Work(standing, lines)


class FollowedRun:
    """Mixin for the view set of load runs: ``events``, the run's log."""

    @as_followed(RunEventSerializer)
    @action(detail=True, filter_backends=())
    def events(self, request: Request, run_id: str) -> HttpResponse:
        """Return the run's log, oldest line first: a page of it, or (``Accept: text/event-stream``) as it comes."""
        if is_wanted(request):
            return stream(request, work_of_run(self.get_object()))
        page = self.paginate_queryset(run_events(run=self.get_object(), after=line_after(request)))
        return self.get_paginated_response(RunEventSerializer(page, many=True).data)


class FollowedExecution:
    """Mixin for the view set of executions: ``events``, the execution's log."""

    @as_followed(ExecutionEventSerializer)
    @action(detail=True, filter_backends=())
    def events(self, request: Request, pk: int) -> HttpResponse:
        """Return the execution's log, oldest line first: a page, or (``Accept: text/event-stream``) as it comes."""
        if is_wanted(request):
            return stream(request, work_of_execution(self.get_object()))
        page = self.paginate_queryset(execution_events(execution=self.get_object(), after=line_after(request)))
        return self.get_paginated_response(ExecutionEventSerializer(page, many=True).data)
