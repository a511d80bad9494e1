"""Columns that loads add to tables and histories, with the described columns that each of them is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from metadata.domain import naming
from metadata.domain.history.history_columns import VALID_FROM, VALID_TO, layout_of, version_columns
from metadata.domain.history.history_policy import HistoryPolicy

T = TypeVar("T")
Added = dict[str, tuple[T, ...]]

# Purposes of the columns of a version that have the time of a row.
_DATED = ("started_at", "ended_at", "updated_at")


@dataclass(frozen=True)
class Part(Generic[T]):
    """Column of a dataset that added columns may be made of; ``column`` is the caller's value for it.

    A retired one is in no key, but row hashes and times of versions that were loaded before are made of it.
    """

    column: T
    name: str
    is_key: bool
    is_active: bool = True


def added_columns(
    dataset: str, policy: HistoryPolicy, parts: Sequence[Part[T]], foreign: Mapping[str, Sequence[T]]
) -> tuple[Added[T], Added[T]]:
    """Return the columns added to the table of a dataset and to its history, by name in lower case.

    The keys of the history and of the entity are the first. ``foreign`` are the columns of each active reference by the
    name of its foreign key. A history key is a hash of the entity key and the start of the version. A row hash counts
    as made of all columns: a version keeps its hash when the tracked columns or the business key change.
    """
    key = tuple(part.column for part in parts if part.is_key and part.is_active)
    time = tuple(part.column for part in parts if part.name.lower() == (policy.time_column or "").lower())
    entity_key = naming.entity_key_name(dataset).lower()
    hashes = {
        entity_key: key,
        **{name.lower(): tuple(columns) for name, columns in foreign.items()},
        "row_hash": tuple(part.column for part in parts),
    }
    history_key = layout_of(policy).history_key.format(table=dataset).lower()
    dated = {name.lower(): time if purpose in _DATED else () for purpose, name, _ in version_columns(policy, "")}
    return (
        {**hashes, **dict.fromkeys(naming.LOAD_COLUMNS, ())},
        {history_key: (*key, *time), **hashes, **dated, VALID_FROM: time, VALID_TO: time},
    )
