"""Comparison of a report's datasets before and after, limited to the differences.

It is computed from the report's ``content``, which approvals refer to. *Before* is the observed structure with the
applied logic, *after* the desired dataset.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from architecture.domain.planning.matching import Matching, match
from architecture.domain.state_files import FOREIGN_KEY
from metadata.domain.state import ATTRIBUTE, BUSINESS_KEY, TECHNICAL

_ROLES = {BUSINESS_KEY: "business key", ATTRIBUTE: "attribute", TECHNICAL: "technical", FOREIGN_KEY: "foreign key"}
# A column pair of a foreign key is written as one input: child=parent.
_PAIR = "="


@dataclass(frozen=True)
class Column:
    """Column before or after. ``inputs`` are stable keys; those of a foreign key are pairs of keys."""

    key: str
    name: str
    type: str
    nullable: bool = True
    role: str = ATTRIBUTE
    active: bool = True
    expression: str = ""
    inputs: tuple[str, ...] = ()
    former_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """Dataset before or after. ``name`` is ``schema.name``; ``missing``: sides that were applied but not observed."""

    key: str
    name: str
    former_names: tuple[str, ...]
    active: bool
    materialization: str
    historize: bool
    filter: str
    inputs: tuple[str, ...]
    load_policy: Any
    history_policy: Any
    hash_version: int
    columns: tuple[Column, ...]
    select: str = ""
    increment: Any = None
    contract: Any = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnPair:
    """Column before and after, None if it does not exist; ``operations`` are numbers in the report, from 1."""

    before: Column | None
    after: Column | None
    operations: tuple[int, ...] = ()

    @cached_property
    def differing(self) -> frozenset[str]:
        """Return the names of the fields that differ; empty if the column does not exist before or after."""
        if self.before is None or self.after is None:
            return frozenset()
        compared = ("name", "type", "nullable", "role", "active", "expression", "inputs")
        return frozenset(field for field in compared if getattr(self.before, field) != getattr(self.after, field))

    @property
    def is_same(self) -> bool:
        return None not in (self.before, self.after) and not self.differing and not self.operations

    @property
    def either(self) -> Column:
        side = self.after or self.before
        assert side is not None
        return side


@dataclass(frozen=True)
class DatasetPair:
    """Dataset before and after. ``columns`` are all its columns, keys first, then by name.

    ``operations`` are the numbers of the operations that belong to none of the columns.
    """

    before: Dataset | None
    after: Dataset | None
    columns: tuple[ColumnPair, ...]
    operations: tuple[int, ...] = ()

    @property
    def either(self) -> Dataset:
        side = self.after or self.before
        assert side is not None
        return side

    @property
    def change(self) -> str:
        """Return ``new``, ``gone``, ``renamed`` or ``changed``."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "changed" if self.before.name == self.after.name else "renamed"

    @property
    def is_same(self) -> bool:
        same = not self.operations and all(column.is_same for column in self.columns)
        return same and not any(True for _ in self.facts({}))

    @property
    def input_keys(self) -> frozenset[str]:
        """Return the stable keys whose names are needed to render the pair."""
        datasets = (side for side in (self.before, self.after) if side)
        columns = (side for pair in self.columns for side in (pair.before, pair.after) if side)
        keys = (key for reader in (*datasets, *columns) for item in reader.inputs for key in item.split(_PAIR))
        return frozenset(keys)

    def facts(self, names: Mapping[str, str]) -> Iterator["Fact"]:
        """Yield the differences of the dataset itself."""
        before, after = (_facts_by_label(side, names) if side else {} for side in (self.before, self.after))
        for label in dict.fromkeys((*after, *before)):
            if before.get(label, "") != after.get(label, ""):
                yield Fact(label, before.get(label, ""), after.get(label, ""))

    def rendered(self, names: Mapping[str, str]) -> "RenderedPair":
        """Return the rendered comparison. ``names`` are the names of datasets and columns by stable key."""
        rows = tuple(_column_row(pair, names) for pair in self.columns if not pair.is_same)
        same = tuple(f"{pair.either.name} {pair.either.type}" for pair in self.columns if pair.is_same)
        return RenderedPair(self, tuple(self.facts(names)), rows, same)


# --- rendered comparison ---------------------------------------------------------------------


@dataclass(frozen=True)
class Fact:
    """Rendered property of a dataset before and after; empty if it has none."""

    label: str
    before: str
    after: str


