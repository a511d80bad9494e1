"""Names and types of a history's own columns by profile, and those of its event log and views.

Whoever reads or writes a history asks for a column by its purpose; the profile decides its name and
whether it is there at all, so a team keeps the names its queries already use (the issue of part 2
lists them). Every profile has the same operational columns: which run opened a version and when, and
which run closed it. Nothing of this is described by people, so all these names are reserved.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from metadata.domain.history_policy import BATCH_FILES, DBT, ELEVATA, FIVETRAN, LOAD_TIME, SCD2, HistoryPolicy
from metadata.domain.types import BIGINT, BOOLEAN, STRING, TIMESTAMP

# What is stored for "still open" where a profile has no NULL there and the policy says nothing.
FILES_OPEN_END = "9999-12-31T23:59:59.999Z"
SEGMENT = "version_segment"

_TIME = "time"  # stands for the type that versions are dated in

Columns = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Layout:
    """A profile's columns in order: (purpose, name, type). ``{table}`` is the base dataset's name."""

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
_MEMORY = (
    ("event_at", "__event_at", _TIME),
    ("event_own", "__event_own", _TIME),
    ("event_kind", "__event_kind", STRING),
    ("event_columns", "__event_columns", STRING),
    ("sequence", "__event_sequence", BIGINT),
)
# What the views over a history call an interval, whatever the profile does, and a change.
VALID_FROM, VALID_TO = "__valid_from", "__valid_to"
CHANGE, CHANGED_BY, CHANGED_AT = "__change", "__run_id", "__changed_at"


def layout_of(policy: HistoryPolicy) -> Layout:
    return LAYOUTS[policy.profile or ELEVATA]


def version_columns(policy: HistoryPolicy, time_type: str) -> Columns:
    """(purpose, name, type) of the columns that say something of a version, the partition's last."""
    return (*_typed(layout_of(policy).columns, time_type), ("segment", SEGMENT, STRING))


def memory_columns(time_type: str) -> Columns:
    """(purpose, name, type) of the columns that say something of an event in a history's memory."""
    return _typed(_MEMORY, time_type)


def _typed(columns: Columns, time_type: str) -> Columns:
    return tuple((purpose, name, time_type if type_ == _TIME else type_) for purpose, name, type_ in columns)


def time_type(policy: HistoryPolicy, columns: Mapping[str, str]) -> str:
    """The type versions are dated in (rule 8): the time column's, or a timestamp."""
    if policy.time == LOAD_TIME or policy.input == BATCH_FILES:
        return TIMESTAMP
    return columns.get(policy.time, TIMESTAMP)


def open_end(policy: HistoryPolicy, time_type: str) -> str | None:
    """Return the end of an open version as text of ``time_type``; None is NULL."""
    if policy.open_end is not None:
        return policy.open_end
    return layout_of(policy).open_end if time_type == TIMESTAMP else None


def _names() -> tuple[str, ...]:
    profiles = [name for layout in LAYOUTS.values() for _, name, _ in layout.columns]
    keys = [layout.history_key for layout in LAYOUTS.values() if "{table}" not in layout.history_key]
    views = [VALID_FROM, VALID_TO, CHANGE, CHANGED_BY, CHANGED_AT]
    return tuple(dict.fromkeys([*profiles, *keys, SEGMENT, *(name for _, name, _ in _MEMORY), *views]))


# Every name that some profile, its memory or a view uses: another profile must not fail on a described column.
NAMES = _names()
