"""A history policy in words, for people who read a dataset's page."""

from metadata.domain import naming
from metadata.domain.history_columns import open_end
from metadata.domain.history_policy import (
    AS_OF,
    BATCH_FILES,
    CDC,
    CHANGES,
    CLOSE,
    CURRENT,
    DELTA,
    EFFECTIVE,
    HIGH_END_DATE,
    IGNORE,
    LOAD_TIME,
    SNAPSHOT,
    STATES,
    TOMBSTONE,
    HistoryPolicy,
)

_INPUTS = {
    SNAPSHOT: "full snapshots: a key that is absent was deleted",
    DELTA: "deltas: a key that is absent stays as it was",
    EFFECTIVE: "rows with a time of their own",
    CDC: "a CDC feed",
    BATCH_FILES: "history batch files, kept as they say it",
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
_UNTRACKED = {"update_in_place": "others update the version in place", "keep": "others stay as they were"}


def history_facts(base: str, policy: HistoryPolicy, time_type: str) -> tuple[tuple[str, str], ...]:
    """(term, what holds) for the history of the dataset ``base``; what the policy cannot decide is left out.

    ``time_type`` is what its versions are dated in.
    """
    facts = [("History is fed by", _fed_by(policy)), ("Versions are dated by", _dated_by(policy))]
    if policy.input != BATCH_FILES:
        facts += [("Deletes", _DELETES[policy.deletes or CLOSE]), ("Tracked columns", _tracked(policy))]
        facts.append(("End of an open version", open_end(policy, time_type) or "NULL"))
        if policy.time != LOAD_TIME:
            facts.append(("Late rows", _late(policy)))
    facts += [("Columns are named as", _PROFILES[policy.profile or "elevata"]), ("States", _states(policy))]
    facts.append(("Views", _views(base, policy)))
    return tuple(facts)


def _fed_by(policy: HistoryPolicy) -> str:
    if policy.input == CDC:
        return f"{_INPUTS[CDC]}, its operation in {policy.op}"
    if policy.absent_keys == "deleted":
        return f"{_INPUTS[EFFECTIVE]}; a key that is absent was deleted"
    return _INPUTS[policy.input]


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
    said = {
        HIGH_END_DATE: f"{naming.view_name(base, HIGH_END_DATE)} (a high end instead of NULL)",
        CURRENT: f"{naming.view_name(base, CURRENT)} (what holds now)",
        AS_OF: f"{naming.view_name(base, naming.PERIODS)} (what held when), {naming.view_name(base, AS_OF)}(at)",
        CHANGES: f"{naming.view_name(base, CHANGES)} (inserts, updates and deletes by run)",
    }
    return ", ".join(said[view] for view in policy.views) or "none"
