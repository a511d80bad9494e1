"""Metadata endpoints that also check locations; they are in the loader because the permitted roots and hosts are."""

from typing import Any

from loader.sources.limits import must_be_allowed, source_places
from metadata.api import exchange, views
from metadata.models import SourceDataset, System


class SystemViewSet(views.SystemViewSet):
    __doc__ = views.SystemViewSet.__doc__

    def make(self, **given: Any) -> System:
        must_be_allowed(System(**{name: given[name] for name in ("kind", "location") if name in given}))
        return super().make(**given)

    def change(self, row: System, expected_version: int, **given: Any) -> System:
        placed = System(kind=given.get("kind", row.kind), location=given.get("location", row.location))
        # A location that a command imported may lie outside the roots: edits of other fields do not check it.
        if (placed.kind, placed.location) != (row.kind, row.location):
            must_be_allowed(placed, source_places(*row.datasets.values("location", "intake")))
        return super().change(row, expected_version, **given)


class SourceDatasetViewSet(views.SourceDatasetViewSet):
    __doc__ = views.SourceDatasetViewSet.__doc__

    def make(self, **given: Any) -> SourceDataset:
        must_be_allowed(given["system"], sorted(source_places(given)))
        return super().make(**given)

    def change(self, row: SourceDataset, expected_version: int, **given: Any) -> SourceDataset:
        if changed := source_places(given) - source_places(vars(row)):
            must_be_allowed(row.system, sorted(changed))
        return super().change(row, expected_version, **given)


class MetadataViewSet(exchange.MetadataViewSet):
    __doc__ = exchange.MetadataViewSet.__doc__

    def places(self) -> set[tuple[Any, ...]]:
        """Return the location of each system and source dataset with its owner, for comparison after an import."""
        named = System.objects.values_list("short_name", "kind", "location")
        rows = SourceDataset.objects.values("key", "system_id", "location", "intake")
        return {*named, *((row["key"], row["system_id"], place) for row in rows for place in source_places(row))}

    def must_be_allowed(self, before: set[tuple[Any, ...]]) -> None:
        """Raise MetadataError for a location outside the allowed roots that the import added or moved.

        ``before`` is what ``places`` returned before the import.
        """
        for system in System.objects.prefetch_related("datasets"):
            moved = (system.short_name, system.kind, system.location) not in before
            places = [(row.key, place) for row in system.datasets.all() for place in source_places(vars(row))]
            new_locations = [place for key, place in places if moved or (key, system.pk, place) not in before]
            if moved or new_locations:
                must_be_allowed(system, new_locations)
