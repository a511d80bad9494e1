"""Copies in a folder as Delta tables of their own, for engines that read files past the product."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.contract.manifest.copies import CopyTarget
from loader.contract.refusals import Refusal
from loader.domain import copies as rules
from loader.domain.copies import Content, Registered
from loader.domain.spark_failures import NO_ACCESS, cause_of
from loader.engine.copies.copied_rows import CopiedRows
from loader.engine.copies.postgres import Phase
from loader.engine.copies.results import COPIED, UNCHANGED, CopyResult
from loader.engine.java_errors import JAVA_ERRORS, thrown_by
from loader.engine.pyspark_types import jvm_of
from loader.engine.session import USER_METADATA
from loader.engine.tables.tables import DeltaTable, properties_of
from metadata.domain.copies import CHANGES, REGISTER, REPLACE
from metadata.domain.sources.locations import DELTA_LOG
from metadata.domain.sql import quote_identifier


@dataclass
class DeltaCopy:
    """Copy of a table as a Delta table in a folder."""

    session: SparkSession
    target: CopyTarget
    rows: CopiedRows
    phase: Phase
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        schema, _, name = self.target.table.partition(".")
        self.table = DeltaTable(self.session, f"{self.target.location.rstrip('/')}/{schema}", name)

    def check(self) -> Refusal | None:
        """Return the finding of a comparison; nothing is written."""
        row, exists = self._owned()
        content = _content(self.table.frame()) if exists else None
        names = [column.name for column in self.rows.columns(self.target)]
        same = exists and self.table.frame().columns == names
        return rules.finding(self.target, self.target.location, row, content, self.rows.version, same_shape=same)

    def make(self, *, verify: bool, run_id: str) -> CopyResult:
        """Bring the target to the table's version; return what was done."""
        target, version = self.target, self.rows.version
        if target.mode == CHANGES:
            self.warnings.append("the whole table was copied: folders of Delta tables are always replaced")
        row, exists = self._owned()
        same = exists
        if row is not None and exists and verify:
            same = _content(self.table.frame()) == Content(row.row_count, row.checksum)
        if row is not None and rules.is_current(target, row, version, same_shape=same):
            return CopyResult.of(UNCHANGED, version, Content(row.row_count, row.checksum))
        if exists and target.former_shape != target.shape:
            # Former versions may have values of columns that are left out now.
            self.phase(f"removing the former table in {target.system}")
            self._delete(self.table.location)
        frame = self.rows.frame(target)
        self.phase(f"writing to {target.system}")
        content = _content(frame)
        register = {
            "table_name": target.table,
            "environment": target.environment,
            "dataset": self.rows.name,
            "version": version,
            "run_id": run_id,
            "row_count": content.row_count,
            "checksum": content.checksum,
        }
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        former_metadata = self.session.conf.get(USER_METADATA, "")
        self.session.conf.set(USER_METADATA, json.dumps({REGISTER: register}))
        try:
            writer.save(self.table.location)
        finally:
            self.session.conf.set(USER_METADATA, former_metadata or "")
        self.session.sql(f"VACUUM {self.table.sql_name}")
        self._remove_former()
        result = CopyResult.of(COPIED, version, content, REPLACE)
        result.warnings = self.warnings
        return result

    def _owned(self) -> tuple[Registered | None, bool]:
        """Return the facts of the newest copy, and True if there is a table. Raise Refusal COPY_FOREIGN."""
        rules.check_outside_of_tables(self.target, self._folders_above(), self._has_log)
        snapshot = self.table.snapshot()
        exists = snapshot.version() >= 0
        row = self._registered(self.table) if exists else None
        taken = exists or self._has_files()
        rules.check_owner(self.target, self.target.table, self.target.location, exists=taken, row=row)
        if exists:
            self._refuse_constraints(snapshot)
        return row, exists

    def _folders_above(self) -> Iterator[str]:
        path, _ = self._path(self.table.location)
        while (path := path.getParent()) is not None:
            yield path.toString()

    def _has_log(self, folder: str) -> bool:
        """Return True for the folder of a Delta table; False if the user of the runner has no rights above the copy."""
        path, files = self._path(f"{folder.rstrip('/')}/{DELTA_LOG}")
        try:
            return bool(files.exists(path))
        except JAVA_ERRORS as failure:
            cause = cause_of(folder, thrown_by(failure))
            if cause is None or cause.code not in NO_ACCESS:
                raise
            return False

    def _refuse_constraints(self, snapshot: Any) -> None:
        """Raise Refusal COPY_FOREIGN for a table with CHECK constraints: Spark would evaluate what others wrote."""
        properties = properties_of(snapshot.metadata().configuration())
        if any(key.lower().startswith("delta.constraints.") for key in properties):
            raise Refusal(
                rules.FOREIGN,
                f"{self.target.table} in {self.target.location} has a CHECK constraint of another program",
                hint="Drop the constraint, or remove the table by hand.",
            )

    def _registered(self, table: DeltaTable) -> Registered | None:
        history = self.session.sql(f"DESCRIBE HISTORY {table.sql_name}").select("version", "userMetadata")
        for entry in history.orderBy(F.desc("version")).collect():
            try:
                facts = json.loads(entry.userMetadata or "{}").get(REGISTER)
            except ValueError:  # the commit of another program
                continue
            if facts:
                return Registered(**{name: facts[name] for name in Registered.__dataclass_fields__})
        return None

    def _has_files(self) -> bool:
        path, files = self._path(self.table.location)
        return bool(files.exists(path)) and len(files.listStatus(path)) > 0

    def _remove_former(self) -> None:
        """Remove the table of the copy's former name, if the copy made it."""
        schema, _, name = self.target.former_table.partition(".")
        if self.target.former_table in ("", self.target.table):
            return
        former = DeltaTable(self.session, f"{self.target.location.rstrip('/')}/{schema}", name)
        row = self._registered(former) if former.snapshot().version() >= 0 else None
        if row is not None and row.environment == self.target.environment and row.dataset in self.target.owners:
            self._delete(former.location)

    def _delete(self, location: str) -> None:
        path, files = self._path(location)
        files.delete(path, True)
        jvm_of(self.session).org.apache.spark.sql.delta.DeltaLog.clearCache()
        schema, _, name = self.target.table.partition(".")
        self.table = DeltaTable(self.session, f"{self.target.location.rstrip('/')}/{schema}", name)

    def _path(self, location: str) -> tuple[Any, Any]:
        path = jvm_of(self.session).org.apache.hadoop.fs.Path(location)
        return path, path.getFileSystem(self.session._jsc.hadoopConfiguration())


def _content(frame: DataFrame) -> Content:
    """Return number and checksum of rows; the order of rows does not matter."""
    columns = [F.col(quote_identifier(name)) for name in frame.columns]
    row_hash = F.xxhash64(*columns).cast("decimal(38,0)")
    (row,) = frame.agg(F.count(F.lit(1)).alias("rows"), F.coalesce(F.sum(row_hash), F.lit(0)).alias("sum")).collect()
    return Content(row["rows"], str(row["sum"]))
