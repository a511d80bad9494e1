"""Comparison of a source's schema with its contract: new, gone, retyped and probably renamed columns.

The order of columns is no difference. A probable rename is a guess from names and types, for a user to confirm; nothing
here changes a contract.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from architecture.domain.type_changes import classify_types
from elevata.core.canonical_json import sha256_hex
from metadata.domain.sources import formats
from metadata.domain.types import DECIMAL, STRING, DataType, parse, stored_type

NEW, RETURNING, GONE = "new", "returning", "gone"
RENAMED, RECASED, RETYPED = "renamed", "recased", "retyped"
# A column whose name differs by case only from another one of the contract, beside which no table can hold it.
CLASHING = "clashing"
KINDS = (RENAMED, RECASED, RETYPED, GONE, NEW, RETURNING, CLASHING)

# Relation of the source's type to the contract's. A wider type holds every value of the contract's, a narrower one is
# held by the contract's, of incompatible types neither holds all values of the other.
WIDER, NARROWER, INCOMPATIBLE = "wider", "narrower", "incompatible"

# Type by which databases describe a number without limits.
UNLIMITED = DataType(DECIMAL, precision=38, scale=10)

# Refusals of deliveries whose schema may differ from the contract.
MISSING_COLUMN, VALUE_DOES_NOT_FIT = "MISSING_COLUMN", "VALUE_DOES_NOT_FIT"

# Weights of a rename's score, and the score from which it is proposed.
_NAME, _TYPE, _ONLY_PAIR = 0.6, 0.25, 0.15
PROBABLE = 0.5
_EQUAL, _COMPATIBLE = 1.0, 0.5
_WITH_HEADER = frozenset(
    {
        *(formats.CSV, formats.FIXED, formats.XLSX, formats.PARQUET),
        *(formats.ORC, formats.AVRO, formats.DELTA, formats.TABLE),
    }
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")


@dataclass(frozen=True)
class ContractColumn:
    """Column of a contract; a retired one is not ``active``."""

    name: str
    type: DataType
    active: bool = True


@dataclass(frozen=True)
class ObservedColumn:
    """Column as a source has it now.

    ``type`` is None if nothing tells it; it is the contract's if all values that were seen fit that. ``declared``: the
    source declares it; otherwise it is inferred from values. ``same_as`` has for columns that are gone the number of
    keys with the same value under both names, and of those that were compared.
    """

    name: str
    type: DataType | None = None
    declared: bool = False
    same_as: tuple[tuple[str, int, int], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the column without fields that nothing tells."""
        type_ = {"type": str(self.type)} if self.type is not None else {}
        same = {"same_as": [list(share) for share in self.same_as]} if self.same_as else {}
        return {"name": self.name, **type_, **({"declared": True} if self.declared else {}), **same}

    def share(self, former: str) -> tuple[int, int]:
        """Return the number of keys with the same value as in a former column, and of those that were compared."""
        return next(((equal, compared) for name, equal, compared in self.same_as if name == former), (0, 0))

    def beside(self, known: DataType | None) -> "ObservedColumn":
        """Return the column as it compares with the contract's type.

        Text without a length tells nothing of other text, a decimal without limits nothing of other decimals.
        """
        limitless = {DataType(STRING): STRING, UNLIMITED: DECIMAL}.get(self.type) if self.type is not None else None
        tells_nothing = known is not None and limitless is not None and stored_type(known).name == limitless
        return replace(self, type=None) if tells_nothing else self

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> "ObservedColumn":
        type_ = item.get("type")
        same_as = tuple((name, equal, compared) for name, equal, compared in item.get("same_as", ()))
        return cls(item["name"], parse(type_) if type_ else None, bool(item.get("declared")), same_as)


