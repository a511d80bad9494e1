"""Filters and paging of lists on pages and in the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import django_filters as filters
from django.core.paginator import Page, Paginator
from django.db.models import Case, Model, OrderBy, QuerySet, Value, When
from django.http import HttpRequest
from django_filters import FilterSet

# Of long lists, the keys of a page are queried first, and then only these rows.


class KeyedPages(Paginator):
    """Paginator of ``rows``, which reads each page from ``every``, the query with the annotations.

    Annotations are therefore computed for the page's rows only; with OFFSET, databases compute them for skipped rows,
    too. With ``once``, one query reads all keys, which avoids the count of a slow search.
    """

    def __init__(self, rows: QuerySet, per_page: int, *, every: QuerySet, once: bool = False) -> None:
        keys = rows.values_list("pk", flat=True)
        super().__init__(list(keys) if once else keys, per_page)
        self._every = every

    def page(self, number: int | str) -> Page:
        page = super().page(number)
        rows: dict[Any, Any] = {row.pk: row for row in self._every.filter(pk__in=list(page.object_list)).order_by()}
        # Rows that were deleted between the two queries are omitted.
        page.object_list = [rows[pk] for pk in page.object_list if pk in rows]
        return page


PER_PAGE = 50


def one_page(request: HttpRequest, rows: QuerySet | Sequence[Any], per_page: int = PER_PAGE) -> Page:
    """Return the page that the address selects, or the nearest existing one."""
    return Paginator(rows, per_page).get_page(request.GET.get("page"))


def filtered(
    request: HttpRequest, filterset: type[FilterSet], rows: QuerySet, per_page: int = PER_PAGE
) -> tuple[FilterSet, Page]:
    """Return the filter of the address, for its form, and the page of the filtered rows."""
    chosen = filterset(request.GET, queryset=rows, request=request)
    vars(chosen)["leaves_out"] = any(request.GET.get(name) for name in chosen.filters if name != "ordering")
    if request.GET.get("q"):
        return chosen, KeyedPages(chosen.qs, per_page, every=rows, once=True).get_page(request.GET.get("page"))
    return chosen, one_page(request, chosen.qs, per_page)


# Filters of lists on pages and in the API.


_YES_NO = (("true", "Yes"), ("false", "No"))


def is_there(model: type[Model], field: str) -> Callable[[Any], bool]:
    """Return a function that is True for values that a row has; the API refuses other values (``known``)."""
    return lambda value: model._default_manager.filter(**{field: value}).exists()


class YesNoFilter(filters.ChoiceFilter):
    """Filter of a boolean, as a select with an empty choice."""

    def __init__(self, **kwargs):
        super().__init__(choices=_YES_NO, **kwargs)

    def filter(self, qs: QuerySet, value: str) -> QuerySet:
        return qs.filter(**{str(self.field_name): value == "true"}) if value else qs


class StableOrdering(filters.OrderingFilter):
    """Total order: ties are ordered by the primary key.

    Without a value, the order ``default`` applies, or else the model's. ``computed`` are expressions by which lists
    can be ordered, too, by name; rows without a value are last.
    """

    def __init__(
        self,
        *args: Any,
        fields: Sequence[str | tuple[str, str]],
        computed: Mapping[str, Any] | None = None,
        default: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        self._computed, self._default = dict(computed or {}), default
        super().__init__(*args, fields=(*fields, *self._computed), **options)

    def filter(self, qs: QuerySet, value: Any) -> QuerySet:
        fields = [self.get_ordering_value(param) for param in value or () if param]
        return qs.order_by(*(fields or self._default or qs.model._meta.ordering), "pk")

    def get_ordering_value(self, param: str) -> Any:
        expression = self._computed.get(param.removeprefix("-"))
        if expression is None:
            return super().get_ordering_value(param)
        return nulls_last(expression, descending=param.startswith("-"))


def nulls_last(expression: Any, *, descending: bool) -> OrderBy:
    """Return the order by an expression. NULL is last, ascending and descending."""
    return expression.desc(nulls_last=True) if descending else expression.asc(nulls_last=True)


def ranked(field: str, values: Iterable[Any]) -> Case:
    """Return the place of a field's value among these, for an order that is not that of the words."""
    return Case(*(When(**{field: value}, then=Value(place)) for place, value in enumerate(values)))
