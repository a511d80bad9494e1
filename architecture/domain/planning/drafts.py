"""Operations on their way into a report: what waits for a name that another must give up first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from architecture.domain.operations import BLOCKED, Operation
from architecture.domain.policy import NAME_TAKEN


@dataclass(frozen=True)
class Draft:
    """An operation with the name it ``takes`` and the one it ``frees`` in a ``space`` of names.

    A table's columns are one space, and so are all tables; names stand in lower case. ``alters``: what others read
    of the dataset may come out differently.
    """

    operation: Operation
    takes: str = ""
    frees: str = ""
    space: str = ""
    alters: bool = False


def block_taken_names(drafts: Iterable[Draft], held: Mapping[str, frozenset[str]]) -> list[Draft]:
    """The drafts, with those blocked whose name is not given up, and what depends on them in turn.

    ``held`` are the names in use, by space. Base and history of one change share their fate.
    """
    drafts = list(drafts)
    freeing = {(draft.space, draft.frees): index for index, draft in enumerate(drafts) if draft.frees}
    twins: dict[tuple, list[int]] = {}
    waiting: dict[int, list[int]] = {}
    pending = []
    for index, draft in enumerate(drafts):
        if not draft.takes or draft.takes == draft.frees:
            continue
        twins.setdefault(_twin(draft), []).append(index)
        if draft.takes in held.get(draft.space, ()):
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
        drafts[index] = _blocked(drafts[index])
        pending += [*waiting.get(index, ()), *twins[_twin(drafts[index])]]
    return drafts


def _twin(draft: Draft) -> tuple[str, str, str]:
    return draft.operation.dataset_key, draft.operation.op, draft.operation.column_key


def _blocked(draft: Draft) -> Draft:
    message = f"the name {draft.takes} is still held; let go first what holds it, or take another name"
    operation = replace(draft.operation, decision=BLOCKED, code=NAME_TAKEN, message=message)
    return replace(draft, operation=operation)
