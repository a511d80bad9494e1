"""Endpoints of reads of the warehouse.

Requests never start Spark: a read is a row that a worker's runner answers, as for pages. Only the user who requested it
can see it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import FileResponse, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import NotAcceptable, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.domain.tables import TableSpec
from elevata.accounts.roles import Permission
from elevata.api.resources import ReadOnly, permitted_to
from elevata.web.requests import user_of
from loader.api.read_arguments import KINDS, TAKES, QuestionSerializer, arguments_of
from loader.api.serializers import RefusalSerializer
from loader.contract.refusals import Refusal
from loader.domain.queries.answers import COMPARE, EXPORT, next_after, rows_kind, rows_of
from loader.domain.queries.differences import is_file_cut
from loader.domain.queries.exports import csv_lines, json_lines
from loader.domain.queries.query_results import header_of, heading
from loader.models import CheckResult, ReadRequest
from loader.selectors.quality_results import results_of_read
from loader.selectors.reads import read_requests
from loader.services.reads.exports import has_export, open_export
from loader.services.reads.manifests import must_be_askable, read_table
from loader.services.reads.read_permissions import must_read, must_still_read
from loader.services.reads.read_requests import QUALITY, request_read

RETRY_AFTER = 1
JSON_LINES, CSV = "application/x-ndjson", "text/csv"
_FORMATS = {"jsonl": JSON_LINES, "csv": CSV}
_LINES: dict[str, Callable[..., Iterator[str]]] = {JSON_LINES: json_lines, CSV: csv_lines}
_LOCATION = OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])


class AnsweredColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.CharField(help_text="Empty for a column that only the table still has.")
    role = serializers.CharField(help_text="Role of the column in the table; empty for an attribute.")
    personal = serializers.BooleanField(help_text="Marked as personal data.")
    masked = serializers.BooleanField(help_text="True if its values are masked in this response.")


class ReadResultSerializer(serializers.ModelSerializer):
    """Result of a quality check on the table as it is, without keys of failed rows."""

    check = serializers.UUIDField(source="check_key", read_only=True)

    class Meta:
        model = CheckResult
        fields = (
            *("check", "check_name", "kind", "severity"),
            *("outcome", "failed", "total", "value", "low", "high", "message"),
        )


class AnswerSerializer(serializers.Serializer):
    """Description of an answer's rows; the rows themselves are at ``rows/``."""

    table_version = serializers.IntegerField(
        allow_null=True, help_text="The Delta version it was read at; null for a view."
    )
    committed_at = serializers.CharField(required=False, help_text="When that was written; of as_of with known_at.")
    columns = AnsweredColumnSerializer(many=True)
    rows = serializers.IntegerField()
    truncated = serializers.BooleanField(help_text="True if more rows exist.")
    difference = serializers.DictField(
        required=False, help_text="Of compare: numbers of rows, columns, changed columns, and samples of rows."
    )
    results = ReadResultSerializer(many=True, required=False, help_text="Of quality: the result of each check.")
    next = serializers.DictField(
        child=serializers.CharField(), allow_null=True, help_text="Send this as `after` to read the next part."
    )


class ReadListSerializer(serializers.ModelSerializer):
    kind = serializers.ChoiceField(choices=KINDS, read_only=True)
    status = serializers.ChoiceField(choices=ReadRequest.STATUSES, read_only=True)
    dataset = serializers.UUIDField(source="dataset.key", read_only=True)
    dataset_name = serializers.CharField(source="dataset", read_only=True)
    error = serializers.SerializerMethodField()

    class Meta:
        model = ReadRequest
        fields: tuple[str, ...] = (
            *("id", "kind", "status", "dataset", "dataset_name"),
            *("requested_at", "finished_at", "error"),
        )

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
        return described(read, self.context["request"].user) if read.status == ReadRequest.Status.SUCCEEDED else None


def described(read: ReadRequest, user: Any) -> dict[str, Any]:
    """Return the description of an answer's rows for a user, without the rows."""
    answer: dict[str, Any] = read.answer or {}
    if read.kind == QUALITY:
        results = ReadResultSerializer(results_of_read(read, user), many=True).data
        described_rows = {"columns": [], "rows": 0, "truncated": False, "next": None}
        return {"table_version": answer["table_version"], **described_rows, "results": results}
    base = read.own_dataset.history_of or read.own_dataset
    personal = frozenset(base.columns.filter(pii=True).values_list("name", flat=True))
    table = _table(read)
    key = [column.name for column in table.of_purpose("business_key")] if table is not None else []
    masked = frozenset(answer.get("masked", ()))
    return {
        "table_version": answer["table_version"],
        **{name: answer[name] for name in ("committed_at", "difference") if name in answer},
        "columns": [_column(name, table, personal, masked) for name in answer["columns"]],
        "rows": rows_of(answer),
        "truncated": answer["truncated"],
        "next": next_after(read.kind, answer, key, read.arguments) if key and not masked & set(key) else None,
    }


def _table(read: ReadRequest) -> TableSpec | None:
    """Return the table's current description; None if such a read is not possible any more."""
    try:
        return read_table(read.own_dataset, rows_kind(read.kind, read.arguments))
    except Refusal:
        return None


def _column(name: str, table: TableSpec | None, personal: frozenset[str], masked: frozenset[str]) -> dict[str, Any]:
    if table is None:
        return {"name": name, "type": "", "role": "", "personal": name in personal, "masked": name in masked}
    column = heading(name, table, personal, masked)
    return {
        "name": name,
        "type": column.type,
        "role": column.role,
        "personal": column.personal,
        "masked": column.masked,
    }


