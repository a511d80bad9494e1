"""Imports of metadata by users of pages and the API, who may not choose every location that loads read from."""

from typing import Any

from django.db import transaction

from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError, raise_all
from loader.sources.page_limits import must_be_allowed, source_places
from metadata.models import SourceDataset, System
from metadata.services.exchange.import_rows import Report
from metadata.services.exchange.metadata_files import MetadataFiles, import_records


def import_from_user(files: MetadataFiles, *, check: bool) -> Report:
    """Import files as ``import_records`` does; new locations outside of the permitted ones are faults, too."""
    with writing():
        before = _places()
        report = import_records(files)
        raise_all(_forbidden(before))
        if check:
            transaction.set_rollback(True)
    return report


def _places() -> set[tuple[Any, ...]]:
    """Return the location of each system and source dataset with its owner, for comparison after an import."""
    named = System.objects.values_list("short_name", "kind", "location")
    rows = SourceDataset.objects.values("key", "system_id", "location", "intake")
    return {*named, *((row["key"], row["system_id"], place) for row in rows for place in source_places(row))}


def _forbidden(before: set[tuple[Any, ...]]) -> list[MetadataError]:
    """Return a fault for each system with a location outside the allowed roots that the import added or moved.

    ``before`` is what ``_places`` returned before the import.
    """
    faults: list[MetadataError] = []
    for system in System.objects.prefetch_related("datasets"):
        moved = (system.short_name, system.kind, system.location) not in before
        places = [(row.key, place) for row in system.datasets.all() for place in source_places(vars(row))]
        new_locations = [place for key, place in places if moved or (key, system.pk, place) not in before]
        if moved or new_locations:
            try:
                must_be_allowed(system, new_locations)
            except MetadataError as error:
                faults.append(error.about(str(system)))
    return faults
