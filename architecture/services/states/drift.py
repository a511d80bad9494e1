"""Drift: where a warehouse is not as it was left, and taking what is there as the new baseline."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction

from architecture.domain.reports.workflow import Refused
from architecture.domain.states import drift as domain
from architecture.domain.states.current import CurrentState, Placed
from architecture.domain.states.drift import DatasetDrift
from architecture.domain.states.flat import of_row
from architecture.models import AppliedDataset, Environment, KeptHistory
from architecture.report_places import place_of_environment
from architecture.selectors import applied_states, described_states
from architecture.services.actors import must_be_permitted, on_behalf_of
from architecture.services.executions.proof import is_proven, signature_of
from architecture.services.states.applied_states import NOTHING, note_history, write_applied
from architecture.services.states.observed_states import last_seen
from metadata.domain.roles import Permission
from metadata.domain.state import DatasetState
from metadata.services.changelog import record_change


@dataclass(frozen=True)
class Drift:
    """The drift of an environment; ``at`` is how old what was seen is, None if nothing was."""

    datasets: tuple[DatasetDrift, ...]
    at: datetime | None

    def of(self, status: str) -> tuple[DatasetDrift, ...]:
        return tuple(one for one in self.datasets if one.status == status)

    def count(self, status: str) -> int:
        return len(self.of(status))

    def as_json(self) -> dict[str, Any]:
        return {
            "observed_at": self.at.isoformat() if self.at else None,
            "in_sync": self.count(domain.IN_SYNC),
            "drifted": self.count(domain.DRIFTED),
            "unknown": self.count(domain.UNKNOWN),
            "datasets": [one.as_json() for one in self.datasets],
        }


def drift_of(environment: Environment) -> Drift:
    """Return the drift between applied state and the last observations. Unobserved tables are unknown."""
    applied, seen = applied_states(environment=environment), last_seen(environment=environment)
    observed = {key: table for key, table in seen.tables.items() if not table.dropped}
    looked = [state for state in applied if state.key in seen.asked or state.materialization == "view"]
    known = {state.key for state in looked}
    unseen = [state for state in applied if state.key not in known]
    found = (*domain.drift(looked, _of_none(observed, unseen)), *domain.drift(unseen, None))
    return Drift(tuple(sorted(found, key=lambda one: (one.dataset, one.key))), seen.at)


def _of_none(observed: dict, unseen: list[DatasetState]) -> dict:
    """Histories of datasets that were not looked at are not tables that nobody applied."""
    theirs = {state.history_key for state in unseen}
    return {key: table for key, table in observed.items() if key not in theirs}


@transaction.atomic
def adopt_as_baseline(
    *, environment: Environment, dataset_keys: Collection[str], person: Any, reason: str
) -> tuple[AppliedDataset, ...]:
    """Take the tables of these datasets as they were seen for applied; the next report starts from there.

    Logic stays as it was applied, or, of what never was, as it is described. A dataset whose table is
    not there counts as not applied. Stands in the change log. Refused UNKNOWN_DATASET for keys that
    neither metadata nor applied state knows, NOT_OBSERVED for tables nobody looked at.
    """
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_environment(environment))
    if not reason.strip():
        raise Refused("NO_REASON")
    Environment.objects.select_for_update().get(pk=environment.pk)
    applied, desired = applied_states(environment=environment), described_states(environment=environment)
    known = {state.key: state for state in (*desired, *applied)}
    seen = last_seen(environment=environment)
    for key in dataset_keys:
        if key not in known:
            raise Refused("UNKNOWN_DATASET", f"there is no dataset with the key {key}")
    if not seen.knows(dataset_keys):
        raise Refused("NOT_OBSERVED")
    observed = {key: table for key, table in seen.tables.items() if not table.dropped}
    placed = {one.state.key: one for one in CurrentState.of_warehouse(applied, observed, desired).datasets}
    histories = {
        key: {one.history_key for one in (*desired, *applied) if one.key == key} - {None} for key in dataset_keys
    }
    adopted = []
    with on_behalf_of(person):
        for key in sorted(dataset_keys):
            row = _adopt(environment, key, placed.get(key), {k: t.version for k, t in observed.items()}, histories[key])
            adopted += [row] if row is not None else []
            record_change(
                action="adopted",
                subject_kind="baseline",
                subject_key=f"{environment}/{key}",
                subject_name=f"{known[key].qualified_name} in {environment}",
                after={"table": row.qualified_name if row is not None else "not there"},
                dataset_key=key,
                reason=reason.strip(),
            )
    return tuple(adopted)


def _adopt(
    environment: Environment, key: str, placed: Placed | None, versions: dict[str, int], histories: Collection[str]
) -> AppliedDataset | None:
    """Store a dataset as it was seen. Who adopts it answers for logic that was changed beside the product, too."""
    rows = AppliedDataset.objects.filter(environment=environment, dataset_key=key)
    row = rows.first()
    before = of_row(row.state) if row is not None else None
    for kept in KeptHistory.objects.filter(environment=environment, history_key__in=histories):
        KeptHistory.objects.filter(pk=kept.pk).update(signature=signature_of(kept))
    if placed is None or placed.base is None:
        note_history(environment=environment, before=before, after=None)
        rows.delete()
        return None
    own = {table: versions[table] for table in (key, placed.state.history_key) if table in versions}
    state = as_seen(placed)
    if before is not None:
        note_history(environment=environment, before=before, after=state)
    return write_applied(
        environment=environment,
        state=state,
        versions=own,
        execution=row.execution if row is not None else None,
        through=row.through if row is not None and is_proven(row) else NOTHING,
    )


def as_seen(placed: Placed) -> DatasetState:
    """The dataset with the columns its base table shows; technical ones follow from it, so they are left out."""
    assert placed.base is not None
    described = {column.key: column for column in placed.state.columns}
    technical = {column.key for column in placed.base.columns if column.role == "technical"} - set(described)
    shown = tuple(
        column for column in placed.base.columns if column.key not in technical or column.key.startswith("name:")
    )
    kept = {column.key for column in shown}
    retired = tuple(one for one in placed.state.columns if not one.active and one.key not in kept)
    keeps = placed.state.historize and placed.history is not None
    return replace(placed.state, columns=(*shown, *retired), historize=keeps)
