"""Plan of a report: operations in order, with warnings.

One planner serves state files and the warehouse. It compares the whole states and applies the scope at the end,
because a dataset outside the scope may use a name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from architecture.domain import operations as ops
from architecture.domain.change_policy import PolicySet, decide
from architecture.domain.data_contracts import contract_operation
from architecture.domain.operations import BASE, BLOCKED, Operation, Warning
from architecture.domain.planning.datasets import (
    TABLES,
    DatasetPlan,
    plan_gone,
    plan_new,
    plan_pair,
    plan_set_aside,
    table_name,
)
from architecture.domain.planning.downstream import NAMING, Downstream, carried_downstream
from architecture.domain.planning.drafts import Draft, block_taken_names
from architecture.domain.planning.logic import Renames
from architecture.domain.planning.matching import Matching, former_names, key_changed, match
from architecture.domain.planning.order import in_order
from architecture.domain.states.current_state import CurrentState, Placed
from elevata.core.errors import MetadataError
from metadata.domain.sql import check_expression
from metadata.domain.state import DatasetState

STILL_READ = "COLUMN_STILL_READ"
_REMOVALS = frozenset({ops.RETIRE_COLUMN, ops.DROP_COLUMN})
_MAX_LISTED = 10


@dataclass(frozen=True)
class Plan:
    """Operations in the order of execution, and warnings."""

    operations: tuple[Operation, ...]
    warnings: tuple[Warning, ...]


@dataclass(frozen=True)
class _Entry:
    """Dataset for matching, with names that include the schema."""

    placed: Placed
    key: str
    active: bool
    former_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, placed: Placed) -> "_Entry":
        state = placed.state
        return cls(placed, state.key, state.active, state.former_names)

    @property
    def name(self) -> str:
        return self.placed.state.qualified_name.lower()

    @property
    def former(self) -> Iterable[str]:
        return former_names(self.placed.state)


@dataclass(frozen=True)
class Planned:
    """Plan for the whole desired state, before it is limited to a scope.

    Planning is expensive and independent of the scope; ``within`` is cheap.
    """

    placed: tuple[Placed, ...]
    matching: Matching[_Entry]
    plans: tuple[DatasetPlan, ...]
    policy: PolicySet

    @classmethod
    def of(
        cls,
        current: CurrentState,
        desired: Sequence[DatasetState],
        policy: PolicySet,
        *,
        plans_feature_drops: bool = True,
        others: Iterable[DatasetState] = (),
    ) -> "Planned":
        """Return the plan. Without ``plans_feature_drops``, tables keep features that some readers lack.

        ``others`` are applied states that stay as they are, but may read the planned datasets.
        """
        placed = tuple(current.place(dataset) for dataset in sorted(desired, key=lambda dataset: dataset.key))
        matching = match(
            [_Entry.of(entry) for entry in sorted(current.datasets, key=lambda entry: entry.state.key)],
            [_Entry.of(entry) for entry in placed],
            name=lambda entry: entry.name,
            former=lambda entry: entry.former,
        )
        current_states = {pair.after.key: pair.before.placed.state for pair in matching.known}
        renames = Renames((current_states.get(entry.state.key), entry.state) for entry in placed)
        plans = _plans(matching, policy, renames)
        if not plans_feature_drops:
            for planned in plans:
                planned.drafts = [draft for draft in planned.drafts if draft.operation.op != ops.DROP_FEATURES]
        _carry_downstream(plans, matching, others)
        return cls(placed, matching, tuple(plans), policy)

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """Return the inputs of each dataset, all by the dataset keys in operations."""
        return _inputs(self.matching)

    @property
    def desired_keys(self) -> dict[str, str]:
        """Return the keys in the desired state by the dataset keys in operations."""
        return {pair.before.key: pair.after.key for pair in self.matching.known}

    def within(self, only: Collection[str] | None) -> Plan:
        """Return the operations on datasets with these stable keys; None means all."""
        drafts = [_decide(draft, self.policy, only) for plan in self.plans for draft in plan.drafts]
        names_in_use = {space: names for plan in self.plans for space, names in plan.names_in_use.items()}
        names_in_use[TABLES] = frozenset(_used_table_names(self.matching))
        drafts = block_taken_names(drafts, names_in_use)
        inside = [draft for draft in drafts if only is None or draft.operation.dataset_key in only]
        warnings = [warning for plan in self.plans for warning in plan.warnings]
        states = [entry.state for entry in self.placed]
        warnings += still_read((draft.operation for draft in inside), states, self.desired_keys)
        return Plan(in_order(inside, self.inputs), tuple(sorted(warnings, key=_warning_order)))


def plan(
    current: CurrentState,
    desired: Sequence[DatasetState],
    policy: PolicySet,
    only: Collection[str] | None = None,
    *,
    plans_feature_drops: bool = True,
) -> Plan:
    """Return the operations that turn ``current`` into ``desired``. ``only``: stable keys in scope, None for all."""
    return Planned.of(current, desired, policy, plans_feature_drops=plans_feature_drops).within(only)


def _warning_order(warning: Warning) -> tuple[str, str, str]:
    return warning.dataset, warning.column, warning.code


def _decide(draft: Draft, policy: PolicySet, only: Collection[str] | None) -> Draft:
    """Return the draft with the policy's decision. Outside the scope it is blocked, as are drafts that depend on it."""
    operation = decide(draft.operation, policy)
    if only is not None and operation.dataset_key not in only:
        operation = replace(operation, decision=BLOCKED)
    return replace(draft, operation=operation)


