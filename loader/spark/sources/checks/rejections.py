"""Rows of a delivery that do not fit its contract, with the reasons and their places."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from loader.domain.manifest.sources import SourceSpec
from loader.domain.refusals import Refusal
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.spark.expressions import united
from loader.spark.sources.checks.keys import CONFLICTING_ROWS, KeyedRows
from loader.spark.sources.checks.row_faults import Checked
from loader.spark.sources.opened import MALFORMED, Opened
from loader.spark.sources.provenance import with_provenance

log = logging.getLogger(__name__)

REASONS, RECORD = "\ue000reasons", "\ue000record"


@dataclass(frozen=True)
class RejectedRows:
    """Rows with faults: ``rows`` has the contract's columns as text, by their delivered names.

    Besides it has ``REASONS``, ``RECORD`` (the text of a malformed record) and the columns of provenance. The columns
    of a malformed record are NULL, since its fields may have moved into other columns. ``refusal`` names all classes of
    faults. ``is_refused``: the whole delivery is refused, since the source's options say so or no other row is left.
    """

    rows: DataFrame
    refusal: Refusal
    is_refused: bool

    def write(self, reject: Callable[["RejectedRows"], int]) -> int:
        """Return the number of rows that ``reject`` has written; its failure does not hide the refusal."""
        try:
            return reject(self)
        except Exception:  # whatever fails here, the faults of the delivery are what its sender must know
            if not self.is_refused:
                raise
            log.exception("The rejected rows of a refused delivery were not kept")
            return 0


def rejected_rows(
    opened: Opened, source: SourceSpec, delivered: DataFrame, checked: Checked, keyed: KeyedRows
) -> RejectedRows | None:
    """Return the rows of ``delivered`` with faults, None without any."""
    refusal = checked.refusal(opened, delivered, keyed.conflict)
    if refusal is None:
        return None
    parts = []
    if checked.faults:
        reasons = [F.when(kind.condition, F.lit(kind.reason)) for kind, _ in checked.faults]
        parts.append((delivered.where(checked.wrong), F.array_compact(F.array(*reasons))))
    if keyed.conflicting is not None:
        parts.append((keyed.conflicting, F.array(F.lit(CONFLICTING_ROWS))))
    is_refused = not opened.options.keeps_faulty_rows or keyed.frame.isEmpty()
    rows = united([_described(opened, source, delivered, rows, reasons) for rows, reasons in parts])
    return RejectedRows(rows, refusal, is_refused)


def _described(opened: Opened, source: SourceSpec, delivered: DataFrame, rows: DataFrame, reasons: Column) -> DataFrame:
    is_record = F.col(MALFORMED).isNull()
    values = [F.when(is_record, opened.text_of(c.name).cast("string")).alias(c.name) for c in source.columns]
    placed = with_provenance(opened, delivered, rows.withColumn(REASONS, reasons))
    return placed.select(SOURCE_FILE, SOURCE_ROW, REASONS, F.col(MALFORMED).alias(RECORD), *values)
