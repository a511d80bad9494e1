"""Event logs of dated rows, and their fold to versions."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from architecture.domain.tables import TableSpec
from loader.domain.historization import history as rules
from loader.domain.historization.fold import ABSENT, EventFold
from loader.domain.historization.sql_arrays import struct
from loader.engine.compared_texts import compared
from loader.engine.historization.versions import ACTION, KEY, PACKED, VERSION, HistoryTable, packed_key
from metadata.domain.sql import quote_identifier

LOG = "__log"


def with_columns(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Return the frame with columns added in order; each expression may use the columns before it.

    All are added by one SQL statement: Spark analyses a frame anew at every step, and the expressions are long.
    """
    query = "SELECT * FROM {frame}"
    for name, expression in columns.items():
        escaped = expression.replace("{", "{{").replace("}", "}}")
        query = f"SELECT *, {escaped} AS {name} FROM ({query})"
    return frame.sparkSession.sql(query, frame=frame)


def logs(frame: DataFrame, spec: TableSpec, fold: EventFold) -> DataFrame:
    """Return the valid events of an event log as one sorted array per key: key, business key, ``__log``.

    An event is void if a later run recorded the key as absent at or before the event's time. Of several
    events of one time, that of the newest run is used (a correction).
    """
    column = {purpose: quote_identifier(spec.column(purpose).name) for purpose in (
        "entity_key", "event_at", "event_own", "event_kind", "event_columns", "sequence", "run_id", "loaded_at"
    )}  # fmt: skip
    kind = column["event_kind"]
    events = frame.select(
        F.col(column["entity_key"]).alias(KEY),
        packed_key(spec),
        F.col(column["event_at"]).alias("at"),
        F.expr(f"CAST(CASE {kind} WHEN 'value' THEN 0 WHEN 'return' THEN 2 ELSE 1 END AS INT)").alias("rank"),
        F.col(column["event_own"]).alias("own"),
        F.col(kind).alias("kind"),
        F.col(column["sequence"]).alias("seq"),
        F.col(column["run_id"]).alias("run"),
        F.col(column["loaded_at"]).alias("loaded"),
        F.col(column["event_columns"]).alias("cols"),
        F.struct(*values_of(fold, [F.col(quote_identifier(c.name)) for c in fold.columns])).alias("v"),
    )
    is_absent = F.col("kind") == ABSENT
    until_now = Window.partitionBy(KEY).orderBy("at")
    of_time = Window.partitionBy(KEY, "at", "own", "is_absent").orderBy(F.desc("seq"))
    counting = (
        events.withColumn("is_absent", is_absent)
        .withColumn("absent_seq", F.max(F.when(is_absent, F.col("seq"))).over(until_now))
        .where("absent_seq IS NULL OR absent_seq <= seq")
        .withColumn("nth", F.row_number().over(of_time))
        .where("nth = 1")
    )
    names_in_order = ("at", "rank", "own", "kind", "seq", "run", "loaded", "cols", "v")
    event = struct(**{name: name for name in names_in_order})
    return counting.groupBy(KEY).agg(
        F.any_value(PACKED).alias(PACKED),
        F.expr(f"sort_array(collect_list({event}))").alias(LOG),
    )


def values_of(fold: EventFold, columns: Sequence[Column]) -> list[Column]:
    """Return the fields of the struct ``v``: the columns' values, and the texts by which some are compared."""
    values = [column.alias(f"c{i}") for i, column in enumerate(columns)]
    pairs = enumerate(zip(fold.columns, columns, strict=True))
    return values + [compared(column, c.compared).alias(f"n{i}") for i, (c, column) in pairs if c.compared]


def difference(versions: DataFrame, history: HistoryTable, fold: EventFold) -> DataFrame:
    """Return the versions to put and to remove (``differing``) as rows of the table."""
    versions = history.with_values(versions, fold.columns)
    entity_key = history.name("entity_key")
    state, is_open = F.col(f"{VERSION}.state"), F.col(f"{VERSION}.until").isNull()
    values = {
        "history_key": history.history_key(F.col(entity_key), F.col(f"{VERSION}.start")),
        "started_at": F.col(f"{VERSION}.start"),
        "updated_at": F.col(f"{VERSION}.start"),
        "ended_at": F.coalesce(F.col(f"{VERSION}.until"), history.open_until),
        "state": history.label(state),
        "active": is_open if not history.tombstones else is_open & (state != rules.DELETED),
        "run_id": F.col(f"{VERSION}.opened"),
        "loaded_at": F.col(f"{VERSION}.loaded"),
        "closed_by": F.col(f"{VERSION}.closed"),
        "closed_at": F.col(f"{VERSION}.closed_at"),
        "segment": history.segment(state, is_open),
    }
    return history.rows(versions, values, (ACTION,))
