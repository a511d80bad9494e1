"""Environment, applied states, observations and refresh results.

Observations are stored with their time, so pages can compare with the last one at once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Min
from django.utils import timezone

from architecture.domain import current_state as domain
from architecture.domain.applied_state import advance, follows_history, is_reached
from architecture.domain.current_state import DatasetDrift
from architecture.domain.operations import Operation, operation_of
from architecture.domain.state_files import as_row, of_row
from architecture.domain.tables import ObservedColumn, ObservedTable
from architecture.models import AppliedDataset, Environment, Execution, ExecutionOperation, KeptHistory, Observation
from architecture.selectors.environments import Parsed, applied_states
from architecture.services.notifications import tell_drift
from architecture.services.proof import refuse_unproven_execution, refuse_unproven_row, signature_of
from elevata.core.canonical_json import sha256_hex
from metadata.domain.state import DatasetState


@dataclass(frozen=True)
class Seen:
    """Observed tables by stable key; ``asked`` includes the missing ones.

    ``at`` is the time of the oldest observation, None without any. ``sizes`` has rows, bytes and files of a table,
    if known.
    """

    tables: Mapping[str, ObservedTable]
    asked: frozenset[str]
    at: datetime | None
    sizes: Mapping[str, dict[str, int]] = field(default_factory=dict)

    def knows(self, keys: Collection[str]) -> bool:
        """Return whether every one of these tables was observed."""
        return self.asked.issuperset(keys)


@transaction.atomic
def store_observations(
    *,
    environment: Environment,
    asked: Collection[str],
    tables: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Store observations: ``tables`` by key as JSON; requested ones that are not in it do not exist.

    Without ``sizes`` the stored ones stay.
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
    """Return the last observation of these tables (default: all ever observed)."""
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
    """Return the time of the oldest of the last observations; None if there are none."""
    return Observation.objects.filter(environment=environment).aggregate(at=Min("observed_at"))["at"]


def observed_table(document: Mapping[str, Any]) -> ObservedTable:
    """Return an observed table from its JSON; fields missing in older releases have their defaults."""
    known = _known(ObservedTable, document)
    known["columns"] = tuple(ObservedColumn(**_known(ObservedColumn, column)) for column in document["columns"])
    return ObservedTable(**{name: _tupled(value) for name, value in known.items()})


_TABLES = Parsed(observed_table, column="document", stamp="observed_at")


def _known(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# Applied state: it changes only with a finished operation.


# The mark of a dataset that was never executed in whole: all users who described it are authors.
NOTHING = 0


def apply_finished(step: ExecutionOperation) -> None:
    """Advance applied state if this step was the last of its operation, in the caller's transaction.

    Raises Refused EXECUTION_UNPROVEN or APPLIED_UNPROVEN if the plan, or the former applied state, was changed.
    """
    execution = step.execution
    left = execution.operations.filter(operation=step.operation).exclude(status=ExecutionOperation.Status.SUCCEEDED)
    if step.operation is None or left.exists():
        return
    refuse_unproven_execution(execution)
    operation = operation_of(execution.planned["rows"][step.operation])
    rows = execution.operations.filter(operation=step.operation, version_after__isnull=False).order_by("ordinal")
    versions = {str(row.table_key): row.version_after for row in rows}
    desired = execution.planned["desired"].get(operation.dataset_key)
    rest = execution.operations.filter(dataset_key=operation.dataset_key)
    whole = not rest.exclude(status=ExecutionOperation.Status.SUCCEEDED).exists()
    advance_dataset(
        execution=execution,
        operation=operation,
        desired=None if desired is None else of_row(desired),
        versions=versions,
        whole=whole,
    )


def advance_dataset(
    *,
    execution: Execution,
    operation: Operation,
    desired: DatasetState | None,
    versions: dict[str, int],
    whole: bool,
) -> None:
    """Write the applied row of the operation's dataset after it; delete it once its table is dropped.

    The mark becomes that of the plan if the ``whole`` of the dataset's operations is done and nothing desired is
    left, retired parts included; otherwise the older mark stays, and so do the authors.
    """
    environment = execution.environment
    rows = AppliedDataset.objects.select_for_update().filter(environment=environment)
    row = rows.filter(dataset_key=operation.dataset_key).first()
    if row is not None:
        refuse_unproven_row(row)
    before = of_row(row.state) if row is not None else None
    state = advance(before, operation, desired)
    note_history(environment=environment, before=before, after=state)
    known = row.table_versions if row is not None else {}
    if row is not None and (state is None or state.key != str(row.dataset_key)):
        row.delete()
    if state is not None:
        write_applied(
            environment=environment,
            state=state,
            versions={**known, **versions},
            execution=execution,
            through=_mark(execution, row, reached=whole and desired is not None and is_reached(state, desired)),
        )


def _mark(execution: Execution, row: AppliedDataset | None, *, reached: bool) -> int:
    planned = execution.planned.get("through", NOTHING)
    if reached:
        return planned
    return NOTHING if row is None else min(row.through, planned)


def note_history(*, environment: Environment, before: DatasetState | None, after: DatasetState | None) -> None:
    """Keep the logic that a history last followed once loads do so no more; forget it once they do again."""
    followed, follows = follows_history(before), follows_history(after)
    if followed == follows:
        return
    kept = KeptHistory.objects.filter(environment=environment, history_key=(before if followed else after).history_key)
    kept.delete()
    if followed and before.history_key is not None:
        row = KeptHistory(environment=environment, history_key=before.history_key, state=as_row(before))
        row.signature = signature_of(row)
        row.save(force_insert=True)


def write_applied(
    *,
    environment: Environment,
    state: DatasetState,
    versions: dict[str, int],
    execution: Execution | None,
    through: int,
) -> AppliedDataset:
    """Write and sign the applied state of a dataset."""
    values: dict[str, Any] = {
        "qualified_name": state.qualified_name,
        "state": as_row(state),
        "table_versions": versions,
        "execution": execution,
        "through": through,
    }
    signed = sign_applied(AppliedDataset(environment=environment, dataset_key=state.key, **values))
    values |= {"digest": signed.digest, "signature": signed.signature}
    row, _ = AppliedDataset.objects.update_or_create(environment=environment, dataset_key=state.key, defaults=values)
    return row


def sign_applied(row: AppliedDataset) -> AppliedDataset:
    """Set digest and signature of a row that is to be stored; return it."""
    row.digest = sha256_hex(row.state)
    row.signature = signature_of(row)
    return row


# Results of a refresh: observations are stored, and new drift is notified.


# Table properties that change with every load and are no part of the structure.
_MOVING = frozenset({"version"})


@transaction.atomic
def keep_what_was_seen(
    *,
    environment: Environment,
    asked: Collection[str],
    tables: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[DatasetDrift, ...]:
    """Store observations (see ``store_observations``); return new drift, which operators are notified of.

    Not for observations during an execution, whose changes are not applied yet.
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
    states = [
        applied_state
        for applied_state in applied_states(environment=environment)
        if {applied_state.key, applied_state.history_key} & set(changed)
    ]
    keys = {key for state in states for key in (state.key, state.history_key) if key}
    seen = last_seen(environment=environment, keys=keys)
    # A table whose history, or base, was never observed is unknown, not drifted.
    known = [state for state in states if seen.asked.issuperset(_tables(state))]
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
    """Return the value as JSON would restore it; events of the runner may contain tuples."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


# Environment of this installation.


def current_environment() -> Environment:
    """Return the configured environment's row; its warehouse follows the settings."""
    environment, created = Environment.objects.get_or_create(
        name=settings.ENVIRONMENT, defaults={"warehouse": settings.WAREHOUSE}
    )
    if not created and environment.warehouse != settings.WAREHOUSE:
        environment.warehouse = settings.WAREHOUSE
        environment.save(update_fields=["warehouse"])
    return environment
