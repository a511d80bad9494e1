"""Rows of a table as a copy has them, at one version."""

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.contract.manifest.copies import CopyColumn, CopyTarget
from loader.contract.refusals import Refusal
from loader.domain.copies import GONE
from loader.engine.tables.commits import open_files
from loader.engine.tables.table_files import TableFiles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.copies import HASH
from metadata.domain.sql import quote_identifier


@dataclass
class CopiedRows:
    """Rows of a table, from the version that is the newest at the first access. ``secret`` is the key of hashes."""

    session: SparkSession
    table: DeltaTable
    name: str
    secret: str

    @cached_property
    def _files(self) -> TableFiles:
        return open_files(self.session, self.table)

    @cached_property
    def version(self) -> int:
        version = self._files.version
        if version < 0:
            raise Refusal("NO_TABLE", f"{self.name} has no table to copy", hint="Load it first.")
        return version

    @cached_property
    def _frame(self) -> DataFrame:
        return self.table.frame_as_of(self.version)

    @cached_property
    def row_count(self) -> int:
        rows = self._files.rows()
        return self._frame.count() if rows is None else rows

    def columns(self, target: CopyTarget) -> list[CopyColumn]:
        """Return the columns of the copy that the table has. Raise Refusal NO_COLUMNS if there is none."""
        present = {name.lower() for name in self._frame.columns}
        columns = [column for column in target.columns if column.name.lower() in present]
        if not columns:
            hint = "Columns are left out that are sensitive, or that the table does not have yet."
            raise Refusal("NO_COLUMNS", f"{self.name} has no column to copy to {target.system}", hint=hint)
        return columns

    def frame(self, target: CopyTarget) -> DataFrame:
        """Return all rows with the columns of the copy."""
        return self._selected(self._frame, target)

    def changes(self, target: CopyTarget, since: int) -> DataFrame:
        """Return rows that were added or changed since a version, and the keys of all that changed, which are ``GONE``.

        Rows are taken from files that came since. Another file has a changed key only if the key is not unique, or if
        an earlier version was restored.
        """
        keys = self._files.changed_rows(since, target.keys).distinct()
        added = self._files.added_rows(since).join(F.broadcast(keys), list(target.keys), "left_semi")
        rows = self._selected(added, target).withColumn(GONE.name, F.lit(False))
        gone = keys.select(*(self._value(column) for column in self.columns(target) if column.name in target.keys))
        return rows.unionByName(gone.withColumn(GONE.name, F.lit(True)), allowMissingColumns=True)

    def _selected(self, frame: DataFrame, target: CopyTarget) -> DataFrame:
        return frame.select(*(self._value(column) for column in self.columns(target)))

    def _value(self, column: CopyColumn) -> Column:
        value = F.col(quote_identifier(column.name))
        if column.treatment == HASH:
            value = F.sha2(F.concat(F.lit(self.secret), value.cast("string")), 256)
        return value.alias(column.name)
