"""The order of a report's operations: each is possible when its turn comes.

First the names of tables are sorted out: what goes and is in the way, then renames, those first that
free a name for another. Then dataset by dataset, what is read before what reads it: new tables, then
columns (renames before additions), base and history together. What is dropped goes last, readers
before what they read. Swaps have no order; they go through a temporary name in the statements.
"""

from collections.abc import Iterable, Mapping, Sequence

from architecture.domain import operations as ops
from architecture.domain.operations import Operation
from architecture.domain.planning.drafts import Draft

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
    """``inputs`` says what each dataset reads, by stable key."""
    taken = {(draft.space, draft.takes) for draft in drafts if draft.takes and draft.takes != draft.frees}
    rank = _ranks(drafts, inputs)
    early: list[Draft] = []
    renames: list[Draft] = []
    middle: list[Draft] = []
    late: list[Draft] = []
    going = {one.operation.dataset_key for one in drafts if one.operation.op == ops.DROP_TABLE and one.frees}
    in_the_way = {
        one.operation.dataset_key
        for one in drafts
        if one.operation.op == ops.DROP_TABLE and (one.space, one.frees) in taken
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
        *sorted(early, key=lambda one: _last_first(one, rank)),
        *_free_first(sorted(renames, key=lambda one: _place(one, rank))),
        *_dataset_by_dataset(middle, rank, taken),
        *sorted(late, key=lambda one: _last_first(one, rank)),
    ]
    return tuple(draft.operation for draft in ordered)


def _place(draft: Draft, rank: Mapping[str, int]) -> tuple:
    operation = draft.operation
    return rank[operation.dataset_key], operation.side, operation.column, operation.code


def _last_first(draft: Draft, rank: Mapping[str, int]) -> tuple:
    """Readers go before what they read, and a history is set aside before its base goes."""
    operation = draft.operation
    return -rank[operation.dataset_key], operation.op == ops.DROP_TABLE, operation.column


def _dataset_by_dataset(drafts: list[Draft], rank: Mapping[str, int], taken: set) -> list[Draft]:
    by_dataset: dict[str, list[Draft]] = {}
    for draft in sorted(drafts, key=lambda one: _turn(one, rank, taken)):
        by_dataset.setdefault(draft.operation.dataset_key, []).append(draft)
    ordered: list[Draft] = []
    for group in by_dataset.values():
        renames = [draft for draft in group if draft.operation.op == ops.RENAME_COLUMN]
        waiting = iter(_free_first(renames))
        ordered += [next(waiting) if draft.operation.op == ops.RENAME_COLUMN else draft for draft in group]
    return ordered


def _turn(draft: Draft, rank: Mapping[str, int], taken: set) -> tuple:
    """A column that is dropped goes first where its name is wanted, and a history's before its base's."""
    operation = draft.operation
    turn = _TURNS.get(operation.op, -2)
    if operation.op == ops.UNRETIRE_TABLE and operation.side == ops.HISTORY:
        turn = _TURNS[ops.CREATE_TABLE]  # after a base table that was dropped and is made anew
    is_drop = operation.op == ops.DROP_COLUMN
    if is_drop and (draft.space, draft.frees) in taken:
        turn = -1
    side = operation.side == ops.BASE if is_drop else operation.side != ops.BASE
    return rank[operation.dataset_key], turn, operation.column, side, operation.code


def _free_first(renames: list[Draft]) -> list[Draft]:
    """Renames in their order, but for those that wait for a name: they follow the one that frees it."""
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
    """A place for every dataset, after all that it reads; without a cycle's way out, by layer and name."""
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
    """Depth first without recursion: a thousand views on top of each other are no reason to fail."""
    stack = [(start, False)]
    entered: set[str] = set()
    while stack:
        key, leaving = stack.pop()
        if leaving:
            rank.setdefault(key, len(rank))
        elif key not in rank and key not in entered:
            entered.add(key)
            stack.append((key, True))
            stack += [(one, False) for one in sorted(inputs.get(key, ()), reverse=True) if one in names]


def _layer(name: str) -> int:
    schema = name.partition(".")[0]
    return _LAYERS.index(schema) if schema in _LAYERS else len(_LAYERS)
