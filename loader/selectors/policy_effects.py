"""Effects of a proposed history policy on an existing history."""

from dataclasses import dataclass, replace

from architecture.domain.operations import Operation
from architecture.domain.report import build_report
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.flat_states import of_row
from architecture.domain.states.state_files import ArchitectureState
from architecture.models import AppliedDataset, Environment
from architecture.services.change_policy import policy_of
from architecture.services.environments import current_environment
from elevata.core.errors import MetadataError
from loader.domain.historization.policy_effects import Effect, effects
from loader.selectors.loads import last_loads
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_state


@dataclass(frozen=True)
class PolicyChange:
    """Effects of a proposed history policy in one environment.

    ``built`` is True if the dataset has a history in this environment; if not, the other fields are empty.
    ``operations`` are those of a change report of the policy, with their decisions. ``versions`` is the number of
    versions after the last load, None if unknown.
    """

    environment: str
    built: bool = False
    versions: int | None = None
    effects: tuple[Effect, ...] = ()
    operations: tuple[Operation, ...] = ()


def policy_change(dataset: TargetDataset, policy: HistoryPolicy, *, historize: bool) -> PolicyChange:
    """Return the effects of a policy, compared with the applied one of this environment."""
    environment = current_environment()
    row = _applied_row(dataset, environment)
    applied = of_row(row.state) if row is not None else None
    described = dataset_state(dataset)
    before = _policy_before(applied, described) if applied is not None and applied.history_key else None
    if row is None or applied is None or before is None:
        return PolicyChange(environment.name)
    last_load = last_loads([row.dataset_key]).get(str(row.dataset_key))
    return PolicyChange(
        environment.name,
        built=True,
        versions=last_load.counts.get("versions") if last_load else None,
        effects=effects(before, policy) if historize else (),
        operations=_operations(
            environment,
            replace(described, history_policy=before.to_dict(), historize=applied.historize),
            replace(described, history_policy=policy.to_dict(), historize=historize),
        ),
    )


def _applied_row(dataset: TargetDataset, environment: Environment) -> AppliedDataset | None:
    """Return the dataset's applied state, by its key, or else by its name, if it was created again."""
    rows = AppliedDataset.objects.filter(environment=environment)
    return rows.filter(dataset_key=dataset.key).first() or rows.filter(qualified_name=str(dataset)).first()


def _policy_before(applied: DatasetState, described: DatasetState) -> HistoryPolicy | None:
    """Return the applied policy under the columns' current names; None if it is not a valid policy."""
    names = {column.key: column.name for column in described.columns}
    moves = {column.name: names[column.key] for column in applied.columns if column.key in names}
    try:
        return HistoryPolicy.from_dict(applied.history_policy).renamed(moves)
    except MetadataError:
        return None


def _operations(environment: Environment, before: DatasetState, after: DatasetState) -> tuple[Operation, ...]:
    """Return the operations between two states that differ only in the history policy and ``historize``."""
    current = CurrentState.of_state(ArchitectureState((before,)))
    return build_report(current, (after,), policy_of(environment), environment=environment.name).operations
