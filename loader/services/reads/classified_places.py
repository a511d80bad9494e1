"""Classification of places that are read for a sample: by all source datasets that read there, of any system."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from typing import Any
from urllib.parse import unquote

from elevata.core.errors import MetadataError
from elevata.core.networks import canonical_host, is_address
from elevata.core.permitted_addresses import NotResolved, resolved
from loader.contract.refusals import Refusal
from loader.domain.database_kinds import engine_of
from loader.domain.queries.masking import NAMES_AS_SAMPLES, without_values
from loader.services.sources.specs import place_of, source_roots
from metadata.domain.sources.clusters import parse_cluster
from metadata.domain.sources.database_locations import parse_database
from metadata.domain.sources.locations import Location, parse_location, undated
from metadata.domain.sources.rest_addresses import parse_api
from metadata.models import SourceDataset, System
from metadata.selectors.classification import Classification, classified_sources, source_classification

# Time for an address of a server, which is only asked for items of one name on hosts of two names.
_SECONDS = 2.0


@dataclass(frozen=True)
class ClassifiedPlace:
    """Source datasets with sensitive columns that read at a place, each with its classification."""

    sources: tuple[tuple[SourceDataset, Classification], ...]

    @classmethod
    def of(cls, system: System, location: str) -> "ClassifiedPlace":
        """Return the classification of a location of a system."""
        sources = _sources_at(system, location) if "\0" not in location else []
        return cls(tuple((source, source_classification(source)) for source in sources))

    @property
    def is_sensitive(self) -> bool:
        return bool(self.sources)

    @property
    def sensitive_names(self) -> frozenset[str]:
        """Return present and former names, in lower case, of the sensitive columns."""
        return frozenset(name for _, classified in self.sources for name in classified.sensitive_names)

    def is_read_as_described(self, format_name: str, options: dict[str, Any]) -> bool:
        """Return True for a reading that is that of all sources; otherwise names and values may be those of others."""
        return all((source.format, source.options) == (format_name, options) for source, _ in self.sources)

    def hidden(self, names: Iterable[str], *, as_described: bool) -> frozenset[str]:
        """Return the names in lower case of columns that may hold sensitive values."""
        every = frozenset(name.lower() for name in names)
        if not as_described:
            return every
        harmless = (
            frozenset(column.name.lower() for column in source.columns.all()) - classified.sensitive_present
            for source, classified in self.sources
        )
        return every - frozenset.intersection(*harmless) if self.sources else frozenset()

    def shown_names(self, names: Collection[str], *, as_described: bool) -> list[str]:
        """Return the names of columns for a user who may not read the values.

        Read in another way than described, a record may be taken for the header: then only described names are shown.
        """
        if as_described:
            return list(names)
        described = {column.name for source, _ in self.sources for column in source.columns.all()}
        return [name if name in described else f"(column {place})" for place, name in enumerate(names, start=1)]

    def without_values(self, refusal: Refusal, *, as_described: bool) -> Refusal:
        """Return a refusal for a user who may not read the values."""
        if as_described:
            return without_values(refusal, self.sensitive_names)
        # The names of columns may be values.
        refusal = replace(refusal, column="", faults=())
        if refusal.code in NAMES_AS_SAMPLES:
            message = "its columns cannot be read; names are masked, since values may have been taken for them"
            refusal = replace(refusal, message=f"{refusal.file or 'the file'}: {message}", samples=())
        return without_values(refusal, ("",))


def renamed(columns: Collection[str], names: Sequence[str], shown: Sequence[str]) -> tuple[str, ...]:
    """Return some of the columns with these names by the names as which these are shown."""
    return tuple(new for name, new in zip(names, shown, strict=True) if name in columns)


def _sources_at(system: System, location: str) -> list[SourceDataset]:
    sources = classified_sources()
    if system.kind != System.Kind.FILES:
        item = _Item.of(system, location)
        others, addresses = sources.filter(system__kind=system.kind), cache(_addresses)
        return [source for source in others if _Item.of(source.system, source.location).may_be(item, addresses)]
    place = _place(system, location)
    others = sources.filter(system__kind=System.Kind.FILES)
    if place is None:
        return list(others.filter(system=system, location=location))
    return [source for source in others if _reads_at(source, place)]


# Addresses of a host and port; None if they are not known at present.
_Addresses = Callable[[str, int], frozenset[str] | None]


def _addresses(host: str, port: int) -> frozenset[str] | None:
    try:
        return frozenset(map(canonical_host, resolved(host, port, seconds=_SECONDS)))
    except NotResolved:
        return None


@dataclass(frozen=True)
class _Server:
    """Server of an item: its host, its port, and its database if that is a part of the address.

    ``is_virtual``: one address has several hosts that are different servers. The port is 0 if any port is the same.
    """

    host: str
    port: int = 0
    database: str = ""
    is_virtual: bool = False

    def may_be(self, other: "_Server", addresses: _Addresses) -> bool:
        """Return True if both may be the same under two names, also if an address of one is unknown at present."""
        if (self.port, self.database) != (other.port, other.database):
            return False
        hosts = [canonical_host(server.host) for server in (self, other)]
        if hosts[0] == hosts[1]:
            return True
        if self.is_virtual and not any(is_address(host) or "." not in host for host in hosts):
            return False
        first, second = (addresses(host, self.port) for host in hosts)
        return first is None or second is None or bool(first & second)


@dataclass(frozen=True)
class _Item:
    """Table, topic or endpoint: the servers that have it, and its full name in one spelling, in lower case."""

    servers: tuple[_Server, ...]
    name: str
    system: int

    @classmethod
    def of(cls, system: System, location: str) -> "_Item":
        try:
            servers, name = _ITEMS[system.kind](system.location, location.strip())
        except (MetadataError, Refusal):  # nothing is read there; its name is that within its system
            servers, name = (), location.strip()
        return cls(servers, name.lower(), system.pk)

    def may_be(self, other: "_Item", addresses: _Addresses) -> bool:
        """Return True if both may be the same, whatever dates are in their names."""
        first, second = self.name, other.name
        if not (first == second or fnmatchcase(first, second) or fnmatchcase(second, first)):
            return False
        pairs = product(self.servers, other.servers)
        return self.system == other.system or any(own.may_be(server, addresses) for own, server in pairs)


def _table(address: str, location: str) -> tuple[tuple[_Server, ...], str]:
    place = parse_database(address)
    engine = engine_of(place)
    # Without a default schema, databases of a server are schemas.
    database = place.name.lower() if engine.default_schema else ""
    return (_Server(place.host, place.port, database),), ".".join(engine.names(location, place))


def _topic(address: str, location: str) -> tuple[tuple[_Server, ...], str]:
    return tuple(_Server(broker.host, broker.port) for broker in parse_cluster(address).brokers), location


def _endpoint(address: str, location: str) -> tuple[tuple[_Server, ...], str]:
    api = parse_api(address)
    return (_Server(api.host, is_virtual=True),), unquote(undated(f"{api.path}/{location.strip('/')}"))


_ITEMS: Mapping[str, Callable[[str, str], tuple[tuple[_Server, ...], str]]] = {
    System.Kind.JDBC: _table,
    System.Kind.KAFKA: _topic,
    System.Kind.REST: _endpoint,
}


def _reads_at(source: SourceDataset, place: Location) -> bool:
    own = _place(source.system, source.location)
    return own is not None and own.may_share_files(place)


def _place(system: System, location: str) -> Location | None:
    """Return the place of a location at any date, with links followed; None for one that nothing may read."""
    try:
        text = place_of(undated(location), undated(system.location), shown=location)
        return source_roots().check(parse_location(text, folder="/"))
    except (Refusal, MetadataError):
        return None
