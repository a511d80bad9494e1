"""Planned column operations, and the check that the names they take are free.

A base table has the columns of the metadata. Its history has them too, but never loses data: a removed column is
retired, a narrowed one keeps the wider type, and one with an incompatible new type is retired and added again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from architecture.domain import change_policy
from architecture.domain import operations as ops
from architecture.domain.change_policy import NAME_TAKEN
from architecture.domain.operations import BASE, BLOCKED, HISTORY, Operation, Warning
from architecture.domain.planning.logic import Renames, column_moved, follows_table
from architecture.domain.planning.matching import Matching, Pair, key_changed, match
from architecture.domain.states.current_state import Table
from architecture.domain.states.state_files import FOREIGN_KEY, rule_for_unknown_parents
from architecture.domain.steps.features import COLUMN_MAPPING, OPEN, TYPE_WIDENING, are_texts, lost_readers
from architecture.domain.type_changes import TypeChange, classify, common_type
from metadata.domain.naming import HISTORY_SUFFIX
from metadata.domain.quality.unknown_parents import GHOST, KEEP, QUARANTINE
from metadata.domain.state import BUSINESS_KEY, TECHNICAL, ColumnState


@dataclass(frozen=True)
class Draft:
    """Operation with the name that it ``takes`` and the name that it ``frees`` in a namespace (``space``).

    The columns of a table are one namespace, all tables another. Names are in lower case. ``alters``: values may
    change for datasets that read this one.
    """

    operation: Operation
    takes: str = ""
    frees: str = ""
    space: str = ""
    alters: bool = False


def block_taken_names(drafts: Iterable[Draft], names_in_use: Mapping[str, frozenset[str]]) -> list[Draft]:
    """Return the drafts. Block those whose name is never freed, and the drafts that depend on them.

    ``names_in_use`` are the names in use, by namespace. Base and history of one change are blocked together.
    """
    drafts = list(drafts)
    freeing = {(draft.space, draft.frees): index for index, draft in enumerate(drafts) if draft.frees}
    changes: dict[tuple[str, str, str], list[int]] = {}
    waiting: dict[int, list[int]] = {}
    pending = []
    for index, draft in enumerate(drafts):
        if not draft.takes or draft.takes == draft.frees:
            continue
        changes.setdefault(_change_of(draft), []).append(index)
        if draft.takes in names_in_use.get(draft.space, ()):
            freed = freeing.get((draft.space, draft.takes))
            if freed is None or drafts[freed].operation.decision == BLOCKED:
                pending.append(index)
            else:
                waiting.setdefault(freed, []).append(index)
    done: set[int] = set()
    while pending:
        index = pending.pop()
        if index in done:
            continue
        done.add(index)
        drafts[index] = _block(drafts[index])
        pending += [*waiting.get(index, ()), *changes[_change_of(drafts[index])]]
    return drafts


def _change_of(draft: Draft) -> tuple[str, str, str]:
    """Return the key that the drafts of one change share, on base and history."""
    return draft.operation.dataset_key, draft.operation.op, draft.operation.column_key


def _block(draft: Draft) -> Draft:
    message = f"the name {draft.takes} is still held; let go first what holds it, or take another name"
    operation = replace(draft.operation, decision=BLOCKED, code=NAME_TAKEN, message=message)
    return replace(draft, operation=operation)


@dataclass(frozen=True)
class Side:
    """Table of a dataset (base or history) before and after, with the facts that planning needs.

    Attributes:
        side: base or history.
        dataset_key: stable key of the dataset.
        before, after: current and desired table.
        compares: a history exists before and after, so changed values would open versions.
        drops_history_columns: the change policy allows that a history loses columns.
        renames: columns that the plan renames.
        desired_key: stable key of the dataset in the desired state.
        described: keys of the columns in the metadata; all other columns of ``after`` are generated.
        retyped: keys of columns whose type the base table narrows; the history follows.
        doubtful: keys of columns that the base table adds but that may be renamed ones; the history follows.
        readers: readers that the environment supports.
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
    readers: str

    @property
    def dataset(self) -> str:
        return self.before.qualified_name

    def base_name(self, table: Table) -> str:
        """Return the name of the base table, from which names of technical columns are derived."""
        return table.name.removesuffix(HISTORY_SUFFIX) if self.side == HISTORY else table.name

    def operation(self, op: str, on: ColumnState, /, **fields: Any) -> Operation:
        values: dict[str, Any] = {"column": on.name, "column_key": on.key, **fields}
        return Operation(op, self.dataset, self.dataset_key, self.side, **values)


@dataclass
class ColumnPlan:
    """Planned column operations of one table. ``matching`` pairs current and desired columns."""

    matching: Matching[ColumnState]
    drafts: list[Draft] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    names_in_use: set[str] = field(default_factory=set)


