"""Endpoint of read-only SQL queries over published names."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.accounts.roles import Permission
from elevata.api.requests import ChangeSerializer
from elevata.api.resources import permitted_to
from elevata.core.spreadsheets import csv_line
from loader.api.reads import CSV, AskedViewSet, must_have_rows, preferred_format
from loader.api.serializers import RefusalSerializer
from loader.domain.queries.query_results import header_of, value_text
from loader.domain.queries.select_statements import MOST_ROWS
from loader.models import ReadRequest
from loader.selectors.reads import queries_of
from loader.services.reads.queries import must_run, must_still_see
from loader.services.reads.read_requests import request_query
from loader.services.reads.result_files import PARQUET, parquet_of
from metadata.domain.select_check import MAX_LENGTH

_FORMATS = {"csv": CSV, "parquet": PARQUET}
_LOCATION = OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])


class NewQuerySerializer(ChangeSerializer):
    """One SELECT in Spark's SQL over published tables and views."""

    text = serializers.CharField(max_length=MAX_LENGTH, trim_whitespace=False)
    limit = serializers.IntegerField(required=False, default=1000, min_value=1, max_value=MOST_ROWS)


class ResultColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.CharField(help_text="Spark's type.")
    masked = serializers.BooleanField(help_text="Computed from a column that is masked for the user.")


class ResultSerializer(serializers.Serializer):
    """Result of a query: decimals and timestamps (UTC) are texts, NULL is null."""

    columns = ResultColumnSerializer(many=True)
    rows = serializers.ListField(child=serializers.ListField(child=serializers.JSONField(allow_null=True)))
    truncated = serializers.BooleanField(help_text="Whether there are more rows than these.")
    hidden = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="Masked columns that the query uses, by published name.",
    )


class QueryListSerializer(serializers.ModelSerializer):
    status = serializers.ChoiceField(choices=ReadRequest.STATUSES, read_only=True)
    text = serializers.CharField(source="arguments.text", read_only=True)
    error = serializers.SerializerMethodField()

    class Meta:
        model = ReadRequest
        fields: tuple[str, ...] = ("id", "status", "text", "requested_at", "finished_at", "error")

    @extend_schema_field(RefusalSerializer(allow_null=True))
    def get_error(self, read: ReadRequest) -> dict[str, Any] | None:
        return read.error


class QuerySerializer(QueryListSerializer):
    limit = serializers.IntegerField(source="arguments.limit", read_only=True)
    answer = serializers.SerializerMethodField(help_text="Null while the query runs, after a failure, and a day after the request.")

    class Meta(QueryListSerializer.Meta):
        fields = (*QueryListSerializer.Meta.fields, "limit", "reason", "answer")

    @extend_schema_field(ResultSerializer(allow_null=True))
    def get_answer(self, read: ReadRequest) -> dict[str, Any] | None:
        answer: dict[str, Any] | None = read.answer
        if not answer:
            return None
        columns = [
            {"name": name, "type": type_, "masked": name in answer["masked"]}
            for name, type_ in zip(answer["columns"], answer["types"], strict=True)
        ]
        return {"columns": columns} | {name: answer[name] for name in ("rows", "truncated", "hidden")}


class QueryViewSet(AskedViewSet):
    """Read-only SQL queries of a user. Answers are stored for a day, the texts of the last 20 longer."""

    serializer_class = QuerySerializer
    list_serializer_class = QueryListSerializer
    needs: ClassVar = dict.fromkeys(("create", "list", "retrieve", "rows"), permitted_to(Permission.READ_DATA))
    parameters: ClassVar = {"rows": frozenset({"format"})}

    def get_queryset(self) -> QuerySet[ReadRequest]:
        own = queries_of(self.request.user)
        return own.defer("answer") if self.action == "list" else own

    @extend_schema(request=NewQuerySerializer, responses={202: QuerySerializer}, parameters=[_LOCATION])
    def create(self, request: Request) -> Response:
        """Run a query. ``Location`` is where its answer will be; ``rows/`` below it has the rows as CSV."""
        fields, reason = self.given(NewQuerySerializer)
        must_run(fields["text"], request.user)
        read = request_query(fields["text"], fields["limit"], user=request.user, reason=reason).read
        return self.accepted(read)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the query and its answer; ``Retry-After`` says when to ask again while there is none."""
        read = self.get_object()
        if read.answer:
            must_still_see(request.user, read)
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(
        responses={(200, CSV): OpenApiTypes.STR, (200, PARQUET): OpenApiTypes.BINARY},
        parameters=[OpenApiParameter("format", str, enum=tuple(_FORMATS), description="Instead of `Accept`.")],
        filters=False,
    )
    @action(detail=True, filter_backends=(), pagination_class=None)
    def rows(self, request: Request, pk: int) -> HttpResponse:
        """Return the rows of an answer as CSV or Parquet, values as they are."""
        media_type = preferred_format(request, _FORMATS)
        read = self.get_object()
        must_have_rows(read)
        must_still_see(request.user, read)
        answer = read.answer
        if media_type == PARQUET:
            response = HttpResponse(parquet_of(answer), content_type=PARQUET)
        else:
            lines = (csv_line(map(value_text, row)) for row in (answer["columns"], *answer["rows"]))
            response = HttpResponse("".join(lines), content_type=f"{CSV}; charset=utf-8")
        response["X-Masked-Columns"] = header_of(answer["masked"])
        return response
