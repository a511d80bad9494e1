"""Columns and interval ends of histories, by profile.

Code refers to a column by its purpose. The profile determines its name and whether it exists, so that a team can use
the names in its existing queries. All profiles have the same operational columns: the run that opened a version, its
time, and the run that closed it. These columns are not in the metadata, so all their names are reserved.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from metadata.domain.history.history_policy import BATCH_FILES, DBT, ELEVATA, FIVETRAN, LOAD_TIME, SCD2, HistoryPolicy
from metadata.domain.types import BIGINT, BOOLEAN, STRING, TIMESTAMP

# Value of an open end, if the profile does not use NULL and the policy sets none.
FILES_OPEN_END = "9999-12-31T23:59:59.999Z"
SEGMENT = "version_segment"

_TIME = "time"  # placeholder for the type of versions' times

Columns = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Layout:
    """Columns of a profile in order: (purpose, name, type); ``{table}`` is the base dataset's name."""

    history_key: str
    columns: Columns
    open_end: str | None = None


_OPERATIONAL = (
    ("run_id", "load_run_id", STRING),
    ("loaded_at", "loaded_at", TIMESTAMP),
    ("closed_by", "closed_by_run_id", STRING),
)
_STATE = ("state", "version_state", STRING)

LAYOUTS = {
    ELEVATA: Layout(
        "{table}_hist_key",
        (
            ("started_at", "version_started_at", _TIME),
            ("ended_at", "version_ended_at", _TIME),
            _STATE,
            *_OPERATIONAL,
        ),
    ),
    FIVETRAN: Layout(
        "{table}_hist_key",
        (
            ("started_at", "_fivetran_start", _TIME),
            ("ended_at", "_fivetran_end", _TIME),
            ("active", "_fivetran_active", BOOLEAN),
            ("loaded_at", "_fivetran_synced", TIMESTAMP),
            _STATE,
            ("run_id", "load_run_id", STRING),
            ("closed_by", "closed_by_run_id", STRING),
        ),
        open_end=FILES_OPEN_END,
    ),
    DBT: Layout(
        "dbt_scd_id",
        (
            ("updated_at", "dbt_updated_at", _TIME),
            ("started_at", "dbt_valid_from", _TIME),
            ("ended_at", "dbt_valid_to", _TIME),
            _STATE,
            ("run_id", "dbt_insert_process_id", STRING),
            ("loaded_at", "dbt_insert_timestamp", TIMESTAMP),
            ("closed_by", "dbt_update_process_id", STRING),
            ("closed_at", "dbt_update_timestamp", TIMESTAMP),
        ),
    ),
    SCD2: Layout(
        "{table}_hist_key",
        (
            ("started_at", "__valid_from", _TIME),
            ("ended_at", "__valid_to", _TIME),
            ("active", "__is_current", BOOLEAN),
            _STATE,
            *_OPERATIONAL,
        ),
    ),
}
_EVENT_LOG = (
    ("event_at", "__event_at", _TIME),
    ("event_own", "__event_own", _TIME),
    ("event_kind", "__event_kind", STRING),
    ("event_columns", "__event_columns", STRING),
    ("sequence", "__event_sequence", BIGINT),
)
# Names of an interval and of a change in the views over a history, for every profile.
VALID_FROM, VALID_TO = "__valid_from", "__valid_to"
CHANGE, CHANGED_BY, CHANGED_AT = "__change", "__run_id", "__changed_at"
# Last operation of a key and its effective date, in the view of operations.
OPERATION, EFFECTIVE_FROM = "__operation", "__effective_from"


def layout_of(policy: HistoryPolicy) -> Layout:
    return LAYOUTS[policy.profile or ELEVATA]


def version_columns(policy: HistoryPolicy, time_type: str) -> Columns:
    """Return (purpose, name, type) of the columns that describe a version; the partition column is last."""
    return (*_typed(layout_of(policy).columns, time_type), ("segment", SEGMENT, STRING))


def event_log_columns(time_type: str) -> Columns:
    """Return (purpose, name, type) of the columns that describe an event in a history's event log."""
    return _typed(_EVENT_LOG, time_type)


def _typed(columns: Columns, time_type: str) -> Columns:
    return tuple((purpose, name, time_type if type_ == _TIME else type_) for purpose, name, type_ in columns)


def time_type(policy: HistoryPolicy, columns: Mapping[str, str]) -> str:
    """Return the type of version times (rule 8): the time column's type, or timestamp."""
    if policy.time == LOAD_TIME or policy.input == BATCH_FILES:
        return TIMESTAMP
    return columns.get(policy.time, TIMESTAMP)


def open_end(policy: HistoryPolicy, time_type: str) -> str | None:
    """Return the end of an open version as text of ``time_type``; None stands for NULL."""
    if policy.open_end is not None:
        return policy.open_end
    return layout_of(policy).open_end if time_type == TIMESTAMP else None


def _names() -> tuple[str, ...]:
    profiles = [name for layout in LAYOUTS.values() for _, name, _ in layout.columns]
    keys = [layout.history_key for layout in LAYOUTS.values() if "{table}" not in layout.history_key]
    views = [VALID_FROM, VALID_TO, CHANGE, CHANGED_BY, CHANGED_AT, OPERATION, EFFECTIVE_FROM]
    return tuple(dict.fromkeys([*profiles, *keys, SEGMENT, *(name for _, name, _ in _EVENT_LOG), *views]))


# All names that a profile, an event log or a view uses: a change of the profile must not conflict with a column.
NAMES = _names()


# Values at the ends of a history's intervals. ``metadata.domain.history.history_columns`` has the columns' names.
def ends_inclusive(policy: HistoryPolicy) -> bool:
    """Return True if an end is the last millisecond of a version (rule 21), not the first after it."""
    return policy.input == BATCH_FILES
