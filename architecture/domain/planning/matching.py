"""Matching by stable key, name and former name.

A table is stored under the key it was created with, its columns are tied to theirs, and rows are hashed under them.
If metadata changes a key and keeps the name, the environment's key stays valid in planning, statements and loads.
Matching is linear in the number of datasets and columns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from architecture.domain.operations import Warning
from architecture.domain.state_files import flat
from metadata.domain.state import ColumnState, DatasetState, ReferenceState


class Named(Protocol):
    key: str
    active: bool
    former_names: tuple[str, ...]


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

    ``ambiguous``: a desired item with several possible predecessors, or one claimed several times. ``duplicate``: a
    pair whose former name still exists. Nothing is planned for either. ``claimed``: a pair whose former name
    belongs to another item that stays; the two are independent.
    """

    pairs: list[Pair[Thing]] = field(default_factory=list)
    new: list[Thing] = field(default_factory=list)
    gone: list[Thing] = field(default_factory=list)
    ambiguous: list[tuple[Thing, list[Thing]]] = field(default_factory=list)
    duplicate: list[tuple[Pair[Thing], list[Thing]]] = field(default_factory=list)
    claimed: list[tuple[Pair[Thing], list[Thing]]] = field(default_factory=list)

    @property
    def known(self) -> list[Pair[Thing]]:
        """Return all pairs, duplicates included: loads use their desired logic."""
        return self.pairs + [pair for pair, _ in self.duplicate]

    @property
    def left_alone(self) -> list[Thing]:
        """Return existing items that stay unchanged because a user has to decide."""
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

    ``name`` and ``former`` return names in a normal form by which the warehouse compares them; of former names the
    better spelling comes first.
    """
    matching: Matching[Thing] = Matching()
    pairs, free, open_ = _by_key(before, after)
    open_ = _by_name(pairs, free, open_, name)
    names = _names(free.values(), name)
    open_ = _by_former_name(matching, pairs, free, open_, names, former)
    _set_duplicates_aside(matching, pairs, free, names, former, name)
    matching.claimed = list(_claimed(pairs, former, name))
    matching.new = open_
    matching.gone = list(free.values())
    order = {id(thing): index for index, thing in enumerate(after)}
    matching.pairs = sorted(pairs, key=lambda pair: order[id(pair.after)])
    return matching


def _by_key(before: Sequence[Thing], after: Sequence[Thing]) -> tuple[list[Pair], dict[str, Thing], list[Thing]]:
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
    """Return items by name; active ones before retired ones."""
    names: dict[str, list[Thing]] = {}
    for thing in sorted(things, key=lambda thing: not thing.active):
        names.setdefault(name(thing), []).append(thing)
    return names


def _by_name(
    pairs: list[Pair], free: dict[str, Thing], open_: list[Thing], name: Callable[[Thing], str]
) -> list[Thing]:
    names, still = _names(free.values(), name), []
    for thing in open_:
        known = names.get(name(thing))
        if known:
            pairs.append(Pair(known.pop(0), thing, "name"))
            del free[pairs[-1].before.key]
        else:
            still.append(thing)
    return still


def _by_former_name(
    matching: Matching,
    pairs: list[Pair],
    free: dict[str, Thing],
    open_: list[Thing],
    names: dict[str, list[Thing]],
    former: Callable[[Thing], Iterable[str]],
) -> list[Thing]:
    candidates = {thing.key: _held(former(thing), names, free) for thing in open_}
    claims: dict[str, int] = {}
    for things in candidates.values():
        for candidate in things:
            claims[candidate.key] = claims.get(candidate.key, 0) + 1
    still = []
    for thing in open_:
        things = candidates[thing.key]
        if not things:
            still.append(thing)
        elif len(things) == 1 and claims[things[0].key] == 1:
            pairs.append(Pair(free.pop(things[0].key), thing, "former"))
        else:
            matching.ambiguous.append((thing, things))
    for _, things in matching.ambiguous:
        for candidate in things:
            free.pop(candidate.key, None)
    return still


def _set_duplicates_aside(
    matching: Matching,
    pairs: list[Pair],
    free: dict[str, Thing],
    names: dict[str, list[Thing]],
    former: Callable[[Thing], Iterable[str]],
    name: Callable[[Thing], str],
) -> None:
    """Set aside pairs of a requested rename whose new name already exists, created outside the product.

    A former name that was applied before is no pending rename.
    """
    if not free:
        return
    for pair in list(pairs):
        unsaid = pair.by == "former" or not pair.after.former_names
        if unsaid or name(pair.before) != name(pair.after):
            continue
        known = set(former(pair.before))
        things = _held([former_name for former_name in former(pair.after) if former_name not in known], names, free)
        if things:
            pairs.remove(pair)
            matching.duplicate.append((pair, things))
            for candidate in things:
                del free[candidate.key]


def _claimed(
    pairs: list[Pair], former: Callable[[Thing], Iterable[str]], name: Callable[[Thing], str]
) -> Iterable[tuple[Pair, list[Thing]]]:
    staying = {name(pair.before): pair.before for pair in pairs if name(pair.before) == name(pair.after)}
    for pair in pairs:
        if not pair.after.former_names or name(pair.before) != name(pair.after):
            continue
        known = {*former(pair.before), name(pair.after)}
        things = [staying[label] for label in former(pair.after) if label not in known and label in staying]
        if things:
            yield pair, things


def _held(former: Iterable[str], names: dict[str, list[Thing]], free: dict[str, Thing]) -> list[Thing]:
    """Return the unmatched existing items with these names."""
    result: dict[str, Thing] = {}
    for one in former:
        for thing in names.get(one, ()):
            if thing.key in free:
                result.setdefault(thing.key, thing)
    return list(result.values())


KEY_CHANGED = "KEY_CHANGED_NAME_KEPT"


@dataclass(frozen=True)
class Known:
    """Desired ``states`` under the environment's keys.

    ``moved`` maps the environment's key of each dataset to its different key in metadata. ``warnings`` come with
    the environment's key of their dataset.
    """

    states: tuple[DatasetState, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[tuple[str, Warning], ...] = ()


def as_known(desired: Iterable[DatasetState], applied: Iterable[DatasetState]) -> Known:
    """Return ``desired`` with its keys replaced by those of the matching ``applied`` datasets and columns.

    Matching is that of planning: by stable key, by name, by former names.
    """
    desired = tuple(desired)
    same = {pair.after.key: _Same(pair) for pair in _pairs(desired, tuple(applied))}
    if not any(pair.has_moved for pair in same.values()):
        return Known(desired)
    translation = _Translation(desired, same)
    return Known(
        states=tuple(map(translation.state, desired)),
        moved={one.key: key for key, one in same.items() if one.key != key},
        warnings=tuple((one.key, warning) for one in same.values() for warning in one.warnings()),
    )


def key_changed(dataset: str, column: str, before: str, after: str) -> Warning:
    """Return the warning for a dataset, or a column of it, that was matched by its name alone."""
    message = f"its stable key moved from {before} to {after}; it is taken for the same by its name"
    return Warning(KEY_CHANGED, dataset, column, message)


def _pairs(desired: tuple[DatasetState, ...], applied: tuple[DatasetState, ...]) -> list[Pair[DatasetState]]:
    there, wanted = {dataset.key: dataset for dataset in applied}, {dataset.key for dataset in desired}
    if wanted <= there.keys() or there.keys() <= wanted:  # Without a name, nothing can be matched.
        return [Pair(there[dataset.key], dataset, "key") for dataset in desired if dataset.key in there]
    matching = match(
        sorted(applied, key=lambda dataset: dataset.key),
        sorted(desired, key=lambda dataset: dataset.key),
        name=lambda dataset: dataset.qualified_name.lower(),
        former=former_names,
    )
    return matching.pairs + [pair for pair, _ in matching.duplicate if pair.by == "key"]


def former_names(dataset: DatasetState) -> Iterable[str]:
    """Yield former names in lower case; one without a schema belongs to the current schema."""
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
        """Return the key of the existing history; a new one gets the key in metadata."""
        wanted = self.pair.after.history_key
        return wanted and (self.pair.before.history_key or wanted)

    @cached_property
    def columns(self) -> list[Pair[ColumnState]]:
        """Return the columns whose key differs, foreign keys included."""
        before, after = flat(self.pair.before).columns, flat(self.pair.after).columns
        there, wanted = {column.key for column in before}, {column.key for column in after}
        if wanted <= there or there <= wanted:
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
        """Return warnings for items that kept their name; renamed ones have an operation that mentions it."""
        before, after = self.pair.before, self.pair.after
        if self.pair.by == "name":
            yield key_changed(before.qualified_name, "", before.key, after.key)
        for column in self.columns:
            if column.by == "name":
                yield key_changed(before.qualified_name, column.before.name, column.before.key, column.after.key)


class _Translation:
    """Translation of all keys of one desired state into the environment's keys."""

    def __init__(self, desired: Iterable[DatasetState], same: Mapping[str, _Same]) -> None:
        self.same = same
        self.datasets = {key: one.key for key, one in same.items()}
        # A dataset may read another one's history, and then means that one's columns.
        self.base: dict[str, str] = {}
        for dataset in desired:
            if dataset.history_key is not None:
                self.base[dataset.history_key] = dataset.key
                if dataset.key in same:
                    self.datasets[dataset.history_key] = same[dataset.key].history_key or dataset.history_key

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
