"""Endpoints of metadata with checks of permitted locations."""

from collections.abc import Mapping
from typing import Any

from loader.sources.limits import must_be_allowed
from metadata.api import exchange, views
from metadata.models import SourceDataset, System


class SystemViewSet(views.SystemViewSet):
    __doc__ = views.SystemViewSet.__doc__

    def make(self, **given: Any) -> System:
        must_be_allowed(System(**{name: given[name] for name in ("kind", "location") if name in given}))
        return super().make(**given)

    def change(self, row: System, expected_version: int, **given: Any) -> System:
        placed = System(kind=given.get("kind", row.kind), location=given.get("location", row.location))
        # A location from YAML is not checked if other fields of the system are edited.
        if (placed.kind, placed.location) != (row.kind, row.location):
            must_be_allowed(placed, row.datasets.values_list("location", flat=True))
        return super().change(row, expected_version, **given)


class SourceDatasetViewSet(views.SourceDatasetViewSet):
    __doc__ = views.SourceDatasetViewSet.__doc__

    def make(self, **given: Any) -> SourceDataset:
        must_be_allowed(given["system"], sorted(_places(given)))
        return super().make(**given)

    def change(self, row: SourceDataset, expected_version: int, **given: Any) -> SourceDataset:
        known = _places({"location": row.location, "intake": row.intake})
        if changed := _places(given) - known:
            must_be_allowed(row.system, sorted(changed))
        return super().change(row, expected_version, **given)


def _places(given: Mapping[str, Any]) -> set[str]:
    """Return the locations of a source dataset: of its rows, and of its key list."""
    intake = given.get("intake")
    key_list = intake.get("key_list") if isinstance(intake, Mapping) else None
    return {place for place in (given.get("location"), key_list) if isinstance(place, str) and place}


class MetadataViewSet(exchange.MetadataViewSet):
    __doc__ = exchange.MetadataViewSet.__doc__

    def places(self) -> set[tuple[Any, ...]]:
        """Return the locations of all systems and source datasets."""
        named = System.objects.values_list("short_name", "kind", "location")
        key_lists = SourceDataset.objects.values_list("key", "system_id", "intake__key_list")
        return {*named, *SourceDataset.objects.values_list("key", "system_id", "location"), *key_lists}

    def must_be_allowed(self, before: set[tuple[Any, ...]]) -> None:
        """Raise MetadataError for a location outside the allowed roots, unless it is in ``before``."""
        for system in System.objects.prefetch_related("datasets"):
            moved = (system.short_name, system.kind, system.location) not in before
            datasets = system.datasets.all()
            new_locations = [
                row.location for row in datasets if moved or (row.key, system.pk, row.location) not in before
            ]
            if moved or new_locations:
                must_be_allowed(system, new_locations)
