"""Filters and paging of lists on pages and in the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import django_filters as filters
from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django_filters import FilterSet

# Pages of long lists: the rows of a page are selected by their keys, and only those rows are read.


class KeyedPages(Paginator):
    """Pages of the rows ``found``, each read from ``every``, which has the annotations that a row is shown with.

    So annotations are computed for the page's rows only; with OFFSET, databases compute them for skipped rows,
    too. With ``once``, all keys are read by one query, which saves the count of a slow search.
    """

    def __init__(self, found: QuerySet, per_page: int, *, every: QuerySet, once: bool = False) -> None:
        keys = found.values_list("pk", flat=True)
        super().__init__(list(keys) if once else keys, per_page)
        self._every = every

    def page(self, number: int | str) -> Page:
        page = super().page(number)
        rows: dict[Any, Any] = {row.pk: row for row in self._every.filter(pk__in=list(page.object_list)).order_by()}
        # Rows deleted between the two queries are left out.
        page.object_list = [rows[pk] for pk in page.object_list if pk in rows]
        return page


PER_PAGE = 50


def one_page(request: HttpRequest, rows: QuerySet | Sequence[Any], per_page: int = PER_PAGE) -> Page:
    """Return the page that the address selects, or the nearest that exists."""
    return Paginator(rows, per_page).get_page(request.GET.get("page"))


def filtered(
    request: HttpRequest, filterset: type[FilterSet], rows: QuerySet, per_page: int = PER_PAGE
) -> tuple[FilterSet, Page]:
    """Return the filter of the address, for its form, and the page of the filtered rows."""
    chosen = filterset(request.GET, queryset=rows, request=request)
    chosen.leaves_out = any(request.GET.get(name) for name in chosen.filters if name != "ordering")
    if request.GET.get("q"):
        return chosen, KeyedPages(chosen.qs, per_page, every=rows, once=True).get_page(request.GET.get("page"))
    return chosen, one_page(request, chosen.qs, per_page)


# Filters shared by lists of pages and the API.


_YES_NO = (("true", "Yes"), ("false", "No"))


def is_there(model: type[Model], field: str) -> Callable[[Any], bool]:
    """Return a test whether any row has the value: the API refuses filters by unknown names (``known``)."""
    return lambda value: model._default_manager.filter(**{field: value}).exists()


class YesNoFilter(filters.ChoiceFilter):
    """A boolean as a select with an empty choice."""

    def __init__(self, **kwargs):
        super().__init__(choices=_YES_NO, **kwargs)

    def filter(self, qs: QuerySet, value: str) -> QuerySet:
        return qs.filter(**{self.field_name: value == "true"}) if value else qs


class StableOrdering(filters.OrderingFilter):
    """An ordering that is total: ties, and lists without an order, are ordered by the model's order and the key."""

    def filter(self, qs: QuerySet, value) -> QuerySet:
        fields = [param for param in value or () if param]
        if not fields:
            return qs.order_by(*qs.model._meta.ordering, "pk")
        return qs.order_by(*(self.get_ordering_value(param) for param in fields), "pk")
