"""Saved filters that the search finds."""

from functools import cache
from typing import Any

from django.db.models import QuerySet
from django.urls import NoReverseMatch, reverse

from elevata.lists.models import SavedFilter
from elevata.lists.selectors import filtered_lists, visible_filters
from elevata.web.search import RowKind


@cache
def _addresses() -> dict[str, str]:
    """Return the addresses of lists by route, without those of lists of one object."""
    addresses = {}
    for route in filtered_lists():
        try:
            addresses[route] = reverse(route)
        except NoReverseMatch:
            continue
    return addresses


def _filters(user: Any) -> QuerySet[SavedFilter]:
    return visible_filters(user).filter(route__in=_addresses())


KINDS = (
    RowKind(
        "saved_filter",
        "Saved filter",
        _filters,
        page=lambda row: f"{_addresses()[row.route]}?{row.query}",
        texts=(),
        within=lambda row: row.route.replace("_", " "),
        api="api-saved-filter-detail",
    ),
)
