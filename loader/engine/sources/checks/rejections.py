"""Rows of a delivery that do not fit its contract, with the reasons and their places."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.engine.expressions import united
from loader.engine.sources.checks.keys import CONFLICTING_ROWS, KeyedRows
from loader.engine.sources.checks.row_faults import CheckResult
from loader.engine.sources.opened import MALFORMED, Opened
from loader.engine.sources.provenance import with_provenance

log = logging.getLogger(__name__)

REASONS, RECORD = "\ue000reasons", "\ue000record"


@dataclass(frozen=True)
class RejectedRows:
    """Rows of a delivery with faults, and the refusal that names them.

    ``rows``: the contract's columns as text, by their delivered names; ``REASONS``, the codes of a row's faults;
    ``RECORD``, the text of a malformed record, whose columns are NULL because its fields may have moved into other
    columns; and the columns of provenance. ``refusal`` names all classes of faults. ``is_refused``: the delivery is
    refused as a whole, because the source's options say so or no row without a fault is left.
    """

    rows: DataFrame
    refusal: Refusal
    is_refused: bool

    def write(self, reject: Callable[["RejectedRows"], int]) -> int:
        """Write the rows with ``reject`` and return their number.

        If the delivery is refused, a failure is logged, because the refusal is the error to report; otherwise it is
        raised.
        """
        try:
            return reject(self)
        except Exception:
            if not self.is_refused:
                raise
            log.exception("Could not store the rejected rows of a refused delivery")
            return 0


def rejected_rows(
    opened: Opened, source: SourceSpec, delivered: DataFrame, checked: CheckResult, keyed: KeyedRows
) -> RejectedRows | None:
    """Return the rows of ``delivered`` with faults of rows or of keys; None if there are none."""
    refusal = checked.refusal(opened, delivered, keyed.conflict)
    if refusal is None:
        return None
    parts = []
    if checked.faults:
        reasons = [F.when(fault_class.condition, F.lit(fault_class.reason)) for fault_class, _ in checked.faults]
        parts.append((delivered.where(checked.has_fault), F.array_compact(F.array(*reasons))))
    if keyed.conflicting is not None:
        parts.append((keyed.conflicting, F.array(F.lit(CONFLICTING_ROWS))))
    is_refused = not opened.options.keeps_faulty_rows or keyed.frame.isEmpty()
    rows = united([_with_reasons(opened, source, delivered, rows, reasons) for rows, reasons in parts])
    return RejectedRows(rows, refusal, is_refused)


def _with_reasons(
    opened: Opened, source: SourceSpec, delivered: DataFrame, rows: DataFrame, reasons: Column
) -> DataFrame:
    """Return the rows in the form of ``RejectedRows.rows``."""
    is_record = F.col(MALFORMED).isNull()
    texts = {c.name: F.make_valid_utf8(opened.text_of(c.name).cast("string")) for c in source.columns}
    values = [F.when(is_record, text).alias(name) for name, text in texts.items()]
    placed = with_provenance(opened, delivered, rows.withColumn(REASONS, reasons))
    return placed.select(SOURCE_FILE, SOURCE_ROW, REASONS, F.make_valid_utf8(MALFORMED).alias(RECORD), *values)