def plan_columns(side: Side) -> ColumnPlan:
    """Return the operations that turn the columns of ``side.before`` into those of ``side.after``."""
    matching = match(side.before.columns, side.after.columns, name=_name, former=_former)
    plan = ColumnPlan(matching)
    wider: list[tuple[ColumnState, ColumnState]] = []
    for pair in matching.pairs:
        if pair.by == "name":
            plan.warnings.append(key_changed(side.dataset, pair.before.name, pair.before.key, pair.after.key))
        plan.drafts.extend(_change_column(side, pair, wider))
    for pair, _ in matching.duplicate:
        plan.drafts.extend(_change_logic_only(side, pair))
    if wider:
        plan.drafts.append(_rebuild(side, wider))
    plan.drafts.extend(_remove_column(side, column) for column in matching.gone if _needs_removal(side, column))
    dropped = {draft.operation.column: column for column, draft in _drops(plan, matching.gone)}
    for column in matching.new:
        if column.active:
            plan.drafts.append(_add_column(side, plan, column, _rename_candidates(side, column, matching.gone)))
    plan.warnings.extend(
        (*_ambiguity_warnings(side, matching), *_duplicate_warnings(side, matching), *_key_warnings(plan.drafts))
    )
    plan.names_in_use = {_name(column) for column in _columns_in_use(side, matching, set(dropped))}
    if side.before.view and side.after.view:
        plan.drafts = [_on_view(draft) for draft in plan.drafts]
    elif side.readers == OPEN:
        plan.drafts = [_rewrite(side, draft) for draft in plan.drafts]
    return plan


def _rewrite(side: Side, draft: Draft) -> Draft:
    """Return the draft as a rewrite of the table, if the change would otherwise cost it readers.

    A rename of a technical column is left as it is: it follows the operation that changes the history policy.
    """
    operation = draft.operation
    if operation.column_key not in side.described and operation.op == ops.RENAME_COLUMN and not operation.code:
        return draft
    feature = {ops.RENAME_COLUMN: COLUMN_MAPPING, ops.WIDEN_COLUMN: TYPE_WIDENING}.get(operation.op)
    is_text = operation.op == ops.WIDEN_COLUMN and are_texts(operation.from_, operation.to)
    decided = operation.code not in ("", change_policy.FOLLOWS_TABLE)
    if feature is None or is_text or decided or feature in side.before.features:
        return draft
    reason = f"without writing it anew, {lost_readers(feature)}"
    message = "; ".join(filter(None, (operation.message, reason)))
    return replace(draft, operation=replace(operation, code=change_policy.REWRITE_TABLE, message=message))


def _on_view(draft: Draft) -> Draft:
    """Return the draft for a column of a view, which stores no values: nothing is rebuilt or lost."""
    if draft.operation.code or draft.operation.op in (ops.RETIRE_COLUMN, ops.UNRETIRE_COLUMN, ops.CHANGE_LOGIC):
        return draft
    # A narrower type truncates the values that readers of the view get.
    alters = draft.alters or draft.operation.op == ops.RETYPE_COLUMN
    return replace(draft, operation=replace(draft.operation, code=change_policy.VIEW_COLUMN), alters=alters)


def _name(column: ColumnState) -> str:
    return column.name.lower()


def _former(column: ColumnState) -> Iterable[str]:
    return (name.lower() for name in column.former_names)


# --- pairs -----------------------------------------------------------------------------------


def _change_column(
    side: Side, pair: Pair[ColumnState], wider: list[tuple[ColumnState, ColumnState]]
) -> Iterable[Draft]:
    """Yield the operations on one column, under its desired key."""
    if pair.before == pair.after and not _changes_meaning(side, pair):
        return
    pair = _with_desired_key(pair)
    before, after = pair.before, pair.after
    if not after.active:
        if before.active:
            yield _with_rule(
                side, before, side.operation(ops.RETIRE_COLUMN, before, message="the column is no longer filled")
            )
        return
    if not before.active:
        yield _with_rule(
            side, after, side.operation(ops.UNRETIRE_COLUMN, before, message="the column is filled again")
        )
    if before.name != after.name:
        yield _rename(side, pair)
    yield from _change_type(side, before, after, wider)
    if side.side == BASE:
        yield from _change_logic(side, pair)


def _change_logic_only(side: Side, pair: Pair[ColumnState]) -> Iterable[Draft]:
    """Yield the logic operations of a column whose former name exists, too; the table is not changed."""
    if side.side == BASE and pair.after.active:
        yield from _change_logic(side, _with_desired_key(pair))


def _with_desired_key(pair: Pair[ColumnState]) -> Pair[ColumnState]:
    if pair.before.key == pair.after.key:
        return pair
    return replace(pair, before=replace(pair.before, key=pair.after.key))


