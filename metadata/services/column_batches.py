"""Batch edit of a dataset's columns: all changes or none, with each problem reported by cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from elevata.core.errors import MetadataError, StaleVersion
from metadata.models import TargetColumn, TargetDataset
from metadata.services.checks import check_dataset_columns
from metadata.services.common import claim, writing
from metadata.services.import_rows import clear_the_way
from metadata.services.targets import add_column, change_column, check_keys, same_named


@dataclass(frozen=True)
class ColumnEdit:
    """Wanted state of one column; ``column`` None: a new one called ``name``, with its type in ``changes``.

    ``expected_version`` is the version the user edited; None for a new column.
    """

    name: str
    changes: Mapping[str, Any]
    column: TargetColumn | None = None
    expected_version: int | None = None


@dataclass(frozen=True)
class CellProblem:
    """Reason for refusing one cell; ``field`` is empty if it is about the whole column."""

    column: str
    field: str
    code: str
    message: str


class BatchProblem(MetadataError):
    """Error with all refused cells; no change was written.

    ``stale``: another user changed a column meanwhile.
    """

    def __init__(self, dataset: TargetDataset, problems: Sequence[CellProblem]) -> None:
        many = len(problems)
        super().__init__(
            "bad_cells", f"{many} cell{'' if many == 1 else 's'} cannot be taken; nothing was changed", "", str(dataset)
        )
        self.problems = tuple(problems)
        self.stale = any(problem.code == "stale_version" for problem in problems)


def edit_target_columns(
    *, dataset: TargetDataset, edits: Sequence[ColumnEdit], reason: str = "", check: bool = False
) -> list[TargetColumn]:
    """Change and add columns and return them; BatchProblem with all problems.

    With ``check``, the transaction is rolled back, to find problems without writing.
    """
    with writing(reason):
        batch = _Batch(dataset)
        rows = batch.run(edits)
        if batch.problems:
            raise BatchProblem(dataset, batch.problems)
        if check:
            transaction.set_rollback(True)
    return rows


class _Batch:
    """Run of a batch edit that collects the problems of all edits instead of stopping at the first."""

    def __init__(self, dataset: TargetDataset) -> None:
        self.dataset = TargetDataset.objects.select_related("schema").select_for_update(of=("self",)).get(pk=dataset.pk)
        self.problems: list[CellProblem] = []

    def run(self, edits: Sequence[ColumnEdit]) -> list[TargetColumn]:
        claimed = [self._noted(edit.name, lambda edit=edit: self._claim(edit)) for edit in edits]
        # Two columns may change places in the business key, so first nobody has one.
        self._noted(
            "",
            lambda: clear_the_way(
                [
                    (row, row.name, edit.changes.get("key_ordinal", row.key_ordinal))
                    for edit, row in zip(edits, claimed, strict=True)
                    if row is not None
                ]
            ),
        )
        rows = [
            self._noted(edit.name, lambda edit=edit, row=row: self._write(edit, row))
            for edit, row in zip(edits, claimed, strict=True)
            if edit.column is None or row is not None
        ]
        if not self.problems:
            self._noted("", lambda: check_dataset_columns(self.dataset))
            self._noted("", lambda: check_keys(self.dataset, {name for edit in edits for name in edit.changes}))
        return [row for row in rows if row is not None]

    def _claim(self, edit: ColumnEdit) -> TargetColumn | None:
        if edit.column is None:
            return None
        if edit.column.dataset_id != self.dataset.pk or not edit.column.active:
            raise MetadataError("invalid", f"is no column in use of {self.dataset}", "", edit.name)
        row = claim(edit.column, edit.expected_version or 0)
        row.dataset = self.dataset
        return row

    def _write(self, edit: ColumnEdit, row: TargetColumn | None) -> TargetColumn:
        changes = dict(edit.changes)
        if row is not None:
            change_column(row, changes)
            return row
        if "type" not in changes:
            raise MetadataError("missing_field", "a new column needs a type", "type", edit.name)
        inputs = None if changes.get("expression") else same_named(self.dataset, edit.name)
        return add_column(self.dataset, edit.name, changes.pop("type"), changes, inputs=inputs)

    def _noted(self, name: str, work: Any) -> Any:
        try:
            return work()
        except StaleVersion as problem:
            said = "was changed by somebody else in the meantime"
            self.problems.append(CellProblem(name, "", problem.code, said))
        except MetadataError as problem:
            self.problems.append(self._placed(name, problem))
        return None

    def _placed(self, name: str, problem: MetadataError) -> CellProblem:
        """Return a problem of the dataset as a problem of the column that it names."""
        prefix = f"{self.dataset}."
        column = name or (problem.where.removeprefix(prefix) if problem.where.startswith(prefix) else "")
        field = "role" if problem.field == "key_ordinal" else problem.field
        return CellProblem(column, field, problem.code, problem.message)
