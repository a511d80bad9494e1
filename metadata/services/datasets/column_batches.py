"""Batch edits of a dataset's columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from elevata.audit.services.transactions import claim, writing
from elevata.core.errors import MetadataError, StaleVersion
from elevata.core.words import counted
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.inputs import same_named
from metadata.services.datasets.targets import add_column, change_column, check_keys
from metadata.services.models import following
from metadata.services.rows.checks import check_dataset_columns
from metadata.services.rows.quoted_names import refuse_quoted_name
from metadata.services.rows.row_changes import clear_the_way


@dataclass(frozen=True)
class ColumnEdit:
    """Edit of a column. If ``column`` is None, a new column with this ``name``, whose type is in ``changes``.

    ``expected_version`` is the version the user edited; None for a new column. ``quoted_name`` accepts a new name that
    most engines need quotes for.
    """

    name: str
    changes: Mapping[str, Any]
    column: TargetColumn | None = None
    expected_version: int | None = None
    quoted_name: bool = True


@dataclass(frozen=True)
class CellProblem:
    """Error of a cell. ``field`` is empty if it concerns the whole column."""

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
        super().__init__("bad_cells", f"{counted(many, 'cell')} cannot be taken; nothing was changed", "", str(dataset))
        self.problems = tuple(problems)
        self.stale = any(problem.code == "stale_version" for problem in problems)


def edit_target_columns(
    *, dataset: TargetDataset, edits: Sequence[ColumnEdit], reason: str = "", check: bool = False
) -> list[TargetColumn]:
    """Change and add columns and return them. Raise BatchProblem with all problems.

    With ``check``, the transaction is rolled back: problems are found without writing.
    """
    with writing(reason):
        batch = _Batch(dataset)
        with following([dataset]):
            rows = batch.run(edits)
            if batch.problems:
                raise BatchProblem(dataset, batch.problems)
        if check:
            transaction.set_rollback(True)
    return rows


class _Batch:
    """Batch edit that collects the problems of all edits instead of stopping at the first."""

    def __init__(self, dataset: TargetDataset) -> None:
        self.dataset = TargetDataset.objects.select_related("schema").select_for_update(of=("self",)).get(pk=dataset.pk)
        self.problems: list[CellProblem] = []

    def run(self, edits: Sequence[ColumnEdit]) -> list[TargetColumn]:
        claimed = [self._noted(edit.name, lambda edit=edit: self._claim(edit)) for edit in edits]
        # Two columns may swap positions in the business key, so all positions are cleared first.
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
        new = add_column(self.dataset, edit.name, changes.pop("type"), changes, inputs=inputs)
        refuse_quoted_name(new, accepted=edit.quoted_name)
        return new

    def _noted(self, name: str, work: Any) -> Any:
        try:
            return work()
        except StaleVersion as problem:
            message = "was changed by another user"
            self.problems.append(CellProblem(name, "", problem.code, message))
        except MetadataError as problem:
            self.problems.append(self._placed(name, problem))
        return None

    def _placed(self, name: str, problem: MetadataError) -> CellProblem:
        """Return a problem of the dataset as a problem of the column that it names."""
        prefix = f"{self.dataset}."
        column = name or (problem.where.removeprefix(prefix) if problem.where.startswith(prefix) else "")
        field = "role" if problem.field == "key_ordinal" else problem.field
        return CellProblem(column, field, problem.code, problem.message)
