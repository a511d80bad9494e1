"""Observations of tables by refreshes.

They are stored with their times, so that pages can compare with them without waiting for a worker. Operators are
notified of new drift.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from architecture.domain.states import dataset_drift
from architecture.domain.states.dataset_drift import DatasetDrift
from architecture.domain.tables import ObservedColumn, ObservedTable
from architecture.models import Environment, Observation
from architecture.selectors.dataset_states import applied_states
from architecture.selectors.json_cache import Parsed
from architecture.services.notifications import tell_drift


@dataclass(frozen=True)
class Observations:
    """Last observations: existing ``tables`` by stable key; ``keys`` are all observed ones, also of missing tables.

    ``at`` is the time of the oldest observation, None if there is none; ``times`` are those of single tables.
    ``sizes`` are the rows, bytes and files of tables, if known.
    """

    tables: Mapping[str, ObservedTable]
    keys: frozenset[str]
    at: datetime | None
    sizes: Mapping[str, dict[str, int]] = field(default_factory=dict)
    times: Mapping[str, datetime] = field(default_factory=dict)

    def oldest(self, keys: Collection[str]) -> datetime | None:
        """Return the time of the oldest observation of these tables; of all tables if none of them was observed."""
        return min((self.times[key] for key in keys if key in self.times), default=self.at)

    def knows(self, keys: Collection[str]) -> bool:
        """Return True if all these tables were observed."""
        return self.keys.issuperset(keys)


@transaction.atomic
def store_observations(
    *,
    environment: Environment,
    keys: Collection[str],
    tables: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Store observations of tables with these keys: ``tables`` by key as JSON; those that are not in it do not exist.

    Without ``sizes`` the stored sizes stay.
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
        for key in sorted(keys)
    ]
    Observation.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["environment", "table_key"],
        update_fields=["document", "observed_at", *([] if sizes is None else ["size"])],
    )


def last_observations(*, environment: Environment, keys: Collection[str] | None = None) -> Observations:
    """Return the last observations of these tables (default: of all tables)."""
    rows = Observation.objects.filter(environment=environment)
    if keys is not None:
        rows = rows.filter(table_key__among=keys)
    values: list[Any] = [*rows.values_list("pk", "table_key", "observed_at", "size", named=True)]
    tables = _TABLES.by_pk(rows.filter(document__isnull=False))
    return Observations(
        tables={str(row.table_key): tables[row.pk] for row in values if row.pk in tables},
        keys=frozenset(str(row.table_key) for row in values),
        at=min((row.observed_at for row in values), default=None),
        sizes={str(row.table_key): row.size for row in values if row.size},
        times={str(row.table_key): row.observed_at for row in values},
    )


def seen_at(*, environment: Environment) -> datetime | None:
    """Return the time of the newest observation; None if there is none."""
    return Observation.objects.filter(environment=environment).aggregate(at=Max("observed_at"))["at"]


def observed_table(document: Mapping[str, Any]) -> ObservedTable:
    """Return an observed table from its JSON. Fields that older releases did not store have their defaults."""
    values = _known_fields(ObservedTable, document)
    values["columns"] = tuple(ObservedColumn(**_known_fields(ObservedColumn, column)) for column in document["columns"])
    return ObservedTable(**{name: _as_tuple(value) for name, value in values.items()})


_TABLES = Parsed(observed_table, column="document", stamp="observed_at")


def _known_fields(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# Fields of an observation that change with every load and are not part of the structure.
_VOLATILE = frozenset({"version"})


@transaction.atomic
def store_and_report_drift(
    *,
    environment: Environment,
    keys: Collection[str],
    tables: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[DatasetDrift, ...]:
    """Store observations (see ``store_observations``), notify operators of new drift and return it.

    Do not use this during an execution: its changes are not in the applied state yet.
    """
    observations = Observation.objects.filter(environment=environment, table_key__among=keys)
    before = {str(key): document for key, document in observations.values_list("table_key", "document")}
    store_observations(environment=environment, keys=keys, tables=tables, sizes=sizes)
    changed = {key for key in map(str, keys) if _structure(before.get(key)) != _structure(tables.get(key))}
    drifts = _new_drift(environment, changed, before) if changed else ()
    if drifts:
        tell_drift(environment, drifts)
    return drifts


def _new_drift(
    environment: Environment, changed: Collection[str], before: Mapping[str, Mapping[str, Any] | None]
) -> tuple[DatasetDrift, ...]:
    """Return the drift that the previous observations did not show, or not in the same way."""
    states = [
        applied_state
        for applied_state in applied_states(environment=environment)
        if {applied_state.key, applied_state.history_key} & set(changed)
    ]
    keys = {key for state in states for key in (state.key, state.history_key) if key}
    observations = last_observations(environment=environment, keys=keys)
    # A dataset whose base table or history was never observed is unknown, not drifted.
    known = [state for state in states if observations.keys.issuperset(_table_keys(state))]
    earlier: dict[str, ObservedTable] = {key: table for key, table in observations.tables.items() if key not in changed}
    earlier |= {key: observed_table(document) for key, document in before.items() if document and key in keys}
    known_before = [
        state for state in known if not {key for key in _table_keys(state) if key in changed} - before.keys()
    ]
    was = {drift.key: drift.differences for drift in dataset_drift.drift(known_before, earlier)}
    now = (drift for drift in dataset_drift.drift(known, observations.tables) if drift.status == dataset_drift.DRIFTED)
    return tuple(drift for drift in now if was.get(drift.key) != drift.differences)


def _table_keys(state: Any) -> set[str]:
    return {state.key, state.history_key} if state.historize and state.history_key else {state.key}


def _structure(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if document is None:
        return None
    return {name: _as_json(value) for name, value in document.items() if name not in _VOLATILE}


def _as_json(value: Any) -> Any:
    """Return the value as JSON would restore it: tuples become lists."""
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, list | tuple) else value
