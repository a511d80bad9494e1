"""Matching of two lists by stable key, then by name, then by former names.

Used for datasets and for the columns of a table. Linear in the number of things.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Named(Protocol):
    key: str
    active: bool
    former_names: tuple[str, ...]


Thing = TypeVar("Thing", bound=Named)


@dataclass(frozen=True)
class Pair(Generic[Thing]):
    """One thing before and after. ``by`` says how it was known: key, name or former."""

    before: Thing
    after: Thing
    by: str


@dataclass
class Matching(Generic[Thing]):
    """Result of a matching, in the order of the desired things.

    ``ambiguous``: a desired thing that several existing ones may have become, or one that several
    claim. ``duplicate``: a pair whose former name is still there, too. Nothing is planned for either.
    ``claimed``: a pair that names as its former name what stays beside it; both go their own way.
    """

    pairs: list[Pair[Thing]] = field(default_factory=list)
    new: list[Thing] = field(default_factory=list)
    gone: list[Thing] = field(default_factory=list)
    ambiguous: list[tuple[Thing, list[Thing]]] = field(default_factory=list)
    duplicate: list[tuple[Pair[Thing], list[Thing]]] = field(default_factory=list)
    claimed: list[tuple[Pair[Thing], list[Thing]]] = field(default_factory=list)

    @property
    def known(self) -> list[Pair[Thing]]:
        """All pairs, those set aside for a duplicate included: loads go by what is desired of them."""
        return self.pairs + [pair for pair, _ in self.duplicate]

    @property
    def left_alone(self) -> list[Thing]:
        """Existing things that stay as they are, because a person has to decide."""
        doubtful = [thing for _, things in self.ambiguous for thing in things]
        return doubtful + [thing for pair, things in self.duplicate for thing in (pair.before, *things)]


def match(
    before: Sequence[Thing],
    after: Sequence[Thing],
    *,
    name: Callable[[Thing], str],
    former: Callable[[Thing], Iterable[str]],
) -> Matching[Thing]:
    """Match what is there (``before``) with what is desired (``after``).

    ``name`` and ``former`` give names in a form in which equal ones are the same to the warehouse;
    of former names the better spelling comes first.
    """
    found: Matching[Thing] = Matching()
    pairs, free, open_ = _by_key(before, after)
    open_ = _by_name(pairs, free, open_, name)
    names = _names(free.values(), name)
    open_ = _by_former_name(found, pairs, free, open_, names, former)
    _set_duplicates_aside(found, pairs, free, names, former, name)
    found.claimed = list(_claimed(pairs, former, name))
    found.new = open_
    found.gone = list(free.values())
    order = {id(thing): index for index, thing in enumerate(after)}
    found.pairs = sorted(pairs, key=lambda pair: order[id(pair.after)])
    return found


def _by_key(before: Sequence[Thing], after: Sequence[Thing]) -> tuple[list[Pair], dict[str, Thing], list[Thing]]:
    free = {thing.key: thing for thing in before}
    pairs, open_ = [], []
    for thing in after:
        held = free.pop(thing.key, None)
        if held is None:
            open_.append(thing)
        else:
            pairs.append(Pair(held, thing, "key"))
    return pairs, free, open_


def _names(things: Iterable[Thing], name: Callable[[Thing], str]) -> dict[str, list[Thing]]:
    """Things by name; what is active stands before what is retired."""
    names: dict[str, list[Thing]] = {}
    for thing in sorted(things, key=lambda one: not one.active):
        names.setdefault(name(thing), []).append(thing)
    return names


def _by_name(
    pairs: list[Pair], free: dict[str, Thing], open_: list[Thing], name: Callable[[Thing], str]
) -> list[Thing]:
    names, still = _names(free.values(), name), []
    for thing in open_:
        held = names.get(name(thing))
        if held:
            pairs.append(Pair(held.pop(0), thing, "name"))
            del free[pairs[-1].before.key]
        else:
            still.append(thing)
    return still


def _by_former_name(
    found: Matching,
    pairs: list[Pair],
    free: dict[str, Thing],
    open_: list[Thing],
    names: dict[str, list[Thing]],
    former: Callable[[Thing], Iterable[str]],
) -> list[Thing]:
    candidates = {thing.key: _held(former(thing), names, free) for thing in open_}
    claims: dict[str, int] = {}
    for things in candidates.values():
        for held in things:
            claims[held.key] = claims.get(held.key, 0) + 1
    still = []
    for thing in open_:
        things = candidates[thing.key]
        if not things:
            still.append(thing)
        elif len(things) == 1 and claims[things[0].key] == 1:
            pairs.append(Pair(free.pop(things[0].key), thing, "former"))
        else:
            found.ambiguous.append((thing, things))
    for _, things in found.ambiguous:
        for held in things:
            free.pop(held.key, None)
    return still


def _set_duplicates_aside(
    found: Matching,
    pairs: list[Pair],
    free: dict[str, Thing],
    names: dict[str, list[Thing]],
    former: Callable[[Thing], Iterable[str]],
    name: Callable[[Thing], str],
) -> None:
    """A rename that was asked for but finds its new name there: somebody made it by hand.

    A former name that was known before is no rename that is still to come.
    """
    if not free:
        return
    for pair in list(pairs):
        unsaid = pair.by == "former" or not pair.after.former_names
        if unsaid or name(pair.before) != name(pair.after):
            continue
        known = set(former(pair.before))
        things = _held([one for one in former(pair.after) if one not in known], names, free)
        if things:
            pairs.remove(pair)
            found.duplicate.append((pair, things))
            for held in things:
                del free[held.key]


def _claimed(
    pairs: list[Pair], former: Callable[[Thing], Iterable[str]], name: Callable[[Thing], str]
) -> Iterable[tuple[Pair, list[Thing]]]:
    staying = {name(pair.before): pair.before for pair in pairs if name(pair.before) == name(pair.after)}
    for pair in pairs:
        if not pair.after.former_names or name(pair.before) != name(pair.after):
            continue
        known = {*former(pair.before), name(pair.after)}
        things = [staying[one] for one in former(pair.after) if one not in known and one in staying]
        if things:
            yield pair, things


def _held(former: Iterable[str], names: dict[str, list[Thing]], free: dict[str, Thing]) -> list[Thing]:
    """Existing things, not yet known for something else, under these names."""
    found: dict[str, Thing] = {}
    for one in former:
        for thing in names.get(one, ()):
            if thing.key in free:
                found.setdefault(thing.key, thing)
    return list(found.values())
