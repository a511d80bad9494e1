"""Metadata endpoints that also check locations or render SQL; permitted roots, hosts and dialects are in the loader."""

from typing import Any
from uuid import UUID

from django.db.models import Model
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.api.serializers import DialectRequest, StatementsField, dialect_of
from loader.services.plain_sql import dataset_in_dialect
from loader.services.sources.metadata_imports import import_from_user
from loader.sources.page_limits import must_be_allowed, source_places
from metadata.api import exchange, lineage, views
from metadata.models import SourceDataset, System
from metadata.services.exchange.import_rows import Report
from metadata.services.exchange.metadata_files import MetadataFiles


class SystemViewSet(views.SystemViewSet):
    __doc__ = views.SystemViewSet.__doc__

    def make(self, *args: Any, **given: Any) -> Model:
        must_be_allowed(System(**{name: given[name] for name in ("kind", "location") if name in given}))
        return super().make(**given)

    def change(self, row: System, expected_version: int, **given: Any) -> Model:
        placed = System(kind=given.get("kind", row.kind), location=given.get("location", row.location))
        # A location that a command imported may lie outside the roots: edits of other fields do not check it.
        if (placed.kind, placed.location) != (row.kind, row.location):
            must_be_allowed(placed, source_places(*row.datasets.values("location", "intake")))
        return super().change(row, expected_version, **given)


class SourceDatasetViewSet(views.SourceDatasetViewSet):
    __doc__ = views.SourceDatasetViewSet.__doc__

    def make(self, *args: Any, **given: Any) -> Model:
        must_be_allowed(given["system"], sorted(source_places(given)))
        return super().make(**given)

    def change(self, row: SourceDataset, expected_version: int, **given: Any) -> Model:
        if changed := source_places(given) - source_places(vars(row)):
            must_be_allowed(row.system, sorted(changed))
        return super().change(row, expected_version, **given)


class RenderedObjectSerializer(serializers.Serializer):
    kind = serializers.CharField(help_text="table, view or load.")
    name = serializers.CharField()
    statements = StatementsField(help_text="In order, each with its semicolon.")


class UnrenderedSerializer(serializers.Serializer):
    """Part of a dataset without statements, and why."""

    dataset = serializers.CharField(help_text="Name of the table, view or dataset.")
    code = serializers.CharField()
    message = serializers.CharField()


class DatasetSqlSerializer(serializers.Serializer):
    """Statements that create a dataset and its views and load it, in an SQL dialect."""

    dialect = serializers.CharField(source="dialect.name")
    executed = serializers.BooleanField(
        source="dialect.executed", help_text="False if the statements follow documentation and no test executes them."
    )
    atomic = serializers.CharField(
        source="dialect.atomic", help_text="transaction: a load is one transaction; statement: each statement is one."
    )
    objects = RenderedObjectSerializer(many=True)
    not_rendered = UnrenderedSerializer(many=True)


class DatasetViewSet(lineage.DatasetViewSet):
    __doc__ = lineage.DatasetViewSet.__doc__

    parameters = lineage.DatasetViewSet.parameters | {"sql": frozenset({"dialect"})}

    @extend_schema(responses=DatasetSqlSerializer, filters=False, parameters=[DialectRequest])
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def sql(self, request: Request, key: UUID) -> Response:
        """Return the statements of a dataset in an SQL dialect; what has none is listed with the reason."""
        return Response(DatasetSqlSerializer(dataset_in_dialect(self.get_object(), dialect_of(request))).data)


class MetadataViewSet(exchange.MetadataViewSet):
    __doc__ = exchange.MetadataViewSet.__doc__

    def import_files(self, files: MetadataFiles, *, check: bool) -> Report:
        return import_from_user(files, check=check)
