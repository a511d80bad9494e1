"""Comparison of a report's datasets before and after, limited to the differences.

It is computed from the report's ``content``, which approvals refer to. *Before* is the observed structure with the
applied logic, *after* the desired dataset.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from architecture.domain.planning.matching import Matching, match
from architecture.domain.report_content import (
    ColumnContent,
    CurrentContent,
    DatasetContent,
    OperationContent,
    read_current,
    read_desired,
    read_operations,
)
from architecture.domain.states.state_files import FOREIGN_KEY
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
    def is_unchanged(self) -> bool:
        return None not in (self.before, self.after) and not self.differing and not self.operations

    @property
    def current(self) -> Column:
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
    def current(self) -> Dataset:
        side = self.after or self.before
        assert side is not None
        return side

    @property
    def change(self) -> str:
        """Return ``new``, ``removed``, ``renamed`` or ``changed``."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "removed"
        return "changed" if self.before.name == self.after.name else "renamed"

    @property
    def is_unchanged(self) -> bool:
        unchanged = not self.operations and all(column.is_unchanged for column in self.columns)
        return unchanged and not any(True for _ in self.facts({}))

    @property
    def input_keys(self) -> frozenset[str]:
        """Return the stable keys whose names are needed to render the pair."""
        datasets = (side for side in (self.before, self.after) if side)
        columns = (side for pair in self.columns for side in (pair.before, pair.after) if side)
        readers: tuple[Dataset | Column, ...] = (*datasets, *columns)
        keys = (key for reader in readers for item in reader.inputs for key in item.split(_PAIR))
        return frozenset(keys)

    def facts(self, names: Mapping[str, str]) -> Iterator["Fact"]:
        """Yield the differences of the dataset itself."""
        before, after = (_facts_by_label(side, names) if side else {} for side in (self.before, self.after))
        for label in dict.fromkeys((*after, *before)):
            if before.get(label, "") != after.get(label, ""):
                yield Fact(label, before.get(label, ""), after.get(label, ""))

    def rendered(self, names: Mapping[str, str]) -> "RenderedPair":
        """Return the rendered comparison. ``names`` are the names of datasets and columns by stable key."""
        rows = tuple(_column_row(pair, names) for pair in self.columns if not pair.is_unchanged)
        unchanged = tuple(f"{pair.current.name} {pair.current.type}" for pair in self.columns if pair.is_unchanged)
        return RenderedPair(self, tuple(self.facts(names)), rows, unchanged)


# --- rendered comparison ---------------------------------------------------------------------


@dataclass(frozen=True)
class Fact:
    """Rendered property of a dataset before and after; empty if it has none."""

    label: str
    before: str
    after: str


@dataclass(frozen=True)
class RenderedProperty:
    """Rendered property of a column, before or after. ``field`` is the name of the column's field."""

    field: str
    text: str
    differs: bool


@dataclass(frozen=True)
class ColumnRow:
    """Rendered properties of a column that differs; empty where it does not exist."""

    before: tuple[RenderedProperty, ...]
    after: tuple[RenderedProperty, ...]
    operations: tuple[int, ...]


@dataclass(frozen=True)
class RenderedPair:
    """Pair of datasets with the rendered differences, and the names and types of the unchanged columns."""

    pair: DatasetPair
    facts: tuple[Fact, ...]
    columns: tuple[ColumnRow, ...]
    unchanged: tuple[str, ...]


def _facts_by_label(dataset: Dataset, names: Mapping[str, str]) -> dict[str, str]:
    texts = {
        "Name": dataset.name,
        "Materialization": dataset.materialization,
        "Status": "active" if dataset.active else "retired",
        "History": "yes" if dataset.historize else "no",
        "Warehouse": "".join(f"{'table' if side == 'base' else side} missing" for side in dataset.missing[:1]),
        "Filter": dataset.filter,
        "SELECT": dataset.select,
        "Inputs": ", ".join(sorted(_named(key, names) for key in dataset.inputs)),
        "Hash version": str(dataset.hash_version),
    }
    texts |= dict(_flat("Load policy", dataset.load_policy))
    texts |= dict(_flat("Incremental load", dataset.increment))
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
    before, after = (
        tuple(_properties(side, pair.differing, names)) if side else () for side in (pair.before, pair.after)
    )
    return ColumnRow(before, after, pair.operations)


