"""Everything as one collection that is searched by a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.viewsets import GenericViewSet

from elevata.api.parsers import is_storable
from elevata.api.resources import Resource
from metadata.selectors.search import KINDS, Kind, search

MOST, USUAL = 100, 25
LONGEST = 200


class FoundSerializer(serializers.Serializer):
    kind = serializers.CharField(help_text="What it is: system, dataset, column, report and so on.")
    key = serializers.CharField(help_text="Last part of its address.")
    name = serializers.CharField()
    within = serializers.CharField(allow_blank=True, help_text="What it belongs to.")
    description = serializers.CharField(allow_blank=True)
    active = serializers.BooleanField()
    url = serializers.CharField()


@extend_schema_serializer(many=False)
class SearchAnswerSerializer(serializers.Serializer):
    """Matches of a text, best first: the whole name, its beginning, then any part of it."""

    results = FoundSerializer(many=True)
    more = serializers.BooleanField(help_text="True if more results exist.")


class SearchRequest(serializers.Serializer):
    q = serializers.CharField(max_length=LONGEST, help_text="Part of a name, a former name or a description.")
    kind = serializers.CharField(required=False, help_text="Only things of these kinds, with commas between.")
    limit = serializers.IntegerField(
        required=False, default=USUAL, min_value=1, max_value=MOST, help_text="Maximum number of results."
    )

    def validate_q(self, text: str) -> str:
        if not is_storable(text):
            raise serializers.ValidationError("Holds a character that no name has.")
        return text


class SearchViewSet(Resource, GenericViewSet):
    """Everything there is, by a text. ``kinds`` says what is searched, and what each kind's address is called."""

    serializer_class = SearchAnswerSerializer
    parameters: ClassVar = {"list": frozenset(SearchRequest._declared_fields)}
    filter_backends = ()
    pagination_class = None
    kinds: ClassVar[Mapping[str, tuple[Kind, str]]] = {
        kind.name: (kind, f"api-{kind.name.replace('_', '-')}-detail") for kind in KINDS
    }

    @extend_schema(
        operation_id="search",
        responses=SearchAnswerSerializer,
        parameters=[SearchRequest],
    )
    def list(self, request: Request) -> Response:
        """Search systems, sources, schemas, datasets, columns, reports, load runs and schedules."""
        query = SearchRequest(data=request.query_params)
        query.is_valid(raise_exception=True)
        given = query.validated_data
        matches, more = search(given["q"], self._wanted(given.get("kind", "")), given["limit"])
        results = [vars(match) | {"url": self._address(match.kind, match.key)} for match in matches]
        return Response(SearchAnswerSerializer({"results": results, "more": more}).data)

    def _wanted(self, named: str) -> list[Kind]:
        names = [name.strip() for name in named.split(",") if name.strip()] or list(self.kinds)
        unknown = [name for name in names if name not in self.kinds]
        if unknown:
            said = f"There is no kind {unknown[0]!r}; known are {', '.join(self.kinds)}."
            raise serializers.ValidationError({"kind": [said]})
        return [self.kinds[name][0] for name in dict.fromkeys(names)]

    def _address(self, kind: str, key: str) -> Any:
        return reverse(self.kinds[kind][1], args=[key], request=self.request)
