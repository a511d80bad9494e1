"""Changes of the deliveries that raw keeps."""

from elevata.core.words import counted
from metadata.domain.sources import raw_keeping
from metadata.domain.state import DatasetState

_KEPT = {
    raw_keeping.LATEST: "the latest delivery alone from the next load on, which removes the others",
    raw_keeping.ALL: "all deliveries from the next load on",
    raw_keeping.BY_DAY: "all deliveries from the next load on, in a partition for each day",
}


def describe_changed_retention(before: DatasetState, after: DatasetState) -> str:
    """Return the change of the deliveries that raw keeps; empty if there is none."""
    was, is_ = (raw_keeping.keeping_of(state.load_policy) for state in (before, after))
    if was == is_:
        return ""
    limits = ((is_.days, "day", "days"), (is_.deliveries, "delivery", "deliveries"))
    listed = " and ".join(counted(limit, unit, units) for limit, unit, units in limits if limit)
    return f"raw keeps {_KEPT.get(is_.mode, is_.mode)}" + (f", at most {listed}" if listed else "")


def removes_deliveries(before: DatasetState, after: DatasetState) -> bool:
    """Return True if loads or vacuums remove raw deliveries that they kept before."""
    return raw_keeping.keeps_less(*(raw_keeping.keeping_of(state.load_policy) for state in (before, after)))
