"""Sources as loads read them: location, format, options and declared columns."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import Prefetch
from django.utils import timezone

from elevata.core.errors import MetadataError
from loader.contract.manifest.sources import ApiSpec, ClusterSpec, DatabaseSpec, DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from metadata.domain.sources.clusters import ClusterPlace, parse_cluster
from metadata.domain.sources.database_locations import DatabasePlace, parse_database
from metadata.domain.sources.formats import FORMATS_OF_KIND
from metadata.domain.sources.locations import Location, OutsideRoots, Roots, dated, joined, parse_location
from metadata.domain.sources.rest_addresses import check_endpoint, parse_api
from metadata.domain.sources.secret_names import check_secret_name
from metadata.domain.sources.system_options import check_system_options
from metadata.domain.state import DatasetState
from metadata.models import SourceColumn, SourceDataset, System

_Place = TypeVar("_Place", DatabasePlace, ClusterPlace)


def source_of(raw: DatasetState, specs: Mapping[str, SourceSpec]) -> SourceSpec:
    """Return the one source behind a raw dataset. Raise Refusal NO_SOURCE."""
    sources = [specs[key] for key in raw.inputs if key in specs]
    if len(sources) != 1:
        raise Refusal(
            "NO_SOURCE",
            f"{raw.qualified_name} has {len(sources)} active sources, a raw dataset needs exactly one",
            hint="correct its inputs in the metadata, or retire it",
        )
    return sources[0]


def source_datasets(states: Iterable[DatasetState]) -> dict[str, SourceDataset]:
    """Return the active source datasets that these datasets name as inputs, by stable key."""
    wanted = {key for state in states for key in state.inputs}
    known = {state.key for state in states}
    sources = (
        SourceDataset.objects.filter(key__among=wanted - known, active=True, system__active=True)
        .select_related("system")
        .prefetch_related(Prefetch("columns", SourceColumn.objects.filter(active=True).order_by("ordinal", "id")))
    )
    return {str(source.key): source for source in sources}


def source_spec(source: SourceDataset, *, at: datetime | None = None) -> SourceSpec:
    """Return location, format and declared columns of a source's deliveries.

    Raise Refusal SOURCE_KIND for a format that the system's kind does not have, BAD_LOCATION or BAD_OPTION.
    """
    system, options = source.system, dict(source.options)
    place: dict[str, Any] = {}
    if source.format not in FORMATS_OF_KIND[system.kind]:
        raise Refusal(
            "SOURCE_KIND",
            f"{source} has the format {source.format}, and {system} is {system.get_kind_display()}",
            hint="Sources in a database have the format table, those in a cluster kafka, those of an API rest, and "
            "files another one.",
        )
    location, key_list = source.location.strip(), source.intake.get("key_list", "")
    match system.kind:
        case System.Kind.JDBC:
            place = {"database": DatabaseSpec(database_place(system), system.secret)}
        case System.Kind.KAFKA:
            place = {"cluster": ClusterSpec(cluster_place(system), system.secret)}
        case System.Kind.REST:
            at, undated = at or timezone.now(), (location, str(options.get("parameters", "")))
            location, options = endpoint_at(source.location, options, source=str(source), at=at)
            key_list = key_list and endpoint_at(key_list, {}, source=str(source), at=at)[0]
            place = {"api": api_of(system), "undated": undated}
        case _:
            location = source_location(source, at=at)
            key_list = key_list and place_of(key_list, system.location, shown=str(source), at=at)
    return SourceSpec(
        name=str(source),
        location=location,
        format=source.format,
        columns=tuple(
            DeliveredColumn(
                key=str(column.key),
                name=column.name,
                type=str(column.type),
                nullable=column.nullable,
                business_key=column.key_ordinal is not None,
            )
            for column in source.columns.all()
        ),
        options=options,
        intake=dict(source.intake) | ({"key_list": key_list} if key_list else {}),
        **place,
    )


def api_of(system: System) -> ApiSpec:
    """Return the REST API of a system. Raise Refusal BAD_LOCATION or BAD_OPTION."""
    check_secret_of(system)
    try:
        check_system_options(system.kind, system.options, secret=system.secret)
        return ApiSpec(parse_api(system.location), dict(system.options), system.secret)
    except MetadataError as problem:
        code = "BAD_OPTION" if problem.code == "bad_option" else "BAD_LOCATION"
        raise Refusal(code, f"{system}: {problem.message}", hint="Edit the system and correct it.") from None


def check_secret_of(system: System) -> None:
    """Refuse a variable that no system may name. Raise Refusal BAD_LOCATION."""
    try:
        check_secret_name(system.secret, settings.SOURCE_SECRETS)
    except MetadataError as problem:
        hint = "Ask the administrator to list the variable, or name another one in the system."
        raise Refusal("BAD_LOCATION", f"{system}: its secret {problem.message}", hint=hint) from None


def endpoint_at(location: str, options: Mapping[str, Any], *, source: str, at: datetime) -> tuple[str, dict[str, Any]]:
    """Return path and options of an endpoint with the dates filled in. Raise Refusal BAD_LOCATION."""
    filled = dict(options)
    try:
        check_endpoint(location)
        if isinstance(options.get("parameters"), str):
            filled["parameters"] = dated(options["parameters"], at)
        return dated(location.strip(), at), filled
    except MetadataError as problem:
        hint = "Correct the location or the parameters of the source."
        raise Refusal("BAD_LOCATION", f"{source}: {problem.message}", hint=hint) from None


def database_place(system: System) -> DatabasePlace:
    """Return the database of a system. Raise Refusal BAD_LOCATION."""
    return _place(system, parse_database, "database")


def cluster_place(system: System) -> ClusterPlace:
    """Return the Kafka cluster of a system. Raise Refusal BAD_LOCATION."""
    return _place(system, parse_cluster, "cluster")


def _place(system: System, parse: Callable[[str], _Place], what: str) -> _Place:
    check_secret_of(system)
    try:
        return parse(system.location)
    except MetadataError as problem:
        raise Refusal(
            "BAD_LOCATION",
            f"{system}: {problem.message}" if system.location else f"{system} names no {what}",
            hint="Edit the system and correct it.",
        ) from None


def source_location(source: SourceDataset, *, at: datetime | None = None) -> str:
    """Return the dataset's place below its system's; absolute paths and URIs stay as they are.

    ``{{ data_dir }}`` is the data folder in force, dates are those of the time ``at``, by default now; relative paths
    are below the project. Raise Refusal BAD_LOCATION.
    """
    return place_of(source.location, source.system.location, shown=str(source), at=at)


def absolute_place(text: str) -> str:
    """Return a place as users write it, made absolute like a source's location. Raise Refusal BAD_LOCATION."""
    return place_of(text, shown=text)


