"""Query parameters: what is unknown, empty or given twice is refused, never passed over."""

from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

# An empty cursor begins a list, an empty reason is none.
MAY_BE_EMPTY = frozenset({"cursor", "changelog_message"})


def check_parameters(request: Request, known: Collection[str]) -> None:
    """Raise ValidationError for parameters that are not known, are empty, or are given more than once."""
    given = request.query_params
    unknown = [name for name in given if name not in known]
    if unknown:
        said = f"There is no such parameter; known are {', '.join(sorted(known))}." if known else "None is taken here."
        raise ValidationError({name: [said] for name in unknown}, code="unknown_parameter")
    wrong = {name: "Is given more than once." for name in given if len(given.getlist(name)) > 1}
    wrong |= {name: "Is empty: leave it out." for name in given if not given[name].strip() and name not in MAY_BE_EMPTY}
    if wrong:
        raise ValidationError({name: [said] for name, said in wrong.items()})


class KnownValues(DjangoFilterBackend):
    """Filters as on pages, but a value that names nothing is refused: a program would take the empty list for true.

    A FilterSet says by ``known`` how to find out whether there is what a value names.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet, view: APIView) -> Any:
        filterset = self.get_filterset(request, queryset, view)
        if filterset is not None and filterset.is_valid():
            given = filterset.form.cleaned_data
            known = getattr(filterset, "known", {})
            if "ordering" in given and not all(request.query_params.get("ordering", "x").split(",")):
                raise ValidationError(
                    {"ordering": ["Must be names of fields with commas between, none of them empty."]}
                )
            wrong = [name for name, is_there in known.items() if given.get(name) and not is_there(given[name])]
            if wrong:
                raise ValidationError({name: [f"There is no such {name.replace('_', ' ')}."] for name in wrong})
        return super().filter_queryset(request, queryset, view)