@dataclass(frozen=True)
class Said:
    """Rendered property of a column, before or after."""

    what: str
    text: str
    differs: bool


@dataclass(frozen=True)
class ColumnRow:
    before: tuple[Said, ...]
    after: tuple[Said, ...]
    operations: tuple[int, ...]


@dataclass(frozen=True)
class RenderedPair:
    """Pair of datasets with the rendered differences; ``same`` are the unchanged columns."""

    pair: DatasetPair
    facts: tuple[Fact, ...]
    columns: tuple[ColumnRow, ...]
    same: tuple[str, ...]


def _facts_by_label(dataset: Dataset, names: Mapping[str, str]) -> dict[str, str]:
    texts = {
        "Name": dataset.name,
        "Stored as": dataset.materialization,
        "In use": "yes" if dataset.active else "no, retired",
        "History": "kept" if dataset.historize else "not kept",
        "Found": "".join(f"its {'table' if side == 'base' else side} is missing" for side in dataset.missing[:1]),
        "Filter": dataset.filter,
        "SELECT": dataset.select,
        "Inputs": ", ".join(sorted(_named(key, names) for key in dataset.inputs)),
        "Hashes": f"version {dataset.hash_version}",
    }
    texts |= dict(_flat("Load policy", dataset.load_policy))
    texts |= dict(_flat("Computed by a load", dataset.increment))
    if dataset.contract is not None:
        checks = ", ".join(sorted(check["name"] for check in dataset.contract["checks"]))
        texts |= {"Contract": "declared", "Promised checks": checks}
    return {
        label: text for label, text in (texts | dict(_flat("History policy", dataset.history_policy))).items() if text
    }


