"""Sensitivity classification of tables and columns; empty if unclassified."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from elevata.core.errors import MetadataError

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = "public", "internal", "confidential", "restricted"
# From the least to the most restrictive.
LEVELS = (PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED)
# Values of these levels are masked for readers without the permission to see them.
SENSITIVE = (CONFIDENTIAL, RESTRICTED)
# Texts shown instead of a sensitive value (also for NULL), and instead of one that changed.
MASK, MASK_CHANGED = "\u2022\u2022\u2022", "\u2022\u2022\u2022 (changed)"

_Key = TypeVar("_Key")


def is_mask(value: str | None) -> bool:
    """Return True if the value is the mask of a sensitive value."""
    return value in (MASK, MASK_CHANGED)


def is_sensitive(*, personal: bool, level: str, of_dataset: str = "") -> bool:
    """Return True if the column is personal, or if its level is confidential or restricted.

    A column without a level has that of its dataset.
    """
    return personal or (level or of_dataset) in SENSITIVE


def propagate_sensitivity(sensitive: Iterable[_Key], reads: Mapping[_Key, Collection[_Key]]) -> frozenset[_Key]:
    """Return the sensitive columns and all columns that read one of them, directly or indirectly."""
    readers: dict[_Key, list[_Key]] = {}
    for reader, inputs in reads.items():
        for column in inputs:
            readers.setdefault(column, []).append(reader)
    found = set(sensitive)
    pending = list(found)
    while pending:
        fresh = [reader for reader in readers.get(pending.pop(), ()) if reader not in found]
        found.update(fresh)
        pending += fresh
    return frozenset(found)


@dataclass(frozen=True)
class Choice(Generic[_Key]):
    """Condition that leaves out rows by the values of ``columns``, and by which ``rows`` other datasets have.

    ``within`` are the conditions of a query beneath it, which several conditions share.
    """

    columns: frozenset[_Key]
    rows: frozenset[_Key] = frozenset()
    within: "frozenset[Choice[_Key]]" = frozenset()


def propagate_with_choices(
    sensitive: Iterable[_Key],
    reads: Mapping[_Key, Collection[_Key]],
    choices: Mapping[_Key, Collection[Choice[_Key]]],
    computed: Collection[_Key],
) -> frozenset[_Key]:
    """Return the sensitive columns, all that read one, and all whose rows a condition chooses by one.

    A condition over one sensitive column and constants leaves rows out, which is permitted. One that also compares
    another column makes all columns of the rows sensitive: the rows that stay reveal values. So does one over a column
    that is computed from several. ``computed`` are the columns whose reads are parts of an expression; other columns
    have the values of each of their reads.
    """
    found = propagate_sensitivity(sensitive, reads)
    while found:
        rule = _Revealing(found, reads, frozenset(computed))
        fresh = {column for column, own in choices.items() if column not in found and any(map(rule.revealed, own))}
        if not fresh:
            return found
        found = propagate_sensitivity(found | fresh, reads)
    return found


def reads_with_choices(
    found: frozenset[_Key],
    reads: Mapping[_Key, Collection[_Key]],
    choices: Mapping[_Key, Collection[Choice[_Key]]],
    computed: Collection[_Key],
) -> dict[_Key, Collection[_Key]]:
    """Return what columns read, with the columns of the conditions that make them sensitive.

    ``found`` are the columns that ``propagate_with_choices`` returns: ``propagate_sensitivity`` returns the same ones
    over these reads.
    """
    rule = _Revealing(found, reads, frozenset(computed))
    chosen = {column: frozenset().union(*map(rule.revealed, own)) for column, own in choices.items()}
    chosen = {column: columns for column, columns in chosen.items() if columns}
    return {**reads, **{column: frozenset(reads.get(column, ())) | columns for column, columns in chosen.items()}}


class _Revealing(Generic[_Key]):
    """Rule that finds conditions which reveal more of a sensitive column than the rows that fulfil them."""

    def __init__(
        self, found: frozenset[_Key], reads: Mapping[_Key, Collection[_Key]], computed: frozenset[_Key]
    ) -> None:
        self._found, self._reads, self._computed = found, reads, computed
        self._mixed: dict[_Key, bool] = {}
        self._revealed: dict[Choice[_Key], frozenset[_Key]] = {}

    def revealed(self, choice: Choice[_Key]) -> frozenset[_Key]:
        """Return the sensitive columns that a condition, or one within it, reveals beyond its rows; empty if none."""
        pending = [choice]
        while pending:  # innermost conditions first
            inner = pending[-1]
            missing = [each for each in inner.within if each not in self._revealed]
            pending += missing
            if not missing:
                within = (self._revealed[each] for each in inner.within)
                self._revealed[inner] = self._own(inner).union(*within)
            while pending and pending[-1] in self._revealed:
                pending.pop()
        return self._revealed[choice]

    def _own(self, choice: Choice[_Key]) -> frozenset[_Key]:
        compared = choice.columns | (choice.rows & self._found)
        sensitive = compared & self._found
        return sensitive if len(compared) > 1 or any(map(self._is_mixed, compared)) else frozenset()

    def _is_mixed(self, column: _Key) -> bool:
        """Return True if a column is computed from several columns, directly or indirectly."""
        if column not in self._mixed:
            self._mixed[column] = False  # where columns read each other in a circle
            reads = set(self._reads.get(column, ()))
            several = column in self._computed and len(reads) > 1
            self._mixed[column] = several or any(map(self._is_mixed, reads))
        return self._mixed[column]


def parse_level(text: str) -> str:
    """Return the level that ``text`` names, in any case; empty for an empty text.

    Raises MetadataError for any other word.
    """
    word = text.strip().lower()
    if word and word not in LEVELS:
        message = f"must be {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, or empty, not {text.strip()[:100]!r}"
        raise MetadataError("invalid", message, "sensitivity")
    return word
