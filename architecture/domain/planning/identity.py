"""Desired state under the stable keys by which an environment knows it.

A table lies under the key that it was made with, its columns are tied to theirs, and rows are hashed
under them. Where metadata gave something another key and kept its name, none of that may move: the
environment's key goes on to count, in planning, in statements and in loads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from architecture.domain.operations import Warning
from architecture.domain.planning.diff import Pair, match
from architecture.domain.states.flat import flat
from metadata.domain.state import ColumnState, DatasetState, ReferenceState

KEY_CHANGED = "KEY_CHANGED_NAME_KEPT"


@dataclass(frozen=True)
class Known:
    """Desired ``states`` under the environment's keys.

    ``moved`` has the environment's key of each dataset that metadata knows by another one, with that
    other one. ``warnings`` come with the environment's key of the dataset they are about.
    """

    states: tuple[DatasetState, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[tuple[str, Warning], ...] = ()


def as_known(desired: Iterable[DatasetState], applied: Iterable[DatasetState]) -> Known:
    """``desired``, as metadata has it, under the keys of what was ``applied`` and is the same.

    The same is what planning takes for the same: by stable key, by name, by former names.
    """
    desired = tuple(desired)
    same = {pair.after.key: _Same(pair) for pair in _pairs(desired, tuple(applied))}
    if not any(one.has_moved for one in same.values()):
        return Known(desired)
    translation = _Translation(desired, same)
    return Known(
        states=tuple(map(translation.state, desired)),
        moved={one.key: key for key, one in same.items() if one.key != key},
        warnings=tuple((one.key, warning) for one in same.values() for warning in one.warnings()),
    )


def key_changed(dataset: str, column: str, before: str, after: str) -> Warning:
    """Return the warning for a dataset, or a column of it, that was matched by its name alone."""
    said = f"its stable key moved from {before} to {after}; it is taken for the same by its name"
    return Warning(KEY_CHANGED, dataset, column, said)


def _pairs(desired: tuple[DatasetState, ...], applied: tuple[DatasetState, ...]) -> list[Pair[DatasetState]]:
    there, wanted = {one.key: one for one in applied}, {one.key for one in desired}
    if wanted <= there.keys() or there.keys() <= wanted:  # nothing is left to be known by a name
        return [Pair(there[one.key], one, "key") for one in desired if one.key in there]
    found = match(
        sorted(applied, key=lambda one: one.key),
        sorted(desired, key=lambda one: one.key),
        name=lambda one: one.qualified_name.lower(),
        former=_former_names,
    )
    return found.pairs + [pair for pair, _ in found.duplicate if pair.by == "key"]


def _former_names(dataset: DatasetState) -> Iterable[str]:
    """A former name without a schema was in the schema of today."""
    return ((name if "." in name else f"{dataset.schema}.{name}").lower() for name in dataset.former_names)


@dataclass(frozen=True)
class _Same:
    """A dataset that is desired and was applied."""

    pair: Pair[DatasetState]

    @property
    def key(self) -> str:
        return self.pair.before.key

    @property
    def history_key(self) -> str | None:
        """That of the history that is there; one that is still to be made has the key of metadata."""
        wanted = self.pair.after.history_key
        return wanted and (self.pair.before.history_key or wanted)

    @cached_property
    def columns(self) -> list[Pair[ColumnState]]:
        """Columns that are the same and have another key now; foreign keys are columns, too."""
        before, after = flat(self.pair.before).columns, flat(self.pair.after).columns
        there, wanted = {one.key for one in before}, {one.key for one in after}
        if wanted <= there or there <= wanted:
            return []
        found = match(
            before,
            after,
            name=lambda one: one.name.lower(),
            former=lambda one: (name.lower() for name in one.former_names),
        )
        return [one for one in found.pairs if one.before.key != one.after.key]

    @cached_property
    def column_keys(self) -> dict[str, str]:
        return {one.after.key: one.before.key for one in self.columns}

    @property
    def has_moved(self) -> bool:
        after = self.pair.after
        return (self.key, self.history_key) != (after.key, after.history_key) or bool(self.columns)

    def warnings(self) -> Iterable[Warning]:
        """Of what kept its name; what was renamed as well is told by its operation."""
        before, after = self.pair.before, self.pair.after
        if self.pair.by == "name":
            yield key_changed(before.qualified_name, "", before.key, after.key)
        for one in self.columns:
            if one.by == "name":
                yield key_changed(before.qualified_name, one.before.name, one.before.key, one.after.key)


class _Translation:
    """Every key of one description, as the environment says it."""

    def __init__(self, desired: Iterable[DatasetState], same: Mapping[str, _Same]) -> None:
        self.same = same
        self.datasets = {key: one.key for key, one in same.items()}
        # A dataset may read another one's history, and then means that one's columns.
        self.base: dict[str, str] = {}
        for one in desired:
            if one.history_key is not None:
                self.base[one.history_key] = one.key
                if one.key in same:
                    self.datasets[one.history_key] = same[one.key].history_key or one.history_key

    def state(self, dataset: DatasetState) -> DatasetState:
        known, own = self.same.get(dataset.key), self._columns_of(dataset.key)
        read = {key: to for upstream in dataset.inputs for key, to in self._columns_of(upstream).items()}
        columns = tuple(
            replace(
                column,
                key=own.get(column.key, column.key),
                inputs=tuple(read.get(key, key) for key in column.inputs),
            )
            for column in dataset.columns
        )
        return replace(
            dataset,
            key=self.datasets.get(dataset.key, dataset.key),
            history_key=known.history_key if known else dataset.history_key,
            inputs=tuple(self.datasets.get(key, key) for key in dataset.inputs),
            columns=columns,
            references=tuple(self._reference(one, own) for one in dataset.references),
        )

    def _columns_of(self, key: str) -> Mapping[str, str]:
        known = self.same.get(self.base.get(key, key))
        return known.column_keys if known else {}

    def _reference(self, reference: ReferenceState, own: Mapping[str, str]) -> ReferenceState:
        parents = self._columns_of(reference.parent)
        return replace(
            reference,
            key=own.get(reference.key, reference.key),
            parent=self.datasets.get(reference.parent, reference.parent),
            pairs=tuple((own.get(child, child), parents.get(parent, parent)) for child, parent in reference.pairs),
        )
