"""Selection of a table's rows for a page: conditions, a text to find, order and offset.

Pure: the arguments of a read as JSON values, checked against the described columns.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from loader.contract.refusals import Refusal

CONTAINS, EQUALS, STARTS, LESS, GREATER, NULL, NOT_NULL = (
    *("contains", "equals", "starts", "less", "greater"),
    *("null", "not_null"),
)
COMPARISONS = {
    CONTAINS: "contains",
    EQUALS: "equals",
    STARTS: "starts with",
    LESS: "is less than",
    GREATER: "is greater than",
    NULL: "is NULL",
    NOT_NULL: "is not NULL",
}
WITHOUT_VALUE = (NULL, NOT_NULL)
# Rows before the last page. Spark reads all rows that it leaves out.
MOST_OFFSET = 1_000_000
LONGEST_TEXT = 200


@dataclass(frozen=True)
class RowSelection:
    """Selected rows. ``find`` is searched in every column; ``column``, ``comparison`` and ``value`` are a condition.

    ``sort`` is a column, empty for the order in which rows are stored. ``failing`` is the stable key of a quality
    check, whose failing rows are chosen.
    """

    find: str = ""
    column: str = ""
    comparison: str = CONTAINS
    value: str = ""
    sort: str = ""
    descending: bool = False
    offset: int = 0
    failing: str = ""

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> "RowSelection":
        """Return the selection in the arguments of a read; other arguments are left out."""
        return cls(**{name: arguments[name] for name in cls.__dataclass_fields__ if name in arguments})

    def as_arguments(self) -> dict[str, Any]:
        """Return the fields that differ from the selection of all rows."""
        whole = RowSelection()
        chosen = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if not self.column:
            chosen |= {"comparison": whole.comparison, "value": ""}
        return {name: value for name, value in chosen.items() if value != getattr(whole, name)}

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns by which rows are chosen or ordered."""
        return tuple(dict.fromkeys(name for name in (self.column, self.sort) if name))

    def check(self, columns: Collection[str]) -> None:
        """Raise Refusal for an unknown column or comparison, or an offset out of range."""
        unknown = next((name for name in self.columns if name not in columns), None)
        if unknown is not None:
            raise Refusal(
                "NO_COLUMN", f"the table has no column {unknown}", hint="Choose a column of the table.", column=unknown
            )
        if self.column and self.comparison not in COMPARISONS:
            raise Refusal("BAD_SELECTION", f"there is no comparison {self.comparison!r}")
        if not 0 <= self.offset <= MOST_OFFSET:
            raise Refusal("BAD_SELECTION", f"the first row lies beyond {MOST_OFFSET:,}", hint="Filter the rows.")
