"""Operations: what a change report says will happen, each with the decision that policy took on it.

They are logical: a swap of two names is two renames. Which statements that takes, and in which
order, is a preview's business (``architecture.domain.steps.report_steps``).
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
# From the mildest to the worst.
DECISIONS = (METADATA_ONLY, ALLOWED, NEEDS_APPROVAL, BLOCKED)


@dataclass(frozen=True)
class Operation:
    """One planned change of one dataset or of its history.

    ``dataset`` is ``schema.name`` and ``column`` the column's name, both as they are before the
    report. ``from_`` and ``to`` are names where something is renamed, types where a type changes;
    ``columns`` are (stable key, type before, type after) of what a rebuild makes wider. ``key`` of
    the dataset is the base's on either side. ``code`` says why the decision is what it is.
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
        """As a report shows it; what does not apply is left out. Renames say from and to, the rest a column."""
        renamed = self.op in (RENAME_TABLE, RENAME_COLUMN)
        said = {
            "column": "" if renamed else self.column,
            "from": self.from_ if renamed else "",
            "to": self.to if renamed else "",
        }
        return {
            "op": self.op,
            "dataset": self.dataset,
            **{name: value for name, value in said.items() if value},
            "decision": self.decision,
            "code": self.code,
            "message": self.message,
            "destructive": self.destructive,
        }

    def as_row(self) -> dict[str, Any]:
        """Everything, for storage; ``operation_of`` reads it."""
        return {**asdict(self), "columns": [list(column) for column in self.columns]}

    def describe(self) -> str:
        """One line for people: ``rename_column rawcore.rc_air_airport: full_name → display_name``."""
        if self.from_ and self.to:
            subject = f"{self.column} " if self.column and self.op != RENAME_COLUMN else ""
            return f"{self.op} {self.dataset}: {subject}{self.from_} → {self.to}"
        return f"{self.op} {self.dataset}{f': {self.column}' if self.column else ''}"


def operation_of(row: dict[str, Any]) -> Operation:
    """The operation that ``as_row`` wrote. TypeError for fields that are none of its."""
    return Operation(**{**row, "columns": tuple(tuple(column) for column in row.get("columns", ()))})


@dataclass(frozen=True)
class Warning:
    """Warning about an operation, or a step to do by hand. ``column`` is empty where it is about the dataset."""

    code: str
    dataset: str
    column: str = ""
    message: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "dataset": self.dataset, "column": self.column or None, "message": self.message}
