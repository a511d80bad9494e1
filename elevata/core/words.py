"""Counts in words, names that were probably meant, and parts of names after which a line may end."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_SUGGESTED = 3


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 column``, ``2 columns`` or ``1,200 columns``; ``plural`` defaults to the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def noun_for(number: int, plural: str) -> str:
    """Return a plural noun with a regular ending as it is beside a number: ``entries``, and beside 1 ``entry``."""
    if number != 1:
        return plural
    return f"{plural.removesuffix('ies')}y" if plural.endswith("ies") else plural.removesuffix("s")


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean rawcore.rc_a?`` with names like this one, those with the same last part first; or empty."""
    known = sorted(names)
    last = name.rpartition(".")[2]
    same = [item for item in known if last and item.rpartition(".")[2] == last]
    near = same or get_close_matches(name, known, n=_SUGGESTED, cutoff=0.6)
    return f"did you mean {' or '.join(near[:_SUGGESTED])}?" if near else ""


# Parts of names that are longer break anywhere.
_LONGEST_PART = 30
_PARTS = re.compile(rf"[^._/-]{{0,{_LONGEST_PART - 1}}}[^._/-]?[._/-]*")


def name_parts(name: str) -> list[str]:
    """Return the parts of a name after which a line may end: ``rawcore.``, ``rc_``, ``air_``, ``airport``."""
    return [part for part in _PARTS.findall(name) if part]
