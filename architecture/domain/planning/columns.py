"""Operations on the columns of one table, or of one side of a dataset.

A base table mirrors the described columns; its history mirrors them too, but never loses anything:
what goes is retired, what narrows keeps the wider type, and what becomes another kind of type is
retired and added anew.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from architecture.domain import operations as ops
from architecture.domain import policy
from architecture.domain.operations import BASE, HISTORY, Operation, Warning
from architecture.domain.planning.diff import Matching, Pair, match
from architecture.domain.planning.drafts import Draft
from architecture.domain.planning.identity import key_changed
from architecture.domain.planning.logic import Renames, column_moved, follows_table
from architecture.domain.states.current import Table
from architecture.domain.states.flat import FOREIGN_KEY
from architecture.domain.type_changes import TypeChange, classify, common_type
from metadata.domain.naming import HISTORY_SUFFIX
from metadata.domain.state import BUSINESS_KEY, TECHNICAL, ColumnState


@dataclass(frozen=True)
class Side:
    """One table of a dataset before and after, and what planning must know of the dataset.

    ``compares``: a history is kept before and after, so that other values would open versions.
    ``drops_history_columns``: policy lets a history lose columns. ``desired_key`` is the dataset's in the
    desired state. ``described`` are keys of columns that people describe; what else ``after`` has is
    generated. ``retyped`` and ``doubtful`` are keys of columns that the base gives a narrower type, or
    adds although they may be renamed ones: its history goes with it.
    """

    side: str
    dataset_key: str
    before: Table
    after: Table
    compares: bool
    drops_history_columns: bool
    renames: Renames
    desired_key: str
    described: Collection[str]
    retyped: Collection[str]
    doubtful: Collection[str]

    @property
    def dataset(self) -> str:
        return self.before.qualified_name

    def base_name(self, table: Table) -> str:
        """Return the name that technical columns are derived from, also in a history."""
        return table.name.removesuffix(HISTORY_SUFFIX) if self.side == HISTORY else table.name

    def operation(self, op: str, on: ColumnState, /, **said: object) -> Operation:
        values = {"column": on.name, "column_key": on.key, **said}
        return Operation(op, self.dataset, self.dataset_key, self.side, **values)


@dataclass
class ColumnPlan:
    """Planned column operations of one table. ``matching`` pairs existing and desired columns."""

    matching: Matching[ColumnState]
    drafts: list[Draft] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    held: set[str] = field(default_factory=set)


def plan_columns(side: Side) -> ColumnPlan:
    """Everything that brings the columns of ``side.before`` to those of ``side.after``."""
    found = match(side.before.columns, side.after.columns, name=_name, former=_former)
    plan = ColumnPlan(found)
    wider: list[tuple[ColumnState, ColumnState]] = []
    for pair in found.pairs:
        if pair.by == "name":
            plan.warnings.append(key_changed(side.dataset, pair.before.name, pair.before.key, pair.after.key))
        plan.drafts.extend(_changed(side, pair, wider))
    for pair, _ in found.duplicate:
        plan.drafts.extend(_set_aside(side, pair))
    if wider:
        plan.drafts.append(_rebuild(side, wider))
    plan.drafts.extend(_gone(side, column) for column in found.gone if _still_there(side, column))
    dropped = {draft.operation.column: column for column, draft in _dropped(plan, found.gone)}
    for column in found.new:
        if column.active:
            plan.drafts.append(_new(side, plan, column, _twins(side, column, found.gone)))
    plan.warnings.extend((*_left_alone(side, found), *_beside(side, found), *_other_keys(plan.drafts)))
    plan.held = {_name(column) for column in _held(side, found, set(dropped))}
    if side.before.view and side.after.view:
        plan.drafts = [_of_view(draft) for draft in plan.drafts]
    return plan


def _of_view(draft: Draft) -> Draft:
    """A view holds no values: whatever becomes of its columns, nothing is rebuilt and nothing is lost."""
    if draft.operation.code or draft.operation.op in (ops.RETIRE_COLUMN, ops.UNRETIRE_COLUMN, ops.CHANGE_LOGIC):
        return draft
    # A narrower type cuts values that are computed by whoever reads the view.
    alters = draft.alters or draft.operation.op == ops.RETYPE_COLUMN
    return replace(draft, operation=replace(draft.operation, code=policy.VIEW_COLUMN), alters=alters)


def _name(column: ColumnState) -> str:
    return column.name.lower()


def _former(column: ColumnState) -> Iterable[str]:
    return (name.lower() for name in column.former_names)


# --- pairs -----------------------------------------------------------------------------------


def _changed(side: Side, pair: Pair[ColumnState], wider: list) -> Iterable[Draft]:
    """Yield the operations on one column, under the key that it will have."""
    if pair.before == pair.after and not _means_another(side, pair):
        return
    pair = _under_one_key(pair)
    before, after = pair.before, pair.after
    if not after.active:
        if before.active:
            yield Draft(side.operation(ops.RETIRE_COLUMN, before, message="the column is no longer filled"))
        return
    if not before.active:
        yield Draft(side.operation(ops.UNRETIRE_COLUMN, before, message="the column is filled again"))
    if before.name != after.name:
        yield _renamed(side, pair)
    yield from _retyped(side, before, after, wider)
    if side.side == BASE:
        yield from _logic(side, pair)


def _set_aside(side: Side, pair: Pair[ColumnState]) -> Iterable[Draft]:
    """Nothing is done to a column whose former name is there as well, but loads compute it as it is desired."""
    if side.side == BASE and pair.after.active:
        yield from _logic(side, _under_one_key(pair))


def _under_one_key(pair: Pair[ColumnState]) -> Pair[ColumnState]:
    if pair.before.key == pair.after.key:
        return pair
    return replace(pair, before=replace(pair.before, key=pair.after.key))


def _means_another(side: Side, pair: Pair[ColumnState]) -> bool:
    return side.side == BASE and pair.after.active and side.renames.takes_another(pair, side.desired_key)


def _renamed(side: Side, pair: Pair[ColumnState]) -> Draft:
    follows = follows_table(pair, side.base_name(side.before), side.base_name(side.after))
    operation = side.operation(
        ops.RENAME_COLUMN,
        pair.before,
        from_=pair.before.name,
        to=pair.after.name,
        code=policy.FOLLOWS_TABLE if follows else "",
    )
    return Draft(operation, takes=_name(pair.after), frees=_name(pair.before), space=_space(side))


def _retyped(side: Side, before: ColumnState, after: ColumnState, wider: list) -> Iterable[Draft]:
    change = classify(before.type, after.type)
    if change is TypeChange.EQUIVALENT:
        return
    if change is TypeChange.ALTER:
        yield Draft(_typed(side, ops.WIDEN_COLUMN, before, after.type))
    elif change is TypeChange.REBUILD:
        wider.append((before, after))
    elif side.side == BASE or before.role == TECHNICAL:
        destructive = not side.before.view
        yield Draft(_typed(side, ops.RETYPE_COLUMN, before, after.type, destructive=destructive, how=change))
    else:
        yield from _history_retyped(side, before, after)


def _history_retyped(side: Side, before: ColumnState, after: ColumnState) -> Iterable[Draft]:
    """History keeps what it has: at most it grows to take both, or begins another column.

    It grows with the base's change of type, which is agreed to with it; what is left of that is an
    operation of its own.
    """
    common = common_type(before.type, after.type)
    if common == before.type or (common is not None and after.key in side.retyped):
        return
    if common is not None:
        yield Draft(_typed(side, ops.WIDEN_COLUMN, before, common, code=policy.RETYPE_COLUMN))
        return
    said = f"{before.type} cannot take {after.type}: the old column stays, retired"
    yield Draft(side.operation(ops.RETIRE_COLUMN, before, from_=before.type, to=after.type, message=said))
    is_key = BUSINESS_KEY == before.role == after.role
    code = policy.KEY_RETYPED if is_key else policy.RETYPE_COLUMN
    yield Draft(side.operation(ops.ADD_COLUMN, after, column=before.name, from_=before.type, to=after.type, code=code))


def _typed(side: Side, op: str, column: ColumnState, to: str, how: str = "", **said: object) -> Operation:
    message = f"{column.type} → {to}{f' ({how})' if how else ''}"
    return side.operation(op, column, from_=column.type, to=to, message=message, **said)


def _rebuild(side: Side, wider: list[tuple[ColumnState, ColumnState]]) -> Draft:
    """One rebuild for all columns of the table that need it."""
    wider = sorted(wider, key=lambda columns: columns[0].name)
    operation = Operation(
        ops.REBUILD_TABLE,
        side.dataset,
        side.dataset_key,
        side.side,
        column=", ".join(before.name for before, _ in wider),
        column_key=wider[0][0].key if len(wider) == 1 else "",
        columns=tuple((before.key, before.type, after.type) for before, after in wider),
        message=", ".join(f"{before.name}: {before.type} → {after.type}" for before, after in wider),
    )
    return Draft(operation)


def _logic(side: Side, pair: Pair[ColumnState]) -> Iterable[Draft]:
    moved = column_moved(pair, side.renames, side.desired_key)
    if moved:
        code = policy.HISTORY_DIFFERS if moved.compares and side.compares else ""
        message = ", ".join(moved.what)
        yield Draft(side.operation(ops.CHANGE_LOGIC, pair.before, code=code, message=message), alters=moved.alters)
    if pair.before.nullable and not pair.after.nullable:
        message = "every row must have a value, which is checked first"
        yield Draft(side.operation(ops.CHANGE_LOGIC, pair.before, code=policy.NOT_NULL, message=message))


# --- what is gone, what is new ---------------------------------------------------------------


def _still_there(side: Side, column: ColumnState) -> bool:
    """Return whether an operation is left for a column that is no longer described.

    The column of a foreign key that went before stays as it is; so does what history retired, unless
    policy lets it go and it is known what it was.
    """
    if column.active:
        return True
    if column.role == FOREIGN_KEY:
        return False
    return side.side == BASE or (side.drops_history_columns and column.role != TECHNICAL)


def _gone(side: Side, column: ColumnState) -> Draft:
    if column.role == FOREIGN_KEY:
        message = "the reference is gone: the column stays, retired"
        return Draft(side.operation(ops.RETIRE_COLUMN, column, message=message))
    if side.side == HISTORY and not side.drops_history_columns:
        message = "history keeps the column, retired"
        return Draft(side.operation(ops.RETIRE_COLUMN, column, message=message))
    operation = side.operation(ops.DROP_COLUMN, column, destructive=not side.before.view)
    return Draft(operation, frees=_name(column), space=_space(side))


def _dropped(plan: ColumnPlan, gone: list[ColumnState]) -> Iterable[tuple[ColumnState, Draft]]:
    columns = {column.key: column for column in gone}
    for draft in plan.drafts:
        if draft.operation.op == ops.DROP_COLUMN:
            yield columns[draft.operation.column_key], draft


def _twins(side: Side, column: ColumnState, gone: list[ColumnState]) -> list[ColumnState]:
    """Return the removed base-table columns of the new column's type: it may be one of them under another name.

    The column of a reference stays, and what is called after the table follows its name.
    """
    if side.side == HISTORY or column.role == FOREIGN_KEY or column.key not in side.described:
        return []
    going = [one for one in gone if _still_there(side, one) and one.role != FOREIGN_KEY]
    names = side.base_name(side.before), side.base_name(side.after)
    return [
        one
        for one in going
        if classify(one.type, column.type) is TypeChange.EQUIVALENT
        and not follows_table(Pair(one, column, "former"), *names)
    ]


def _new(side: Side, plan: ColumnPlan, column: ColumnState, twins: list[ColumnState]) -> Draft:
    if twins:
        names = " or ".join(repr(twin.name) for twin in twins)
        said = (
            f"{names} of the same type goes: if {column.name!r} is the same under a new name, "
            "put the old name among its former names, else approve"
        )
        plan.warnings.append(Warning(policy.POSSIBLE_RENAME, side.dataset, column.name, said))
    doubtful = twins or column.key in side.doubtful
    operation = side.operation(
        ops.ADD_COLUMN, column, to=column.type, message=column.type, code=policy.POSSIBLE_RENAME if doubtful else ""
    )
    return Draft(operation, takes=_name(column), space=_space(side))


# --- what is left to people ------------------------------------------------------------------


def _left_alone(side: Side, found: Matching[ColumnState]) -> Iterable[Warning]:
    for column, candidates in found.ambiguous:
        names = " and ".join(repr(one.name) for one in candidates)
        said = (
            f"cannot be told which column it was: {names} may be its former name; nothing is done. "
            "Keep the one former name that is right and describe the other columns, or rename by hand"
        )
        yield Warning("AMBIGUOUS_RENAME", side.dataset, column.name, said)
    for pair, formers in found.duplicate:
        names = " and ".join(repr(one.name) for one in formers)
        said = (
            f"{names}, its former name, is there as well; nothing is done. Bring the values into one of the two, "
            "drop the other by hand, or take the former name away"
        )
        yield Warning("DUPLICATE_COLUMN", side.dataset, pair.before.name, said)


def _beside(side: Side, found: Matching[ColumnState]) -> Iterable[Warning]:
    for pair, others in found.claimed:
        names = " and ".join(repr(one.name) for one in others)
        said = f"{names}, its former name, is a column of its own; take the former name away, or rename by hand"
        yield Warning("DUPLICATE_COLUMN", side.dataset, pair.before.name, said)


def _other_keys(drafts: Iterable[Draft]) -> Iterable[Warning]:
    """Keys of a history that begin anew: the same columns make up the key, but no version is under theirs."""
    for operation in (draft.operation for draft in drafts):
        if operation.code == policy.KEY_RETYPED:
            said = (
                f"the key was {operation.from_} and becomes {operation.to}: no version is found under the new key, so "
                "the next load takes every key for a new one. Keep the type, or describe a new dataset"
            )
            yield Warning(policy.KEY_RETYPED, operation.dataset, operation.column, said)


def _held(side: Side, found: Matching[ColumnState], dropped: set[str]) -> Iterable[ColumnState]:
    """Columns whose names nobody else may take, unless they are renamed or dropped.

    What is retired makes way: it moves to a reserved name.
    """
    yield from found.left_alone
    yield from (pair.before for pair in found.pairs if pair.after.active and pair.before.active)
    yield from (column for column in found.gone if column.name in dropped)


def _space(side: Side) -> str:
    return f"{side.side} {side.dataset_key}"
