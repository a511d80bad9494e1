"""Column sets that row hashes cover, recorded in a history's commit metadata for later loads and checks.

A *set* names columns by stable key, each with the family of its type: within a family values hash
alike. Where loads compare by hash, all open versions have hashes over one set, the recorded one
(rule 16). Where they do not (rows with a time of their own, batch files), an open version keeps the
hash it was written with, so the sets that were in force before are recorded, too.

An earlier set is written as its difference from the current one: ``-a:number +b:string``.
"""

from collections.abc import Iterable, Mapping

from metadata.domain import types as ours

HASHED, HASHED_BEFORE = "hashed", "hashed_before"

# Types whose values hash alike: a widening within a family changes no hash.
_FAMILY = {
    ours.INTEGER: "number",
    ours.BIGINT: "number",
    ours.DECIMAL: "number",
    ours.FLOAT: "number",
    ours.DATE: "instant",
    ours.TIMESTAMP: "instant",
    ours.UUID: ours.STRING,
    ours.JSON: ours.STRING,
    ours.TIME: ours.STRING,
}

Set = frozenset[str]


def family(type_name: str) -> str:
    """Return the family of a type; equal values of one family hash alike."""
    return _FAMILY.get(type_name, type_name)


def hashed_set(columns: Iterable[tuple[str, str]]) -> str:
    """Return the set over these columns (stable key, name of the type), as it is recorded."""
    return " ".join(sorted(f"{key}:{family(type_name)}" for key, type_name in columns))


def hashed_notes(noted: Mapping[str, str] | None, now: str) -> dict[str, str]:
    """Return the notes of a run that writes hashes over the set ``now`` where older versions keep theirs.

    ``noted`` are the notes of the newest run, None before the first one. A history with runs that recorded no set
    gets none either: the sets of its older hashes are unknown.
    """
    if noted is None:
        return {HASHED: now}
    if HASHED not in noted:
        return {}
    current = frozenset(now.split())
    before = [one for one in _sets(noted) if one != current]
    notes = {HASHED: now}
    if before:
        notes[HASHED_BEFORE] = ";".join(_difference(current, one) for one in dict.fromkeys(before))
    return notes


def hashed_over(noted: Mapping[str, str], families: Mapping[str, str]) -> list[tuple[str, ...]] | None:
    """Return the stable keys that an open version's hash may cover, one tuple for each recorded set; None if unknown.

    ``families`` are those of the table's columns, by stable key: a hash over a column that is gone, or
    now holds values of another family, cannot be computed from the table any more.
    """
    if HASHED not in noted:
        return None
    found = []
    for one in _sets(noted):
        parts = [part.rpartition(":") for part in sorted(one)]
        if any(families.get(key) != kind for key, _, kind in parts):
            return None
        found.append(tuple(key for key, _, _ in parts))
    return found


def _sets(noted: Mapping[str, str]) -> list[Set]:
    """Return the recorded sets, the current one first."""
    current = frozenset(noted[HASHED].split())
    before = noted.get(HASHED_BEFORE)
    return [current, *([] if before is None else (_applied(current, text) for text in before.split(";")))]


def _difference(current: Set, other: Set) -> str:
    return " ".join(
        [*(f"-{part}" for part in sorted(current - other)), *(f"+{part}" for part in sorted(other - current))]
    )


def _applied(current: Set, text: str) -> Set:
    signs = [(part[0], part[1:]) for part in text.split()]
    gone, more = ({part for sign, part in signs if sign == wanted} for wanted in "-+")
    return (current - gone) | more
