"""Filters and orders of lists, on pages and in the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import django_filters as filters
from django.db.models import Case, Model, OrderBy, QuerySet, Value, When

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