def _plans(matching: Matching[_Entry], policy: PolicySet, renames: Renames) -> list[DatasetPlan]:
    plans = [plan_pair(pair.before.placed, pair.after.placed, policy, renames) for pair in matching.pairs]
    plans.append(_contract_plan(matching))
    plans += [plan_set_aside(pair.before.placed, pair.after.placed, policy, renames) for pair, _ in matching.duplicate]
    inputs = {key for pair in matching.known for key in pair.before.placed.state.inputs}
    plans += [plan_new(entry.placed, is_read=entry.key in inputs) for entry in matching.new]
    plans += [plan_gone(entry.placed) for entry in matching.gone]
    return [*plans, DatasetPlan(warnings=list(_warnings(matching)))]


def _contract_plan(matching: Matching[_Entry]) -> DatasetPlan:
    """Return the changes of contracts of all datasets, except of those that are set aside."""
    sides: list[tuple[DatasetState | None, DatasetState | None]]
    sides = [(pair.before.placed.state, pair.after.placed.state) for pair in matching.pairs]
    sides += [(None, entry.placed.state) for entry in matching.new]
    sides += [(entry.placed.state, None) for entry in matching.gone]
    operations = (contract_operation(before, after) for before, after in sides)
    return DatasetPlan([Draft(operation) for operation in operations if operation is not None])


def _carry_downstream(
    plans: list[DatasetPlan], matching: Matching[_Entry], others: Iterable[DatasetState] = ()
) -> None:
    """Mark operations that change the comparison of a history downstream, if any operation can do so."""
    if not any(draft.alters or draft.operation.op in NAMING for plan in plans for draft in plan.drafts):
        return
    pairs = matching.known
    sides: list[tuple[DatasetState | None, DatasetState | None]]
    sides = [(pair.before.placed.state, pair.after.placed.state) for pair in pairs]
    sides += [(None, entry.placed.state) for entry in matching.new]
    sides += [(entry.placed.state, None) for entry in matching.gone]
    sides += [(state, state) for state in others]
    downstream = Downstream(sides)
    same = {pair.before.key: pair.after.key for pair in pairs}
    for plan in plans:
        plan.drafts = carried_downstream(plan.drafts, same, downstream)


def _used_table_names(matching: Matching[_Entry]) -> Iterable[str]:
    """Yield the table names in use. Names of retired tables and retained histories are free: those are renamed."""
    active = [pair for pair in matching.pairs if pair.after.active]
    historized = [pair.before for pair in active if pair.after.placed.keeps_history]
    for entry in (*historized, *matching.left_alone):
        if entry.active and entry.placed.keeps_history and entry.placed.history is not None:
            yield table_name(entry.placed.history)
    for entry in (*(pair.before for pair in active), *matching.left_alone, *matching.gone):
        if entry.active and entry.placed.base is not None:
            yield table_name(entry.placed.base)


