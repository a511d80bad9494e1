"""Operations of a change report.

They are logical: swapping two names takes two renames. ``architecture.domain.steps.report_steps`` plans the steps and
their order.
"""

from dataclasses import asdict, dataclass
from typing import Any

from metadata.domain.state import ExposureState

CREATE_TABLE, RENAME_TABLE, DROP_TABLE = "create_table", "rename_table", "drop_table"
RETIRE_TABLE, UNRETIRE_TABLE, REBUILD_TABLE = "retire_table", "unretire_table", "rebuild_table"
RENAME_COLUMN, ADD_COLUMN, WIDEN_COLUMN = "rename_column", "add_column", "widen_column"
RETYPE_COLUMN, DROP_COLUMN = "retype_column", "drop_column"
RETIRE_COLUMN, UNRETIRE_COLUMN = "retire_column", "unretire_column"
CHANGE_LOGIC = "change_logic"
CHANGE_CONTRACT = "change_contract"
DROP_FEATURES = "drop_features"
# Operations whose ``from_`` and ``to`` are not types.
NAMING = (RENAME_TABLE, RENAME_COLUMN, CHANGE_CONTRACT)

_MAX_NAMED = 10

BASE, HISTORY = "base", "history"

ALLOWED, NEEDS_APPROVAL, BLOCKED, METADATA_ONLY = "allowed", "needs_approval", "blocked", "metadata_only"
# From the least to the most severe.
DECISIONS = (METADATA_ONLY, ALLOWED, NEEDS_APPROVAL, BLOCKED)


@dataclass(frozen=True)
class Operation:
    """Planned change of one dataset or of its history.

    ``dataset`` is ``schema.name`` and ``column`` the column's name, both before the report. ``from_`` and ``to``
    are names of a rename, types of a type change, or versions of a contract; ``columns`` are (stable key, type before,
    type after) of the columns that a rebuild widens. ``dataset_key`` is the stable key of the base dataset, also for a
    history. ``code`` is the rule of the change policy that decided. ``consumers`` are those of a contract that it
    breaks.
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
    consumers: tuple[ExposureState, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the operation as in a report, without empty fields."""
        named = self.op in NAMING
        optional = {
            "column": "" if named else self.column,
            "from": self.from_ if named else "",
            "to": self.to if named else "",
            "consumers": [asdict(consumer) for consumer in self.consumers],
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
        lists = {"columns": [list(column) for column in self.columns], "consumers": list(map(asdict, self.consumers))}
        return {**asdict(self), **lists}

    @property
    def renaming(self) -> str:
        """Return the names or versions: ``full_name → display_name``; ``none`` stands for an empty one."""
        return f"{self.from_ or 'none'} → {self.to or 'none'}"

    @property
    def read_by(self) -> str:
        """Return the consumers in words: ``read by dashboard Delays (Operations)``; empty without any."""
        names = [f"{item.kind} {item.name} ({item.owner})" for item in self.consumers[:_MAX_NAMED]]
        more = f" and {len(self.consumers) - _MAX_NAMED} more" if self.consumers[_MAX_NAMED:] else ""
        return f"read by {', '.join(names)}{more}" if names else ""

    def describe(self) -> str:
        """Return one line of text: ``rename_column rawcore.rc_air_airport: full_name → display_name``."""
        if self.op in NAMING:
            return f"{self.op} {self.dataset}: {self.renaming}"
        if self.from_ and self.to:
            subject = f"{self.column} " if self.column else ""
            return f"{self.op} {self.dataset}: {subject}{self.from_} → {self.to}"
        return f"{self.op} {self.dataset}{f': {self.column}' if self.column else ''}"


def operation_of(row: dict[str, Any]) -> Operation:
    """Return the operation of a dict by ``as_row``. Raise TypeError for unknown fields."""
    lists = {
        "columns": tuple(tuple(column) for column in row.get("columns", ())),
        "consumers": tuple(ExposureState(**consumer) for consumer in row.get("consumers", ())),
    }
    return Operation(**{**row, **lists})


@dataclass(frozen=True)
class Warning:
    """Warning about an operation, or a manual step. ``column`` is empty if it concerns the dataset."""

    code: str
    dataset: str
    column: str = ""
    message: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "dataset": self.dataset, "column": self.column or None, "message": self.message}
