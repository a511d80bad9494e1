"""Observations of the warehouse. The loader refreshes them; architecture only stores and reads.

The loader registers one port (``provide``), through which commands have tables looked at; what is
seen is stored with its time, so pages can compare with the last observation at once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Protocol

from django.db import transaction
from django.db.models import Min
from django.utils import timezone

from architecture.domain.states.tables import ObservedColumn, ObservedTable
from architecture.json_cache import Parsed
from architecture.models import Environment, Observation


@dataclass(frozen=True)
class Seen:
    """Tables by stable key as they were seen, ``asked`` with those that were not there.

    ``at`` is the time of the oldest part of it, None if nothing was ever looked at. ``sizes`` has
    rows, bytes and files of a table, as far as they are known.
    """

    tables: Mapping[str, ObservedTable]
    asked: frozenset[str]
    at: datetime | None
    sizes: Mapping[str, dict[str, int]] = field(default_factory=dict)

    def knows(self, keys: Collection[str]) -> bool:
        """Return whether every one of these tables was observed."""
        return self.asked.issuperset(keys)


class CannotLook(Exception):
    """Error raised when the warehouse cannot be observed now."""

    code = "cannot_look"

    def one_line(self) -> str:
        return " ".join(str(self).split())


class Port(Protocol):
    """Interface that the loader provides: observe tables now. Raise CannotLook with the reason."""

    def __call__(self, *, keys: Collection[str], sizes: bool, local: bool | None) -> None: ...


_port: Port | None = None


def provide(port: Port) -> None:
    """Set the port; the loader does so when the project starts."""
    global _port
    _port = port


def look(*, environment: Environment, keys: Collection[str], sizes: bool = False, local: bool | None = None) -> Seen:
    """Have tables looked at now, and return what is known of the warehouse then.

    ``local``: by this process, not by a worker; None: by a worker if one answers. CannotLook if nobody can.
    """
    if _port is None:
        raise RuntimeError("nobody provides a way to look at the warehouse")
    if keys:
        _port(keys=sorted(keys), sizes=sizes, local=local)
    return last_seen(environment=environment)


@transaction.atomic
def store_observations(
    *,
    environment: Environment,
    asked: Collection[str],
    tables: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Keep what was seen: ``tables`` by key as JSON; those asked for and not in it are not there.

    Without ``sizes`` those that are known stay.
    """
    now = timezone.now()
    rows = [
        Observation(
            environment=environment,
            table_key=key,
            document=dict(tables[key]) if key in tables else None,
            size=dict((sizes or {}).get(key) or {}) or None,
            observed_at=now,
        )
        for key in sorted(asked)
    ]
    Observation.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["environment", "table_key"],
        update_fields=["document", "observed_at", *([] if sizes is None else ["size"])],
    )


def last_seen(*, environment: Environment, keys: Collection[str] | None = None) -> Seen:
    """The last observation of these tables (or of all that were ever looked at)."""
    rows = Observation.objects.filter(environment=environment)
    if keys is not None:
        rows = rows.filter(table_key__among=keys)
    found = list(rows.values_list("pk", "table_key", "observed_at", "size", named=True))
    tables = _TABLES.by_pk(rows.filter(document__isnull=False))
    return Seen(
        tables={str(row.table_key): tables[row.pk] for row in found if row.pk in tables},
        asked=frozenset(str(row.table_key) for row in found),
        at=min((row.observed_at for row in found), default=None),
        sizes={str(row.table_key): row.size for row in found if row.size},
    )


def seen_at(*, environment: Environment) -> datetime | None:
    """The time of the oldest part of what was seen last; None if nothing was ever looked at."""
    return Observation.objects.filter(environment=environment).aggregate(at=Min("observed_at"))["at"]


def observed_table(document: Mapping[str, Any]) -> ObservedTable:
    """An observed table from its JSON; fields that an older release did not know have their defaults."""
    known = _known(ObservedTable, document)
    known["columns"] = tuple(ObservedColumn(**_known(ObservedColumn, column)) for column in document["columns"])
    return ObservedTable(**{name: _tupled(value) for name, value in known.items()})


_TABLES = Parsed(observed_table, column="document", stamp="observed_at")


def _known(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
