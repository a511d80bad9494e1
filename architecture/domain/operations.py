"""Operations: the typed, single-table steps between what is observed and what is desired."""

from dataclasses import dataclass

from architecture.domain.tables import ColumnSpec, TableSpec

CREATE_TABLE = "create_table"
ADD_COLUMN = "add_column"
RETYPE_COLUMN = "retype_column"
RENAME_COLUMN = "rename_column"
RENAME_TABLE = "rename_table"
WIDEN_COLUMN = "widen_column"
REBUILD_TABLE = "rebuild_table"

ALLOWED, BLOCKED = "allowed", "blocked"


@dataclass(frozen=True)
class Operation:
    """One planned step on one table. ``decision`` says what policy makes of it."""

    op: str
    table: TableSpec
    column: ColumnSpec | None = None
    decision: str = ALLOWED
    code: str = ""
    message: str = ""

    @property
    def dataset(self) -> str:
        return self.table.qualified_name

    def describe(self) -> str:
        """One line for people: ``add_column rawcore.rc_air_airport.lid string``."""
        subject = f"{self.op} {self.dataset}"
        return f"{subject}.{self.column.name} {self.column.type}" if self.column else subject
