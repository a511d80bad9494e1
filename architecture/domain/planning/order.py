"""Order of operations.

First, table names become free: drops whose name is needed, then renames, each before the rename that takes its former
name. Then follow the datasets, inputs before readers: new tables, then columns (renames before additions), base and
history together. Other drops come last, readers before their inputs. Swapped names have no order; their statements use
a temporary name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.operations import Operation
from architecture.domain.planning.drafts import Draft

_LAYERS = ("raw", "stage", "rawcore", "bizcore", "serving")
# Order within one dataset.
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
            ops.DROP_FEATURES,
            ops.CHANGE_CONTRACT,
        )
    )
}


def in_order(drafts: Sequence[Draft], inputs: Mapping[str, Iterable[str]]) -> tuple[Operation, ...]:
    """Return the operations in the order of execution. ``inputs`` are each dataset's inputs, by stable key."""
    taken_names = {(draft.space, draft.takes) for draft in drafts if draft.takes and draft.takes != draft.frees}
    rank = _ranks(drafts, inputs)
    early: list[Draft] = []
    renames: list[Draft] = []
    middle: list[Draft] = []
    late: list[Draft] = []
    dropped = {draft.operation.dataset_key for draft in drafts if draft.operation.op == ops.DROP_TABLE and draft.frees}
    dropped_early = {
        draft.operation.dataset_key
        for draft in drafts
        if draft.operation.op == ops.DROP_TABLE and (draft.space, draft.frees) in taken_names
    }
    for draft in drafts:
        operation = draft.operation
        if operation.dataset_key in dropped:
            (early if operation.dataset_key in dropped_early else late).append(draft)
        elif operation.op == ops.RENAME_TABLE:
            renames.append(draft)
        else:
            middle.append(draft)
    ordered = [
        *sorted(early, key=lambda draft: _drop_order(draft, rank)),
        *_free_first(sorted(renames, key=lambda draft: _order_in_rank(draft, rank))),
        *_dataset_by_dataset(middle, rank, taken_names),
        *sorted(late, key=lambda draft: _drop_order(draft, rank)),
    ]
    return tuple(draft.operation for draft in ordered)


def _order_in_rank(draft: Draft, rank: Mapping[str, int]) -> tuple[int, str, str, str]:
    operation = draft.operation
    return rank[operation.dataset_key], operation.side, operation.column, operation.code


def _drop_order(draft: Draft, rank: Mapping[str, int]) -> tuple[int, bool, str]:
    """Return the sort key of a drop: readers before their inputs, a history before its base table."""
    operation = draft.operation
    return -rank[operation.dataset_key], operation.op == ops.DROP_TABLE, operation.column


def _dataset_by_dataset(drafts: list[Draft], rank: Mapping[str, int], taken_names: set[tuple[str, str]]) -> list[Draft]:
    by_dataset: dict[str, list[Draft]] = {}
    for draft in sorted(drafts, key=lambda item: _column_order(item, rank, taken_names)):
        by_dataset.setdefault(draft.operation.dataset_key, []).append(draft)
    ordered: list[Draft] = []
    for group in by_dataset.values():
        renames = [draft for draft in group if draft.operation.op == ops.RENAME_COLUMN]
        waiting = iter(_free_first(renames))
        ordered += [next(waiting) if draft.operation.op == ops.RENAME_COLUMN else draft for draft in group]
    return ordered


def _column_order(draft: Draft, rank: Mapping[str, int], taken_names: set[tuple[str, str]]) -> tuple[Any, ...]:
    """Return the sort key of a column operation.

    A drop whose name is needed comes first. The history's column is dropped before the base table's; for other
    operations, the base table's comes first.
    """
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
    """Return the renames in their order, except that a rename follows the one that frees its new name."""
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
    """Return a rank for each dataset, higher than the ranks of its inputs. Cycles are broken by layer and name."""
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
    """Rank a dataset after its inputs, depth first. There is no recursion, because views may be stacked very deep."""
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
