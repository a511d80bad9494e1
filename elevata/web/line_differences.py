"""Differences of two texts of several lines, such as a changed SELECT, as lines added and removed."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

SAME, ADDED, REMOVED, LEFT_OUT = "same", "added", "removed", "left out"
# Longer changed parts are shown whole, before and after, because the comparison is quadratic in time.
MAX_LINES, MAX_CHARACTERS = 300, 60_000
# Unchanged lines that are shown around a change.
CONTEXT = 2


@dataclass(frozen=True)
class Line:
    """Line of a difference; ``kind`` is same, added, removed, or left out (its text counts the lines)."""

    kind: str
    text: str


def line_differences(before: str, after: str) -> tuple[Line, ...]:
    """Return the lines of both texts, without unchanged lines far from a change.

    Common lines at the beginning and the end are found first, so the work is that of the changed part, which is
    compared only up to ``MAX_LINES`` and ``MAX_CHARACTERS``.
    """
    old, new = (text.split("\n") if text else [] for text in (before, after))
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    middle = _changed(old[start : len(old) - end], new[start : len(new) - end])
    same = [Line(SAME, text) for text in old]
    tail = same[len(old) - end :]
    return (*_shortened(same[:start], last=True), *middle, *_shortened(tail, last=False))


def _common(old: list[str], new: list[str]) -> int:
    pairs = zip(old, new, strict=False)
    return next((index for index, (left, right) in enumerate(pairs) if left != right), min(len(old), len(new)))


def _changed(old: list[str], new: list[str]) -> Iterator[Line]:
    if max(len(old), len(new)) > MAX_LINES or sum(map(len, (*old, *new))) > MAX_CHARACTERS:
        yield from (Line(REMOVED, text) for text in old)
        yield from (Line(ADDED, text) for text in new)
        return
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from _shortened([Line(SAME, text) for text in old[a:b]])
        else:
            yield from (Line(REMOVED, text) for text in old[a:b])
            yield from (Line(ADDED, text) for text in new[c:d])


def _shortened(lines: list[Line], *, last: bool | None = None) -> list[Line]:
    """Return unchanged lines without those far from a change: before, after (``last``: only before), or between."""
    first, ending = (0, CONTEXT) if last else (CONTEXT, 0 if last is False else CONTEXT)
    hidden = len(lines) - first - ending
    if hidden <= 1:
        return lines
    tail = lines[-ending:] if ending else []
    return [*lines[:first], Line(LEFT_OUT, f"{hidden:,} unchanged lines"), *tail]
