"""Pages of long lists: which rows are on a page is found by their keys, and only those rows are read."""

from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet


class KeyedPages(Paginator):
    """Pages of the rows that were ``found``, each read from ``every`` with all that is shown of a row.

    What is shown of a row is worked out for the page's rows alone; a database works it out for the rows
    it skips, too. ``once``, where finding takes long: all keys are read, and counting them is no second search.
    """

    def __init__(self, found: QuerySet, per_page: int, *, every: QuerySet, once: bool = False) -> None:
        keys = found.values_list("pk", flat=True)
        super().__init__(list(keys) if once else keys, per_page)
        self._every = every

    def page(self, number: int | str) -> Page:
        page = super().page(number)
        rows: dict[Any, Any] = {row.pk: row for row in self._every.filter(pk__in=list(page.object_list)).order_by()}
        # One that went between the two questions is on no page.
        page.object_list = [rows[pk] for pk in page.object_list if pk in rows]
        return page
