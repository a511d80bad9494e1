"""Drafts of operations, and the check that the names they take are free."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from architecture.domain.operations import BLOCKED, Operation
from architecture.domain.policy_rules import NAME_TAKEN


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
