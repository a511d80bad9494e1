"""Pages of lists, on pages and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
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
