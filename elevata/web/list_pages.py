"""List pages, and the CSV files of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain, islice
from operator import attrgetter
from typing import Any, ClassVar

from django.core.paginator import Page as RowsPage
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django_filters import FilterSet

from elevata.core.spreadsheets import safe_csv_lines
from elevata.lists.columns import Column, csv_columns
from elevata.lists.selectors import ListTools, chosen_labels, list_tools
from elevata.web.paging import PER_PAGE, filtered, one_page
from elevata.web.views import TemplatePage, route_of

# Rows that a CSV file of a list is read by.
_CHUNK = 1000


class ListPage(TemplatePage):
    """Paginated list, with the filters of ``filterset``, if set."""

    filterset: ClassVar[type[FilterSet] | None] = None
    per_page: ClassVar[int] = PER_PAGE
    # Route of the list, where views with other routes show it, too.
    list_route: ClassVar[str] = ""
    # Columns that users choose, in the order of the table; those with values for a file make the list's CSV.
    columns: ClassVar[tuple[Column, ...]] = ()
    # Name of the CSV file, where it is not the route's in the plural.
    file_name: ClassVar[str] = ""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if self.has_csv and request.GET.get("format") == "csv":
            return self.as_csv()
        return super().get(request, **kwargs)

    @property
    def has_csv(self) -> bool:
        return any(column.csv for column in self.listed_columns)

    @property
    def route(self) -> str:
        return self.list_route or route_of(self.request)

    @cached_property
    def _chosen(self) -> list[str] | None:
        return chosen_labels(self.request.user, self.route) if self.columns and self.filterset is not None else None

    def as_csv(self) -> StreamingHttpResponse:
        """Return all filtered rows, not only the page's, with the chosen columns as CSV; they are sent in parts."""
        filterset, _ = self._filtered if self.filterset is not None else (None, None)
        rows = self.listed() if filterset is None else filterset.qs
        columns = csv_columns(self.listed_columns, self._chosen)
        values = [_value_of(source) for source in columns.values()]
        lines = ([_text(value(row)) for value in values] for part in _parts(rows) for row in self.detailed(part))
        name = self.file_name or f"{self.route.removesuffix('_list')}s"
        response = StreamingHttpResponse(
            safe_csv_lines(chain((list(columns),), lines)), content_type="text/csv; charset=utf-8"
        )
        response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
        return response

    @property
    def listed_columns(self) -> Sequence[Column]:
        """Return the columns of the list; a page whose columns depend on its object overrides it."""
        return self.columns

    def listed(self) -> QuerySet | Sequence[Any]:
        """Return all rows of the list, unfiltered."""
        raise NotImplementedError

    def detailed(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return these rows with what columns show of them besides, in the same order."""
        return rows

    @cached_property
    def detailed_page(self) -> Sequence[Any]:
        """Return the rows of the page with their details."""
        rows: Any = self.rows_page.object_list  # Any: the stubs know it as a part of a queryset only
        return self.detailed(rows)

    @cached_property
    def _filtered(self) -> tuple[FilterSet | None, RowsPage]:
        if self.filterset is None:
            return None, one_page(self.request, self.listed(), self.per_page)
        rows: Any = self.listed()  # lists with filters have a query
        return filtered(self.request, self.filterset, rows, self.per_page)

    @property
    def rows_page(self) -> RowsPage:
        """Return the page of rows that the address selects."""
        return self._filtered[1]

    def context(self) -> dict[str, Any]:
        chosen, page = self._filtered
        columns, tools = self.listed_columns, None
        if self.filterset is not None:
            tools = list_tools(self.request.user, self.route, columns, self._chosen)
        elif columns:
            tools = ListTools.of_columns(columns)
        return super().context() | {"filter": chosen, "page": page, "has_csv": self.has_csv, "tools": tools}


def _parts(rows: QuerySet | Sequence[Any]) -> Iterator[list[Any]]:
    remaining = rows.iterator(chunk_size=_CHUNK) if isinstance(rows, QuerySet) else iter(rows)
    while part := list(islice(remaining, _CHUNK)):
        yield part


def _value_of(source: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    return attrgetter(source) if isinstance(source, str) else source


def _text(value: Any) -> str | None:
    """Return a value of a list as text; times in ISO 8601."""
    if isinstance(value, datetime):
        return value.isoformat()
    return None if value is None else str(value)
