"""Endpoints of systems and sources that limit their places: a load reads whatever a source names."""

from collections.abc import Iterable
from typing import Any

from elevata.core.errors import MetadataError, as_sentence
from loader.domain.runs.refusals import Refusal
from loader.sources.permitted_places import allowed, place_in
from metadata.api import exchange, views
from metadata.models import SourceDataset, System


class SystemViewSet(views.SystemViewSet):
    __doc__ = views.SystemViewSet.__doc__

    def make(self, **given: Any) -> System:
        _must_be_allowed(System(**{name: given[name] for name in ("kind", "location") if name in given}))
        return super().make(**given)

    def change(self, row: System, expected_version: int, **given: Any) -> System:
        placed = System(kind=given.get("kind", row.kind), location=given.get("location", row.location))
        # Places that came by YAML stay, if other fields of the system are edited.
        if (placed.kind, placed.location) != (row.kind, row.location):
            _must_be_allowed(placed, row.datasets.values_list("location", flat=True))
        return super().change(row, expected_version, **given)


class SourceDatasetViewSet(views.SourceDatasetViewSet):
    __doc__ = views.SourceDatasetViewSet.__doc__

    def make(self, **given: Any) -> SourceDataset:
        _must_be_allowed(given["system"], [given["location"]])
        return super().make(**given)

    def change(self, row: SourceDataset, expected_version: int, **given: Any) -> SourceDataset:
        if given.get("location", row.location) != row.location:
            _must_be_allowed(row.system, [given["location"]])
        return super().change(row, expected_version, **given)


class MetadataViewSet(exchange.MetadataViewSet):
    __doc__ = exchange.MetadataViewSet.__doc__

    def places(self) -> set[tuple[Any, ...]]:
        """Return every system's and source dataset's place."""
        named = System.objects.values_list("short_name", "kind", "location")
        return {*named, *SourceDataset.objects.values_list("key", "system_id", "location")}

    def must_be_allowed(self, before: set[tuple[Any, ...]]) -> None:
        """Raise MetadataError for a new place outside of the allowed roots; places that were there before stay."""
        for system in System.objects.prefetch_related("datasets"):
            moved = (system.short_name, system.kind, system.location) not in before
            datasets = system.datasets.all()
            fresh = [row.location for row in datasets if moved or (row.key, system.pk, row.location) not in before]
            if moved or fresh:
                _must_be_allowed(system, fresh)


def _must_be_allowed(system: System, locations: Iterable[str] = ()) -> None:
    """Raise MetadataError ``place_not_allowed`` for a folder or file outside of the allowed roots."""
    if system.kind != System.Kind.FILES:
        return
    try:
        if system.location:
            allowed(system.location)
        for location in locations:
            place_in(system, location)
    except Refusal as refusal:
        said = f"{as_sentence(refusal.message)} {refusal.hint}".strip()
        raise MetadataError("place_not_allowed", said, "location") from None