def place_of(own: str, base: str = "", *, shown: str, at: datetime | None = None) -> str:
    """Return the absolute path or URI of a location below another one. Raise Refusal BAD_LOCATION, naming ``shown``."""
    try:
        text = joined(own, base, data_dir=str(settings.DATA_DIR), at=at or timezone.now())
        return str(parse_location(text, folder=str(settings.BASE_DIR)))
    except MetadataError as problem:
        raise Refusal(
            "BAD_LOCATION", f"{shown}: the location {problem.message}", hint="Correct the location."
        ) from None


def copy_roots() -> Roots:
    """Return the places below which copies may be written, without the warehouse."""
    closed = [settings.WAREHOUSE] if settings.WAREHOUSE.startswith("/") else []
    return Roots.of(settings.COPY_ROOTS, [str(settings.DATA_DIR), *closed], folder=str(settings.BASE_DIR))


def copy_place(system: System) -> Location:
    """Return the file or folder of a system for copies. Raise Refusal BAD_LOCATION or OUTSIDE_ROOTS."""
    location = parse_location(absolute_place(system.location), folder="/")
    if location != location.fixed:
        raise Refusal(
            "BAD_LOCATION",
            f"{system.location} has a pattern; copies are written to one place",
            hint="Correct the system's location.",
        )
    try:
        return copy_roots().check(location)
    except OutsideRoots:
        raise Refusal(
            "OUTSIDE_ROOTS",
            f"{system.location} is outside the folders that copies may be written to",
            hint=f"Allowed are {', '.join(map(str, copy_roots().places))}. "
            "An administrator sets them in ELEVATA_COPY_ROOTS.",
        ) from None


def source_roots() -> Roots:
    """Return the places below which sources may be: those of the settings, without the product's own folders."""
    closed = [str(settings.DATA_DIR), *([settings.WAREHOUSE] if settings.WAREHOUSE.startswith("/") else [])]
    return Roots.of(settings.SOURCE_ROOTS, closed, folder=str(settings.BASE_DIR))
