"""Request bodies and query parameters: strict fields, sparse fields, shared serializers."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.views import APIView

# Query parameters of which an empty value means something: the first page, and no reason.
MAY_BE_EMPTY = frozenset({"cursor", "changelog_message"})
_NAMES = "Must be field names separated by commas, without empty ones."


def check_parameters(request: Request, known: Collection[str]) -> None:
    """Raise ValidationError for parameters that are not known, are empty, or are given more than once."""
    parameters = request.query_params
    unknown = [name for name in parameters if name not in known]
    if unknown:
        names = ", ".join(sorted(known))
        message = f"There is no such parameter; known are {names}." if known else "This address takes no parameters."
        raise ValidationError({name: [message] for name in unknown}, code="unknown_parameter")
    wrong = {name: "Is given more than once." for name in parameters if len(parameters.getlist(name)) > 1}
    wrong |= {
        name: "Is empty: leave it out."
        for name in parameters
        if not parameters[name].strip() and name not in MAY_BE_EMPTY
    }
    if wrong:
        raise ValidationError({name: [message] for name, message in wrong.items()})


def is_true(request: Request, name: str) -> bool:
    """Return the value of a boolean parameter, False if it is not given. Raise ValidationError for another value."""
    value = request.query_params.get(name, "false")
    if value not in ("true", "false"):
        raise ValidationError({name: ["Must be true or false."]})
    return value == "true"


class KnownValues(DjangoFilterBackend):
    """Filter backend that refuses values that do not exist.

    Otherwise a misspelt value would give an empty list, which a program takes for the answer. ``known`` of a FilterSet
    maps the names of filters to functions that return True for a value that exists.
    """

    def filter_queryset(self, request: Any, queryset: QuerySet, view: APIView) -> Any:
        filterset = self.get_filterset(request, queryset, view)
        if filterset is not None and filterset.is_valid():
            values = filterset.form.cleaned_data
            known = getattr(filterset, "known", {})
            if "ordering" in values and not all(request.query_params.get("ordering", "x").split(",")):
                raise ValidationError({"ordering": [_NAMES]})
            wrong = [name for name, is_there in known.items() if values.get(name) and not is_there(values[name])]
            if wrong:
                raise ValidationError({name: [f"There is no such {name.replace('_', ' ')}."] for name in wrong})
        return super().filter_queryset(request, queryset, view)


# Parameter that restricts a response to some fields: ``?fields=a,b``.
PARAMETER = "fields"


def requested_fields(request: Request) -> list[str] | None:
    """Return the requested fields; None for all."""
    if PARAMETER not in request.query_params:
        return None
    names = [name.strip() for name in request.query_params[PARAMETER].split(",")]
    if not all(names):
        raise ValidationError({PARAMETER: [_NAMES]})
    return names


if TYPE_CHECKING:
    from rest_framework.viewsets import GenericViewSet

    ViewMixin = GenericViewSet[Any]
else:
    ViewMixin = object


class SparseFields(ViewMixin):
    """Mixin of view sets that restricts serializers of responses to the fields of ``?fields=``."""

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        serializer = super().get_serializer(*args, **kwargs)
        # The OpenAPI generator uses serializers without a request.
        request = getattr(self, "request", None)
        if request is None or getattr(self, "swagger_fake_view", False):
            return serializer
        names = requested_fields(request)
        if names is not None:
            of_row: Any = getattr(serializer, "child", serializer)
            fields = of_row.fields
            unknown = [name for name in names if name not in fields]
            if unknown:
                message = f"There is no field {unknown[0]!r}; known are {', '.join(fields)}."
                raise ValidationError({PARAMETER: [message]})
            for name in set(fields) - set(names):
                fields.pop(name)
        return serializer


MESSAGE_LENGTH = 1000


class StrictSerializer(serializers.Serializer):
    """Serializer that refuses unknown and read-only fields, because a misspelt field would be ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            known = [name for name, field in self.fields.items() if not field.read_only]
            unknown = {
                str(name): [f"There is no such field; known are {', '.join(known)}."]
                for name in data
                if name not in known
            }
            if unknown:
                raise serializers.ValidationError(unknown, code="unknown_field")
            # int() also takes digits of other scripts.
            wrong = {
                name: ["A valid integer is required."]
                for name, field in self.fields.items()
                if isinstance(field, serializers.IntegerField)
                and isinstance(data.get(name), str)
                and not data[name].isascii()
            }
            if wrong:
                raise serializers.ValidationError(wrong, code="invalid")
        return super().to_internal_value(data)


class ChangeSerializer(StrictSerializer):
    """Fields of every write: the reason for the change log."""

    changelog_message = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=MESSAGE_LENGTH,
        help_text="Reason, recorded in the change log.",
    )


def joined_reason(reason: str, message: str) -> str:
    """Return the reason of an action and the change-log message of the request as one text."""
    return ": ".join(part for part in (reason.strip(), message.strip()) if part)


class NoParametersSerializer(ChangeSerializer):
    """Request without parameters except an optional reason."""


def quoted_name() -> serializers.BooleanField:
    """Return the field that accepts names that need quotes."""
    help_text = "Accept a name that most engines need quotes for, where the environment asks (ELEVATA_QUOTED_NAMES)."
    return serializers.BooleanField(required=False, default=False, help_text=help_text)


class RenameSerializer(ChangeSerializer):
    name = serializers.CharField(max_length=200)
    quoted_name = quoted_name()
