"""Metadata endpoints that also check locations; they are in the loader because the permitted roots and hosts are."""

from typing import Any

from django.db.models import Model

from loader.services.sources.metadata_imports import import_from_user
from loader.sources.limits import must_be_allowed, source_places
from metadata.api import exchange, views
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


class MetadataViewSet(exchange.MetadataViewSet):
    __doc__ = exchange.MetadataViewSet.__doc__

    def import_files(self, files: MetadataFiles, *, check: bool) -> Report:
        return import_from_user(files, check=check)
