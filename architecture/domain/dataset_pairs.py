"""Datasets and columns before and after a change, and their rendering.

States are compared field by field; only differences are rendered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from architecture.domain.states.flat_states import FOREIGN_KEY
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
        "Inputs": ", ".join(sorted(names.get(key, key) for key in dataset.inputs)),
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
            sorted(" = ".join(names.get(key, key) for key in item.split(_PAIR)) for item in column.inputs)
        )
        yield RenderedProperty("inputs", f"from {inputs}" if inputs else "from no column", True)
