"""Load plans: the datasets of a run in their order, read once from the metadata."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from architecture.domain.tables import TableSpec
from architecture.selectors.dataset_states import described_states, desired_tables
from architecture.services.environments import current_environment
from loader.contract.refusals import Refusal
from loader.domain.dependencies import (
    LoadStep,
    is_loaded,
    load_steps,
    named_dataset,
    tables_looked_up,
    tables_read,
    view_models,
    views_read,
)
from metadata.domain.history.history_policy import APPEND, BATCH_FILES, HistoryPolicy
from metadata.domain.scope import SELECTION, Scope
from metadata.domain.selection import reached
from metadata.domain.state import DatasetState
from metadata.selectors.datasets import tags_by_key


@dataclass(frozen=True)
class LoadPlan:
    """Datasets of a run, in order, read once: later edits of metadata have no effect.

    ``left_out`` are datasets of its scope that history batches feed: only their tables are prepared. ``views`` are
    models of its scope that are views: they are created if no user needs to decide. ``copied`` is the dataset whose
    versions a history batch takes.
    """

    states: Mapping[str, DatasetState]
    steps: tuple[LoadStep, ...]
    left_out: tuple[DatasetState, ...] = ()
    views: tuple[DatasetState, ...] = ()
    copied: DatasetState | None = None

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """Return the tables this run writes or reads; all of them must match their description before it starts."""
        chosen = sorted((self.states[key] for key in self.read), key=lambda state: (state.qualified_name, state.key))
        return desired_tables(chosen)

    @property
    def read(self) -> frozenset[str]:
        """Return the stable keys of the datasets whose tables this run writes or reads."""
        wanted = {step.dataset.key for step in self.steps} | {state.key for state in self.left_out}
        wanted |= {self.copied.key} if self.copied is not None else set()
        for dataset in (*(step.dataset for step in self.steps), *self.left_out):
            wanted.update(table.key for table in tables_read(dataset, self.states))
            wanted |= tables_looked_up(dataset, self.states)
        return frozenset(wanted)

    @property
    def described(self) -> frozenset[str]:
        """Return the keys of the datasets that must be applied as described: its tables' and those of views between."""
        keys = {table.dataset_key for table in self.tables}
        return frozenset(keys.union(*(views_read(self.states[key], self.states) for key in keys)))

    def beneath(self, view: DatasetState) -> frozenset[str]:
        """Return the keys of the datasets that must be applied as described for a view, itself included."""
        tables = {table.key for table in tables_read(view, self.states)}
        return frozenset({view.key, *tables, *views_read(view, self.states)})

    @property
    def written(self) -> frozenset[str]:
        """Return the stable keys of the datasets that this run may write to, or whose tables it may prepare."""
        return frozenset({step.dataset.key for step in self.steps} | {state.key for state in self.left_out})

    def downstream(self, datasets: Collection[str]) -> frozenset[str]:
        """Return these datasets, and all described ones that read their tables, directly or over others."""
        readers: dict[str, set[str]] = {}
        for key in self.described if datasets else ():
            state = self.states[key]
            upstream = {table.key for table in tables_read(state, self.states)} | tables_looked_up(state, self.states)
            for read in upstream | views_read(state, self.states):
                readers.setdefault(read, set()).add(key)
        return reached(datasets, readers)


def plan_load(scope: Scope, states: Sequence[DatasetState] | None = None) -> LoadPlan:
    """Return the load plan of a scope; ``states`` default to those of the metadata.

    Raise Refusal for an empty scope, words that select nothing, or circular inputs.
    """
    states = described_states(environment=current_environment()) if states is None else states
    tags = tags_by_key() if scope.kind == SELECTION else {}
    steps, left_out = load_steps(states, scope, tags)
    return LoadPlan({state.key: state for state in states}, steps, left_out, view_models(states, scope, tags))


def plan_history_batch(name: str, copied: str = "") -> LoadPlan:
    """Return the plan that applies batch files, or the versions of ``copied``, to one dataset.

    Raise Refusal NOT_BY_BATCH_FILES.
    """
    if copied:
        (other,) = plan_history_batch(copied).steps
        return replace(plan_history_batch(name), copied=other.dataset)
    plan = plan_one(name)
    (step,) = plan.steps
    if HistoryPolicy.from_dict(step.dataset.history_policy).input != BATCH_FILES:
        raise Refusal(
            "NOT_BY_BATCH_FILES",
            f"{step.dataset.qualified_name} does not take history batches",
            hint="its history policy would have to say input batch_files; manage.py load reads its deliveries",
        )
    return plan


def plan_one(name: str) -> LoadPlan:
    """Return the plan of one dataset by itself, which must have a history. Raise Refusal NO_HISTORY."""
    plan = plan_named(name)
    state = plan.steps[0].dataset
    if not (is_loaded(state) and state.historize and state.history_key):
        raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    return plan


def plan_revertible(name: str) -> LoadPlan:
    """Return the plan of one dataset by itself, of which runs can be reverted. Raise Refusal NO_HISTORY.

    They are those with a history, with an event log, or to which rows are only appended.
    """
    return _plan_with_rows_of_runs(name, appended=True)


def plan_prunable(name: str) -> LoadPlan:
    """Return the plan of one dataset by itself, with versions or events to prune. Raise Refusal NO_HISTORY."""
    return _plan_with_rows_of_runs(name, appended=False)


def _plan_with_rows_of_runs(name: str, *, appended: bool) -> LoadPlan:
    plan = plan_named(name)
    state = plan.steps[0].dataset
    policy = HistoryPolicy.from_dict(state.history_policy)
    has_rows = policy.keeps_events(historize=state.historize) or (appended and policy.input == APPEND)
    return plan if is_loaded(state) and has_rows else plan_one(name)


def plan_named(name: str) -> LoadPlan:
    """Return the plan of one dataset by itself, of any kind. Raise Refusal for an unknown name."""
    by_key = {state.key: state for state in described_states(environment=current_environment())}
    return LoadPlan(by_key, (LoadStep(named_dataset(by_key, name), ()),))
