"""Matching by stable key, name and former name.

The warehouse refers to a dataset and its columns by the keys with which they were created: in table locations, table
properties and hashes. If the metadata has another key for the same name, planning, statements and loads therefore use
the environment's key. Matching is linear in the number of datasets and columns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from architecture.domain.operations import Warning
from architecture.domain.states.flat_states import flat
from metadata.domain.state import ColumnState, DatasetState, ReferenceState


class Named(Protocol):
    @property
    def key(self) -> str: ...

    @property
    def active(self) -> bool: ...

    @property
    def former_names(self) -> tuple[str, ...]: ...


Thing = TypeVar("Thing", bound=Named)


@dataclass(frozen=True)
class Pair(Generic[Thing]):
    """Matched datasets or columns. ``by`` is the criterion: key, name or former."""

    before: Thing
    after: Thing
    by: str


@dataclass
class Matching(Generic[Thing]):
    """Result of a matching, in the order of the desired items.

    ``ambiguous``: desired items with several possible predecessors, or with a predecessor that others claim, too.
    ``duplicate``: pairs whose former name also exists as an unmatched item. Nothing is planned for either.
    ``claimed``: pairs whose former name is the name of another matched item; the two are independent.
    """

    pairs: list[Pair[Thing]] = field(default_factory=list)
    new: list[Thing] = field(default_factory=list)
    gone: list[Thing] = field(default_factory=list)
    ambiguous: list[tuple[Thing, list[Thing]]] = field(default_factory=list)
    duplicate: list[tuple[Pair[Thing], list[Thing]]] = field(default_factory=list)
    claimed: list[tuple[Pair[Thing], list[Thing]]] = field(default_factory=list)

    @property
    def known(self) -> list[Pair[Thing]]:
        """Return all pairs, including duplicates, whose desired logic loads use."""
        return self.pairs + [pair for pair, _ in self.duplicate]

    @property
    def left_alone(self) -> list[Thing]:
        """Return the existing items that stay unchanged because a user has to decide."""
        doubtful = [thing for _, things in self.ambiguous for thing in things]
        return doubtful + [thing for pair, things in self.duplicate for thing in (pair.before, *things)]


def match(
    before: Sequence[Thing],
    after: Sequence[Thing],
    *,
    name: Callable[[Thing], str],
    former: Callable[[Thing], Iterable[str]],
) -> Matching[Thing]:
    """Match existing items (``before``) with desired ones (``after``).

    ``name`` and ``former`` return normalized names, as the warehouse compares them.
    """
    matching: Matching[Thing] = Matching()
    pairs, free, open_ = _by_key(before, after)
    open_ = _by_name(pairs, free, open_, name)
    names = _names(free.values(), name)
    open_ = _by_former_name(matching, pairs, free, open_, names, former)
    _move_duplicates(matching, pairs, free, names, former, name)
    matching.claimed = list(_pairs_with_claimed_names(pairs, former, name))
    matching.new = open_
    matching.gone = list(free.values())
    order = {id(thing): index for index, thing in enumerate(after)}
    matching.pairs = sorted(pairs, key=lambda pair: order[id(pair.after)])
    return matching


def _by_key(before: Sequence[Thing], after: Sequence[Thing]) -> tuple[list[Pair[Thing]], dict[str, Thing], list[Thing]]:
    free = {thing.key: thing for thing in before}
    pairs, open_ = [], []
    for thing in after:
        known = free.pop(thing.key, None)
        if known is None:
            open_.append(thing)
        else:
            pairs.append(Pair(known, thing, "key"))
    return pairs, free, open_


def _names(things: Iterable[Thing], name: Callable[[Thing], str]) -> dict[str, list[Thing]]:
    """Return the items by name, active ones before retired ones."""
    names: dict[str, list[Thing]] = {}
    for thing in sorted(things, key=lambda thing: not thing.active):
        names.setdefault(name(thing), []).append(thing)
    return names


def _by_name(
    pairs: list[Pair[Thing]], free: dict[str, Thing], open_: list[Thing], name: Callable[[Thing], str]
) -> list[Thing]:
    names, unmatched = _names(free.values(), name), []
    for thing in open_:
        known = names.get(name(thing))
        if known:
            pairs.append(Pair(known.pop(0), thing, "name"))
            del free[pairs[-1].before.key]
        else:
            unmatched.append(thing)
    return unmatched


def _by_former_name(
    matching: Matching[Thing],
    pairs: list[Pair[Thing]],
    free: dict[str, Thing],
    open_: list[Thing],
    names: dict[str, list[Thing]],
    former: Callable[[Thing], Iterable[str]],
) -> list[Thing]:
    candidates = {thing.key: _unmatched(former(thing), names, free) for thing in open_}
    claims: dict[str, int] = {}
    for things in candidates.values():
        for candidate in things:
            claims[candidate.key] = claims.get(candidate.key, 0) + 1
    unmatched = []
    for thing in open_:
        things = candidates[thing.key]
        if not things:
            unmatched.append(thing)
        elif len(things) == 1 and claims[things[0].key] == 1:
            pairs.append(Pair(free.pop(things[0].key), thing, "former"))
        else:
            matching.ambiguous.append((thing, things))
    for _, things in matching.ambiguous:
        for candidate in things:
            free.pop(candidate.key, None)
    return unmatched


def _move_duplicates(
    matching: Matching[Thing],
    pairs: list[Pair[Thing]],
    free: dict[str, Thing],
    names: dict[str, list[Thing]],
    former: Callable[[Thing], Iterable[str]],
    name: Callable[[Thing], str],
) -> None:
    """Move pairs to ``matching.duplicate`` whose requested rename was half done outside the product.

    The new name exists, and so does the former one. A former name that was applied before requests no rename.
    """
    if not free:
        return
    for pair in list(pairs):
        no_former_name = pair.by == "former" or not pair.after.former_names
        if no_former_name or name(pair.before) != name(pair.after):
            continue
        known = set(former(pair.before))
        things = _unmatched(
            [former_name for former_name in former(pair.after) if former_name not in known], names, free
        )
        if things:
            pairs.remove(pair)
            matching.duplicate.append((pair, things))
            for candidate in things:
                del free[candidate.key]


def _pairs_with_claimed_names(
    pairs: list[Pair[Thing]], former: Callable[[Thing], Iterable[str]], name: Callable[[Thing], str]
) -> Iterable[tuple[Pair[Thing], list[Thing]]]:
    unchanged = {name(pair.before): pair.before for pair in pairs if name(pair.before) == name(pair.after)}
    for pair in pairs:
        if not pair.after.former_names or name(pair.before) != name(pair.after):
            continue
        known = {*former(pair.before), name(pair.after)}
        things = [unchanged[label] for label in former(pair.after) if label not in known and label in unchanged]
        if things:
            yield pair, things


def _unmatched(former: Iterable[str], names: dict[str, list[Thing]], free: dict[str, Thing]) -> list[Thing]:
    """Return the unmatched existing items with these names."""
    result: dict[str, Thing] = {}
    for name in former:
        for thing in names.get(name, ()):
            if thing.key in free:
                result.setdefault(thing.key, thing)
    return list(result.values())


KEY_CHANGED = "KEY_CHANGED_NAME_KEPT"


@dataclass(frozen=True)
class Known:
    """Desired ``states`` with the environment's keys.

    ``moved`` maps the environment's key of a dataset to its key in the metadata, if that differs. Each of the
    ``warnings`` has the environment's key of its dataset.
    """

    states: tuple[DatasetState, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[tuple[str, Warning], ...] = ()


def as_known(desired: Iterable[DatasetState], applied: Iterable[DatasetState]) -> Known:
    """Return ``desired`` with the keys of the matching ``applied`` datasets and columns.

    They are matched as in planning: by stable key, name and former names.
    """
    desired = tuple(desired)
    same = {pair.after.key: _DatasetPair(pair) for pair in _pairs(desired, tuple(applied))}
    if not any(pair.has_moved for pair in same.values()):
        return Known(desired)
    translation = _Translation(desired, same)
    return Known(
        states=tuple(map(translation.state, desired)),
        moved={pair.key: key for key, pair in same.items() if pair.key != key},
        warnings=tuple((pair.key, warning) for pair in same.values() for warning in pair.warnings()),
    )


def key_changed(dataset: str, column: str, before: str, after: str) -> Warning:
    """Return the warning for a dataset or column that was matched only by its name."""
    message = f"its stable key moved from {before} to {after}; it is taken for the same by its name"
    return Warning(KEY_CHANGED, dataset, column, message)


def _pairs(desired: tuple[DatasetState, ...], applied: tuple[DatasetState, ...]) -> list[Pair[DatasetState]]:
    by_key, desired_keys = {dataset.key: dataset for dataset in applied}, {dataset.key for dataset in desired}
    if desired_keys <= by_key.keys() or by_key.keys() <= desired_keys:  # one side has nothing left to match by name
        return [Pair(by_key[dataset.key], dataset, "key") for dataset in desired if dataset.key in by_key]
    matching = match(
        sorted(applied, key=lambda dataset: dataset.key),
        sorted(desired, key=lambda dataset: dataset.key),
        name=lambda dataset: dataset.qualified_name.lower(),
        former=former_names,
    )
    return matching.pairs + [pair for pair, _ in matching.duplicate if pair.by == "key"]


def former_names(dataset: DatasetState) -> Iterable[str]:
    """Yield the former names in lower case. A name without a schema is in the current schema."""
    return ((name if "." in name else f"{dataset.schema}.{name}").lower() for name in dataset.former_names)


@dataclass(frozen=True)
class _DatasetPair:
    """Pair of an applied and a desired dataset, with the keys that differ."""

    pair: Pair[DatasetState]

    @property
    def key(self) -> str:
        return self.pair.before.key

    @property
    def history_key(self) -> str | None:
        """Return the key of the existing history; a new history has the key in the metadata."""
        key = self.pair.after.history_key
        return key and (self.pair.before.history_key or key)

    @cached_property
    def columns(self) -> list[Pair[ColumnState]]:
        """Return the columns whose keys differ, including foreign keys."""
        before, after = flat(self.pair.before).columns, flat(self.pair.after).columns
        keys_before, keys_after = {column.key for column in before}, {column.key for column in after}
        if keys_after <= keys_before or keys_before <= keys_after:
            return []
        matching = match(
            before,
            after,
            name=lambda column: column.name.lower(),
            former=lambda column: (name.lower() for name in column.former_names),
        )
        return [pair for pair in matching.pairs if pair.before.key != pair.after.key]

    @cached_property
    def column_keys(self) -> dict[str, str]:
        return {column.after.key: column.before.key for column in self.columns}

    @property
    def has_moved(self) -> bool:
        after = self.pair.after
        return (self.key, self.history_key) != (after.key, after.history_key) or bool(self.columns)

    def warnings(self) -> Iterable[Warning]:
        """Yield the warnings for items that kept their names; renamed items have an operation."""
        before, after = self.pair.before, self.pair.after
        if self.pair.by == "name":
            yield key_changed(before.qualified_name, "", before.key, after.key)
        for column in self.columns:
            if column.by == "name":
                yield key_changed(before.qualified_name, column.before.name, column.before.key, column.after.key)


class _Translation:
    """Translation of the keys in desired states into the environment's keys."""

    def __init__(self, desired: Iterable[DatasetState], same: Mapping[str, _DatasetPair]) -> None:
        self.same = same
        self.datasets = {key: pair.key for key, pair in same.items()}
        # An input may be a history, whose columns are those of its base.
        self.base: dict[str, str] = {}
        for dataset in desired:
            if dataset.history_key is not None:
                self.base[dataset.history_key] = dataset.key
                if dataset.key in same:
                    self.datasets[dataset.history_key] = same[dataset.key].history_key or dataset.history_key

    def state(self, dataset: DatasetState) -> DatasetState:
        known, own = self.same.get(dataset.key), self._columns_of(dataset.key)
        inputs = {key: to for upstream in dataset.inputs for key, to in self._columns_of(upstream).items()}
        columns = tuple(
            replace(
                column,
                key=own.get(column.key, column.key),
                inputs=tuple(inputs.get(key, key) for key in column.inputs),
            )
            for column in dataset.columns
        )
        return replace(
            dataset,
            key=self.datasets.get(dataset.key, dataset.key),
            history_key=known.history_key if known else dataset.history_key,
            inputs=tuple(self.datasets.get(key, key) for key in dataset.inputs),
            columns=columns,
            references=tuple(self._reference(reference, own) for reference in dataset.references),
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
