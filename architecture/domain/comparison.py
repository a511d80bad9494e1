"""Comparison of a report's datasets before and after, limited to the differences.

It is computed from the report's ``content``, which approvals refer to. *Before* is the observed structure with the
applied logic, *after* the desired dataset.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from architecture.domain.dataset_pairs import Column, ColumnPair, Dataset, DatasetPair
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
from metadata.domain.state import BUSINESS_KEY, TECHNICAL


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
