"""Contracts of datasets: changes that break them, and their versions.

A dataset in the metadata that is declared a contract promises its name, columns, types, nullability, business key and
checks. The applied state keeps what was promised last, so a report compares it with what the dataset promises now.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.operations import Operation
from architecture.domain.states.flat_states import flat
from architecture.domain.type_changes import TypeChange, classify
from metadata.domain.quality.check_kinds import TEXTS
from metadata.domain.quality.check_strength import is_at_least_as_strict
from metadata.domain.state import (
    BUSINESS_KEY,
    TECHNICAL,
    CheckState,
    ContractState,
    DatasetState,
    PromisedColumn,
)
from metadata.domain.types import parse

# Code of an operation that breaks a contract, in the change policy.
BREAKS_CONTRACT = "BREAKS_CONTRACT"
FIRST_VERSION = "1.0"


@dataclass(frozen=True)
class ContractChange:
    """Differences between two promises, each a clause: ``breaks`` fail readers of the old one."""

    breaks: tuple[str, ...] = ()
    compatible: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.breaks or self.compatible)


def desired_contract(dataset: DatasetState | None) -> ContractState | None:
    """Return what a described dataset promises, without a version; None if it is no contract or not in use."""
    if dataset is None or dataset.contract is None or not dataset.active:
        return None
    columns = (
        PromisedColumn(column.name, column.type, column.nullable, column.role == BUSINESS_KEY)
        for column in flat(dataset).active_columns
        if column.role != TECHNICAL
    )
    return ContractState(
        checks=tuple(sorted(dataset.contract.checks, key=lambda check: check.key)),
        dataset=dataset.qualified_name,
        columns=tuple(sorted(columns, key=lambda column: column.name)),
    )


def current_contract(dataset: DatasetState) -> ContractState | None:
    """Return what a current dataset has promised: its applied contract, or that of a state file without a version."""
    contract = dataset.contract
    return contract if contract is not None and contract.version else desired_contract(dataset)


def with_contract_in_force(applied: DatasetState) -> DatasetState:
    """Return an applied dataset without a contract that no execution has put in force."""
    is_in_force = applied.contract is None or applied.contract.version
    return applied if is_in_force else replace(applied, contract=None)


def is_contract_unchanged(applied: DatasetState, desired: DatasetState) -> bool:
    """Return True if the applied contract promises exactly what the desired dataset does."""
    before = applied.contract
    return (None if before is None else replace(before, version="")) == desired_contract(desired)


def compare(before: ContractState | None, after: ContractState | None) -> ContractChange:
    """Return the differences between what was promised and what is promised now."""
    if after is None:
        return ContractChange(("the contract is withdrawn",)) if before is not None else ContractChange()
    if before is None:
        return ContractChange(compatible=("a new contract",))
    breaks: list[str] = []
    compatible: list[str] = []
    if before.dataset != after.dataset:
        breaks.append(f"{before.dataset} is renamed to {after.dataset}")
    for is_break, clause in (
        *_column_changes(before, after),
        *_key_change(before, after),
        *_check_changes(before, after),
    ):
        (breaks if is_break else compatible).append(clause)
    return ContractChange(tuple(breaks), tuple(compatible))


def next_version(version: str, change: ContractChange) -> str:
    """Return the version after a change: a break raises the major number, any other change the minor one."""
    major, _, minor = (version or FIRST_VERSION).partition(".")
    return f"{int(major) + 1}.0" if change.breaks else f"{major}.{int(minor) + 1}"


def contract_operation(before: DatasetState | None, after: DatasetState | None) -> Operation | None:
    """Return the operation that changes a dataset's contract; None if it stays as it is.

    ``before`` is the current dataset, ``after`` the desired one; None for a missing one.
    """
    current, desired = current_contract(before) if before else None, desired_contract(after)
    change = compare(current, desired)
    dataset = before or after
    if not change or dataset is None:
        return None
    version = current.version if current else ""
    new_version = "" if desired is None else FIRST_VERSION if current is None else next_version(version, change)
    consumers = (after or dataset).exposures if change.breaks else ()
    return Operation(
        ops.CHANGE_CONTRACT,
        dataset.qualified_name,
        dataset.key,
        from_=version,
        to=new_version,
        code=BREAKS_CONTRACT if change.breaks else "",
        message="; ".join((*change.breaks, *change.compatible)),
        consumers=consumers,
    )


def contract_document(operation: Operation) -> dict[str, Any]:
    """Return a broken contract as JSON: dataset, versions and consumers."""
    consumers = [asdict(consumer) for consumer in operation.consumers]
    return {"dataset": operation.dataset, "from": operation.from_, "to": operation.to, "consumers": consumers}


def contracts_text(broken: Iterable[Operation]) -> str:
    """Return broken contracts with their consumers, for a message."""
    parts = ((f"the contract of {item.dataset}", item.read_by) for item in broken)
    return " and ".join(", ".join(filter(None, part)) for part in parts)


# Clauses, each with True if it breaks the promise.
_Clauses = Iterator[tuple[bool, str]]


def _column_changes(before: ContractState, after: ContractState) -> _Clauses:
    remaining = {column.name: column for column in after.columns}
    for old in before.columns:
        new = remaining.pop(old.name, None)
        if new is None:
            yield True, f"column {old.name} is removed"
            continue
        kind = classify(old.type, new.type)
        if kind is not TypeChange.EQUIVALENT:
            # Readers of the old type take every value of the new one if the old type is the wider of the two.
            fits = classify(new.type, old.type).widens
            yield not fits, f"column {old.name} was {old.type} and is {new.type}"
        if old.nullable != new.nullable:
            yield new.nullable, f"column {old.name} {'may be' if new.nullable else 'is never'} NULL"
    for name in sorted(remaining):
        yield False, f"column {name} is new"


def _key_change(before: ContractState, after: ContractState) -> _Clauses:
    old, new = _key(before.columns), _key(after.columns)
    if old != new:
        yield bool(old), f"the key was {', '.join(old) or 'not declared'} and is {', '.join(new) or 'not declared'}"


def _key(columns: Iterable[PromisedColumn]) -> tuple[str, ...]:
    return tuple(sorted(column.name for column in columns if column.is_key))


def _check_changes(before: ContractState, after: ContractState) -> _Clauses:
    remaining: dict[str, CheckState] = {check.key: check for check in after.checks}
    texts = {column.name.lower() for column in (*before.columns, *after.columns) if parse(column.type).name in TEXTS}
    for old in before.checks:
        new = remaining.pop(old.key, None)
        if new is None:
            yield True, f"check {old.name} is removed"
            continue
        if new.name != old.name:
            yield False, f"check {old.name} is renamed to {new.name}"
        if not is_at_least_as_strict(new, old, texts):
            yield True, f"check {new.name} is weaker, or checks something else"
        elif replace(new, name=old.name) != old:
            yield False, f"check {new.name} is changed and still at least as strict"
    for check in remaining.values():
        yield False, f"check {check.name} is new"
