"""Contracts of datasets: changes that break them, and their versions.

A dataset in the metadata that is declared a contract promises its name, columns, types, nullability, business key and
checks. The applied state keeps what was promised last, so a report compares it with what the dataset promises now.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.operations import Operation
from architecture.domain.state_files import flat
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


def promise_of(dataset: DatasetState | None) -> ContractState | None:
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


def promised_by(dataset: DatasetState) -> ContractState | None:
    """Return what a current dataset has promised: its applied contract, or that of a state file without a version."""
    contract = dataset.contract
    return contract if contract is not None and contract.version else promise_of(dataset)


def with_contract_in_force(applied: DatasetState) -> DatasetState:
    """Return an applied dataset without a contract that no execution has put in force."""
    is_in_force = applied.contract is None or applied.contract.version
    return applied if is_in_force else replace(applied, contract=None)


def is_kept(applied: DatasetState, desired: DatasetState) -> bool:
    """Return True if the applied contract promises exactly what the desired dataset does."""
    before = applied.contract
    return (None if before is None else replace(before, version="")) == promise_of(desired)


def compare(before: ContractState | None, after: ContractState | None) -> ContractChange:
    """Return the differences between what was promised and what is promised now."""
    if after is None:
        return ContractChange(("the contract is withdrawn",)) if before is not None else ContractChange()
    if before is None:
        return ContractChange(compatible=("a new contract",))
    breaks, compatible = [], []
    if before.dataset != after.dataset:
        breaks.append(f"{before.dataset} is renamed to {after.dataset}")
    for is_break, clause in (*_column_changes(before, after), *_key_change(before, after), *_checks(before, after)):
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
    was, is_ = promised_by(before) if before else None, promise_of(after)
    change = compare(was, is_)
    dataset = before or after
    if not change or dataset is None:
        return None
    version = was.version if was else ""
    following = "" if is_ is None else FIRST_VERSION if was is None else next_version(version, change)
    consumers = (after or dataset).exposures if change.breaks else ()
    return Operation(
        ops.CHANGE_CONTRACT,
        dataset.qualified_name,
        dataset.key,
        from_=version,
        to=following,
        code=BREAKS_CONTRACT if change.breaks else "",
        message="; ".join((*change.breaks, *change.compatible)),
        consumers=consumers,
    )


def contract_document(operation: Operation) -> dict[str, Any]:
    """Return a broken contract as JSON: dataset, versions and consumers."""
    consumers = [asdict(consumer) for consumer in operation.consumers]
    return {"dataset": operation.dataset, "from": operation.from_, "to": operation.to, "consumers": consumers}


def in_words(broken: Iterable[Operation]) -> str:
    """Return broken contracts with their consumers, for a message."""
    parts = ((f"the contract of {item.dataset}", item.read_by) for item in broken)
    return " and ".join(", ".join(filter(None, part)) for part in parts)


# Clauses, each with True if it breaks the promise.
_Clauses = Iterator[tuple[bool, str]]


def _column_changes(before: ContractState, after: ContractState) -> _Clauses:
    now = {column.name: column for column in after.columns}
    for was in before.columns:
        column = now.pop(was.name, None)
        if column is None:
            yield True, f"column {was.name} is gone"
            continue
        kind = classify(was.type, column.type)
        if kind is not TypeChange.EQUIVALENT:
            # Readers of the old type take every value of the new one if the old type is the wider of the two.
            fits = classify(column.type, was.type).widens
            yield not fits, f"column {was.name} was {was.type} and is {column.type}"
        if was.nullable != column.nullable:
            yield column.nullable, f"column {was.name} {'may be' if column.nullable else 'is never'} NULL"
    for name in sorted(now):
        yield False, f"column {name} is new"


def _key_change(before: ContractState, after: ContractState) -> _Clauses:
    was, is_ = _key(before.columns), _key(after.columns)
    if was != is_:
        yield bool(was), f"the key was {', '.join(was) or 'not declared'} and is {', '.join(is_) or 'not declared'}"


def _key(columns: Iterable[PromisedColumn]) -> tuple[str, ...]:
    return tuple(sorted(column.name for column in columns if column.is_key))


def _checks(before: ContractState, after: ContractState) -> _Clauses:
    now: dict[str, CheckState] = {check.key: check for check in after.checks}
    texts = {column.name.lower() for column in (*before.columns, *after.columns) if parse(column.type).name in TEXTS}
    for was in before.checks:
        check = now.pop(was.key, None)
        if check is None:
            yield True, f"check {was.name} is removed"
        elif not is_at_least_as_strict(check, was, texts):
            yield True, f"check {was.name} is weaker, or checks something else"
        elif check != was:
            yield False, f"check {check.name} is stricter" if check.name == was.name else f"check {was.name} is renamed"
    for check in now.values():
        yield False, f"check {check.name} is new"
