"""In which order things are renamed so that no name is ever held twice, and the names in between.

Names are told apart without regard to case, as catalog and tables do.
"""

from collections.abc import Callable, Iterable, Sequence

from elevata.core.errors import MetadataError
from metadata.domain.naming import MAX_COLUMN_BYTES, MAX_COLUMN_CHARACTERS, free_name

_MOVING, _RETIRED = "__moving_", "__retired_"


class NameTaken(MetadataError):
    """A name that something holds which is not going to give it up."""

    def __init__(self, name: str, where: str = "") -> None:
        super().__init__("NAME_TAKEN", f"{name} is taken; rename or drop what is called so first", where=where)


def order_moves(
    moves: Sequence[tuple[str, str]], held: Iterable[str], aside: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Renames (from, to) in an order in which each name is free when its turn comes.

    Chains are worked off from their free end; a circle is opened, and a change of case alone made, by
    moving one thing to ``aside(name)`` first. ``held`` are all names there are. NameTaken otherwise.
    """
    taken = {name.lower() for name in held}
    waiting = [(old, new) for old, new in moves if old != new]
    ordered: list[tuple[str, str]] = []
    while waiting:
        move = next(((old, new) for old, new in waiting if new.lower() not in taken), None)
        if move is None:
            leaving = {old.lower() for old, _ in waiting}
            stuck = next((new for _, new in waiting if new.lower() not in leaving), None)
            if stuck is not None:
                raise NameTaken(stuck)
            old, new = waiting[0]
            between = aside(old)
            waiting[0] = (between, new)
            move = (old, between)
        else:
            waiting.remove(move)
        taken.discard(move[0].lower())
        taken.add(move[1].lower())
        ordered.append(move)
    return ordered


def moving_name(key: str, taken: Iterable[str]) -> str:
    """Return the temporary name of a column or table while names change; it is found by its key."""
    return free_name(_MOVING + key.replace("-", "")[:24], taken)


def retired_name(name: str, key: str, taken: Iterable[str]) -> str:
    """Return the name of a history's column when another one takes its name: readable and unique."""
    start = f"{_RETIRED}{key.replace('-', '')[:8]}_"
    room = MAX_COLUMN_BYTES - len(start) - 4
    kept = name[: MAX_COLUMN_CHARACTERS - len(start) - 4].encode()[:room].decode(errors="ignore")
    return free_name(start + kept, taken)
