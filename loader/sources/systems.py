"""Connection test, discovery and sampling of systems, by kind: folders, databases, clusters and APIs."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from elevata.core.errors import MetadataError, as_sentence
from loader.contract.refusals import Refusal
from loader.domain.extras import packages_of
from loader.services.sources.specs import database_place, source_roots
from loader.sources import files
from loader.sources.apis import list_endpoints, reach_api, sample_endpoint
from loader.sources.copy_targets import list_nothing, reach_target
from loader.sources.database_samples import MARIADB_KINDS
from loader.sources.file_samples import sample_files
from loader.sources.page_limits import SECONDS, folder_of, local, outside_roots, place_in, within
from loader.sources.postgresql import list_postgresql, reach_postgresql, sample_postgresql
from loader.sources.results import ConnectionResult, Delivery, Listing, Sample
from loader.sources.text_files import ROWS
from loader.sources.topics import list_topics, reach_cluster, sample_topic
from metadata.domain.sources.locations import OutsideRoots
from metadata.models import System


def reach(system: System) -> ConnectionResult:
    """Return the result of a connection test. Raise Refusal with the reason if it fails."""
    if system.kind == System.Kind.FILES:
        folder = folder_of(system)
        return within(SECONDS, str(folder), lambda: files.reach_folder(folder, source_roots()))
    return _SYSTEMS[system.kind][0](system)


def discover(system: System, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Return one page of the system's files, tables or topics whose name has ``search`` in it."""
    if system.kind == System.Kind.FILES:
        folder = folder_of(system)
        return within(
            SECONDS,
            str(folder),
            lambda: files.list_folder(folder, source_roots(), search=search, start=start, count=count),
        )
    return _SYSTEMS[system.kind][1](system, search=search, start=start, count=count)


def delivery(system: System, location: str) -> Delivery:
    """Return the files that a location of a system of files stands for now. Raise Refusal with the reason if none."""
    path = local(place_in(system, location))
    try:
        return within(SECONDS, location, lambda: files.delivery_at(path, source_roots(), shown=location))
    except OutsideRoots:
        raise outside_roots(location) from None


def sample(system: System, location: str, format_name: str, options: dict[str, Any] | None) -> Sample:
    """Return the columns and first rows of a file, table, topic or endpoint.

    Without ``options`` a delimiter or an envelope is guessed.
    """
    if system.kind == System.Kind.KAFKA:
        return sample_topic(system, location, options)
    if system.kind == System.Kind.REST:
        return sample_endpoint(system, location, options or {})
    if system.kind != System.Kind.FILES:
        return (
            _mariadb().sample_mariadb(system, location, ROWS)
            if _is_mariadb(system)
            else sample_postgresql(system, location, ROWS)
        )
    path = local(place_in(system, location))
    try:
        read = partial(sample_files, path, format_name, options, roots=source_roots(), shown=location)
        return within(SECONDS, location, read)
    except OutsideRoots:
        raise outside_roots(location) from None
    except MetadataError as problem:
        raise Refusal("BAD_OPTION", as_sentence(f"{problem.field.partition('.')[2]} {problem.message}")) from None


def _is_mariadb(system: System) -> bool:
    return system.kind == System.Kind.JDBC and database_place(system).kind in MARIADB_KINDS


def _mariadb() -> ModuleType:
    with packages_of("mariadb"):
        from loader.sources import mariadb
    return mariadb


def _reach_jdbc(system: System) -> ConnectionResult:
    return _mariadb().reach_mariadb(system) if _is_mariadb(system) else reach_postgresql(system)


def _list_jdbc(system: System, **page: Any) -> Listing:
    return _mariadb().list_mariadb(system, **page) if _is_mariadb(system) else list_postgresql(system, **page)


# Connection test and listing of each kind of system outside of this machine.
_SYSTEMS: dict[str, tuple[Callable[[System], ConnectionResult], Callable[..., Listing]]] = {
    System.Kind.JDBC: (_reach_jdbc, _list_jdbc),
    System.Kind.KAFKA: (reach_cluster, list_topics),
    System.Kind.REST: (reach_api, list_endpoints),
    System.Kind.DUCKDB: (reach_target, list_nothing),
    System.Kind.DELTA: (reach_target, list_nothing),
}
