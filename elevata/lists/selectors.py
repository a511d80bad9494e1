"""Saved filters, chosen columns and favourites of a user."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any
from uuid import UUID

import django_filters as filters
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import QueryDict
from django.urls import URLPattern, URLResolver, get_resolver

from elevata.lists.columns import Column, shown_labels
from elevata.lists.models import ChosenColumns, Favourite, SavedFilter
from elevata.web.list_filters import StableOrdering, YesNoFilter
from elevata.web.subjects import favourite_kinds


@dataclass(frozen=True)
class ListTools:
    """Saved filters and columns of a list for a user.

    Each column has True if it is shown.
    """

    route: str
    saved: tuple[SavedFilter, ...]
    columns: tuple[tuple[Column, bool], ...]

    @classmethod
    def of_columns(cls, columns: Sequence[Column]) -> "ListTools":
        """Return the tools of a list without filters: all columns are shown."""
        return cls("", (), tuple((column, True) for column in columns))

    @cached_property
    def is_shown(self) -> dict[str, bool]:
        """Return True or False for the label of each column."""
        return {column.label: shown for column, shown in self.columns}


def list_tools(user: Any, route: str, columns: Sequence[Column], chosen: list[str] | None) -> ListTools:
    """Return the tools of a list with these columns."""
    shown = shown_labels(columns, chosen)
    marked = tuple((column, column.label in shown) for column in columns)
    return ListTools(route, tuple(saved_filters(user, route)), marked)


@cache
def filtered_lists() -> dict[str, Any]:
    """Return the views of lists with filters, by route; a further route of the same list is left out."""
    views = dict(_lists(get_resolver()))
    return {route: view for route, view in views.items() if view.list_route in ("", route)}


def _lists(resolver: URLResolver) -> Iterator[tuple[str, Any]]:
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            yield from _lists(entry)
        elif isinstance(entry, URLPattern) and getattr(view := _view_of(entry), "filterset", None):
            yield entry.name or "", view


def _view_of(pattern: URLPattern) -> type | None:
    return getattr(pattern.callback, "view_class", None)


def filters_of(route: str, query: str) -> str:
    """Return the parameters of a query string that filter and order the list, without empty ones."""
    names = filtered_lists()[route].filterset.base_filters
    values, filters_only = QueryDict(query), QueryDict(mutable=True)
    for name in values:
        if name in names and values[name]:
            filters_only.setlist(name, values.getlist(name))
    return filters_only.urlencode()


def visible_filters(user: Any) -> QuerySet[SavedFilter]:
    """Return the user's saved filters, and the shared ones of lists that the user may open, by name."""
    routes = [route for route, view in filtered_lists().items() if view.is_open_to(user)]
    visible = SavedFilter.objects.filter(Q(owner=user) | Q(shared=True, route__in=routes))
    return visible.select_related("owner").order_by("name", "pk")


def saved_filters(user: Any, route: str) -> QuerySet[SavedFilter]:
    """Return the saved filters of a list that the user sees."""
    return visible_filters(user).filter(route=route)


def chosen_labels(user: Any, route: str) -> list[str] | None:
    """Return the labels of the columns that the user chose for a list; None without a choice."""
    return ChosenColumns.objects.filter(user=user, route=route).values_list("labels", flat=True).first()


def favourites_of(user: Any) -> QuerySet[Favourite]:
    """Return the user's favourites, the latest first."""
    return Favourite.objects.filter(user=user)


def favourite_keys(user: Any, kind: str) -> QuerySet:
    """Return the query of the keys of the user's favourites of a kind."""
    return favourites_of(user).filter(subject_kind=kind).order_by().values("subject_key")


def favourite_rows(rows: QuerySet, user: Any, kind: str, key: str = "key") -> QuerySet:
    """Return the rows that the user marked, the last marked first; ``key`` names the field that favourites refer to."""
    mark = favourites_of(user).filter(subject_kind=kind, subject_key=OuterRef(key)).order_by().values("pk")
    marked = rows.filter(**{f"{key}__in": favourite_keys(user, kind)})
    return marked.annotate(mark=Subquery(mark)).order_by("-mark")


def is_favourite(user: Any, kind: str, key: UUID) -> bool:
    return favourites_of(user).filter(subject_kind=kind, subject_key=key).exists()


class FavouriteOnly(YesNoFilter):
    """Filter of the user's favourites; ``key`` names the field that favourites refer to."""

    def __init__(self, kind: str, key: str = "key", **options: Any) -> None:
        super().__init__(label="Favourite", **options)
        self._kind, self._key = kind, key

    def filter(self, qs: QuerySet, value: str) -> QuerySet:
        if not value:
            return qs
        filterset: Any = vars(self)["parent"]  # set by the FilterSet
        favourites = Q(**{f"{self._key}__in": favourite_keys(filterset.request.user, self._kind)})
        return qs.filter(favourites if value == "true" else ~favourites)


class SavedFilterFilter(filters.FilterSet):
    route = filters.CharFilter(label="Route of the list")
    shared = YesNoFilter(field_name="shared", label="Shared")
    ordering = StableOrdering(fields=("name", "updated_at"))

    class Meta:
        model = SavedFilter
        fields = ()


class FavouriteFilter(filters.FilterSet):
    subject_kind = filters.ChoiceFilter(
        choices=lambda: [(kind, kind) for kind in favourite_kinds()], label="Kind of the subject"
    )
    ordering = StableOrdering(fields=("created_at",))

    class Meta:
        model = Favourite
        fields = ()
