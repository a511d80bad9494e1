"""Plan of a report: operations, remaining readers, order.

One planner for state files and for the warehouse. It plans both states as a whole and applies the scope at the end,
because a free name can depend on a dataset outside the scope.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from architecture.domain import operations as ops
from architecture.domain.change_policy import PolicySet, decide
from architecture.domain.current_state import CurrentState, Placed
from architecture.domain.operations import BASE, BLOCKED, Operation, Warning
from architecture.domain.planning.columns import Draft, block_taken_names
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
from architecture.domain.planning.logic import Renames
from architecture.domain.planning.matching import Matching, former_names, key_changed, match
from elevata.core.errors import MetadataError
from metadata.domain.sql import check_expression
from metadata.domain.state import DatasetState

# Order of operations. Table names come first: drops that block a name, then renames, each before the one that takes
# its former name. Then dataset by dataset, inputs before readers: new tables, then columns (renames before
# additions), base and history together. Other drops come last, readers before their inputs. Swaps have no order;
# their statements use a temporary name.


_LAYERS = ("raw", "stage", "rawcore", "bizcore", "serving")

# Within one dataset.
_TURNS = {
    op: turn
    for turn, op in enumerate(
        (
            ops.CREATE_TABLE,
            ops.RETIRE_COLUMN,
            ops.UNRETIRE_COLUMN,
            ops.RENAME_COLUMN,
            ops.WIDEN_COLUMN,
            ops.REBUILD_TABLE,
            ops.RETYPE_COLUMN,
            ops.ADD_COLUMN,
            ops.CHANGE_LOGIC,
            ops.DROP_COLUMN,
        )
    )
}


def in_order(drafts: Sequence[Draft], inputs: Mapping[str, Iterable[str]]) -> tuple[Operation, ...]:
    """Return the operations in executable order; ``inputs`` lists each dataset's inputs by stable key."""
    taken_names = {(draft.space, draft.takes) for draft in drafts if draft.takes and draft.takes != draft.frees}
    rank = _ranks(drafts, inputs)
    early: list[Draft] = []
    renames: list[Draft] = []
    middle: list[Draft] = []
    late: list[Draft] = []
    going = {draft.operation.dataset_key for draft in drafts if draft.operation.op == ops.DROP_TABLE and draft.frees}
    in_the_way = {
        draft.operation.dataset_key
        for draft in drafts
        if draft.operation.op == ops.DROP_TABLE and (draft.space, draft.frees) in taken_names
    }
    for draft in drafts:
        operation = draft.operation
        if operation.dataset_key in going:
            (early if operation.dataset_key in in_the_way else late).append(draft)
        elif operation.op == ops.RENAME_TABLE:
            renames.append(draft)
        else:
            middle.append(draft)
    ordered = [
        *sorted(early, key=lambda draft: _last_first(draft, rank)),
        *_free_first(sorted(renames, key=lambda draft: _place(draft, rank))),
        *_dataset_by_dataset(middle, rank, taken_names),
        *sorted(late, key=lambda draft: _last_first(draft, rank)),
    ]
    return tuple(draft.operation for draft in ordered)


def _place(draft: Draft, rank: Mapping[str, int]) -> tuple:
    operation = draft.operation
    return rank[operation.dataset_key], operation.side, operation.column, operation.code


def _last_first(draft: Draft, rank: Mapping[str, int]) -> tuple:
    """Return the rank of a drop: readers before their inputs, a history before its base."""
    operation = draft.operation
    return -rank[operation.dataset_key], operation.op == ops.DROP_TABLE, operation.column


def _dataset_by_dataset(drafts: list[Draft], rank: Mapping[str, int], taken_names: set) -> list[Draft]:
    by_dataset: dict[str, list[Draft]] = {}
    for draft in sorted(drafts, key=lambda item: _turn(item, rank, taken_names)):
        by_dataset.setdefault(draft.operation.dataset_key, []).append(draft)
    ordered: list[Draft] = []
    for group in by_dataset.values():
        renames = [draft for draft in group if draft.operation.op == ops.RENAME_COLUMN]
        waiting = iter(_free_first(renames))
        ordered += [next(waiting) if draft.operation.op == ops.RENAME_COLUMN else draft for draft in group]
    return ordered


def _turn(draft: Draft, rank: Mapping[str, int], taken_names: set) -> tuple:
    """Return the rank of a column operation: a drop whose name is needed comes first, a history's before its base's."""
    operation = draft.operation
    turn = _TURNS.get(operation.op, -2)
    if operation.op == ops.UNRETIRE_TABLE and operation.side == ops.HISTORY:
        turn = _TURNS[ops.CREATE_TABLE]  # after a dropped base table that is created again
    is_drop = operation.op == ops.DROP_COLUMN
    if is_drop and (draft.space, draft.frees) in taken_names:
        turn = -1
    side = operation.side == ops.BASE if is_drop else operation.side != ops.BASE
    return rank[operation.dataset_key], turn, operation.column, side, operation.code


