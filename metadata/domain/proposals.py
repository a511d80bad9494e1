"""Differences between a delivery and its contract."""

from collections.abc import Iterable
from dataclasses import dataclass

from metadata.domain.types import DataType


@dataclass(frozen=True)
class DeliveredColumn:
    """A column as a file has it, or as the contract has it (then it may be out of use)."""

    name: str
    type: DataType
    active: bool = True

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "type": str(self.type)}


@dataclass(frozen=True)
class ColumnProposals:
    """Differences between the columns of a delivery and of its contract.

    ``new`` columns can be taken, ``returning`` ones were in the contract once and can be again,
    ``missing`` ones are promised but not delivered, ``clashing`` ones differ from a known column only
    by case, which a table cannot hold. Types found in a file are guesses: they are not compared.
    """

    new: tuple[DeliveredColumn, ...] = ()
    returning: tuple[DeliveredColumn, ...] = ()
    missing: tuple[DeliveredColumn, ...] = ()
    clashing: tuple[DeliveredColumn, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.returning)


def compare(known: Iterable[DeliveredColumn], delivered: Iterable[DeliveredColumn]) -> ColumnProposals:
    """Columns go by their exact name. The order of a file says nothing but where new columns follow."""
    by_name = {column.name: column for column in known}
    held = {name.lower() for name in by_name}
    new, returning, clashing, seen = [], [], [], set()
    for column in delivered:
        match = by_name.get(column.name)
        if match is not None:
            if not match.active:
                returning.append(match)
        elif column.name.lower() in held:
            clashing.append(column)
        else:
            new.append(column)
            held.add(column.name.lower())
        seen.add(column.name)
    missing = tuple(c for c in by_name.values() if c.active and c.name not in seen)
    return ColumnProposals(tuple(new), tuple(returning), missing, tuple(clashing))
