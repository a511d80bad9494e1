"""Sensitivity classification of tables and columns; empty if unclassified."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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
    columns = set(sensitive)
    pending = list(columns)
    while pending:
        fresh = [reader for reader in readers.get(pending.pop(), ()) if reader not in columns]
        columns.update(fresh)
        pending += fresh
    return frozenset(columns)


@dataclass(frozen=True)
class Condition(Generic[_Key]):
    """Condition that leaves out rows by the values of ``columns``, and by which ``rows`` other datasets have.

    ``within`` are the conditions of a query beneath it, which several conditions share.
    """

    columns: frozenset[_Key]
    rows: frozenset[_Key] = frozenset()
    within: "frozenset[Condition[_Key]]" = frozenset()


def innermost_first(conditions: Iterable[Any], known: Container[Any]) -> Iterator[Any]:
    """Yield the conditions, and those ``within`` them, that are not ``known``: each after those within it.

    The caller makes each one known before it takes the next one.
    """
    pending = list(conditions)
    while pending:
        if pending[-1] in known:
            pending.pop()
        elif missing := [each for each in pending[-1].within if each not in known]:
            pending += missing
        else:
            yield pending[-1]


def propagate_with_choices(
    sensitive: Iterable[_Key],
    reads: Mapping[_Key, Collection[_Key]],
    choices: Mapping[_Key, Collection[Condition[_Key]]],
    computed: Collection[_Key],
) -> frozenset[_Key]:
    """Return the sensitive columns, all that read one, and all whose rows a condition chooses by one.

    A condition over one sensitive column and constants leaves rows out, which is permitted. One that also compares
    another column makes all columns of the rows sensitive: the rows that stay reveal values. So does one over a column
    that is computed from several. ``computed`` are the columns whose reads are parts of an expression; other columns
    have the values of each of their reads.
    """
    columns = propagate_sensitivity(sensitive, reads)
    while columns:
        rule = _Revealing(columns, reads, frozenset(computed))
        fresh = {column for column, own in choices.items() if column not in columns and any(map(rule.revealed, own))}
        if not fresh:
            return columns
        columns = propagate_sensitivity(columns | fresh, reads)
    return columns


def reads_with_choices(
    sensitive: frozenset[_Key],
    reads: Mapping[_Key, Collection[_Key]],
    choices: Mapping[_Key, Collection[Condition[_Key]]],
    computed: Collection[_Key],
) -> dict[_Key, Collection[_Key]]:
    """Return what columns read, with the columns of the conditions that make them sensitive.

    ``sensitive`` are the columns that ``propagate_with_choices`` returns: ``propagate_sensitivity`` returns the same
    ones over these reads.
    """
    rule = _Revealing(sensitive, reads, frozenset(computed))
    chosen = {column: frozenset().union(*map(rule.revealed, own)) for column, own in choices.items()}
    chosen = {column: columns for column, columns in chosen.items() if columns}
    return {**reads, **{column: frozenset(reads.get(column, ())) | columns for column, columns in chosen.items()}}


class _Revealing(Generic[_Key]):
    """Rule that finds conditions which reveal more of a sensitive column than the rows that fulfil them."""

    def __init__(
        self, sensitive: frozenset[_Key], reads: Mapping[_Key, Collection[_Key]], computed: frozenset[_Key]
    ) -> None:
        self._sensitive, self._reads, self._computed = sensitive, reads, computed
        self._mixed: dict[_Key, bool] = {}
        self._revealed: dict[Condition[_Key], frozenset[_Key]] = {}

    def revealed(self, condition: Condition[_Key]) -> frozenset[_Key]:
        """Return the sensitive columns that a condition, or one within it, reveals beyond its rows; empty if none."""
        for inner in innermost_first([condition], self._revealed):
            within = (self._revealed[each] for each in inner.within)
            self._revealed[inner] = self._own(inner).union(*within)
        return self._revealed[condition]

    def _own(self, condition: Condition[_Key]) -> frozenset[_Key]:
        compared = condition.columns | (condition.rows & self._sensitive)
        sensitive = compared & self._sensitive
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
