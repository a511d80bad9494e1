"""Environment, applied states, observations and refresh results.

Observations are stored with their times, so that pages can compare with them without waiting for a worker.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from architecture.domain.operations import Operation, operation_of
from architecture.domain.states import current_state as domain
from architecture.domain.states.applied_state import advance, follows_history, is_reached
from architecture.domain.states.current_state import DatasetDrift
from architecture.domain.states.state_files import as_row, of_row
from architecture.domain.tables import ObservedColumn, ObservedTable
from architecture.models import AppliedDataset, Environment, Execution, ExecutionOperation, KeptHistory, Observation
from architecture.selectors.environments import Parsed, applied_states, environment_named
from architecture.services.notifications import tell_drift
from architecture.services.proof import refuse_unproven_execution, refuse_unproven_row, signature_of
from elevata.core.canonical_json import sha256_hex
from metadata.domain.state import DatasetState


@dataclass(frozen=True)
class Seen:
    """Last observations: existing ``tables`` by stable key; ``asked`` are all observed keys, also of missing tables.

    ``at`` is the time of the oldest observation, None if there is none; ``times`` are those of single tables.
    ``sizes`` are the rows, bytes and files of tables, if known.
    """

    tables: Mapping[str, ObservedTable]
    asked: frozenset[str]
    at: datetime | None
    sizes: Mapping[str, dict[str, int]] = field(default_factory=dict)
    times: Mapping[str, datetime] = field(default_factory=dict)

    def oldest(self, keys: Collection[str]) -> datetime | None:
        """Return the time of the oldest observation of these tables; of all tables if none of them was observed."""
        return min((self.times[key] for key in keys if key in self.times), default=self.at)

    def knows(self, keys: Collection[str]) -> bool:
        """Return True if all these tables were observed."""
        return self.asked.issuperset(keys)


@transaction.atomic
def store_observations(
    *,
    environment: Environment,
    asked: Collection[str],
    tables: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Store observations of the tables ``asked``: ``tables`` by key as JSON; those that are not in it do not exist.

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
        for key in sorted(asked)
    ]
    Observation.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["environment", "table_key"],
        update_fields=["document", "observed_at", *([] if sizes is None else ["size"])],
    )


def last_seen(*, environment: Environment, keys: Collection[str] | None = None) -> Seen:
    """Return the last observations of these tables (default: of all tables)."""
    rows = Observation.objects.filter(environment=environment)
    if keys is not None:
        rows = rows.filter(table_key__among=keys)
    values: list[Any] = [*rows.values_list("pk", "table_key", "observed_at", "size", named=True)]
    tables = _TABLES.by_pk(rows.filter(document__isnull=False))
    return Seen(
        tables={str(row.table_key): tables[row.pk] for row in values if row.pk in tables},
        asked=frozenset(str(row.table_key) for row in values),
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


# Applied state, which changes only with finished operations.


# The mark of a dataset whose operations were never all executed: all users who edited it are authors.
NOTHING = 0


def apply_finished(step: ExecutionOperation) -> None:
    """Advance applied state if this step was the last of its operation, in the caller's transaction.

    Raises Refused EXECUTION_UNPROVEN or APPLIED_UNPROVEN if the plan or the previous applied state was changed outside
    the product.
    """
    execution = step.execution
    pending = execution.operations.filter(operation=step.operation).exclude(status=ExecutionOperation.Status.SUCCEEDED)
    if step.operation is None or pending.exists():
        return
    refuse_unproven_execution(execution)
    operation = operation_of(execution.planned["rows"][step.operation])
    rows = execution.operations.filter(operation=step.operation, version_after__isnull=False).order_by("ordinal")
    versions = {str(row.table_key): row.version_after for row in rows if row.version_after is not None}
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
    """Write the applied state of the operation's dataset after it; delete it once the table is dropped.

    The dataset gets the plan's mark if all its operations are done (``whole``) and the desired state is reached.
    Otherwise it keeps the older mark, and so its authors.
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
    """Store the last logic of a history when loads stop writing it; delete it when they write the history again."""
    was_written, is_written = follows_history(before), follows_history(after)
    if was_written == is_written:
        return
    written = before if was_written else after
    assert written is not None
    if written.history_key is not None:
        KeptHistory.objects.filter(environment=environment, history_key=written.history_key).delete()
    if was_written and before is not None and before.history_key is not None:
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
    """Set the digest and signature of a row before it is stored; return the row."""
    row.digest = sha256_hex(row.state)
    row.signature = signature_of(row)
    return row


# Results of a refresh: observations are stored, and operators are notified of new drift.


# Fields of an observation that change with every load and are not part of the structure.
_VOLATILE = frozenset({"version"})


@transaction.atomic
def keep_what_was_seen(
    *,
    environment: Environment,
    asked: Collection[str],
    tables: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[DatasetDrift, ...]:
    """Store observations (see ``store_observations``), notify operators of new drift and return it.

    Do not use this during an execution: its changes are not in the applied state yet.
    """
    observations = Observation.objects.filter(environment=environment, table_key__among=asked)
    before = {str(key): document for key, document in observations.values_list("table_key", "document")}
    store_observations(environment=environment, asked=asked, tables=tables, sizes=sizes)
    changed = {key for key in map(str, asked) if _structure(before.get(key)) != _structure(tables.get(key))}
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
    seen = last_seen(environment=environment, keys=keys)
    # A dataset whose base table or history was never observed is unknown, not drifted.
    known = [state for state in states if seen.asked.issuperset(_table_keys(state))]
    earlier: dict[str, ObservedTable] = {key: table for key, table in seen.tables.items() if key not in changed}
    earlier |= {key: observed_table(document) for key, document in before.items() if document and key in keys}
    known_before = [
        state for state in known if not {key for key in _table_keys(state) if key in changed} - before.keys()
    ]
    was = {drift.key: drift.differences for drift in domain.drift(known_before, earlier)}
    now = (drift for drift in domain.drift(known, seen.tables) if drift.status == domain.DRIFTED)
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


# Environment of this installation.


def current_environment() -> Environment:
    """Return the configured environment's row, after updating its warehouse from the settings."""
    environment, created = Environment.objects.get_or_create(
        name=settings.ENVIRONMENT, defaults={"warehouse": settings.WAREHOUSE}
    )
    if not created and environment.warehouse != settings.WAREHOUSE:
        environment.warehouse = settings.WAREHOUSE
        environment.save(update_fields=["warehouse"])
    return environment


def environment_or_own(name: str | None) -> Environment:
    """Return the environment with this name; without a name, the installation's own.

    Raise Refused UNKNOWN_ENVIRONMENT if there is none.
    """
    own = not name or name == settings.ENVIRONMENT
    return current_environment() if own else environment_named(name or "")
