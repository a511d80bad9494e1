"""From what is there and what is desired to operations, each with its decision, in an order that works.

One planner for state files and for the warehouse. It works on the whole of both states and leaves
out what is beyond the scope at the end: whether a name is free can depend on a dataset elsewhere.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from architecture.domain.operations import BLOCKED, Operation, Warning
from architecture.domain.planning.datasets import (
    TABLES,
    DatasetPlan,
    plan_gone,
    plan_new,
    plan_pair,
    plan_set_aside,
    table_name,
)
from architecture.domain.planning.diff import Matching, match
from architecture.domain.planning.downstream import NAMING, Downstream, carried_downstream
from architecture.domain.planning.drafts import Draft, block_taken_names
from architecture.domain.planning.identity import key_changed
from architecture.domain.planning.logic import Renames
from architecture.domain.planning.ordering import in_order
from architecture.domain.planning.readers import still_read
from architecture.domain.policy import PolicySet, decide
from architecture.domain.states.current import CurrentState, Placed
from metadata.domain.state import DatasetState


@dataclass(frozen=True)
class Plan:
    """Operations in the order in which each can be done, and what people should know."""

    operations: tuple[Operation, ...]
    warnings: tuple[Warning, ...]


@dataclass(frozen=True)
class _Entry:
    """A dataset as matching sees it: with the names of its schema."""

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
        """A former name without a schema was in the schema of today."""
        schema = self.placed.state.schema
        return ((name if "." in name else f"{schema}.{name}").lower() for name in self.former_names)


@dataclass(frozen=True)
class Planned:
    """Plan for everything that is desired, before it is narrowed to a scope.

    That takes long, and is the same for every scope: ``within`` one takes little.
    """

    placed: tuple[Placed, ...]
    found: Matching[_Entry]
    plans: tuple[DatasetPlan, ...]
    policy: PolicySet

    @classmethod
    def of(cls, current: CurrentState, desired: Sequence[DatasetState], policy: PolicySet) -> "Planned":
        placed = tuple(current.place(dataset) for dataset in sorted(desired, key=lambda one: one.key))
        found = match(
            [_Entry.of(one) for one in sorted(current.datasets, key=lambda one: one.state.key)],
            [_Entry.of(one) for one in placed],
            name=lambda entry: entry.name,
            former=lambda entry: entry.former,
        )
        there = {pair.after.key: pair.before.placed.state for pair in found.known}
        renames = Renames((there.get(one.state.key), one.state) for one in placed)
        plans = _plans(found, policy, renames)
        _carry_downstream(plans, found)
        return cls(placed, found, tuple(plans), policy)

    def within(self, only: Collection[str] | None) -> Plan:
        """The operations on datasets with these stable keys; None is all."""
        drafts = [_decided(draft, self.policy, only) for one in self.plans for draft in one.drafts]
        held = {space: names for one in self.plans for space, names in one.held.items()}
        held[TABLES] = frozenset(_tables_held(self.found))
        drafts = block_taken_names(drafts, held)
        inside = [draft for draft in drafts if only is None or draft.operation.dataset_key in only]
        warnings = [warning for one in self.plans for warning in one.warnings]
        same = {pair.before.key: pair.after.key for pair in self.found.known}
        warnings += still_read((draft.operation for draft in inside), [one.state for one in self.placed], same)
        return Plan(in_order(inside, _inputs(self.found)), tuple(sorted(warnings, key=_warning_order)))


def plan(
    current: CurrentState,
    desired: Sequence[DatasetState],
    policy: PolicySet,
    only: Collection[str] | None = None,
) -> Plan:
    """Operations that bring ``current`` to ``desired``. ``only`` are the stable keys in scope; None is all."""
    return Planned.of(current, desired, policy).within(only)


def _warning_order(warning: Warning) -> tuple[str, str, str]:
    return warning.dataset, warning.column, warning.code


def _decided(draft: Draft, policy: PolicySet, only: Collection[str] | None) -> Draft:
    """Return the draft, blocked if it depends on an operation outside the scope."""
    operation = decide(draft.operation, policy)
    if only is not None and operation.dataset_key not in only:
        operation = replace(operation, decision=BLOCKED)
    return replace(draft, operation=operation)


def _plans(found: Matching[_Entry], policy: PolicySet, renames: Renames) -> list[DatasetPlan]:
    plans = [plan_pair(pair.before.placed, pair.after.placed, policy, renames) for pair in found.pairs]
    plans += [plan_set_aside(pair.before.placed, pair.after.placed, policy, renames) for pair, _ in found.duplicate]
    read = {key for pair in found.known for key in pair.before.placed.state.inputs}
    plans += [plan_new(entry.placed, is_read=entry.key in read) for entry in found.new]
    plans += [plan_gone(entry.placed) for entry in found.gone]
    return [*plans, DatasetPlan(warnings=list(_warnings(found)))]


def _carry_downstream(plans: list[DatasetPlan], found: Matching[_Entry]) -> None:
    """Mark what makes a history further on compare differently; inputs are only followed where something may."""
    if not any(draft.alters or draft.operation.op in NAMING for one in plans for draft in one.drafts):
        return
    pairs = found.known
    sides = [(pair.before.placed.state, pair.after.placed.state) for pair in pairs]
    sides += [(None, entry.placed.state) for entry in found.new] + [(entry.placed.state, None) for entry in found.gone]
    downstream = Downstream(sides)
    same = {pair.before.key: pair.after.key for pair in pairs}
    for one in plans:
        one.drafts = carried_downstream(one.drafts, same, downstream)


def _tables_held(found: Matching[_Entry]) -> Iterable[str]:
    """Names in use by tables; a retired table and a history that is only kept, from now on or before, make way."""
    staying = [pair for pair in found.pairs if pair.after.active]
    keeping = [pair.before for pair in staying if pair.after.placed.keeps_history]
    for entry in (*keeping, *found.left_alone):
        if entry.active and entry.placed.keeps_history:
            yield table_name(entry.placed.history)
    for entry in (*(pair.before for pair in staying), *found.left_alone, *found.gone):
        if entry.active and entry.placed.base is not None:
            yield table_name(entry.placed.base)


def _warnings(found: Matching[_Entry]) -> Iterable[Warning]:
    for pair in found.pairs:
        if pair.by == "name":
            yield key_changed(pair.before.placed.state.qualified_name, "", pair.before.key, pair.after.key)
    for entry, candidates in found.ambiguous:
        names = " and ".join(one.placed.state.qualified_name for one in candidates)
        said = (
            f"cannot be told which dataset it was: {names} may be its former name; nothing is done to any of them. "
            "Keep the one former name that is right, or rename by hand"
        )
        yield Warning("AMBIGUOUS_RENAME", entry.placed.state.qualified_name, message=said)
    for pair, others in found.claimed:
        names = " and ".join(one.placed.state.qualified_name for one in others)
        said = f"{names}, its former name, is a dataset of its own; take the former name away, or rename by hand"
        yield Warning("DUPLICATE_TABLE", pair.before.placed.state.qualified_name, message=said)
    for pair, formers in found.duplicate:
        names = " and ".join(one.placed.state.qualified_name for one in formers)
        said = (
            f"{names}, its former name, is there as well; nothing is done to either. Bring the rows into one of "
            "the two and drop the other by hand, or take the former name away"
        )
        yield Warning("DUPLICATE_TABLE", pair.before.placed.state.qualified_name, message=said)


def _inputs(found: Matching[_Entry]) -> dict[str, tuple[str, ...]]:
    """Return the inputs of each dataset, by the key that its operations carry."""
    inputs = {entry.key: entry.placed.state.inputs for entry in (*found.gone, *found.new)}
    same = {pair.after.key: pair.before.key for pair in found.known}
    for pair in found.known:
        inputs[pair.before.key] = tuple(same.get(key, key) for key in pair.after.placed.state.inputs)
    return inputs
