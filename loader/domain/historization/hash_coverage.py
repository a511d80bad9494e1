"""Coverage of row hashes: the column sets that they cover, recorded in a history's commit metadata.

Later loads and checks read them. A *set* lists columns by stable key, each with the family of its type: within a
family, equal values have equal hashes. Where loads compare by hash, all open versions have hashes over one set, the
recorded one (rule 16). Otherwise (rows with a time of their own, batch files) an open version keeps its hash, so former
sets are recorded, too. A former set is written as its difference from the current one: ``-a:number +b:string``.
"""

from collections.abc import Iterable, Mapping

from loader.domain.historization.compared_texts import BY_VALUE
from metadata.domain import types as data_types

HASHED, HASHED_BEFORE = "hashed", "hashed_before"
# Families of types: equal values of one family have equal hashes, so a widening within a family changes no hash. In
# sets that v1 recorded, uuid, json and time are strings.
_FAMILY = {
    data_types.INTEGER: "number",
    data_types.BIGINT: "number",
    data_types.DECIMAL: "number",
    data_types.FLOAT: "number",
    data_types.DATE: "instant",
    data_types.TIMESTAMP: "instant",
}
Set = frozenset[str]


def family(type_name: str) -> str:
    """Return the family of a type; equal values of one family have equal hashes."""
    return _FAMILY.get(type_name, type_name)


def hashed_set(columns: Iterable[tuple[str, str]]) -> str:
    """Return the set of these columns (stable key, name of the type) as text for commit metadata."""
    return " ".join(sorted(f"{key}:{family(type_name)}" for key, type_name in columns))


def hashed_notes(noted: Mapping[str, str] | None, now: str) -> dict[str, str]:
    """Return the notes of a run that writes hashes over the set ``now``, while older versions keep theirs.

    ``noted`` are the notes of the newest run, None before the first one. If they record no set, none is recorded,
    because the sets of older hashes are unknown.
    """
    if noted is None:
        return {HASHED: now}
    if HASHED not in noted:
        return {}
    current = frozenset(now.split())
    before = [column_set for column_set in _sets(noted) if column_set != current]
    notes = {HASHED: now}
    if before:
        notes[HASHED_BEFORE] = ";".join(_difference(current, columns) for columns in dict.fromkeys(before))
    return notes


def hashed_over(noted: Mapping[str, str], families: Mapping[str, str]) -> list[tuple[str, ...]] | None:
    """Return the stable keys that an open version's hash may cover, a tuple for each recorded set; None if unknown.

    ``families`` are those of the table's columns, by stable key: a hash over a column that was removed, or whose
    family changed, cannot be computed from the table any more.
    """
    if HASHED not in noted:
        return None
    column_sets = []
    for column_set in _sets(noted):
        parts = [part.rpartition(":") for part in sorted(column_set)]
        if not all(_is_computable(kind, families.get(key)) for key, _, kind in parts):
            return None
        column_sets.append(tuple(key for key, _, _ in parts))
    return column_sets


def _is_computable(recorded: str, now: str | None) -> bool:
    """Return True if a hash over a value of the recorded family can be computed from a column of the family ``now``."""
    return recorded == now or (recorded == data_types.STRING and now in BY_VALUE)


def only_compared_otherwise(noted: Mapping[str, str], now: str) -> bool:
    """Return True if the recorded set has the columns of the set ``now``, some of them hashed as text by v1."""
    recorded = dict(_parts(frozenset(noted.get(HASHED, "").split())))
    current = dict(_parts(frozenset(now.split())))
    return (
        recorded != current
        and recorded.keys() == current.keys()
        and all(_is_computable(recorded[key], kind) for key, kind in current.items())
    )


def _parts(column_set: Set) -> list[tuple[str, str]]:
    return [(key, kind) for key, _, kind in (part.rpartition(":") for part in sorted(column_set))]


def _sets(noted: Mapping[str, str]) -> list[Set]:
    """Return the recorded sets, the current one first."""
    current = frozenset(noted[HASHED].split())
    before = noted.get(HASHED_BEFORE)
    return [current, *([] if before is None else (_changed_set(current, text) for text in before.split(";")))]


def _difference(current: Set, other: Set) -> str:
    return " ".join(
        [*(f"-{part}" for part in sorted(current - other)), *(f"+{part}" for part in sorted(other - current))]
    )


def _changed_set(current: Set, text: str) -> Set:
    signs = [(part[0], part[1:]) for part in text.split()]
    removed, added = ({part for sign, part in signs if sign == wanted} for wanted in "-+")
    return (current - removed) | added
