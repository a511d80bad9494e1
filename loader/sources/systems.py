"""Uniform access to systems of any kind: test one, discover its datasets, sample one of them."""

from typing import Any

from elevata.core.errors import MetadataError, as_sentence
from loader.domain.runs.refusals import Refusal
from loader.services.runs.manifests import source_roots
from loader.sources import listing, postgres
from loader.sources.files import sample_files
from loader.sources.limits import SECONDS, within
from loader.sources.permitted_places import folder_of, local, place_in
from loader.sources.results import Listing, Reached, Sample
from metadata.domain.locations import OutsideRoots
from metadata.models import System


def reach(system: System) -> Reached:
    """Return the result of a connection test. Raise Refusal with the reason if it fails."""
    if system.kind == System.Kind.FILES:
        folder = folder_of(system)
        return within(SECONDS, str(folder), lambda: listing.reach_folder(folder, source_roots()))
    return postgres.reach_database(system)


def discover(system: System, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Return one page of the system's files or tables whose name has ``search`` in it."""
    if system.kind == System.Kind.FILES:
        folder = folder_of(system)
        asked = {"search": search, "start": start, "count": count}
        return within(SECONDS, str(folder), lambda: listing.list_folder(folder, source_roots(), **asked))
    return postgres.list_tables(system, search=search, start=start, count=count)


def sample(system: System, location: str, format_name: str, options: dict[str, Any] | None) -> Sample:
    """Return the columns of one file or table by its first rows; ``options`` None: guess how a file is read."""
    if system.kind != System.Kind.FILES:
        return postgres.sample_table(system, location)
    path = local(place_in(system, location))
    try:
        return within(SECONDS, str(path), lambda: sample_files(path, format_name, options, roots=source_roots()))
    except OutsideRoots as problem:
        raise Refusal("OUTSIDE_ROOTS", problem.message) from None
    except MetadataError as problem:
        raise Refusal("BAD_OPTION", as_sentence(f"{problem.field.partition('.')[2]} {problem.message}")) from None
