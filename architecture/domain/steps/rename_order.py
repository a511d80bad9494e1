"""Order of renames in which no name is used twice at any time, with temporary names if necessary.

Names are compared without case, as Delta and the catalog do.
"""

from collections.abc import Callable, Iterable, Sequence

from elevata.core.errors import MetadataError
from metadata.domain.naming import MAX_COLUMN_BYTES, MAX_COLUMN_CHARACTERS, free_name

_MOVING, _RETIRED = "__moving_", "__retired_"


class NameTaken(MetadataError):
    """Error for a name that is used by an object that keeps it."""

    def __init__(self, name: str, where: str = "") -> None:
        super().__init__("NAME_TAKEN", f"{name} is taken; rename or drop what is called so first", where=where)


def order_moves(
    moves: Sequence[tuple[str, str]], taken: Iterable[str], aside: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Return renames (from, to) in an order in which each new name is free.

    In a cycle, or for a change of case alone, one item is first renamed to the temporary name ``aside(name)``.
    ``taken`` are all names in use. Raises NameTaken if there is no such order.
    """
    used_names = {name.lower() for name in taken}
    waiting = [(old, new) for old, new in moves if old != new]
    ordered: list[tuple[str, str]] = []
    while waiting:
        move = next(((old, new) for old, new in waiting if new.lower() not in used_names), None)
        if move is None:
            leaving = {old.lower() for old, _ in waiting}
            stuck = next((new for _, new in waiting if new.lower() not in leaving), None)
            if stuck is not None:
                raise NameTaken(stuck)
            old, new = waiting[0]
            temporary = aside(old)
            waiting[0] = (temporary, new)
            move = (old, temporary)
        else:
            waiting.remove(move)
        used_names.discard(move[0].lower())
        used_names.add(move[1].lower())
        ordered.append(move)
    return ordered


def moving_name(key: str, taken: Iterable[str]) -> str:
    """Return a temporary name for a column or table during renames, derived from its key."""
    return free_name(_MOVING + key.replace("-", "")[:24], taken)


def retired_name(name: str, key: str, taken: Iterable[str]) -> str:
    """Return a new name for a retired column or table whose name is taken; it contains the old name."""
    start = f"{_RETIRED}{key.replace('-', '')[:8]}_"
    room = MAX_COLUMN_BYTES - len(start) - 4
    shortened = name[: MAX_COLUMN_CHARACTERS - len(start) - 4].encode()[:room].decode(errors="ignore")
    return free_name(start + shortened, taken)
