"""Planned column operations of one table.

A base table has the columns of the metadata. Its history has them too, but never loses data: a removed column is
retired, a narrowed one keeps the wider type, and one with an incompatible new type is retired and added again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from architecture.domain import operations as ops
from architecture.domain import policy_rules
from architecture.domain.operations import BASE, HISTORY, Warning
from architecture.domain.planning.column_pairs import change_column, change_logic_only, name_of, rebuild, with_rule
from architecture.domain.planning.drafts import Draft
from architecture.domain.planning.logic import follows_table
from architecture.domain.planning.matching import Matching, Pair, key_changed, match
from architecture.domain.planning.sides import Side, namespace
from architecture.domain.states.flat_states import FOREIGN_KEY
from architecture.domain.steps.features import COLUMN_MAPPING, OPEN, TYPE_WIDENING, are_texts, lost_readers
from architecture.domain.type_changes import TypeChange, classify
from metadata.domain.state import TECHNICAL, ColumnState


@dataclass
class ColumnPlan:
    """Planned column operations of one table. ``matching`` pairs current and desired columns."""

    matching: Matching[ColumnState]
    drafts: list[Draft] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    names_in_use: set[str] = field(default_factory=set)


def plan_columns(side: Side) -> ColumnPlan:
    """Return the operations that turn the columns of ``side.before`` into those of ``side.after``."""
    matching = match(side.before.columns, side.after.columns, name=name_of, former=_former)
    plan = ColumnPlan(matching)
    wider: list[tuple[ColumnState, ColumnState]] = []
    for pair in matching.pairs:
        if pair.by == "name":
            plan.warnings.append(key_changed(side.dataset, pair.before.name, pair.before.key, pair.after.key))
        plan.drafts.extend(change_column(side, pair, wider))
    for pair, _ in matching.duplicate:
        plan.drafts.extend(change_logic_only(side, pair))
    if wider:
        plan.drafts.append(rebuild(side, wider))
    plan.drafts.extend(_remove_column(side, column) for column in matching.gone if _needs_removal(side, column))
    dropped = {draft.operation.column: column for column, draft in _drops(plan, matching.gone)}
    for column in matching.new:
        if column.active:
            plan.drafts.append(_add_column(side, plan, column, _rename_candidates(side, column, matching.gone)))
    plan.warnings.extend(
        (*_ambiguity_warnings(side, matching), *_duplicate_warnings(side, matching), *_key_warnings(plan.drafts))
    )
    plan.names_in_use = {name_of(column) for column in _columns_in_use(side, matching, set(dropped))}
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
    decided = operation.code not in ("", policy_rules.FOLLOWS_TABLE)
    if feature is None or is_text or decided or feature in side.before.features:
        return draft
    reason = f"without writing it anew, {lost_readers(feature)}"
    message = "; ".join(filter(None, (operation.message, reason)))
    return replace(draft, operation=replace(operation, code=policy_rules.REWRITE_TABLE, message=message))


def _on_view(draft: Draft) -> Draft:
    """Return the draft for a column of a view, which stores no values: nothing is rebuilt or lost."""
    if draft.operation.code or draft.operation.op in (ops.RETIRE_COLUMN, ops.UNRETIRE_COLUMN, ops.CHANGE_LOGIC):
        return draft
    # A narrower type truncates the values that readers of the view get.
    alters = draft.alters or draft.operation.op == ops.RETYPE_COLUMN
    return replace(draft, operation=replace(draft.operation, code=policy_rules.VIEW_COLUMN), alters=alters)


def _former(column: ColumnState) -> Iterable[str]:
    return (name.lower() for name in column.former_names)


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
        return with_rule(side, column, side.operation(ops.RETIRE_COLUMN, column, message=message))
    if side.side == HISTORY and not side.drops_history_columns:
        message = "history keeps the column, retired"
        return Draft(side.operation(ops.RETIRE_COLUMN, column, message=message))
    operation = side.operation(ops.DROP_COLUMN, column, destructive=not side.before.view)
    return Draft(operation, frees=name_of(column), space=namespace(side))


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
        plan.warnings.append(Warning(policy_rules.POSSIBLE_RENAME, side.dataset, column.name, message))
    if side.side == BASE and not (column.nullable or side.before.view) and column.key in side.described:
        message = f"{column.name!r} is not null, and rows of the table have no value until they are delivered again"
        plan.warnings.append(Warning(policy_rules.NOT_NULL_ADDED, side.dataset, column.name, message))
    doubtful = candidates or column.key in side.doubtful
    operation = side.operation(
        ops.ADD_COLUMN,
        column,
        to=column.type,
        message=column.type,
        code=policy_rules.POSSIBLE_RENAME if doubtful else "",
    )
    draft = with_rule(side, column, operation)
    return replace(draft, takes=name_of(column), space=namespace(side))


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
        if operation.code == policy_rules.KEY_RETYPED:
            message = (
                f"the key was {operation.from_} and becomes {operation.to}: no version is found under the new key, so "
                "the next load takes every key for a new one. Keep the type, or describe a new dataset"
            )
            yield Warning(policy_rules.KEY_RETYPED, operation.dataset, operation.column, message)


def _columns_in_use(side: Side, matching: Matching[ColumnState], dropped: set[str]) -> Iterable[ColumnState]:
    """Yield the columns that use their names before the plan, so that other columns cannot take these names.

    Retired columns are left out: they are renamed to reserved names if necessary.
    """
    yield from matching.left_alone
    yield from (pair.before for pair in matching.pairs if pair.after.active and pair.before.active)
    yield from (column for column in matching.gone if column.name in dropped)
