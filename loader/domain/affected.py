"""Exposures, copies, owners, contracts, queries and schedules that a change affects, and messages to their owners."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from loader.contract.refusals import Refusal
from loader.domain.queries.select_statements import names_read
from metadata.domain.scope import ALL, DATASET, SCHEMA, Scope

EXPOSURE, COPY, CONTRACT, OWNER, QUERY, SCHEDULE = "exposure", "copy", "contract", "owner", "saved query", "schedule"
# In display order.
KINDS = (EXPOSURE, COPY, CONTRACT, OWNER, QUERY, SCHEDULE)
_PARSED = 2048


@dataclass(frozen=True)
class Affected:
    """Something that uses changed data: its kind, name and owner, and the datasets through which it is affected.

    ``page`` is its address, empty without one.
    """

    kind: str
    name: str
    owner: str
    datasets: tuple[str, ...]
    page: str = ""

    @property
    def described(self) -> str:
        """Return kind and name; an owner is named by the datasets."""
        return ", ".join(self.datasets[:3]) if self.kind == OWNER else f"{self.kind} {self.name}"


@lru_cache(maxsize=_PARSED)
def _names_of(text: str) -> frozenset[str]:
    try:
        return names_read(text)
    except Refusal:  # a query that cannot be read any more reads nothing
        return frozenset()


def tables_of_query(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Return those of the names (``schema.name``) that a query reads, sorted. Other texts are not parsed."""
    lowered = text.lower()
    if not any(name.rpartition(".")[2].lower() in lowered for name in names):
        return ()
    read = _names_of(text)
    return tuple(sorted(name for name in names if name.lower() in read))


def tables_of_scope(scope: Scope, names: Collection[str], selected: Collection[str] = ()) -> tuple[str, ...]:
    """Return those of the names that the scope of a schedule names, sorted; ``selected`` are those of a selection."""
    if scope.kind == ALL:
        return tuple(sorted(names))
    if scope.kind == SCHEMA:
        return tuple(sorted(name for name in names if name.partition(".")[0] == scope.name))
    if scope.kind == DATASET:
        return tuple(sorted(name for name in names if name == scope.name))
    return tuple(sorted(set(names) & set(selected)))


def by_owner(affected: Iterable[Affected]) -> dict[str, tuple[Affected, ...]]:
    """Return what is affected by owner, without things that have none."""
    owners: dict[str, list[Affected]] = {}
    for each in affected:
        if each.owner:
            owners.setdefault(each.owner, []).append(each)
    return {owner: tuple(group) for owner, group in sorted(owners.items())}


def matched(owners: Collection[str], accounts: Mapping[str, str]) -> dict[str, str]:
    """Return the user name of each owner who has an account.

    ``accounts`` has user names by every text that identifies a user: user name, full name and e-mail address, in lower
    case. Owners are texts that users typed, such as a team.
    """
    return {owner: accounts[owner.strip().lower()] for owner in owners if owner.strip().lower() in accounts}


def message_for(subject: str, affected: Collection[Affected], note: str = "") -> str:
    """Return one line that names what changes for one owner."""
    named = [each.described for each in affected]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    text = f"{subject} affects {', '.join(named[:_NAMED])}{more}"
    return f"{text}: {note}" if note else text


_NAMED = 5