def _changes_meaning(side: Side, pair: Pair[ColumnState]) -> bool:
    return side.side == BASE and pair.after.active and side.renames.takes_another(pair, side.desired_key)


def _rename(side: Side, pair: Pair[ColumnState]) -> Draft:
    follows = follows_table(pair, side.base_name(side.before), side.base_name(side.after))
    operation = side.operation(
        ops.RENAME_COLUMN,
        pair.before,
        from_=pair.before.name,
        to=pair.after.name,
        code=change_policy.FOLLOWS_TABLE if follows else "",
    )
    return Draft(operation, takes=_name(pair.after), frees=_name(pair.before), space=_namespace(side))


def _change_type(
    side: Side, before: ColumnState, after: ColumnState, wider: list[tuple[ColumnState, ColumnState]]
) -> Iterable[Draft]:
    change = classify(before.type, after.type)
    if change is TypeChange.EQUIVALENT:
        return
    if change is TypeChange.ALTER:
        yield Draft(_type_operation(side, ops.WIDEN_COLUMN, before, after.type))
    elif change is TypeChange.REBUILD:
        wider.append((before, after))
    elif side.side == BASE or before.role == TECHNICAL:
        destructive = not side.before.view
        yield Draft(_type_operation(side, ops.RETYPE_COLUMN, before, after.type, destructive=destructive, how=change))
    else:
        yield from _change_history_type(side, before, after)


def _change_history_type(side: Side, before: ColumnState, after: ColumnState) -> Iterable[Draft]:
    """Yield the operations on a history's column: it is widened to take both types, or a new column is added.

    If the type of the base column changes as well, that operation covers the widening.
    """
    common = common_type(before.type, after.type)
    if common == before.type or (common is not None and after.key in side.retyped):
        return
    if common is not None:
        yield Draft(_type_operation(side, ops.WIDEN_COLUMN, before, common, code=change_policy.RETYPE_COLUMN))
        return
    message = f"{before.type} cannot take {after.type}: the old column stays, retired"
    yield Draft(side.operation(ops.RETIRE_COLUMN, before, from_=before.type, to=after.type, message=message))
    is_key = BUSINESS_KEY == before.role == after.role
    code = change_policy.KEY_RETYPED if is_key else change_policy.RETYPE_COLUMN
    yield Draft(side.operation(ops.ADD_COLUMN, after, column=before.name, from_=before.type, to=after.type, code=code))


def _type_operation(side: Side, op: str, column: ColumnState, to: str, how: str = "", **fields: object) -> Operation:
    message = f"{column.type} → {to}{f' ({how})' if how else ''}"
    return side.operation(op, column, from_=column.type, to=to, message=message, **fields)


def _rebuild(side: Side, wider: list[tuple[ColumnState, ColumnState]]) -> Draft:
    """Return one rebuild for all columns of the table that need it."""
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


def _change_logic(side: Side, pair: Pair[ColumnState]) -> Iterable[Draft]:
    moved = column_moved(pair, side.renames, side.desired_key)
    if moved:
        code = change_policy.HISTORY_DIFFERS if moved.compares and side.compares else ""
        message = ", ".join(moved.what)
        yield Draft(side.operation(ops.CHANGE_LOGIC, pair.before, code=code, message=message), alters=moved.alters)
    if pair.before.nullable and not pair.after.nullable:
        message = "every row must have a value, which is checked first"
        yield Draft(side.operation(ops.CHANGE_LOGIC, pair.before, code=change_policy.NOT_NULL, message=message))


# --- removed and new columns -----------------------------------------------------------------


def _needs_removal(side: Side, column: ColumnState) -> bool:
    """Return True if a column that is no longer desired still needs an operation.

    The retired column of a removed reference stays. A retired column of a history stays, unless the change policy
    allows to drop it and the column's role is known.
    """
    if column.active:
        return True
    if column.role == FOREIGN_KEY:
        return False
    return side.side == BASE or (side.drops_history_columns and column.role != TECHNICAL)


def _remove_column(side: Side, column: ColumnState) -> Draft:
    if column.role == FOREIGN_KEY:
        message = "the reference is gone: the column stays, retired"
        return _with_rule(side, column, side.operation(ops.RETIRE_COLUMN, column, message=message))
    if side.side == HISTORY and not side.drops_history_columns:
        message = "history keeps the column, retired"
        return Draft(side.operation(ops.RETIRE_COLUMN, column, message=message))
    operation = side.operation(ops.DROP_COLUMN, column, destructive=not side.before.view)
    return Draft(operation, frees=_name(column), space=_namespace(side))


def _drops(plan: ColumnPlan, gone: list[ColumnState]) -> Iterable[tuple[ColumnState, Draft]]:
    columns = {column.key: column for column in gone}
    for draft in plan.drafts:
        if draft.operation.op == ops.DROP_COLUMN:
            yield columns[draft.operation.column_key], draft


