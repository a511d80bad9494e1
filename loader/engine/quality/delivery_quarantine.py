"""Quarantine of a raw dataset: rows of its deliveries that do not fit the contract.

It is a table like any quarantine (``loader.engine.quality.quarantine``). Rows of a delivery that was loaded without
them wait until they are dropped, or until a complete delivery replaces them. They cannot be released: their values do
not fit. The first rows of a refused delivery are kept in the state ``refused``, so that they can be downloaded, until
the next refusal or the next delivery that is loaded.
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from loader.contract.manifest.loads import RawcoreLoad, RawLoad
from loader.domain.queries.answers import LONGEST_KEPT, MOST_QUARANTINED
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.engine.historization.targets import Stamp
from loader.engine.quality.quarantine import FILE, RECORD_TEXT, REFUSED, ROW, WAITING, quarantine_table
from loader.engine.sources.checks.rejections import REASONS, RECORD, RejectedRows
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sources.option_kinds import FAULTY_ROWS, QUARANTINE
from metadata.domain.sql import quote_identifier, quote_text

# Notes of a raw commit: number of rows that its delivery lacks, since they were quarantined; the reason why others
# may be missing.
LACKS, UNPROVEN = "quarantined", "unproven"


@dataclass(frozen=True)
class DeliveryQuarantine:
    """Quarantine of one load's deliveries."""

    session: SparkSession
    warehouse: str
    load: RawLoad
    stamp: Stamp

    @property
    def table(self) -> DeltaTable:
        return quarantine_table(self.session, self.warehouse, self.load.table.key)

    @property
    def _is_complete(self) -> bool:
        """Return True if a delivery has all rows, so that those of earlier ones need not wait any longer."""
        return not self.load.feed and not self.load.source.intake

    def write(self, rejected: RejectedRows) -> int:
        """Write the rows in place of those of an earlier attempt of the run; return their number."""
        rows = rejected.rows
        if rejected.is_refused:
            rows = rows.orderBy(SOURCE_FILE, SOURCE_ROW).limit(MOST_QUARANTINED)
        state, own = REFUSED if rejected.is_refused else WAITING, f"run_id = {quote_text(self.stamp.run_id)}"
        waits_for_all = self._is_complete and not rejected.is_refused
        replaced = f"state = '{REFUSED}' OR (state = '{WAITING}' AND {'true' if waits_for_all else own})"
        values = [F.lit(FILE), F.col(SOURCE_FILE), F.lit(ROW), F.col(SOURCE_ROW).cast("string")]
        values += [F.lit(RECORD_TEXT), F.left(RECORD, F.lit(LONGEST_KEPT))]
        keys = {column.name: column.key or column.name for column in self.load.table.columns}
        for raw_name, name in self.load.columns:
            values += [F.lit(keys[raw_name]), F.left(quote_identifier(name), F.lit(LONGEST_KEPT))]
        entry = F.sha2(F.to_json(F.array(F.lit(self.load.table.key), *values)), 256)
        entries = rows.select(
            entry.alias("entry_id"),
            F.lit(self.stamp.run_id).alias("run_id"),
            self.stamp.loaded().alias("quarantined_at"),
            F.col(REASONS).alias("checks"),
            F.col(REASONS).alias("reasons"),
            F.create_map(*values).alias("row_values"),
            F.lit(state).alias("state"),
            F.lit(None).cast("string").alias("decided_by"),
            F.lit(None).cast("string").alias("loaded_by"),
        )
        entries.write.format("delta").mode("overwrite").option("replaceWhere", replaced).save(self.table.location)
        return self.table.frame().where(f"state = '{state}' AND {own}").count()

    def clear(self) -> None:
        """Remove the rows of refused deliveries after a delivery without faults; if it is complete, all that wait."""
        if self.table.exists():
            states = f"'{REFUSED}', '{WAITING}'" if self._is_complete else f"'{REFUSED}'"
            self.session.sql(f"DELETE FROM {self.table.sql_name} WHERE state IN ({states})")


def lacking(session: SparkSession, warehouse: str, load: RawcoreLoad) -> str:
    """Return the reason why deliveries that the load reads lack rows, or may lack some; empty if they have all."""
    for stage_input in load.inputs:
        if stage_input.options.get(FAULTY_ROWS) == QUARANTINE or "paging" in stage_input.options:
            commit = DeltaTable(session, warehouse, stage_input.table.key).newest_run_commit()
            notes = commit.notes if commit is not None else {}
            if notes.get(LACKS):
                return "Rows of its delivery were quarantined"
            if notes.get(UNPROVEN):
                return "Its delivery is not proven complete"
    return ""


def notes_of(quarantined: int, doubt: str) -> dict[str, str]:
    """Return the notes of a raw commit about rows that its delivery lacks."""
    return ({LACKS: str(quarantined)} if quarantined else {}) | ({UNPROVEN: doubt} if doubt else {})