def _free_first(renames: list[Draft]) -> list[Draft]:
    """Return the renames in order, except that one waiting for a name follows the one that frees it."""
    holder = {(draft.space, draft.frees): draft for draft in renames}
    ordered: list[Draft] = []
    done: set[int] = set()
    for draft in renames:
        chain = [draft]
        while id(chain[-1]) not in done:
            done.add(id(chain[-1]))
            following = holder.get((chain[-1].space, chain[-1].takes))
            if following is None or id(following) in done:
                break
            chain.append(following)
        else:
            chain.pop()
        ordered += reversed(chain)
    return ordered


def _ranks(drafts: Iterable[Draft], inputs: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Return a rank for every dataset, after all its inputs; cycles are broken by layer and name."""
    names: dict[str, str] = {}
    for draft in drafts:
        operation = draft.operation
        if operation.dataset_key not in names or operation.side == ops.BASE:
            names[operation.dataset_key] = operation.dataset
    wanted = sorted(names, key=lambda key: (_layer(names[key]), names[key], key))
    rank: dict[str, int] = {}
    for key in wanted:
        _visit(key, inputs, names, rank)
    return rank


def _visit(start: str, inputs: Mapping[str, Iterable[str]], names: Mapping[str, str], rank: dict[str, int]) -> None:
    """Visit depth first without recursion, so that a thousand stacked views do not exceed the recursion limit."""
    stack = [(start, False)]
    entered: set[str] = set()
    while stack:
        key, leaving = stack.pop()
        if leaving:
            rank.setdefault(key, len(rank))
        elif key not in rank and key not in entered:
            entered.add(key)
            stack.append((key, True))
            stack += [(read, False) for read in sorted(inputs.get(key, ()), reverse=True) if read in names]


def _layer(name: str) -> int:
    schema = name.partition(".")[0]
    return _LAYERS.index(schema) if schema in _LAYERS else len(_LAYERS)


# Remaining readers of a column that is dropped or no longer filled. They decide nothing: policy decides on the
# column, and the warning spares the reader's first load an error.


STILL_READ = "COLUMN_STILL_READ"
_GOING = frozenset({ops.RETIRE_COLUMN, ops.DROP_COLUMN})
_MOST_NAMED = 10


def still_read(
    operations: Iterable[Operation], desired: Collection[DatasetState], same: Mapping[str, str]
) -> Iterator[Warning]:
    """Return a warning for each removed column that desired datasets still read.

    ``same`` maps the keys that operations carry to keys in the desired state.
    """
    by_key = {dataset.key: dataset for dataset in desired}
    readers: dict[str, list[DatasetState]] = {}
    for dataset in sorted(desired, key=lambda dataset: dataset.qualified_name):
        for key in dataset.inputs if dataset.active else ():
            readers.setdefault(key, []).append(dataset)
    for operation in operations:
        if operation.side != BASE or operation.op not in _GOING:
            continue
        key = same.get(operation.dataset_key, operation.dataset_key)
        names = _names(operation, by_key.get(key))
        messages = [
            message for reader in readers.get(key, ()) for message in _reads(reader, operation.column_key, names)
        ]
        if messages:
            yield Warning(STILL_READ, operation.dataset, operation.column, _said(messages))


def _names(operation: Operation, dataset: DatasetState | None) -> frozenset[str]:
    """Return the names under which the column is read: its present and its future name."""
    columns = dataset.columns if dataset else ()
    desired = {column.name for column in columns if column.key == operation.column_key}
    return frozenset(name.lower() for name in {operation.column, *desired})


def _reads(reader: DatasetState, key: str, names: frozenset[str]) -> Iterator[str]:
    """Return the places of a dataset that read the column, by its inputs, or by its text if it has none."""
    for column in reader.active_columns:
        by_name = not column.inputs and column.expression is not None and names & _named(column.expression)
        if key in column.inputs or by_name:
            yield f"{reader.qualified_name}.{column.name}"
    if reader.filter is not None and names & _named(reader.filter):
        yield f"the filter of {reader.qualified_name}"


def _named(text: str) -> frozenset[str]:
    """Return the names in a text; none if it is not our SQL, as in another installation's file."""
    try:
        return frozenset(name.lower() for name in check_expression(text))
    except MetadataError:
        return frozenset()


def _said(messages: list[str]) -> str:
    more = f" and {len(messages) - _MOST_NAMED} more" if messages[_MOST_NAMED:] else ""
    listed = ", ".join(messages[:_MOST_NAMED]) + more
    return f"is still read by {listed}; let these read something else, or retire them, too"


@dataclass(frozen=True)
class Plan:
    """Operations in executable order, and warnings."""

    operations: tuple[Operation, ...]
    warnings: tuple[Warning, ...]


@dataclass(frozen=True)
class _Entry:
    """Dataset as matching uses it: with the names of its schema."""

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
    """Plan for the whole desired state, before it is narrowed to a scope.

    Planning is expensive and independent of the scope; ``within`` is cheap.
    """

    placed: tuple[Placed, ...]
    found: Matching[_Entry]
    plans: tuple[DatasetPlan, ...]
    policy: PolicySet

    @classmethod
    def of(cls, current: CurrentState, desired: Sequence[DatasetState], policy: PolicySet) -> "Planned":
        placed = tuple(current.place(dataset) for dataset in sorted(desired, key=lambda dataset: dataset.key))
        matching = match(
            [_Entry.of(entry) for entry in sorted(current.datasets, key=lambda entry: entry.state.key)],
            [_Entry.of(entry) for entry in placed],
            name=lambda entry: entry.name,
            former=lambda entry: entry.former,
        )
        there = {pair.after.key: pair.before.placed.state for pair in matching.known}
        renames = Renames((there.get(entry.state.key), entry.state) for entry in placed)
        plans = _plans(matching, policy, renames)
        _carry_downstream(plans, matching)
        return cls(placed, matching, tuple(plans), policy)

    def within(self, only: Collection[str] | None) -> Plan:
        """Return the operations on datasets with these stable keys; None means all."""
        drafts = [_decided(draft, self.policy, only) for plan in self.plans for draft in plan.drafts]
        names_in_use = {space: names for plan in self.plans for space, names in plan.held.items()}
        names_in_use[TABLES] = frozenset(_tables_held(self.found))
        drafts = block_taken_names(drafts, names_in_use)
        inside = [draft for draft in drafts if only is None or draft.operation.dataset_key in only]
        warnings = [warning for plan in self.plans for warning in plan.warnings]
        same = {pair.before.key: pair.after.key for pair in self.found.known}
        warnings += still_read((draft.operation for draft in inside), [entry.state for entry in self.placed], same)
        return Plan(in_order(inside, _inputs(self.found)), tuple(sorted(warnings, key=_warning_order)))


def plan(
    current: CurrentState,
    desired: Sequence[DatasetState],
    policy: PolicySet,
    only: Collection[str] | None = None,
) -> Plan:
    """Return operations that turn ``current`` into ``desired``. ``only``: the stable keys in scope; None means all."""
    return Planned.of(current, desired, policy).within(only)


def _warning_order(warning: Warning) -> tuple[str, str, str]:
    return warning.dataset, warning.column, warning.code


def _decided(draft: Draft, policy: PolicySet, only: Collection[str] | None) -> Draft:
    """Return the draft, blocked if it depends on an operation outside the scope."""
    operation = decide(draft.operation, policy)
    if only is not None and operation.dataset_key not in only:
        operation = replace(operation, decision=BLOCKED)
    return replace(draft, operation=operation)


def _plans(matching: Matching[_Entry], policy: PolicySet, renames: Renames) -> list[DatasetPlan]:
    plans = [plan_pair(pair.before.placed, pair.after.placed, policy, renames) for pair in matching.pairs]
    plans += [plan_set_aside(pair.before.placed, pair.after.placed, policy, renames) for pair, _ in matching.duplicate]
    read = {key for pair in matching.known for key in pair.before.placed.state.inputs}
    plans += [plan_new(entry.placed, is_read=entry.key in read) for entry in matching.new]
    plans += [plan_gone(entry.placed) for entry in matching.gone]
    return [*plans, DatasetPlan(warnings=list(_warnings(matching)))]


def _carry_downstream(plans: list[DatasetPlan], matching: Matching[_Entry]) -> None:
    """Mark operations that change a downstream history's comparison; inputs are followed only where needed."""
    if not any(draft.alters or draft.operation.op in NAMING for plan in plans for draft in plan.drafts):
        return
    pairs = matching.known
    sides = [(pair.before.placed.state, pair.after.placed.state) for pair in pairs]
    sides += [(None, entry.placed.state) for entry in matching.new]
    sides += [(entry.placed.state, None) for entry in matching.gone]
    downstream = Downstream(sides)
    same = {pair.before.key: pair.after.key for pair in pairs}
    for plan in plans:
        plan.drafts = carried_downstream(plan.drafts, same, downstream)


def _tables_held(matching: Matching[_Entry]) -> Iterable[str]:
    """Return table names in use; retired tables and retained histories give theirs up."""
    staying = [pair for pair in matching.pairs if pair.after.active]
    keeping = [pair.before for pair in staying if pair.after.placed.keeps_history]
    for entry in (*keeping, *matching.left_alone):
        if entry.active and entry.placed.keeps_history:
            yield table_name(entry.placed.history)
    for entry in (*(pair.before for pair in staying), *matching.left_alone, *matching.gone):
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
    """Return the inputs of each dataset, by the key that its operations carry."""
    inputs = {entry.key: entry.placed.state.inputs for entry in (*matching.gone, *matching.new)}
    same = {pair.after.key: pair.before.key for pair in matching.known}
    for pair in matching.known:
        inputs[pair.before.key] = tuple(same.get(key, key) for key in pair.after.placed.state.inputs)
    return inputs
