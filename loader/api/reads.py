"""History queries: a read is requested, a worker answers it, and its rows are fetched as lines.

Spark is never started by a request, so a read is a row that the warm runner answers, as it is for
the pages; only the user who requested it sees it.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import NotAcceptable, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.domain.states.tables import TableSpec
from loader.api.errors import refusals
from loader.api.read_arguments import KINDS, TAKES, QuestionSerializer, arguments_of
from loader.api.serializers import RefusalSerializer
from loader.domain.queries.result_rows import CAME_BACK, INSERTED, header_of, heading
from loader.domain.runs.refusals import Refusal
from loader.domain.sources.csv_export import csv_lines, json_lines, next_after, rows_of
from loader.models import ReadRequest
from loader.selectors import read_requests
from loader.services.queries.read_work import must_read, must_still_read
from loader.services.queries.reads import must_be_askable, read_table, request_read
from metadata.api.permissions import permitted_to
from metadata.api.resources import ReadOnly
from metadata.domain.roles import Permission

# Most reads of one user that may wait at once: all users share the runner.
MOST_WAITING = 20
RETRY_AFTER = 1
JSON_LINES, CSV = "application/x-ndjson", "text/csv"
_FORMATS: dict[str, tuple[str, Callable[..., Iterator[str]]]] = {
    "jsonl": (JSON_LINES, json_lines),
    "csv": (CSV, csv_lines),
}
_LOCATION = OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])


class AnsweredColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.CharField(help_text="Empty for a column that only the table still has.")
    role = serializers.CharField(help_text="What it is of the table, in words; empty for an attribute.")
    personal = serializers.BooleanField(help_text="Marked as personal data.")
    masked = serializers.BooleanField(help_text="Sensitive: its values are masked for whoever asked.")


class AnswerSerializer(serializers.Serializer):
    """Description of an answer's rows; the rows themselves are at ``rows/``."""

    table_version = serializers.IntegerField(help_text="The Delta version it was read at.")
    committed_at = serializers.CharField(required=False, help_text="When that was written; of as_of with known_at.")
    columns = AnsweredColumnSerializer(many=True)
    rows = serializers.IntegerField()
    truncated = serializers.BooleanField(help_text="Whether there are more than these.")
    next = serializers.DictField(
        child=serializers.CharField(), allow_null=True, help_text="Ask again with this as `after` for what follows."
    )


class ReadListSerializer(serializers.ModelSerializer):
    kind = serializers.ChoiceField(choices=KINDS, read_only=True)
    status = serializers.ChoiceField(choices=ReadRequest.STATUSES, read_only=True)
    dataset = serializers.UUIDField(source="dataset.key", read_only=True)
    dataset_name = serializers.CharField(source="dataset", read_only=True)
    error = serializers.SerializerMethodField()

    class Meta:
        model = ReadRequest
        fields = ("id", "kind", "status", "dataset", "dataset_name", "requested_at", "finished_at", "error")

    @extend_schema_field(RefusalSerializer(allow_null=True))
    def get_error(self, read: ReadRequest) -> dict[str, Any] | None:
        return read.error


class ReadSerializer(ReadListSerializer):
    arguments = serializers.DictField(read_only=True)
    answer = serializers.SerializerMethodField(help_text="Null until it is there.")

    class Meta(ReadListSerializer.Meta):
        fields = (*ReadListSerializer.Meta.fields, "arguments", "reason", "answer")

    @extend_schema_field(AnswerSerializer(allow_null=True))
    def get_answer(self, read: ReadRequest) -> dict[str, Any] | None:
        return described(read) if read.status == ReadRequest.Status.SUCCEEDED else None


def described(read: ReadRequest) -> dict[str, Any]:
    """Return the description of an answer's rows, without the rows."""
    answer: dict[str, Any] = read.answer or {}
    base = read.dataset.history_of or read.dataset
    personal = frozenset(base.columns.filter(pii=True).values_list("name", flat=True))
    table = _table(read)
    key = [column.name for column in table.of_purpose("business_key")] if table is not None else []
    masked = frozenset(answer.get("masked", ()))
    committed = {"committed_at": answer["committed_at"]} if "committed_at" in answer else {}
    return {
        "table_version": answer["table_version"],
        **committed,
        "columns": [_column(name, table, personal, masked) for name in answer["columns"]],
        "rows": rows_of(answer, _only(read)),
        "truncated": answer["truncated"],
        "next": next_after(read.kind, answer, key) if key and not masked & set(key) else None,
    }


def _table(read: ReadRequest) -> TableSpec | None:
    """Return the table as it is described now; None if it cannot be read in this way any more."""
    try:
        return read_table(read.dataset, read.kind)
    except Refusal:
        return None


def _column(name: str, table: TableSpec | None, personal: frozenset[str], masked: frozenset[str]) -> dict[str, Any]:
    if table is None:
        return {"name": name, "type": "", "role": "", "personal": name in personal, "masked": name in masked}
    found = heading(name, table, personal, masked)
    return {"name": name, "type": found.type, "role": found.role, "personal": found.personal, "masked": found.masked}


def _only(read: ReadRequest) -> str:
    """Return the kind of changes to keep: the runner lists keys that came back only among all inserted ones."""
    return str(read.arguments.get("only", ""))