def _rename_candidates(side: Side, column: ColumnState, gone: list[ColumnState]) -> list[ColumnState]:
    """Return the removed base columns of the new column's type: it may be one of them, renamed.

    Columns of references are left out, and so are columns that are renamed with the table.
    """
    if side.side == HISTORY or column.role == FOREIGN_KEY or column.key not in side.described:
        return []
    removed = [candidate for candidate in gone if _needs_removal(side, candidate) and candidate.role != FOREIGN_KEY]
    names = side.base_name(side.before), side.base_name(side.after)
    return [
        candidate
        for candidate in removed
        if classify(candidate.type, column.type) is TypeChange.EQUIVALENT
        and not follows_table(Pair(candidate, column, "former"), *names)
    ]


def _add_column(side: Side, plan: ColumnPlan, column: ColumnState, candidates: list[ColumnState]) -> Draft:
    if candidates:
        names = " or ".join(repr(candidate.name) for candidate in candidates)
        message = (
            f"{names} of the same type goes: if {column.name!r} is the same under a new name, "
            "put the old name among its former names, else approve"
        )
        plan.warnings.append(Warning(change_policy.POSSIBLE_RENAME, side.dataset, column.name, message))
    if side.side == BASE and not (column.nullable or side.before.view) and column.key in side.described:
        message = "the column is not null, and rows of the table have no value until they are delivered again"
        plan.warnings.append(Warning(change_policy.NOT_NULL_ADDED, side.dataset, column.name, message))
    doubtful = candidates or column.key in side.doubtful
    operation = side.operation(
        ops.ADD_COLUMN,
        column,
        to=column.type,
        message=column.type,
        code=change_policy.POSSIBLE_RENAME if doubtful else "",
    )
    draft = _with_rule(side, column, operation)
    return replace(draft, takes=_name(column), space=_namespace(side))


def _with_rule(side: Side, column: ColumnState, operation: Operation) -> Draft:
    """Return the draft of a column that is added, retired or filled again.

    A foreign key's rule for unknown parents may hold rows back from the dataset, or add rows to the parent.
    """
    rule = rule_for_unknown_parents(column) if column.role == FOREIGN_KEY and side.side == BASE else KEEP
    if rule == QUARANTINE and side.compares and not operation.code:
        message = f"{operation.message}, rows with unknown parents are held back by its rule"
        operation = replace(operation, code=change_policy.HISTORY_DIFFERS, message=message)
    return Draft(operation, alters=rule in (QUARANTINE, GHOST))


# --- operations that users must decide on ----------------------------------------------------


def _ambiguity_warnings(side: Side, matching: Matching[ColumnState]) -> Iterable[Warning]:
    for column, candidates in matching.ambiguous:
        names = " and ".join(repr(candidate.name) for candidate in candidates)
        message = (
            f"cannot be told which column it was: {names} may be its former name; nothing is done. "
            "Keep the one former name that is right and describe the other columns, or rename by hand"
        )
        yield Warning("AMBIGUOUS_RENAME", side.dataset, column.name, message)
    for pair, formers in matching.duplicate:
        names = " and ".join(repr(former.name) for former in formers)
        message = (
            f"{names}, its former name, is there as well; nothing is done. Bring the values into one of the two, "
            "drop the other by hand, or take the former name away"
        )
        yield Warning("DUPLICATE_COLUMN", side.dataset, pair.before.name, message)


def _duplicate_warnings(side: Side, matching: Matching[ColumnState]) -> Iterable[Warning]:
    for pair, others in matching.claimed:
        names = " and ".join(repr(other.name) for other in others)
        message = f"{names}, its former name, is a column of its own; take the former name away, or rename by hand"
        yield Warning("DUPLICATE_COLUMN", side.dataset, pair.before.name, message)


def _key_warnings(drafts: Iterable[Draft]) -> Iterable[Warning]:
    """Yield warnings about retyped keys of a history: no existing version has the new key."""
    for operation in (draft.operation for draft in drafts):
        if operation.code == change_policy.KEY_RETYPED:
            message = (
                f"the key was {operation.from_} and becomes {operation.to}: no version is found under the new key, so "
                "the next load takes every key for a new one. Keep the type, or describe a new dataset"
            )
            yield Warning(change_policy.KEY_RETYPED, operation.dataset, operation.column, message)


def _columns_in_use(side: Side, matching: Matching[ColumnState], dropped: set[str]) -> Iterable[ColumnState]:
    """Yield the columns that use their names before the plan, so that other columns cannot take these names.

    Retired columns are left out: they are renamed to reserved names if necessary.
    """
    yield from matching.left_alone
    yield from (pair.before for pair in matching.pairs if pair.after.active and pair.before.active)
    yield from (column for column in matching.gone if column.name in dropped)


def _namespace(side: Side) -> str:
    return f"{side.side} {side.dataset_key}"
