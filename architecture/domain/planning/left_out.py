"""Datasets that a report leaves out, because the change policy blocks their changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from architecture.domain.operations import BLOCKED, Operation, Warning
from architecture.domain.planning.plan import Planned
from metadata.domain.naming import HISTORY_SUFFIX

LEFT_OUT = "LEFT_OUT"


@dataclass(frozen=True)
class LeftOut:
    """Datasets left out of a scope: their stable keys, before and desired, and a warning for each, by dataset key."""

    keys: frozenset[str]
    warnings: Mapping[str, Warning]


def left_out(planned: Planned, keys: frozenset[str]) -> LeftOut:
    """Return the datasets in scope (``keys``) whose changes cannot be executed now.

    These are the datasets with a blocked operation, and changed datasets that read one of them, directly or through
    others. Leaving these out can block further operations, which needed theirs.
    """
    desired, readers = planned.desired_keys, _readers(planned.inputs)
    warnings: dict[str, Warning] = {}
    while True:
        out = frozenset(warnings) | {desired[key] for key in warnings if key in desired}
        operations = planned.within(keys - out).operations
        blocked = {operation.dataset_key: operation for operation in operations if operation.decision == BLOCKED}
        if not blocked:
            return LeftOut(keys & out, warnings)
        for key, operation in blocked.items():
            warnings[key] = Warning(LEFT_OUT, operation.dataset, operation.column, _reason(operation))
        names = {operation.dataset_key: operation.dataset.removesuffix(HISTORY_SUFFIX) for operation in operations}
        for key in blocked:
            for reader in _downstream(key, readers):
                if reader in names and reader not in warnings:
                    message = f"is left out: it reads {names[key]}, which is left out"
                    warnings[reader] = Warning(LEFT_OUT, names[reader], message=message)


def _reason(operation: Operation) -> str:
    return f"is left out: {operation.describe()} is blocked ({operation.code}), {operation.message}"


def _readers(inputs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {}
    for reader, keys in inputs.items():
        for key in keys:
            readers.setdefault(key, []).append(reader)
    return readers


def _downstream(key: str, readers: Mapping[str, Iterable[str]]) -> list[str]:
    downstream, waiting = [], [key]
    while waiting:
        for reader in readers.get(waiting.pop(), ()):
            if reader not in downstream:
                downstream.append(reader)
                waiting.append(reader)
    return downstream
