"""Result of a fold: for each key its new events, and its versions without and with them.

``first_events`` has the result of a first load in another form, with the same methods.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from loader.domain.historization.fold import EventFold
from loader.domain.historization.sql_arrays import last, struct
from loader.engine.historization.versions import KEY, PACKED, differing
from loader.engine.pyspark_types import row_of


@dataclass(frozen=True)
class FoldedKeys:
    """One row per key: ``__key``, the packed business key, ``delivered``, ``events``, ``old``, ``new``.

    ``late``, ``ignored`` and ``beyond`` count late rows, ``refused`` has the times of those that the policy refuses.
    """

    frame: DataFrame
    fold: EventFold

    def counts(self) -> dict[str, int]:
        """Return the numbers of keys, events and versions by their changes."""
        fold = self.fold
        visible = "transform({0}, x -> " + struct(start="x.start", until="x.until", state="x.state", v="x.v") + ")"
        same = f"({visible.format('old')} <=> {visible.format('new')})"
        was_live, is_live = fold.is_live("old"), fold.is_live("new")
        opened = "size(filter(new, n -> NOT exists(old, o -> o.start = n.start)))"
        removed = "size(filter(old, o -> NOT exists(new, n -> n.start = o.start)))"
        ended = "o.start = n.start AND o.until IS NULL AND n.until IS NOT NULL"
        closed = f"size(filter(new, n -> exists(old, o -> {ended})))"
        is_touched = "(exists(old, o -> NOT exists(new, n -> n <=> o)))"
        # A closed version changes or is removed, so that closed files must be read.
        touches_closed = "exists(old, o -> o.until IS NOT NULL AND NOT exists(new, n -> n <=> o))"
        sums = {
            "unchanged": f"count_if({same} AND delivered)",
            "new": f"count_if(NOT {same} AND size(old) = 0)",
            "deleted": f"count_if(NOT {same} AND size(old) > 0 AND {was_live} AND NOT {is_live})",
            "reappeared": f"count_if(NOT {same} AND size(old) > 0 AND NOT {was_live} AND {is_live})",
            "changed": f"count_if(NOT {same} AND size(old) > 0 AND ({was_live} = {is_live}))",
            "closing": f"count_if(NOT delivered AND {was_live})",
            "known": f"count_if({was_live})",
            "opened": f"sum({opened})",
            "closed": f"sum({closed})",
            "removed": f"sum({removed})",
            "events": "sum(size(events))",
            "touched": f"count_if({is_touched})",
            "altered": "count_if(NOT (old <=> new))",
            "gained": f"sum(CAST({is_live} AS INT) - CAST({was_live} AS INT))",
            "late": "sum(late)",
            "late_ignored": "sum(ignored)",
            "beyond_horizon": "sum(beyond)",
            "refused": "sum(size(refused))",
            "deep": f"count_if({touches_closed})",
        }
        totals = (F.expr(f"coalesce({sql}, 0)").alias(name) for name, sql in sums.items())
        return row_of(self.frame.agg(*totals).first()).asDict()

    def events(self) -> DataFrame:
        """Return the new events: the key, the business key, and the event as ``e``."""
        return self.frame.select(KEY, PACKED, F.explode("events").alias("e"))

    def versions(self) -> DataFrame:
        """Return the versions to put and to remove (``loader.engine.historization.versions.differing``)."""
        return differing(self.frame)

    def newest(self) -> DataFrame:
        """Return the keys whose newest version differs: ``__live``, and the version as ``__n``."""
        changed = self.frame.where(f"NOT ({last('old')} <=> {last('new')})")
        is_live = F.expr(self.fold.is_live("new")).alias("__live")
        return changed.select(KEY, PACKED, is_live, F.expr(last("new")).alias("__n"))