@dataclass(frozen=True)
class SchemaChange:
    """Difference of one column: ``name`` is its name in the source, or that in the contract if it is gone.

    ``former`` is the name in the contract of a column that was probably renamed, or is written in another case.
    ``before`` and ``after`` are types. ``relation`` is that of a retyped column's types, ``score`` that of a rename.
    ``evidence`` says for a rename how many values are the same, if they were compared.
    """

    kind: str
    name: str
    former: str = ""
    before: str = ""
    after: str = ""
    relation: str = ""
    declared: bool = False
    score: float | None = None
    evidence: str = ""

    @property
    def id(self) -> str:
        """Return the text that identifies the change among those of its source."""
        return f"{self.kind}:{self.former}>{self.name}" if self.former else f"{self.kind}:{self.name}"

    @property
    def is_held(self) -> bool:
        """Return True if there is nothing to decide: the contract's type holds the source's, or no table the column."""
        return self.kind == CLASHING or (self.kind == RETYPED and self.relation == NARROWER)

    def describe(self) -> str:
        """Return the change in a few words: ``amount: integer → bigint (wider)``."""
        match self.kind:
            case "new":
                return f"{self.name} is new ({self.after or 'of unknown type'})"
            case "returning":
                return f"{self.name} is delivered, but retired in the contract"
            case "gone":
                return f"{self.name} is gone"
            case "renamed":
                evidence = f" ({self.evidence})" if self.evidence else ""
                return f"{self.former} is probably {self.name} now{evidence}"
            case "recased":
                return f"{self.former} is written {self.name} now"
            case "clashing":
                return f"{self.name} differs by case only from {self.former}, and no table can hold both"
        return f"{self.name}: {self.before} → {self.after} ({self.relation})"

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are not empty; the score as text, so that it has one spelling."""
        values = asdict(self) | {"score": f"{self.score:.2f}" if self.score is not None else None}
        return {name: value for name, value in values.items() if value not in ("", None, False)}

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> "SchemaChange":
        score = item.get("score")
        return cls(**{**item, "score": float(score) if score is not None else None})


def compare_schema(
    contract: Iterable[ContractColumn],
    observed: Iterable[ObservedColumn],
    *,
    ignored: Collection[str] = (),
    complete: bool = True,
) -> tuple[SchemaChange, ...]:
    """Return the changes of a source since its contract was made, in the order of ``KINDS`` and by name.

    ``ignored`` are names that the source's options leave out. Without ``complete``, ``observed`` may lack columns that
    the source has, so that none counts as gone.
    """
    known = {column.name: column for column in contract}
    seen = {column.name: column for column in observed}
    parents = _parents_of_paths(known, seen)
    pairs = [(known[name], column) for name, column in seen.items() if name in known]
    fresh = [
        column for name, column in seen.items() if name not in known and name not in ignored and name not in parents
    ]
    missing = [column for column in known.values() if column.active and column.name not in seen]
    gone = [column for column in missing if column.name.partition(".")[0] not in parents] if complete else []
    recased, gone, fresh = _recased(gone, fresh)
    clashing, fresh = _clashing({*known, *(change.name for change in recased)} - _names(missing), fresh)
    renamed, gone, fresh = _renamed(gone, fresh)
    changes = [
        *recased,
        *clashing,
        *renamed,
        *(_gone(column) for column in gone),
        *(SchemaChange(NEW, c.name, after=_text(c.type), declared=c.declared) for c in fresh),
        *(SchemaChange(RETURNING, column.name, after=str(column.type)) for column, _ in pairs if not column.active),
        *(change for column, now in pairs if column.active and (change := retyped(column, now)) is not None),
    ]
    return tuple(sorted(changes, key=lambda change: (KINDS.index(change.kind), change.name)))


def retyped(column: ContractColumn, observed: ObservedColumn) -> SchemaChange | None:
    """Return the change of a column's type; None if the types are stored alike, or nothing tells the source's."""
    relation = type_relation(column.type, observed.type) if observed.type is not None else None
    if relation is None:
        return None
    return SchemaChange(
        RETYPED,
        column.name,
        before=str(column.type),
        after=str(observed.type),
        relation=relation,
        declared=observed.declared,
    )


def type_relation(contract: DataType, source: DataType) -> str | None:
    """Return the relation of the source's type to the contract's; None if the warehouse stores both alike."""
    if source == contract or stored_type(source) == stored_type(contract):
        return None
    if classify_types(source, contract).widens:
        return NARROWER
    return WIDER if classify_types(contract, source).widens else INCOMPATIBLE


def is_retyped(misfits: int, present: int) -> bool:
    """Return True if most of a column's values do not fit the contract's type; fewer are errors in the data."""
    return misfits > 0 and 2 * misfits >= present


def names_all_columns(format_name: str) -> bool:
    """Return True for a format that names all its columns; in others a row may lack one."""
    return format_name in _WITH_HEADER


def rename_score(former: ContractColumn, now: ObservedColumn, *, only_pair: bool = False) -> float:
    """Return the probability that a column was renamed, from 0 to 1: by names, by types, and by lack of another.

    Columns with incompatible types have 0.
    """
    types = _type_score(former.type, now.type)
    if not types:
        return 0.0
    score = _NAME * _similarity(former.name, now.name) + _TYPE * types + (_ONLY_PAIR if only_pair else 0.0)
    return round(score, 2)


def fingerprint(changes: Iterable[SchemaChange]) -> str:
    """Return the SHA-256 of the changes. Inferred types and scores do not count: they differ between samples."""
    rows = [[c.kind, c.name, c.former, c.after if c.declared else ""] for c in changes if not c.is_held]
    return sha256_hex(sorted(rows))


def remaining(changes: Iterable[SchemaChange], contract: Iterable[ContractColumn]) -> tuple[SchemaChange, ...]:
    """Return the changes that the contract does not have yet, as users may have edited it since the comparison."""
    known = {column.name: column for column in contract}
    return tuple(change for change in changes if _is_open(change, known))


def _is_open(change: SchemaChange, known: dict[str, ContractColumn]) -> bool:
    column, former = known.get(change.name), known.get(change.former)
    match change.kind:
        case "new":
            return column is None
        case "returning":
            return column is not None and not column.active
        case "renamed" | "recased":
            return column is None and former is not None and former.active
        case "gone":
            return column is not None and column.active
        case "clashing":
            return former is not None and column is None
    return column is not None and column.active and type_relation(column.type, parse(change.after)) is not None


def split_rename(change: SchemaChange) -> tuple[SchemaChange, SchemaChange]:
    """Return a rename as two changes: its former column is gone, and one of the new name is new."""
    gone = SchemaChange(GONE, change.former, before=change.before)
    return gone, SchemaChange(NEW, change.name, after=change.after or change.before, declared=change.declared)


def join_rename(gone: SchemaChange, new: SchemaChange) -> SchemaChange:
    """Return a column that is gone and one that is new as one rename; a user knows that it is one."""
    relation = type_relation(parse(gone.before), parse(new.after)) if new.after else None
    return SchemaChange(
        RENAMED,
        new.name,
        gone.name,
        before=gone.before,
        after=new.after,
        declared=new.declared,
        relation=relation or "",
    )


def with_joined(changes: Iterable[SchemaChange], take: Collection[str]) -> list[SchemaChange]:
    """Return the changes, with a rename in place of each two whose rename is in ``take`` by its id."""
    joined = list(changes)
    known = {change.id for change in joined}
    for gone in [change for change in joined if change.kind == GONE]:
        for new in [change for change in joined if change.kind == NEW]:
            rename = join_rename(gone, new)
            if rename.id in take and rename.id not in known and {gone, new} <= set(joined):
                joined = [rename, *(change for change in joined if change not in (gone, new))]
    return joined


def _parents_of_paths(known: dict[str, ContractColumn], seen: dict[str, ObservedColumn]) -> set[str]:
    """Return the observed columns of which the contract has paths (``a.b``), which read a part of them."""
    heads = {name.partition(".")[0] for name in known if "." in name and name not in seen}
    return heads & seen.keys() - known.keys()


_Left = tuple[list[SchemaChange], list[ContractColumn], list[ObservedColumn]]


def _recased(gone: Sequence[ContractColumn], fresh: Sequence[ObservedColumn]) -> _Left:
    """Return the columns whose name differs by case only, and the rest."""
    by_name = {column.name.lower(): column for column in sorted(fresh, key=lambda column: column.name, reverse=True)}
    pairs = [(column, by_name[column.name.lower()]) for column in gone if column.name.lower() in by_name]
    return _without(pairs, gone, fresh, [_pair_change(RECASED, former, now) for former, now in pairs])


def _clashing(
    names: Collection[str], fresh: Sequence[ObservedColumn]
) -> tuple[list[SchemaChange], list[ObservedColumn]]:
    """Return the columns whose name another column has in another case, of the contract or of the source."""
    holders = {name.lower(): name for name in names}
    changes, left = [], []
    for column in sorted(fresh, key=lambda column: column.name):
        holder = holders.setdefault(column.name.lower(), column.name)
        if holder == column.name:
            left.append(column)
        else:
            changes.append(SchemaChange(CLASHING, column.name, holder, after=_text(column.type)))
    return changes, left


def _renamed(gone: Sequence[ContractColumn], fresh: Sequence[ObservedColumn]) -> _Left:
    """Return the probable renames, the best first, each column in one of them, and the rest."""
    only_pair = len(gone) == len(fresh) == 1
    scored = [
        (max(rename_score(former, now, only_pair=only_pair), _value_score(former, now)), former, now)
        for former in gone
        for now in fresh
    ]
    scored.sort(key=lambda item: (-item[0], item[1].name, item[2].name))
    pairs: list[tuple[ContractColumn, ObservedColumn]] = []
    changes: list[SchemaChange] = []
    taken: set[str] = set()
    for score, former, now in scored:
        if score < PROBABLE or f"-{former.name}" in taken or f"+{now.name}" in taken:
            continue
        taken |= {f"-{former.name}", f"+{now.name}"}
        pairs.append((former, now))
        changes.append(replace(_pair_change(RENAMED, former, now), score=score, evidence=_evidence(former, now)))
    return _without(pairs, gone, fresh, changes)


def _without(
    pairs: Sequence[tuple[ContractColumn, ObservedColumn]],
    gone: Sequence[ContractColumn],
    fresh: Sequence[ObservedColumn],
    changes: list[SchemaChange],
) -> _Left:
    formers, nows = {former.name for former, _ in pairs}, {now.name for _, now in pairs}
    return (
        changes,
        [column for column in gone if column.name not in formers],
        [column for column in fresh if column.name not in nows],
    )


def _pair_change(kind: str, former: ContractColumn, now: ObservedColumn) -> SchemaChange:
    relation = type_relation(former.type, now.type) if now.type is not None else None
    return SchemaChange(
        kind,
        now.name,
        former.name,
        before=str(former.type),
        after=_text(now.type),
        declared=now.declared,
        relation=relation or "",
    )


def _gone(column: ContractColumn) -> SchemaChange:
    return SchemaChange(GONE, column.name, before=str(column.type))


def _names(columns: Iterable[ContractColumn]) -> set[str]:
    return {column.name for column in columns}


def _text(type_: DataType | None) -> str:
    return str(type_) if type_ is not None else ""


def _value_score(former: ContractColumn, now: ObservedColumn) -> float:
    """Return the share of keys that have the same value in both columns; 0 if none were compared."""
    equal, compared = now.share(former.name)
    return round(equal / compared, 2) if compared else 0.0


def _evidence(former: ContractColumn, now: ObservedColumn) -> str:
    equal, compared = now.share(former.name)
    return f"{equal:,} of {compared:,} keys have the same value" if compared else ""


def _type_score(former: DataType, now: DataType | None) -> float:
    if now is None or type_relation(former, now) is None:
        return _EQUAL
    return 0.0 if type_relation(former, now) == INCOMPATIBLE else _COMPATIBLE


def _similarity(former: str, now: str) -> float:
    """Return the similarity of two names from 0 to 1, whatever their case and the marks between their words."""
    first, second = _words(former), _words(now)
    letters = SequenceMatcher(None, "".join(first), "".join(second), autojunk=False).ratio()
    shared = 2 * len(set(first) & set(second)) / (len(set(first)) + len(set(second))) if first and second else 0.0
    return max(letters, shared)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
