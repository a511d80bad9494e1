"""Similarity of names by trigrams, as PostgreSQL's ``pg_trgm`` computes it, for SQLite, which has none."""

import re
from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from itertools import accumulate

# A name with a part as similar to a text as this is found for it, on every database.
SIMILAR = 0.4
_LINE = "\n"
_SEPARATORS = re.compile(r"[^\w\s]")


def similar_names(text: str, names: str) -> set[str]:
    """Return those of the names, one in a line, that have a part similar to the text.

    A search compares all names of an installation: each trigram of the text is searched in all of them at once, and
    only names that have enough trigrams are compared one by one.
    """
    wanted = _trigrams_of_text(text)
    lines = list(dict.fromkeys(names.split(_LINE)))
    joined = f"  {_spaced(_LINE.join(lines)).replace(_LINE, f' {_LINE}  ')} "
    starts = list(accumulate((len(line) + 1 for line in joined.split(_LINE)), initial=0))
    common: Counter[int] = Counter()
    for trigram in wanted:
        common.update(_lines_with(trigram, joined, starts))
    candidates = {lines[line] for line, number in common.items() if number >= SIMILAR * len(wanted)}
    return {name for name in candidates if word_similarity(text, name) >= SIMILAR}


def word_similarity(text: str, name: str) -> float:
    """Return the greatest similarity of the text with a part of the name, from 0 to 1.

    Equals PostgreSQL's ``word_similarity``: common trigrams by all trigrams of the text and of the part, which begins
    and ends with a common trigram.
    """
    wanted, trigrams = _trigrams_of_text(text), _trigrams(name)
    places = [place for place, trigram in enumerate(trigrams) if trigram in wanted]
    best = 0.0
    for number, first in enumerate(places):
        for last in places[number:]:
            part = set(trigrams[first : last + 1])
            common = len(wanted & part)
            best = max(best, common / (len(wanted) + len(part) - common))
    return best


def _lines_with(trigram: str, joined: str, starts: list[int]) -> set[int]:
    lines, place = set(), joined.find(trigram)
    while place >= 0:
        line = bisect_right(starts, place) - 1
        lines.add(line)
        place = joined.find(trigram, starts[line + 1])
    return lines


@lru_cache(maxsize=64)
def _trigrams_of_text(text: str) -> frozenset[str]:
    return frozenset(_trigrams(text))


def _trigrams(text: str) -> list[str]:
    """Return the trigrams of the words, each with two blanks before it and one after it."""
    words = (f"  {word} " for word in _spaced(text).split())
    return [word[place : place + 3] for word in words for place in range(len(word) - 2)]


def _spaced(text: str) -> str:
    """Return the text in small letters, with two blanks between words: each begins after two and ends before one."""
    return _SEPARATORS.sub("  ", text.lower().replace("_", "  ").replace(" ", "  "))