class AskedViewSet(ReadOnly):
    """Read requests, each visible to the user who requested it; a worker answers them; they are kept for a day."""

    queryset = ReadRequest.objects.none()
    # The lookup is by the job's id, because a number beyond the range of the primary key would raise an error.
    lookup_field, lookup_url_kwarg = "id", "pk"
    lookup_value_converter = "int"
    filter_backends = ()
    # A read request changes nothing, so a read-only token may send it.
    only_asks = True

    def accepted(self, read: ReadRequest) -> Response:
        """Return the response 202 to a new request, with the address of its answer."""
        where = self.reverse_action("detail", kwargs={"pk": read.pk})
        content = self.get_serializer(self.get_queryset().get(pk=read.pk)).data
        return Response(content, status.HTTP_202_ACCEPTED, headers={"Location": where, "Retry-After": str(RETRY_AFTER)})

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the request and its answer; ``Retry-After`` says when to ask again while there is none."""
        read = self.get_object()
        must_still_read(request.user, read)
        response = Response(self.get_serializer(read).data)
        if not read.is_finished:
            response.headers["Retry-After"] = str(RETRY_AFTER)
        return response


class ReadViewSet(AskedViewSet):
    """Reads of the warehouse, each visible to the user who requested it; they are kept for a day."""

    serializer_class = ReadSerializer
    list_serializer_class = ReadListSerializer
    needs: ClassVar = dict.fromkeys(("create", "list", "retrieve", "rows"), permitted_to(Permission.READ_DATA))
    parameters: ClassVar = {"rows": frozenset({"format"})}

    def get_queryset(self) -> QuerySet[ReadRequest]:
        own = read_requests().filter(requested_by=user_of(self.request), dataset__isnull=False, kind__in=TAKES)
        return own.defer("answer") if self.action == "list" else own.select_related("dataset__history_of")

    @extend_schema(request=QuestionSerializer, responses={202: ReadSerializer}, parameters=[_LOCATION])
    def create(self, request: Request) -> Response:
        """Request a read. ``Location`` is where its answer will be; ``rows/`` below it has the rows."""
        fields, reason = self.given(QuestionSerializer)
        must_read(request.user, fields["dataset"])
        arguments = arguments_of(fields, request.user)
        must_be_askable(request.user, fields["dataset"], fields["kind"], arguments)
        read = request_read(
            kind=fields["kind"], dataset=fields["dataset"], arguments=arguments, user=request.user, reason=reason
        ).read
        return self.accepted(read)

    @extend_schema(
        responses={(200, JSON_LINES): OpenApiTypes.STR, (200, CSV): OpenApiTypes.STR},
        parameters=[OpenApiParameter("format", str, enum=tuple(_FORMATS), description="Instead of `Accept`.")],
        filters=False,
    )
    @action(detail=True, filter_backends=(), pagination_class=None)
    def rows(self, request: Request, pk: int) -> FileResponse | StreamingHttpResponse:
        """Return the rows of an answer, a line each: as JSON, or as CSV (by ``Accept`` or ``?format=``).

        The rows of an export are CSV, and so are all rows that differ of a comparison whose answer has a part of them.
        """
        read = self.get_object()
        if read.kind == COMPARE and not has_export(read):
            raise Refusal("NO_ROWS", "a comparison has no rows of its own", hint="read answer.difference")
        if read.kind == QUALITY:
            raise Refusal("NO_ROWS", "checks have no rows of their own", hint="read answer.results")
        media_type = preferred_format(request, {"csv": CSV} if read.kind in (EXPORT, COMPARE) else _FORMATS)
        must_have_rows(read)
        must_still_read(request.user, read)
        answer: dict[str, Any] = read.answer or {}
        truncated = is_file_cut(answer["difference"]) if read.kind == COMPARE else answer["truncated"]
        headers = {"X-Truncated": str(truncated).lower()}
        if answer["table_version"] is not None:
            headers["X-Table-Version"] = str(answer["table_version"])
        headers["X-Masked-Columns"] = header_of(answer.get("masked", ()))
        response: FileResponse | StreamingHttpResponse
        if has_export(read):
            response = FileResponse(open_export(read), content_type=f"{CSV}; charset=utf-8")
        else:
            response = StreamingHttpResponse(_LINES[media_type](answer), content_type=f"{media_type}; charset=utf-8")
        for name, value in headers.items():
            response.headers[name] = value
        return response


def preferred_format(request: Request, formats: Mapping[str, str]) -> str:
    """Return the media type that the client requests by ``?format=`` or ``Accept``; ``formats`` has them by name."""
    name = request.query_params.get("format")
    if name is not None:
        if name not in formats:
            raise ValidationError({"format": [f"Must be one of {', '.join(formats)}."]})
        return formats[name]
    media_type = request._request.get_preferred_type(list(formats.values()))
    if media_type is None:
        raise NotAcceptable(f"The rows are {' or '.join(formats.values())}.")
    return media_type


def must_have_rows(read: ReadRequest) -> None:
    """Raise Refusal READ_UNFINISHED or NO_ROWS for a read without an answer."""
    if not read.is_finished:
        raise Refusal("READ_UNFINISHED", "the read is not finished", hint="Check the status, then try again.")
    if read.status == ReadRequest.Status.FAILED:
        failed = Refusal.from_json(read.error or {"code": "UNEXPECTED", "message": "the read failed"})
        raise Refusal("NO_ROWS", f"the read failed: {failed.one_line()}", hint="Request the read again.")
    if read.answer is None:
        raise Refusal("NO_ROWS", "the rows are not stored any more", hint="Request the read again.")
