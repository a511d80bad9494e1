"""Search over everything that has a page: rows of all apps, pages and actions.

Each app lists what can be found in its module ``search`` (``KINDS``). A user finds only what the user's
pages show.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from django.db import connection
from django.db.models import Case, F, IntegerField, Q, QuerySet, Value, When
from django.urls import resolve, reverse

from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.accounts.view_permissions import needs_of
from elevata.core.lookups import Lines, WordSimilarity
from elevata.core.registry import Registered
from elevata.core.trigrams import similar_names

MAX_TEXT = 200
# Further words of a text are ignored.
MAX_WORDS = 8
# A shorter text matches the beginnings of names only: it is in nearly every description.
WHOLE_SEARCH = 3
# SQLite compares so many names of a kind with a text that may have typing errors; PostgreSQL has an index.
MAX_COMPARED = 100_000
_WORD_BREAKS = ("_", " ", ".", "-")


class Rank(IntEnum):
    """Quality of a match, the best first."""

    EXACT = 0
    PREFIX = 1
    WORD = 2
    PART = 3
    FORMER_NAME = 4
    DESCRIPTION = 5
    SIMILAR = 6


@dataclass(frozen=True)
class Result:
    """Search result. ``within`` is the object it belongs to, ``page`` its address, and ``api`` its route in the API."""

    kind: str
    label: str
    key: str
    name: str
    within: str
    description: str
    active: bool
    rank: int
    page: str
    api: str = ""

    @property
    def sort_key(self) -> tuple[Any, ...]:
        return (self.rank, not self.active, self.name.lower(), self.kind, self.within, self.key)


class Kind(Protocol):
    """Kind of things that can be found."""

    @property
    def name(self) -> str: ...

    def find(self, text: str, user: Any, limit: int) -> list[Result]:
        """Return the best matches that the user may see, the best first."""

    def find_similar(self, text: str, user: Any, limit: int) -> list[Result]:
        """Return things whose names differ from the text by typing errors."""


@dataclass(frozen=True)
class RowKind:
    """Rows of a model, with the fields that are searched.

    ``called`` is the name's field, ``aliases`` are fields with further names, ``former`` is a list of former names and
    ``texts`` are fields with descriptions and tags. ``parents`` are the names of what a row belongs to, the nearest
    first, for texts like ``schema.dataset.column``. ``key`` is the end of the row's address in the API, whose route is
    ``api``. ``permission`` is that of the row's page, if it needs more than reading metadata. With ``similar``, names
    are compared by trigrams.
    """

    name: str
    label: str | Callable[[Any], str]
    rows: Callable[[Any], QuerySet]
    page: Callable[[Any], str]
    key: Callable[[Any], str] = lambda row: str(row.key)
    called: str = "name"
    aliases: tuple[str, ...] = ()
    former: str = ""
    texts: tuple[str, ...] = ("description",)
    lists: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    within: Callable[[Any], str] = lambda row: ""
    title: Callable[[Any], str] | None = None
    permission: Permission | None = None
    similar: bool = False
    api: str = ""

    def find(self, text: str, user: Any, limit: int) -> list[Result]:
        rows = self.rows(user).filter(self._condition(text)).annotate(search_rank=self._rank(text))
        return self._results(rows.order_by("search_rank", self.called, "pk"), user, limit)

    def find_similar(self, text: str, user: Any, limit: int) -> list[Result]:
        if not self.similar:
            return []
        rows = self._rows_like(text, user).annotate(
            search_rank=Value(int(Rank.SIMILAR), IntegerField()),
            search_similarity=WordSimilarity(F(self.called), Value(text)),
        )
        return self._results(rows.order_by("-search_similarity", self.called, "pk"), user, limit)

    def _rows_like(self, text: str, user: Any) -> QuerySet:
        """Return the rows whose names resemble the text: by an index, or on SQLite by a look at the names."""
        rows = self.rows(user)
        if connection.vendor == "postgresql":
            return rows.filter(**{f"{self.called}__resembles": text})
        names = rows.order_by().values(self.called)[:MAX_COMPARED].aggregate(lines=Lines(self.called))["lines"]
        return rows.filter(**{f"{self.called}__among": similar_names(text, names or "")})

    def _results(self, ordered: QuerySet, user: Any, limit: int) -> list[Result]:
        if self.permission is not None and not may_somewhere(user, self.permission):
            return []
        return [self._result(row) for row in ordered[:limit]]

    def _result(self, row: Any) -> Result:
        """Return the result of a row with its ``search_rank``, which no model has."""
        return Result(
            kind=self.name,
            label=self.label(row) if callable(self.label) else self.label,
            key=self.key(row),
            name=self.title(row) if self.title else str(getattr(row, self.called)),
            within=self.within(row),
            description=getattr(row, "description", ""),
            active=getattr(row, "active", True),
            rank=row.search_rank,
            page=self.page(row),
            api=self.api,
        )

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.called, *self.aliases)

    def _condition(self, text: str) -> Q:
        """Return the condition that the name, or together with descriptions each word of the text, matches."""
        if len(text) < WHOLE_SEARCH:
            return self._name_matches("istartswith", text)
        matches = Q()
        for word in text.split()[:MAX_WORDS]:
            matches &= self._word_matches(word)
        return matches | self._qualified(text)

    def _word_matches(self, word: str) -> Q:
        matches = self._name_matches("icontains", word) | self._formerly(word)
        for field in self.texts:
            matches |= Q(**{f"{field}__icontains": word})
        for field in self.lists:
            matches |= list_contains(field, word)
        return matches

    def _qualified(self, text: str) -> Q:
        """Return the condition of a qualified name; of none for a text without a dot."""
        *outer, last = text.split(".")
        if not outer or not last or len(outer) > len(self.parents):
            return Q(pk__in=())
        above = {f"{field}__iexact": name for field, name in zip(self.parents, reversed(outer), strict=False)}
        return self._name_matches("istartswith", last) & Q(**above)

    def _name_matches(self, lookup: str, text: str) -> Q:
        matches = Q()
        for field in self._names:
            matches |= Q(**{f"{field}__{lookup}": text})
        return matches

    def _formerly(self, text: str) -> Q:
        return list_contains(self.former, text) if self.former else Q(pk__in=())

    def _rank(self, text: str) -> Case:
        begins = Q()
        for mark in _WORD_BREAKS:
            begins |= self._name_matches("icontains", mark + text)
        same = Q(**{f"{self.called}__iexact": text.rpartition(".")[2]})
        ranks = {
            Rank.EXACT: self._name_matches("iexact", text) | (self._qualified(text) & same),
            Rank.PREFIX: self._name_matches("istartswith", text) | self._qualified(text),
            Rank.WORD: begins,
            Rank.PART: self._name_matches("icontains", text),
            Rank.FORMER_NAME: self._formerly(text),
        }
        whens = [When(condition, then=Value(int(rank))) for rank, condition in ranks.items() if condition]
        return Case(*whens, default=Value(int(Rank.DESCRIPTION)), output_field=IntegerField())


@dataclass(frozen=True)
class PageEntry:
    """Page or action with its route; ``words`` are further words by which it is found.

    ``names`` are other names of it, which count like the label. ``part`` is the query or the fragment of an entry that
    is a part of the page.
    """

    label: str
    route: str
    words: str = ""
    part: str = ""
    names: tuple[str, ...] = ()

    def is_open_to(self, user: Any) -> bool:
        needs = needs_of(resolve(reverse(self.route)).func, "GET")
        return not needs or any(may_somewhere(user, permission) for permission in needs)


@dataclass(frozen=True)
class PageKind:
    """Pages or actions of an app, with the permissions of their views."""

    name: str
    label: str
    entries: tuple[PageEntry, ...]

    def find(self, text: str, user: Any, limit: int) -> list[Result]:
        wanted = text.lower()
        ranked = [(self._rank(entry, wanted), entry) for entry in self.entries]
        matches = [(rank, entry) for rank, entry in ranked if rank is not None and entry.is_open_to(user)]
        return [self._result(rank, entry) for rank, entry in sorted(matches, key=lambda match: match[0])][:limit]

    def find_similar(self, text: str, user: Any, limit: int) -> list[Result]:
        return []

    @staticmethod
    def _rank(entry: PageEntry, text: str) -> Rank | None:
        label = entry.label.lower()
        if text in (label, *entry.names):
            return Rank.EXACT
        if any(name.startswith(text) for name in (label, *entry.names)):
            return Rank.PREFIX
        if len(text) < WHOLE_SEARCH:
            return None
        if f" {text}" in label:
            return Rank.WORD
        everything = f"{label} {' '.join(entry.names)} {entry.words}"
        return Rank.DESCRIPTION if all(word in everything for word in text.split()) else None

    def _result(self, rank: Rank, entry: PageEntry) -> Result:
        page = reverse(entry.route) + entry.part
        return Result(self.name, self.label, entry.route + entry.part, entry.label, "", "", True, int(rank), page)


KINDS: Registered[Kind] = Registered()


def search(text: str, *, user: Any, limit: int, kinds: Iterable[Kind] | None = None) -> tuple[list[Result], bool]:
    """Return the best matches that the user may see, the best first, and True if there are more.

    Similar names follow if the other matches do not fill the list.
    """
    text, wanted = " ".join(text.split()), tuple(KINDS if kinds is None else kinds)
    if not text:
        return [], False
    results = [result for kind in wanted for result in kind.find(text, user, limit + 1)]
    if len(results) < limit and len(text) >= WHOLE_SEARCH:
        pages = {result.page for result in results}
        similar = [result for kind in wanted for result in kind.find_similar(text, user, limit + 1)]
        results += [result for result in similar if result.page not in pages]
    results.sort(key=lambda result: result.sort_key)
    return results[:limit], len(results) > limit


def list_contains(field: str, text: str) -> Q:
    """Return the condition that an item of a JSON list contains the text; a leading quote is the item's beginning.

    SQLite stores letters outside of ASCII escaped.
    """
    quote = '"' if text.startswith('"') else ""
    escaped = quote + json.dumps(text.removeprefix('"'))[1:-1]
    matches = Q(**{f"{field}__icontains": text})
    if escaped != text:
        matches |= Q(**{f"{field}__icontains": escaped})
    # Hardly a row has any item: comparing with the empty list is quicker than making a text of every list.
    return ~Q(**{field: []}) & matches