def _flat(label: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a policy, so that only differing fields are rendered."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from _flat(f"{label}: {name.replace('_', ' ')}", value[name])
    elif isinstance(value, list):
        yield label, ", ".join(str(item) for item in value)
    elif value is not None:
        yield label, ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _column_row(pair: ColumnPair, names: Mapping[str, str]) -> ColumnRow:
    sides = (tuple(_said(side, pair.differing, names)) if side else () for side in (pair.before, pair.after))
    return ColumnRow(*sides, pair.operations)


def _said(column: Column, differing: frozenset[str], names: Mapping[str, str]) -> Iterator[Said]:
    """Yield the rendered properties of a column; defaults only if they differ."""
    yield Said("name", column.name, "name" in differing)
    yield Said("type", column.type, "type" in differing)
    if not column.nullable or "nullable" in differing:
        yield Said("nullable", "nullable" if column.nullable else "not null", "nullable" in differing)
    if column.role != ATTRIBUTE or "role" in differing:
        yield Said("role", _ROLES.get(column.role, column.role), "role" in differing)
    if not column.active or "active" in differing:
        yield Said("active", "in use" if column.active else "retired", "active" in differing)
    if column.expression or "expression" in differing:
        yield Said("expression", column.expression or "no expression", "expression" in differing)
    if "inputs" in differing:
        inputs = ", ".join(
            sorted(" = ".join(_named(key, names) for key in item.split(_PAIR)) for item in column.inputs)
        )
        yield Said("inputs", f"from {inputs}" if inputs else "from no column", True)


def _named(key: str, names: Mapping[str, str]) -> str:
    return names.get(key, key)


# --- from a report's content -----------------------------------------------------------------


@dataclass
class _Operations:
    """Numbers of operations by dataset and column."""

    by_column: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    by_dataset: dict[str, list[int]] = field(default_factory=dict)

    def of(self, keys: Iterable[str], columns: Iterable[str]) -> tuple[int, ...]:
        pairs = {(key, column) for key in keys for column in columns}
        return tuple(sorted({number for pair in pairs for number in self.by_column.get(pair, ())}))


def compare(content: Mapping[str, Any]) -> tuple[DatasetPair, ...]:
    """Return the datasets of a report that differ or have an operation, ordered by name."""
    operations = _operations(content["operations"])
    # A dataset is compared only with the one of its key, so unchanged datasets can be left out early.
    desired = {row[0]: row for row in content["desired"]}
    stays = {row[0][0] for row in content["current"] if _stays(row, desired.get(row[0][0]), operations)}
    before = [_found(row, operations) for row in content["current"] if row[0][0] not in stays]
    after = [_dataset(row) for key, row in desired.items() if key not in stays]
    pairs = [_pair(left, right, operations) for left, right in _same(before, after)]
    return tuple(sorted((pair for pair in pairs if not pair.is_same), key=lambda pair: pair.either.name))


def _stays(row: list[Any], desired: list[Any] | None, operations: _Operations) -> bool:
    """Return True if a dataset has no differences, without building its comparison."""
    state, tables, missing = row
    if state != desired or missing or state[0] in operations.by_dataset:
        return False
    if not tables:
        return True
    base, columns = tables[0], state[-1]
    shown = {key: (name, type_) for key, name, type_, _ in base[3]}
    named = [
        (active, key in shown, shown.get(key) == (name, type_)) for key, name, _, type_, _, _, active, *_ in columns
    ]
    return base[:2] == state[1:3] and all(same or not (known or active) for active, known, same in named)


def _same(before: list[Any], after: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs that planning matched, with None for a missing counterpart."""
    matching: Matching = match(
        before, after, name=_folded, former=lambda item: (name.lower() for name in item.former_names)
    )
    pairs = matching.known
    paired = {id(side) for pair in pairs for side in (pair.before, pair.after)}
    yield from ((pair.before, pair.after) for pair in pairs)
    yield from ((item, None) for item in before if id(item) not in paired)
    yield from ((None, item) for item in after if id(item) not in paired)


def _folded(one: Any) -> str:
    return one.name.lower()


def _pair(before: Dataset | None, after: Dataset | None, operations: _Operations) -> DatasetPair:
    keys = {side.key for side in (before, after) if side}
    columns = []
    for left, right in _same(list(before.columns if before else ()), list(after.columns if after else ())):
        own = {side.key for side in (left, right) if side}
        columns.append(ColumnPair(left, right, operations.of(keys, own)))
    columns.sort(key=lambda pair: (pair.either.role != BUSINESS_KEY, pair.either.name.lower()))
    listed = {number for column in columns for number in column.operations}
    all_ = {number for key in keys for number in operations.by_dataset.get(key, ())}
    return DatasetPair(before, after, tuple(columns), tuple(sorted(all_ - listed)))


def _operations(rows: Iterable[list[Any]]) -> _Operations:
    grouped = _Operations()
    for number, row in enumerate(rows, start=1):
        dataset, column, columns = row[2], row[5], row[8]
        grouped.by_dataset.setdefault(dataset, []).append(number)
        for key in {column, *(column[0] for column in columns)} - {""}:
            grouped.by_column.setdefault((dataset, key), []).append(number)
    return grouped


def _dataset(row: list[Any]) -> Dataset:
    key, schema, name, former, active, materialization, historize, _, filter_, inputs, *policies, columns = row
    # Only models have a SELECT and an increment, and only contracts the checks that they promise.
    load_policy, history_policy, hash_version, select, increment, contract = (*policies, "", None, None)[:6]
    return Dataset(
        key,
        f"{schema}.{name}",
        (*former, *(f"{schema}.{name}" for name in former if "." not in name)),
        active,
        materialization,
        historize,
        filter_ or "",
        tuple(inputs),
        load_policy,
        history_policy,
        hash_version,
        tuple(map(_column, columns)),
        select or "",
        increment,
        contract or None,
    )


def _column(row: list[Any]) -> Column:
    key, name, former, type_, nullable, role, active, expression, inputs = row
    return Column(key, name, type_, nullable, role, active, expression or "", tuple(inputs), tuple(former))


def _found(row: list[Any], operations: _Operations) -> Dataset:
    """Return the applied dataset with the observed names and types."""
    state, tables, missing = row
    dataset = replace(_dataset(state), missing=tuple(missing))
    base = tables[0] if tables else None
    if base is None:
        return dataset
    described = {column.key for column in dataset.columns}
    shown = {key: (name, type_) for key, name, type_, _ in base[3]}
    columns = [
        replace(column, name=shown[column.key][0], type=shown[column.key][1]) if column.key in shown else column
        for column in dataset.columns
        if column.key in shown or not column.active
    ]
    # Of columns that are not in the metadata, only changed ones are compared: technical columns are derived.
    for key in shown.keys() - described:
        if (dataset.key, key) in operations.by_column:
            columns.append(Column(key, *shown[key], role=TECHNICAL))
    return replace(dataset, name=f"{base[0]}.{base[1]}", columns=tuple(columns))
