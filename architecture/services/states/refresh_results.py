"""Results of a refresh: observations are stored, and new drift is notified."""

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction

from architecture.domain.states import drift as domain
from architecture.domain.states.drift import DatasetDrift
from architecture.domain.states.tables import ObservedTable
from architecture.models import Environment, Observation
from architecture.selectors import applied_states
from architecture.services.notifications import tell_drift
from architecture.services.states.observed_states import last_seen, observed_table, store_observations

# What moves with every load, and is no part of a table's structure.
_MOVING = frozenset({"version"})


@transaction.atomic
def keep_what_was_seen(
    *,
    environment: Environment,
    asked: Collection[str],
    tables: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[DatasetDrift, ...]:
    """Keep what was seen (see ``store_observations``); returns the drift that is new, of which operators were told.

    Not for looks in the middle of an execution: what it has changed is not applied yet.
    """
    before = dict(
        Observation.objects.filter(environment=environment, table_key__among=asked).values_list("table_key", "document")
    )
    before = {str(key): document for key, document in before.items()}
    store_observations(environment=environment, asked=asked, tables=tables, sizes=sizes)
    changed = {key for key in map(str, asked) if _structure(before.get(key)) != _structure(tables.get(key))}
    found = _new_drift(environment, changed, before) if changed else ()
    if found:
        tell_drift(environment, found)
    return found


def _new_drift(
    environment: Environment, changed: Collection[str], before: Mapping[str, Mapping[str, Any] | None]
) -> tuple[DatasetDrift, ...]:
    """Return the drift that was absent, or different, at the observation before."""
    states = [one for one in applied_states(environment=environment) if {one.key, one.history_key} & set(changed)]
    keys = {key for one in states for key in (one.key, one.history_key) if key}
    seen = last_seen(environment=environment, keys=keys)
    # One whose history, or base, nobody has looked at yet is unknown, not drifted.
    known = [one for one in states if seen.asked.issuperset(_tables(one))]
    earlier: dict[str, ObservedTable] = {key: table for key, table in seen.tables.items() if key not in changed}
    earlier |= {key: observed_table(document) for key, document in before.items() if document and key in keys}
    looked = [one for one in known if not {key for key in _tables(one) if key in changed} - before.keys()]
    was = {one.key: one.differences for one in domain.drift(looked, earlier)}
    now = (one for one in domain.drift(known, seen.tables) if one.status == domain.DRIFTED)
    return tuple(one for one in now if was.get(one.key) != one.differences)


def _tables(state: Any) -> set[str]:
    return {state.key, state.history_key} if state.historize and state.history_key else {state.key}


def _structure(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if document is None:
        return None
    return {name: _plain(value) for name, value in document.items() if name not in _MOVING}


def _plain(value: Any) -> Any:
    """As JSON gives it back: what comes from the runner may still hold tuples."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
