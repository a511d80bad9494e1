"""Delete detection of deltas: open keys whose absence shows that the source deleted them.

``loader.domain.reference.detection`` has the same rules. They are closed in the commit that has the delta's rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.contract.manifest.loads import RawcoreLoad, StageInput
from loader.contract.refusals import Refusal
from loader.domain.historization import load_guards
from loader.domain.historization.load_guards import READ_WINDOW
from loader.engine.historization.parents import UnknownParents
from loader.engine.historization.stage import key_hashes, typed_keys
from loader.engine.historization.targets import Target
from loader.engine.sources.key_lists import read_key_list
from loader.engine.sources.marks import DeliveredWindow
from metadata.domain.history.history_policy import KEY_LIST, WINDOW, HistoryPolicy
from metadata.domain.sql import quote_identifier
from metadata.domain.types import DATE, parse

_LISTED, _DELIVERED = "__listed", "__delivered"


@dataclass(frozen=True)
class Detection:
    """Evidence of a run about deleted keys.

    ``what`` names it. ``rows`` is the number of its rows, None if these are the delta's. ``select`` returns those of
    the open rows of a target that are not in the source, unless the delta has their keys; it takes the name of the
    entity key.
    """

    what: str
    rows: int | None
    select: Callable[[Target, str], DataFrame]

    def keys(self, target: Target, stage: DataFrame, parents: UnknownParents) -> DataFrame:
        """Return the entity keys of the open rows to close, without those of the hashed rows of the delta."""
        key = target.load.leading.column("entity_key").name
        absent = self.select(target, key).select(quote_identifier(key))
        delivered = stage.select(F.col(quote_identifier(key)).alias(_DELIVERED))
        absent = absent.join(delivered, F.col(quote_identifier(key)) == F.col(_DELIVERED), "left_anti")
        return parents.without_referred(absent, key)


def by_window(column: str, start: Column | None, *, is_open: bool = False) -> Detection:
    """Return the detection within a delta that has all rows whose ``column`` is at or above ``start``.

    Without a start it has all rows. Rows without a value are in no window that has a start. ``is_open``: the delta has
    only those above it for sure.
    """

    def select(target: Target, _: str) -> DataFrame:
        rows, value = target.open_rows(), F.col(quote_identifier(column))
        return rows if start is None else rows.where(value > start if is_open else value >= start)

    return Detection(READ_WINDOW, None, select)


def by_key_list(listed: DataFrame, count: int) -> Detection:
    """Return the detection by a frame whose only column has the entity keys of all rows of the source."""
    (column,) = listed.columns

    def select(target: Target, key: str) -> DataFrame:
        load, rows = target.load, target.open_rows()
        stored = target.former_keys.kept(listed, column, load.leading, load.event_log)
        keys = stored.select(F.col(quote_identifier(column)).alias(_LISTED))
        return rows.join(keys, F.col(quote_identifier(key)) == F.col(_LISTED), "left_anti")

    return Detection(load_guards.KEY_LIST, count, select)


def detection_of(
    session: SparkSession, load: RawcoreLoad, windows: list[DeliveredWindow], **run: str
) -> Detection | None:
    """Return the evidence that the raw table has of deleted keys; None if the policy asks for none, or none is proven.

    ``run`` has the values of the run for the stage's expressions. Raise Refusal NO_EVIDENCE.
    """
    detects = HistoryPolicy.from_dict(load.policy).delete_detection
    if detects not in (KEY_LIST, WINDOW):
        return None
    (stage_input,), (delivered,) = load.inputs, windows
    if detects == KEY_LIST:
        if delivered.key_list is None:
            raise _no_evidence(load, stage_input, "key list")
        if delivered.key_list.doubt:
            return None
        keys = typed_keys(read_key_list(session, delivered.raw, delivered.key_list), load, stage_input, run)
        return by_key_list(key_hashes(keys, load), delivered.key_list.rows)
    window = delivered.window
    if window is None or (window.start is not None and window.bounds is None):
        raise _no_evidence(load, stage_input, "read window")
    bound = next(iter((window.bounds or {}).values()), None)
    type_text = next(column.type for column in load.leading.columns if column.name == stage_input.window)
    zone = stage_input.options.get("timezone", "UTC")
    start = None if bound is None else window_start(bound, type_text, zone)
    return by_window(stage_input.window, start, is_open=window.is_open)


def window_start(text: str, type_text: str, zone: str) -> Column:
    """Return a bound of a window (``loader.domain.sources.marks``) for comparison with a column of this type.

    Timestamps without a zone are those of the source's ``zone``, from which the column's values were converted.
    """
    try:
        return F.lit(Decimal(text))
    except ArithmeticError:
        moment = F.lit(text).cast("timestamp")
    if parse(type_text).name == DATE or datetime.fromisoformat(text).tzinfo is not None:
        return moment
    return F.to_utc_timestamp(moment, zone)


def _no_evidence(load: RawcoreLoad, stage_input: StageInput, what: str) -> Refusal:
    return Refusal(
        "NO_EVIDENCE",
        f"{load.name}: {stage_input.table.qualified_name} has rows without a {what}, by which deletes are detected",
        hint="Load the dataset together with its source, so that the delivery is read anew.",
    )
