"""Operations of a change report.

They are logical: swapping two names takes two renames. ``architecture.domain.steps.report_steps`` plans the steps and
their order.
"""

from dataclasses import asdict, dataclass
from typing import Any

CREATE_TABLE, RENAME_TABLE, DROP_TABLE = "create_table", "rename_table", "drop_table"
RETIRE_TABLE, UNRETIRE_TABLE, REBUILD_TABLE = "retire_table", "unretire_table", "rebuild_table"
RENAME_COLUMN, ADD_COLUMN, WIDEN_COLUMN = "rename_column", "add_column", "widen_column"
RETYPE_COLUMN, DROP_COLUMN = "retype_column", "drop_column"
RETIRE_COLUMN, UNRETIRE_COLUMN = "retire_column", "unretire_column"
CHANGE_LOGIC = "change_logic"

BASE, HISTORY = "base", "history"

ALLOWED, NEEDS_APPROVAL, BLOCKED, METADATA_ONLY = "allowed", "needs_approval", "blocked", "metadata_only"
# From the least to the most severe.
DECISIONS = (METADATA_ONLY, ALLOWED, NEEDS_APPROVAL, BLOCKED)


@dataclass(frozen=True)
class Operation:
    """Planned change of one dataset or of its history.

    ``dataset`` is ``schema.name`` and ``column`` the column's name, both before the report. ``from_`` and ``to``
    are names of a rename, or types of a type change; ``columns`` are (stable key, type before, type after) of the
    columns that a rebuild widens. ``dataset_key`` is the stable key of the base dataset, also for a history. ``code``
    is the rule of the change policy that decided.
    """

    op: str
    dataset: str
    dataset_key: str
    side: str = BASE
    column: str = ""
    column_key: str = ""
    from_: str = ""
    to: str = ""
    columns: tuple[tuple[str, str, str], ...] = ()
    decision: str = ALLOWED
    code: str = ""
    message: str = ""
    destructive: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the operation as in a report, without empty fields."""
        renamed = self.op in (RENAME_TABLE, RENAME_COLUMN)
        optional = {
            "column": "" if renamed else self.column,
            "from": self.from_ if renamed else "",
            "to": self.to if renamed else "",
        }
        return {
            "op": self.op,
            "dataset": self.dataset,
            **{name: value for name, value in optional.items() if value},
            "decision": self.decision,
            "code": self.code,
            "message": self.message,
            "destructive": self.destructive,
        }

    def as_row(self) -> dict[str, Any]:
        """Return all fields for storage, the inverse of ``operation_of``."""
        return {**asdict(self), "columns": [list(column) for column in self.columns]}

    def describe(self) -> str:
        """Return one line of text: ``rename_column rawcore.rc_air_airport: full_name → display_name``."""
        if self.from_ and self.to:
            subject = f"{self.column} " if self.column and self.op != RENAME_COLUMN else ""
            return f"{self.op} {self.dataset}: {subject}{self.from_} → {self.to}"
        return f"{self.op} {self.dataset}{f': {self.column}' if self.column else ''}"


def operation_of(row: dict[str, Any]) -> Operation:
    """Return the operation of a dict by ``as_row``. Raise TypeError for unknown fields."""
    return Operation(**{**row, "columns": tuple(tuple(column) for column in row.get("columns", ()))})


@dataclass(frozen=True)
class Warning:
    """Warning about an operation, or a manual step. ``column`` is empty if it concerns the dataset."""

    code: str
    dataset: str
    column: str = ""
    message: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "dataset": self.dataset, "column": self.column or None, "message": self.message}
