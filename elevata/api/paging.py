"""Pages of lists in the API: by number (``?page=2``), or by key (``?cursor=``).

Pages by key are stable under concurrent writes: a page begins after the last row of the previous one, in the list's
order with the primary key at the end. No row is skipped or repeated when rows are inserted or deleted, and every page
costs the same. The orders are those of the list's FilterSet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from django.core.exceptions import ValidationError as FieldError
from django.core.serializers.json import DjangoJSONEncoder
from django.core.signing import BadSignature, Signer
from django.db.models import F, Field, Model, OrderBy, Q, QuerySet
from django.db.models.constants import LOOKUP_SEP
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from elevata.web.list_filters import nulls_last
from elevata.web.paging import KeyedPages

CURSOR = "cursor"
_signer = Signer(salt="elevata.cursor")


@dataclass(frozen=True)
class _Part:
    """Field of an order. NULL is last, ascending and descending."""

    name: str
    descending: bool
    field: Field

    def ordering(self) -> OrderBy:
        return nulls_last(F(self.name), descending=self.descending)

    def equal(self, value: Any) -> Q:
        return Q(**{f"{self.name}__isnull": True}) if value is None else Q(**{self.name: value})

    def after(self, value: Any) -> Q | None:
        """Return the condition for rows after a value; None if there are none."""
        if value is None:
            return None
        condition = Q(**{f"{self.name}__{'lt' if self.descending else 'gt'}": value})
        return condition | Q(**{f"{self.name}__isnull": True}) if self.field.null else condition

    def of(self, row: Any) -> Any:
        for step in self.name.split(LOOKUP_SEP):
            row = getattr(row, step, None)
        # Related rows are ordered by their key.
        return row.pk if isinstance(row, Model) else row


class Paging(PageNumberPagination):
    """Pagination by ``?page=&page_size=`` with a count, or by ``?cursor=&page_size=``; at most 500 rows."""

    page_size_query_param = "page_size"
    max_page_size: int = 500
    django_paginator_class: Any = PageNumberPagination.django_paginator_class
    _by_key = False

    def get_page_size(self, request: Request) -> int:
        """Return the page size, at most the maximum. Raise ValidationError unless it is a positive number."""
        text = request.query_params.get(self.page_size_query_param)
        if text is None:
            assert self.page_size is not None  # by REST_FRAMEWORK's PAGE_SIZE
            return self.page_size
        return min(_positive_number(self.page_size_query_param, text), self.max_page_size)

    def get_page_number(self, request: Request, paginator: Any) -> int:
        return _positive_number(self.page_query_param, request.query_params.get(self.page_query_param, "1"))

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list | None:
        if CURSOR not in request.query_params or not isinstance(queryset, QuerySet):
            self._page_by_keys(queryset, request, view)
            return super().paginate_queryset(queryset, request, view)
        if self.page_query_param in request.query_params:
            raise ValidationError({CURSOR: ["Pages go by number or by key, not by both."]})
        self.request, self._by_key = request, True
        size = self.get_page_size(request)
        queryset, parts = _order_of(queryset)
        rows = queryset.order_by(*(part.ordering() for part in parts))
        cursor = request.query_params[CURSOR]
        if cursor:
            rows = rows.filter(_rows_after(parts, _parse_cursor(cursor, parts)))
        page_rows = list(rows[: size + 1])
        self._next = _cursor_after(parts, page_rows[size - 1]) if len(page_rows) > size else None
        return page_rows[:size]

    def _page_by_keys(self, queryset: Any, request: Request, view: Any) -> None:
        """Query later pages and search results by their keys; a first page is faster without."""
        searched = bool(request.query_params.get("q"))
        is_later_page = request.query_params.get(self.page_query_param, "1") != "1"
        if isinstance(queryset, QuerySet) and (searched or is_later_page):
            self.django_paginator_class = partial(KeyedPages, every=view.get_queryset(), once=searched)

    def get_paginated_response(self, data: Any) -> Response:
        if not self._by_key:
            return super().get_paginated_response(data)
        return Response({"next": self._link(), "results": data})

    def _link(self) -> str | None:
        if self._next is None:
            return None
        assert self.request is not None
        return replace_query_param(
            remove_query_param(self.request.build_absolute_uri(), self.page_query_param), CURSOR, self._next
        )

    def get_schema_operation_parameters(self, view: Any) -> list[dict]:
        text = "Pages by key instead of by number: empty to begin, then what `next` says. `count` is left out."
        numbers = super().get_schema_operation_parameters(view)
        for parameter in numbers:
            parameter["schema"]["minimum"] = 1
        return [
            *numbers,
            {"name": CURSOR, "required": False, "in": "query", "description": text, "schema": {"type": "string"}},
        ]

    def get_paginated_response_schema(self, schema: dict) -> dict:
        described_schema = super().get_paginated_response_schema(schema)
        described_schema["required"] = ["results", "next"]
        return described_schema


def _positive_number(name: str, text: str) -> int:
    """Return a positive number. Raise ValidationError for any other text."""
    if not (text.isascii() and text.isdigit() and int(text[:20])):
        raise ValidationError({name: ["Must be a whole number of at least 1."]})
    return int(text[:20])


def _order_of(queryset: QuerySet) -> tuple[QuerySet, list[_Part]]:
    """Return the fields of a list's order, with the primary key at the end, and the rows with all of them.

    An expression, such as the rank of a severity, becomes an annotation that is named by its digest.
    """
    parts: dict[str, _Part] = {}
    for item in (*(queryset.query.order_by or queryset.model._meta.ordering), "pk"):
        if isinstance(item, str):
            name, descending = item.lstrip("-"), item.startswith("-")
        else:
            is_order = isinstance(item, OrderBy)
            expression, descending = (item.expression, item.descending) if is_order else (item, False)
            name = f"order_{sha256(str(expression).encode()).hexdigest()[:12]}"
            queryset = queryset.annotate(**{name: expression})
        if name not in parts:
            parts[name] = _Part(name, descending, _field(queryset, name))
    return queryset, list(parts.values())


def _field(queryset: QuerySet, name: str) -> Any:
    annotation = queryset.query.annotations.get(name)
    if annotation is not None:
        return annotation.output_field
    model, field = queryset.model, None
    for step in name.split(LOOKUP_SEP):
        field = model._meta.pk if step == "pk" else model._meta.get_field(step)
        model = field.related_model or model
    return field


def _rows_after(parts: list[_Part], values: list[Any]) -> Q:
    """Return the condition for rows after these values in the order."""
    condition, equal = Q(pk__in=[]), Q()
    for part, value in zip(parts, values, strict=True):
        after = part.after(value)
        if after is not None:
            condition |= equal & after
        equal &= part.equal(value)
    return condition


def _cursor_after(parts: list[_Part], row: Any) -> str:
    place = {"order": [_order_text(part) for part in parts], "at": [part.of(row) for part in parts]}
    return _signer.sign_object(json.loads(json.dumps(place, cls=_Exact)), compress=True)


def _parse_cursor(text: str, parts: list[_Part]) -> list[Any]:
    wrong = ValidationError({CURSOR: ["Is not one of this list in this order: begin again with an empty one."]})
    try:
        place = _signer.unsign_object(text)
        if place["order"] != [_order_text(part) for part in parts]:
            raise wrong
        return [part.field.to_python(value) for part, value in zip(parts, place["at"], strict=True)]
    except (BadSignature, FieldError, KeyError, TypeError, ValueError):
        raise wrong from None


def _order_text(part: _Part) -> str:
    return f"-{part.name}" if part.descending else part.name


class _Exact(DjangoJSONEncoder):
    """Encoder of times with microseconds; Django's truncates them to milliseconds."""

    def default(self, value: Any) -> Any:
        return value.isoformat() if hasattr(value, "isoformat") else super().default(value)