def _properties(column: Column, differing: frozenset[str], names: Mapping[str, str]) -> Iterator[RenderedProperty]:
    """Yield the rendered properties of a column; defaults only if they differ."""
    yield RenderedProperty("name", column.name, "name" in differing)
    yield RenderedProperty("type", column.type, "type" in differing)
    if not column.nullable or "nullable" in differing:
        yield RenderedProperty("nullable", "nullable" if column.nullable else "not null", "nullable" in differing)
    if column.role != ATTRIBUTE or "role" in differing:
        yield RenderedProperty("role", _ROLES.get(column.role, column.role), "role" in differing)
    if not column.active or "active" in differing:
        yield RenderedProperty("active", "active" if column.active else "retired", "active" in differing)
    if column.expression or "expression" in differing:
        yield RenderedProperty("expression", column.expression or "no expression", "expression" in differing)
    if "inputs" in differing:
        inputs = ", ".join(
            sorted(" = ".join(_named(key, names) for key in item.split(_PAIR)) for item in column.inputs)
        )
        yield RenderedProperty("inputs", f"from {inputs}" if inputs else "from no column", True)


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
    operations = _operations(read_operations(content))
    desired = {row.key: row for row in read_desired(content)}
    current = tuple(read_current(content))
    # A dataset is compared only with the one of its key, so unchanged datasets can be left out early.
    unchanged = {
        row.dataset.key for row in current if _is_unchanged(row, desired.get(row.dataset.key), operations.by_dataset)
    }
    before = [_observed_dataset(row, operations) for row in current if row.dataset.key not in unchanged]
    after = [_dataset(row) for key, row in desired.items() if key not in unchanged]
    pairs = [_pair(left, right, operations) for left, right in _matched(before, after)]
    return tuple(sorted((pair for pair in pairs if not pair.is_unchanged), key=lambda pair: pair.current.name))


def _is_unchanged(current: CurrentContent, desired: DatasetContent | None, changed: Collection[str]) -> bool:
    """Return True if a dataset has no differences, without building its comparison.

    ``changed`` are the stable keys of the datasets that have an operation.
    """
    dataset, base = current.dataset, current.base
    if dataset != desired or current.missing or dataset.key in changed:
        return False
    if base is None:
        return True
    observed = {column.key: (column.name, column.type) for column in base.columns}
    as_observed = all(
        observed[column.key] == (column.name, column.type) if column.key in observed else not column.active
        for column in dataset.columns
    )
    return as_observed and (base.schema, base.name) == (dataset.schema, dataset.name)


def _matched(before: list[Any], after: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield (before, after) for each matched pair, and (item, None) or (None, item) for unmatched ones."""
    matching: Matching[Any] = match(
        before, after, name=_lower_name, former=lambda item: (name.lower() for name in item.former_names)
    )
    pairs = matching.known
    paired = {id(side) for pair in pairs for side in (pair.before, pair.after)}
    yield from ((pair.before, pair.after) for pair in pairs)
    yield from ((item, None) for item in before if id(item) not in paired)
    yield from ((None, item) for item in after if id(item) not in paired)


def _lower_name(item: Any) -> str:
    name: str = item.name
    return name.lower()


def _pair(before: Dataset | None, after: Dataset | None, operations: _Operations) -> DatasetPair:
    keys = {side.key for side in (before, after) if side}
    columns = []
    for left, right in _matched(list(before.columns if before else ()), list(after.columns if after else ())):
        own = {side.key for side in (left, right) if side}
        columns.append(ColumnPair(left, right, operations.of(keys, own)))
    columns.sort(key=lambda pair: (pair.current.role != BUSINESS_KEY, pair.current.name.lower()))
    listed = {number for column in columns for number in column.operations}
    all_ = {number for key in keys for number in operations.by_dataset.get(key, ())}
    return DatasetPair(before, after, tuple(columns), tuple(sorted(all_ - listed)))


def _operations(contents: Iterable[OperationContent]) -> _Operations:
    grouped = _Operations()
    for number, operation in enumerate(contents, start=1):
        grouped.by_dataset.setdefault(operation.dataset_key, []).append(number)
        for key in operation.column_keys:
            grouped.by_column.setdefault((operation.dataset_key, key), []).append(number)
    return grouped


def _dataset(content: DatasetContent) -> Dataset:
    former = content.former_names
    return Dataset(
        content.key,
        f"{content.schema}.{content.name}",
        (*former, *(f"{content.schema}.{name}" for name in former if "." not in name)),
        content.active,
        content.materialization,
        content.historize,
        content.filter or "",
        tuple(content.inputs),
        content.load_policy,
        content.history_policy,
        content.hash_version,
        tuple(map(_column, content.columns)),
        content.select or "",
        content.increment,
        content.contract or None,
    )


def _column(content: ColumnContent) -> Column:
    return Column(
        content.key,
        content.name,
        content.type,
        content.nullable,
        content.role,
        content.active,
        content.expression or "",
        tuple(content.inputs),
        tuple(content.former_names),
    )


def _observed_dataset(content: CurrentContent, operations: _Operations) -> Dataset:
    """Return the applied dataset with the observed names and types."""
    dataset, base = replace(_dataset(content.dataset), missing=content.missing), content.base
    if base is None:
        return dataset
    known = {column.key for column in dataset.columns}
    observed = {column.key: column for column in base.columns}
    columns = [
        replace(column, name=observed[column.key].name, type=observed[column.key].type)
        if column.key in observed
        else column
        for column in dataset.columns
        if column.key in observed or not column.active
    ]
    # Of columns that are not in the metadata, only changed ones are compared: technical columns are derived.
    for key in observed.keys() - known:
        if (dataset.key, key) in operations.by_column:
            columns.append(Column(key, observed[key].name, observed[key].type, role=TECHNICAL))
    return replace(dataset, name=f"{base.schema}.{base.name}", columns=tuple(columns))
