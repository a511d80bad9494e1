"""Everything as one collection that is searched by a text."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.viewsets import GenericViewSet

from elevata.api.parsers import is_storable
from elevata.api.resources import Resource
from elevata.web.search import KINDS, MAX_TEXT, Kind, Result, search

MOST, USUAL = 100, 25


class SearchResultSerializer(serializers.Serializer):
    kind = serializers.CharField(help_text="What it is: system, dataset, column, report and so on.")
    label = serializers.CharField(  # type: ignore[assignment]  # a field of the document, which is only described
        help_text="The kind in words, which tells models and histories from datasets."
    )
    key = serializers.CharField(help_text="Last part of its address.")
    name = serializers.CharField()
    within = serializers.CharField(allow_blank=True, help_text="What it belongs to.")
    description = serializers.CharField(allow_blank=True)
    active = serializers.BooleanField()
    url = serializers.CharField(allow_blank=True, help_text="Empty if the API does not have it.")
    page = serializers.CharField(help_text="Path of its page in the browser.")


@extend_schema_serializer(many=False)
class SearchAnswerSerializer(serializers.Serializer):
    """Matches of a text, best first: whole name, beginning, word, part, former name, description, similar name."""

    results = SearchResultSerializer(many=True)
    more = serializers.BooleanField(help_text="True if more results exist.")


class SearchRequest(serializers.Serializer):
    q = serializers.CharField(max_length=MAX_TEXT, help_text="Part of a name, a former name, a description or a tag.")
    kind = serializers.CharField(required=False, help_text="Only things of these kinds, with commas between.")
    limit = serializers.IntegerField(
        required=False, default=USUAL, min_value=1, max_value=MOST, help_text="Maximum number of results."
    )

    def validate_q(self, text: str) -> str:
        if not is_storable(text):
            raise serializers.ValidationError("Has a character that no name has.")
        return text


class SearchViewSet(Resource, GenericViewSet):
    """Everything that has a page, by a text."""

    serializer_class = SearchAnswerSerializer
    parameters: ClassVar = {"list": frozenset(SearchRequest._declared_fields)}
    filter_backends = ()
    pagination_class = None

    @extend_schema(
        operation_id="search",
        responses=SearchAnswerSerializer,
        parameters=[SearchRequest],
    )
    def list(self, request: Request) -> Response:
        """Search metadata, reports, load runs, schedules, saved queries, users, pages and actions."""
        query = SearchRequest(data=request.query_params)
        query.is_valid(raise_exception=True)
        given = query.validated_data
        kinds = _kinds_named(given.get("kind", ""))
        results, more = search(given["q"], user=request.user, limit=given["limit"], kinds=kinds)
        rows = [vars(result) | {"url": self._address(result)} for result in results]
        return Response(SearchAnswerSerializer({"results": rows, "more": more}).data)

    def _address(self, result: Result) -> Any:
        return reverse(result.api, args=[result.key], request=self.request) if result.api else ""


def _kinds_named(text: str) -> list[Kind]:
    """Return the kinds of these names; all without names. Raise ValidationError for an unknown one."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = dict.fromkeys(kind.name for kind in KINDS)
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"There is no kind {unknown[0]!r}; known are {', '.join(known)}."
        raise serializers.ValidationError({"kind": [message]})
    return [kind for kind in KINDS if not names or kind.name in names]
