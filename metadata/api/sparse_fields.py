"""``?fields=a,b``: an answer without what nobody asked for."""

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

PARAMETER = "fields"


def wanted(request: Request) -> list[str] | None:
    """The named fields; None where all are wanted."""
    if PARAMETER not in request.query_params:
        return None
    names = [name.strip() for name in request.query_params[PARAMETER].split(",")]
    if not all(names):
        raise ValidationError({PARAMETER: ["Must be names of fields with commas between, none of them empty."]})
    return names


class SparseFields:
    """For view sets: serializers of answers keep only the fields of ``?fields=``."""

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        made = super().get_serializer(*args, **kwargs)
        # The description asks for serializers, too, and has no request to read.
        request = getattr(self, "request", None)
        if request is None or getattr(self, "swagger_fake_view", False):
            return made
        names = wanted(request)
        if names is not None:
            fields = getattr(made, "child", made).fields
            unknown = [name for name in names if name not in fields]
            if unknown:
                said = f"There is no field {unknown[0]!r}; known are {', '.join(fields)}."
                raise ValidationError({PARAMETER: [said]})
            for name in set(fields) - set(names):
                fields.pop(name)
        return made
