"""History policy in words, for a dataset's page."""

from metadata.domain import naming
from metadata.domain.history.history_columns import open_end
from metadata.domain.history.history_policy import (
    APPEND,
    AS_OF,
    BATCH_FILES,
    CDC,
    CHANGES,
    CLOSE,
    COLUMN,
    CURRENT,
    DELTA,
    EFFECTIVE,
    HIGH_END_DATE,
    IGNORE,
    KEY_LIST,
    LOAD_TIME,
    NONE,
    OPERATIONS,
    ROW,
    SNAPSHOT,
    STATES,
    TOMBSTONE,
    WINDOW,
    HistoryPolicy,
)
from metadata.domain.history.load_types import load_type

_INPUTS = {
    SNAPSHOT: "full snapshots: a key that is absent was deleted",
    DELTA: "deltas: a key that is absent stays as it was",
    EFFECTIVE: "rows with a time of their own",
    CDC: "a CDC feed",
    BATCH_FILES: "history batch files, kept as they say it",
    APPEND: "rows that are only added",
}
_DETECTED = {
    NONE: "",
    KEY_LIST: "; a key that the source's key list lacks was deleted",
    WINDOW: "; a key that is absent from the read window was deleted",
}
_DELETES = {
    CLOSE: "close the version",
    IGNORE: "are ignored",
    TOMBSTONE: "close the version and open a tombstone with its last values",
}
_LATE = {
    "split": "split history where they belong",
    "refuse": "refuse the batch",
    "ignore": "are counted and left out",
}
_PROFILES = {"elevata": "elevata", "fivetran": "Fivetran", "dbt": "dbt snapshots", "scd2": "SCD 2"}
_RANKED = {ROW: "the best one's row is used", COLUMN: "each column's value of the best one that has it is used"}
_UNTRACKED = {"update_in_place": "others update the version in place", "keep": "others stay as they were"}


def history_facts(base: str, policy: HistoryPolicy, time_type: str) -> tuple[tuple[str, str], ...]:
    """Return (term, description) of the history of the dataset ``base``, without undecided choices.

    ``time_type`` is the type of its versions' times.
    """
    facts = [("History is fed by", _fed_by(policy)), ("Versions are dated by", _dated_by(policy))]
    if policy.rank:
        facts.append(("Sources, best first", f"{', '.join(policy.rank)}; {_RANKED[policy.rank_by]}"))
    if policy.input != BATCH_FILES:
        facts += [("Deletes", _DELETES[policy.deletes or CLOSE]), ("Tracked columns", _tracked(policy))]
        facts.append(("End of an open version", open_end(policy, time_type) or "NULL"))
        if policy.time != LOAD_TIME:
            facts.append(("Late rows", _late(policy)))
    facts += [("Columns are named as", _PROFILES[policy.profile or "elevata"]), ("States", _states(policy))]
    facts.append(("Views", _views(base, policy)))
    return tuple(facts)


def load_facts(policy: HistoryPolicy, *, historize: bool) -> tuple[tuple[str, str], ...]:
    """Return (term, description) of the way in which loads change a dataset."""
    type_ = load_type(policy, historize=historize)
    facts = [("Load type", f"{type_.label}: {type_.meaning}")]
    if not historize:
        facts.append(("Deliveries are", _fed_by(policy)))
        if policy.keeps_events(historize=False):
            facts += [("Rows are dated by", _dated_by(policy)), ("Late rows", _late(policy))]
        if policy.is_honoured(historize=False):
            facts.append(("Deletes", "remove the row" if policy.deletes == CLOSE else "are ignored"))
    return tuple(facts)


def _fed_by(policy: HistoryPolicy) -> str:
    if policy.input == CDC:
        return f"{_INPUTS[CDC]}, its operation in {policy.op}"
    flagged = f"; {policy.delete_flag} flags deletes" if policy.delete_flag else ""
    if policy.absent_keys == "deleted":
        return f"{_INPUTS[EFFECTIVE]}; a key that is absent was deleted{flagged}"
    return _INPUTS[policy.input] + flagged + _DETECTED[policy.delete_detection]


def _dated_by(policy: HistoryPolicy) -> str:
    return "the load" if policy.time == LOAD_TIME else f"column {policy.time}"


def _tracked(policy: HistoryPolicy) -> str:
    return "all" if policy.track is None else f"{', '.join(policy.track)}; {_UNTRACKED[policy.untracked]}"


def _late(policy: HistoryPolicy) -> str:
    if policy.late_horizon is None:
        return _LATE[policy.late]
    return f"{_LATE[policy.late]}; remembered for {policy.late_horizon} days"


def _states(policy: HistoryPolicy) -> str:
    used = ("live", "deleted") if policy.deletes == TOMBSTONE else STATES[:3]
    return ", ".join(word if policy.label(word) == word else f"{policy.label(word)} ({word})" for word in used)


def _views(base: str, policy: HistoryPolicy) -> str:
    labels = {
        HIGH_END_DATE: f"{naming.view_name(base, HIGH_END_DATE)} (a high end instead of NULL)",
        CURRENT: f"{naming.view_name(base, CURRENT)} (what holds now)",
        AS_OF: f"{naming.view_name(base, naming.PERIODS)} (what held when), {naming.view_name(base, AS_OF)}(at)",
        CHANGES: f"{naming.view_name(base, CHANGES)} (inserts, updates and deletes by run)",
        OPERATIONS: f"{naming.view_name(base, OPERATIONS)} (last operation of each key)",
    }
    return ", ".join(labels[view] for view in policy.views) or "none"
