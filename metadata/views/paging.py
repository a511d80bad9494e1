"""Lists on pages: filtered by a FilterSet, cut into pages."""

from collections.abc import Sequence
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django_filters import FilterSet

from metadata.paging import KeyedPages

PER_PAGE = 50


def one_page(request: HttpRequest, rows: QuerySet | Sequence[Any], per_page: int = PER_PAGE) -> Page:
    """The page of the address; one that does not exist is the nearest that does."""
    return Paginator(rows, per_page).get_page(request.GET.get("page"))


def filtered(
    request: HttpRequest, filterset: type[FilterSet], rows: QuerySet, per_page: int = PER_PAGE
) -> tuple[FilterSet, Page]:
    """The filter as the address says, for its form, and the page of what it leaves."""
    chosen = filterset(request.GET, queryset=rows, request=request)
    chosen.leaves_out = any(request.GET.get(name) for name in chosen.filters if name != "ordering")
    if request.GET.get("q"):
        return chosen, KeyedPages(chosen.qs, per_page, every=rows, once=True).get_page(request.GET.get("page"))
    return chosen, one_page(request, chosen.qs, per_page)