class AskedViewSet(ReadOnly):
    """Read requests, each visible to the user who asked; a worker answers them, and they are kept for a day."""

    queryset = ReadRequest.objects.none()
    # The job's own number: beyond its range it is found nowhere, where the key to the job would overflow.
    lookup_field, lookup_url_kwarg = "id", "pk"
    lookup_value_converter = "int"
    filter_backends = ()
    # A read request changes nothing: a token that may only read may send one.
    only_asks = True

    def refuse_too_many(self) -> None:
        """Refuse TOO_MANY_READS where too many requests of the user wait for an answer."""
        waiting = self.get_queryset().exclude(status__in=ReadRequest.FINISHED).count()
        if waiting >= MOST_WAITING:
            raise Refusal(
                "TOO_MANY_READS",
                f"{waiting} of your questions are not answered yet",
                hint="wait for some of the answers",
            )

    def accepted(self, read: ReadRequest) -> Response:
        """Return the 202 of a new request, with the place of its answer."""
        where = self.reverse_action("detail", kwargs={"pk": read.pk})
        made = self.get_serializer(self.get_queryset().get(pk=read.pk)).data
        return Response(made, status.HTTP_202_ACCEPTED, headers={"Location": where, "Retry-After": str(RETRY_AFTER)})

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the request and its answer; ``Retry-After`` says when to ask again while there is none."""
        read = self.get_object()
        with refusals():
            must_still_read(request.user, read)
        answer = Response(self.get_serializer(read).data)
        if not read.is_finished:
            answer.headers["Retry-After"] = str(RETRY_AFTER)
        return answer


class ReadViewSet(AskedViewSet):
    """Reads of the warehouse, each visible to the user who requested it; they are kept for a day."""

    serializer_class = ReadSerializer
    list_serializer_class = ReadListSerializer
    needs: ClassVar = dict.fromkeys(("create", "list", "retrieve", "rows"), permitted_to(Permission.READ_DATA))
    parameters: ClassVar = {"rows": frozenset({"format"})}

    def get_queryset(self) -> QuerySet[ReadRequest]:
        own = read_requests().filter(requested_by=self.request.user, dataset__isnull=False, kind__in=TAKES)
        return own.defer("answer") if self.action == "list" else own.select_related("dataset__history_of")

    @extend_schema(request=QuestionSerializer, responses={202: ReadSerializer}, parameters=[_LOCATION])
    def create(self, request: Request) -> Response:
        """Request a read. ``Location`` is where its answer will be; ``rows/`` below it has the rows."""
        asked, reason = self.given(QuestionSerializer)
        with refusals():
            must_read(request.user, asked["dataset"])
            arguments = arguments_of(asked)
            must_be_askable(request.user, asked["dataset"], asked["kind"], arguments)
            if asked["kind"] == "changes" and arguments.get("op") in (INSERTED, CAME_BACK):
                arguments |= {"only": arguments["op"], "op": INSERTED}
            self.refuse_too_many()
            read = request_read(
                kind=asked["kind"], dataset=asked["dataset"], arguments=arguments, user=request.user, reason=reason
            ).read
        return self.accepted(read)

    @extend_schema(
        responses={(200, JSON_LINES): OpenApiTypes.STR, (200, CSV): OpenApiTypes.STR},
        parameters=[OpenApiParameter("format", str, enum=tuple(_FORMATS), description="Instead of `Accept`.")],
        filters=False,
    )
    @action(detail=True, filter_backends=(), pagination_class=None)
    def rows(self, request: Request, pk: int) -> StreamingHttpResponse:
        """Return the rows of an answer, a line each: as JSON, or as CSV (by ``Accept`` or ``?format=``)."""
        media_type, lines = _format(request)
        read = self.get_object()
        with refusals():
            _must_have_rows(read)
            must_still_read(request.user, read)
        answer: dict[str, Any] = read.answer or {}
        headers = {"X-Table-Version": str(answer["table_version"]), "X-Truncated": str(answer["truncated"]).lower()}
        headers["X-Masked-Columns"] = header_of(answer.get("masked", ()))
        sent = StreamingHttpResponse(lines(answer, _only(read)), content_type=f"{media_type}; charset=utf-8")
        for name, value in headers.items():
            sent.headers[name] = value
        return sent


def _format(request: Request) -> tuple[str, Callable[..., Iterator[str]]]:
    named = request.query_params.get("format")
    if named is not None:
        if named not in _FORMATS:
            raise ValidationError({"format": [f"Must be one of {', '.join(_FORMATS)}."]})
        return _FORMATS[named]
    offered = [media_type for media_type, _ in _FORMATS.values()]
    wanted = request._request.get_preferred_type(offered)
    if wanted is None:
        raise NotAcceptable(f"The rows are {' or '.join(offered)}.")
    return next(one for one in _FORMATS.values() if one[0] == wanted)


def _must_have_rows(read: ReadRequest) -> None:
    if not read.is_finished:
        raise Refusal("READ_UNFINISHED", "the question is not answered yet", hint="ask how it stands, then again")
    if read.status == ReadRequest.Status.FAILED:
        failed = Refusal.from_json(read.error or {"code": "UNEXPECTED", "message": "the read failed"})
        raise Refusal("NO_ROWS", f"the question has no answer: {failed.one_line()}", hint="put it again")
