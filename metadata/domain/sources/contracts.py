"""Source contracts: differences from a delivery."""

from collections.abc import Iterable
from dataclasses import dataclass

from metadata.domain.types import DataType

# Rules for columns that a source delivers and its contract lacks: propose them, take them at once, or ignore them.
PROPOSE, TAKE, IGNORE = "propose", "take", "ignore"
NEW_COLUMNS = (PROPOSE, TAKE, IGNORE)


@dataclass(frozen=True)
class DeliveredColumn:
    """Column of a file or of the contract; a contract column may be inactive."""

    name: str
    type: DataType
    active: bool = True

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "type": str(self.type)}


@dataclass(frozen=True)
class ColumnProposals:
    """Differences between the columns of a delivery and of its contract.

    ``new`` columns can be added, ``returning`` ones are inactive in the contract and can be reactivated,
    ``missing`` ones are in the contract but not delivered, ``clashing`` ones differ from a known column only
    by case, which a table cannot store. Types found in a file are guesses, so they are not compared.
    """

    new: tuple[DeliveredColumn, ...] = ()
    returning: tuple[DeliveredColumn, ...] = ()
    missing: tuple[DeliveredColumn, ...] = ()
    clashing: tuple[DeliveredColumn, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.returning)


def compare(known: Iterable[DeliveredColumn], delivered: Iterable[DeliveredColumn]) -> ColumnProposals:
    """Return the differences between contract and delivery; columns are matched by their exact name.

    The order of the file decides only on the order of new columns.
    """
    by_name = {column.name: column for column in known}
    names = {name.lower() for name in by_name}
    new, returning, clashing, seen = [], [], [], set()
    for column in delivered:
        match = by_name.get(column.name)
        if match is not None:
            if not match.active:
                returning.append(match)
        elif column.name.lower() in names:
            clashing.append(column)
        else:
            new.append(column)
            names.add(column.name.lower())
        seen.add(column.name)
    missing = tuple(c for c in by_name.values() if c.active and c.name not in seen)
    return ColumnProposals(tuple(new), tuple(returning), missing, tuple(clashing))
