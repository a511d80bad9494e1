"""Operations on columns that exist before and after: use, name, type, logic."""

from collections.abc import Iterable
from dataclasses import replace

from architecture.domain import operations as ops
from architecture.domain import policy_rules
from architecture.domain.operations import BASE, Operation
from architecture.domain.planning.drafts import Draft
from architecture.domain.planning.logic import column_moved, follows_table
from architecture.domain.planning.matching import Pair
from architecture.domain.planning.sides import Side, namespace
from architecture.domain.states.flat_states import FOREIGN_KEY, rule_for_unknown_parents
from architecture.domain.type_changes import TypeChange, classify, common_type
from metadata.domain.quality.unknown_parents import GHOST, KEEP, QUARANTINE
from metadata.domain.state import BUSINESS_KEY, TECHNICAL, ColumnState


def name_of(column: ColumnState) -> str:
    return column.name.lower()


def change_column(side: Side, pair: Pair[ColumnState], wider: list[tuple[ColumnState, ColumnState]]) -> Iterable[Draft]:
    """Yield the operations on one column, under its desired key."""
    if pair.before == pair.after and not _changes_meaning(side, pair):
        return
    pair = _with_desired_key(pair)
    before, after = pair.before, pair.after
    if not after.active:
        if before.active:
            yield with_rule(
                side, before, side.operation(ops.RETIRE_COLUMN, before, message="the column is no longer filled")
            )
        return
    if not before.active:
        yield with_rule(side, after, side.operation(ops.UNRETIRE_COLUMN, before, message="the column is filled again"))
    if before.name != after.name:
        yield _rename(side, pair)
    yield from _change_type(side, before, after, wider)
    if side.side == BASE:
        yield from _change_logic(side, pair)


def change_logic_only(side: Side, pair: Pair[ColumnState]) -> Iterable[Draft]:
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
        code=policy_rules.FOLLOWS_TABLE if follows else "",
    )
    return Draft(operation, takes=name_of(pair.after), frees=name_of(pair.before), space=namespace(side))


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
        yield Draft(_type_operation(side, ops.WIDEN_COLUMN, before, common, code=policy_rules.RETYPE_COLUMN))
        return
    message = f"{before.type} cannot take {after.type}: the old column stays, retired"
    yield Draft(side.operation(ops.RETIRE_COLUMN, before, from_=before.type, to=after.type, message=message))
    is_key = BUSINESS_KEY == before.role == after.role
    code = policy_rules.KEY_RETYPED if is_key else policy_rules.RETYPE_COLUMN
    yield Draft(side.operation(ops.ADD_COLUMN, after, column=before.name, from_=before.type, to=after.type, code=code))


def _type_operation(side: Side, op: str, column: ColumnState, to: str, how: str = "", **fields: object) -> Operation:
    message = f"{column.type} → {to}{f' ({how})' if how else ''}"
    return side.operation(op, column, from_=column.type, to=to, message=message, **fields)


def rebuild(side: Side, wider: list[tuple[ColumnState, ColumnState]]) -> Draft:
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
        code = policy_rules.HISTORY_DIFFERS if moved.compares and side.compares else ""
        message = ", ".join(moved.what)
        yield Draft(side.operation(ops.CHANGE_LOGIC, pair.before, code=code, message=message), alters=moved.alters)
    if pair.before.nullable and not pair.after.nullable:
        message = "every row must have a value, which is checked first"
        yield Draft(side.operation(ops.CHANGE_LOGIC, pair.before, code=policy_rules.NOT_NULL, message=message))


def with_rule(side: Side, column: ColumnState, operation: Operation) -> Draft:
    """Return the draft of a column that is added, retired or filled again.

    A foreign key's rule for unknown parents may hold rows back from the dataset, or add rows to the parent.
    """
    rule = rule_for_unknown_parents(column) if column.role == FOREIGN_KEY and side.side == BASE else KEEP
    if rule == QUARANTINE and side.compares and not operation.code:
        message = f"{operation.message}, rows with unknown parents are held back by its rule"
        operation = replace(operation, code=policy_rules.HISTORY_DIFFERS, message=message)
    return Draft(operation, alters=rule in (QUARANTINE, GHOST))