def _warnings(matching: Matching[_Entry]) -> Iterable[Warning]:
    for pair in matching.pairs:
        if pair.by == "name":
            yield key_changed(pair.before.placed.state.qualified_name, "", pair.before.key, pair.after.key)
    for entry, candidates in matching.ambiguous:
        names = " and ".join(candidate.placed.state.qualified_name for candidate in candidates)
        message = (
            f"cannot be told which dataset it was: {names} may be its former name; nothing is done to any of them. "
            "Keep the one former name that is right, or rename by hand"
        )
        yield Warning("AMBIGUOUS_RENAME", entry.placed.state.qualified_name, message=message)
    for pair, others in matching.claimed:
        names = " and ".join(other.placed.state.qualified_name for other in others)
        message = f"{names}, its former name, is a dataset of its own; take the former name away, or rename by hand"
        yield Warning("DUPLICATE_TABLE", pair.before.placed.state.qualified_name, message=message)
    for pair, formers in matching.duplicate:
        names = " and ".join(former.placed.state.qualified_name for former in formers)
        message = (
            f"{names}, its former name, is there as well; nothing is done to either. Bring the rows into one of "
            "the two and drop the other by hand, or take the former name away"
        )
        yield Warning("DUPLICATE_TABLE", pair.before.placed.state.qualified_name, message=message)


def _inputs(matching: Matching[_Entry]) -> dict[str, tuple[str, ...]]:
    """Return the inputs of each dataset, all by the dataset keys in operations."""
    inputs = {entry.key: entry.placed.state.inputs for entry in (*matching.gone, *matching.new)}
    same = {pair.after.key: pair.before.key for pair in matching.known}
    for pair in matching.known:
        inputs[pair.before.key] = tuple(same.get(key, key) for key in pair.after.placed.state.inputs)
    return inputs


def still_read(
    operations: Iterable[Operation], desired: Collection[DatasetState], same: Mapping[str, str]
) -> Iterator[Warning]:
    """Yield a warning for each removed column that desired datasets still read: their next load would fail.

    The warnings do not affect the decision on the operation. ``same`` maps the dataset keys in operations to those in
    the desired state.
    """
    by_key = {dataset.key: dataset for dataset in desired}
    readers: dict[str, list[DatasetState]] = {}
    for dataset in sorted(desired, key=lambda dataset: dataset.qualified_name):
        for key in dataset.inputs if dataset.active else ():
            readers.setdefault(key, []).append(dataset)
    for operation in operations:
        if operation.side != BASE or operation.op not in _REMOVALS:
            continue
        key = same.get(operation.dataset_key, operation.dataset_key)
        names = _names(operation, by_key.get(key))
        messages = [
            message for reader in readers.get(key, ()) for message in _reads(reader, operation.column_key, names)
        ]
        if messages:
            yield Warning(STILL_READ, operation.dataset, operation.column, _still_read_message(messages))


def _names(operation: Operation, dataset: DatasetState | None) -> frozenset[str]:
    """Return the names by which readers may refer to the column: the current and the desired one."""
    columns = dataset.columns if dataset else ()
    desired = {column.name for column in columns if column.key == operation.column_key}
    return frozenset(name.lower() for name in {operation.column, *desired})


def _reads(reader: DatasetState, key: str, names: frozenset[str]) -> Iterator[str]:
    """Yield the columns and the filter of a dataset that read the column, by inputs or, without inputs, by name."""
    for column in reader.active_columns:
        by_name = not column.inputs and column.expression is not None and names & _names_in(column.expression)
        if key in column.inputs or by_name:
            yield f"{reader.qualified_name}.{column.name}"
    if reader.filter is not None and names & _names_in(reader.filter):
        yield f"the filter of {reader.qualified_name}"


def _names_in(text: str) -> frozenset[str]:
    """Return the names in an expression; none if it is not accepted SQL, as possible in another installation's file."""
    try:
        return frozenset(name.lower() for name in check_expression(text))
    except MetadataError:
        return frozenset()


def _still_read_message(messages: list[str]) -> str:
    more = f" and {len(messages) - _MAX_LISTED} more" if messages[_MAX_LISTED:] else ""
    listed = ", ".join(messages[:_MAX_LISTED]) + more
    return f"is still read by {listed}; let these read something else, or retire them, too"
