"""OpenAPI description of the API: parameters and responses that every operation shares."""

from typing import Any

from django.db import connection, models
from django.db.backends.base.operations import BaseDatabaseOperations
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from elevata.api.idempotency import HEADER, KEY_LENGTH, REPLAYED, Idempotent
from elevata.api.requests import MAY_BE_EMPTY, PARAMETER, SparseFields

PROBLEM_TYPE = "application/problem+json"


_TEXT = {"type": "string"}


_IF_MATCH = "ETag of the version read. `412` with the current tag if it changed."


_NO_STAR = " `*` is refused."


class RowProblemSerializer(serializers.Serializer):
    """Reason why one row of many was refused."""

    at = serializers.CharField(help_text="List and position, for example update.3; for an undo the name of the row.")
    key = serializers.CharField(required=False, help_text="Key of the row, for an undo.")
    code = serializers.CharField()
    field = serializers.CharField(allow_blank=True)
    message = serializers.CharField()


class ProblemSerializer(serializers.Serializer):
    """Error of a request (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(allow_blank=True)
    code = serializers.CharField(help_text="For programs: it never changes.")
    request_id = serializers.CharField(allow_blank=True)
    hint = serializers.CharField(required=False, help_text="What to do; also at the end of `detail`.")
    errors = serializers.DictField(  # type: ignore[assignment]  # a field of the document, which is only described
        required=False, help_text="Messages by field."
    )
    rows = RowProblemSerializer(many=True, required=False, help_text="For bulk requests and undo: every refused row.")


class DescribedSchema(AutoSchema):
    """Schema of an operation, with its headers, sparse fields and problem responses."""

    def get_request_serializer(self) -> Any:
        """Return the serializer of the body with which a view set creates or changes a row."""
        kinds = {"create": "create_serializer", "partial_update": "change_serializer"}
        attribute = kinds.get(getattr(self.view, "action", ""))
        return (
            getattr(self.view, attribute)
            if attribute and hasattr(self.view, attribute)
            else super().get_request_serializer()
        )

    def get_summary(self) -> str | None:
        """Return the first sentence of the description, for lists of operations."""
        first = self.get_description().strip().partition("\n")[0].partition(". ")[0]
        return super().get_summary() or first.rstrip(".") or None

    def _insert_min_max(self, field: Any, content: dict[str, Any]) -> None:
        """Limit whole numbers to the range that every database can store.

        The range of a column depends on the database; SQLite stores 64 bits in each.
        """
        super()._insert_min_max(field, content)
        kind = _kind_of_column(field)
        if kind in BaseDatabaseOperations.integer_field_ranges:
            own_range = connection.ops.integer_field_range(kind)
            common_range = BaseDatabaseOperations.integer_field_ranges[kind]
            for bound, own_bound, common_bound in zip(("minimum", "maximum"), own_range, common_range, strict=True):
                if content.get(bound) == own_bound:
                    content[bound] = common_bound

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        parameters = operation.setdefault("parameters", [])
        for parameter in parameters:
            _settle_query(parameter)
        known = {item["name"] for item in parameters}
        parameters += [item for item in self._common_parameters() if item["name"] not in known]
        if not parameters:
            del operation["parameters"]
        self._add_common_responses(operation["responses"])
        return operation

    def _common_parameters(self) -> list[dict[str, Any]]:
        """Return the headers and parameters that the base classes read for this operation."""
        parameters = []
        if self.method == "POST" and isinstance(self.view, Idempotent):
            description = "A repeated request with the same body returns the same response and is not executed again."
            parameters.append(_header(HEADER, description, {"minLength": 1, "maxLength": KEY_LENGTH}))
        if self._is_compared():
            resource: Any = self.view  # Any: what a Resource declares
            exact = resource.action in resource.must_see
            required = exact or resource.action in resource.must_match
            parameters.append(_header("If-Match", _IF_MATCH + (_NO_STAR if exact else ""), required=required))
        if self._has_tag():
            parameters.append(_header("If-None-Match", "`304` if the answer still has this ETag."))
        is_sparse = isinstance(self.view, SparseFields) and getattr(self.view, "action", "") in ("list", "retrieve")
        if self.method == "GET" and is_sparse:
            description = "Only these fields, by name, with commas between."
            parameters.append(
                {"name": PARAMETER, "in": "query", "description": description, "schema": _TEXT | {"minLength": 1}}
            )
        return parameters

    def _is_compared(self) -> bool:
        """Return True if the operation reads If-Match."""
        view = self.view
        from elevata.api.resources import Resource  # whose decorators need this module first

        return isinstance(view, Resource) and view.action in view.must_match | view.must_see | view.may_match

    def _has_tag(self) -> bool:
        from elevata.api.resources import ReadOnly  # whose decorators need this module first

        return getattr(self.view, "action", None) == "retrieve" and isinstance(self.view, ReadOnly) and self.view.tagged

    def _add_common_responses(self, responses: dict[str, Any]) -> None:
        """Add the responses that every operation may give."""
        tag = {"ETag": {"schema": _TEXT, "description": "Version of the resource."}}
        if self._has_tag():
            responses["200"].setdefault("headers", {}).update(tag)
            responses["304"] = {"description": "It is what `If-None-Match` says.", "headers": tag}
        if self.method == "POST" and isinstance(self.view, Idempotent):
            header = {"schema": _TEXT, "description": "`true` for a repeated request."}
            for code, response in responses.items():
                if code.startswith("2"):
                    response.setdefault("headers", {})[REPLAYED] = header
        problem = self._get_response_for_code(ProblemSerializer, "4XX", [PROBLEM_TYPE])
        scheme = {"WWW-Authenticate": {"schema": _TEXT, "description": "`Token`: send a personal token."}}
        unknown = "No valid token and no session."
        responses.setdefault("401", problem | {"description": unknown, "headers": scheme})
        responses.setdefault("4XX", problem | {"description": "Refused; `code` says why."})
        responses.setdefault("503", problem | {"description": "The control database does not respond."})


def _settle_query(parameter: dict[str, Any]) -> None:
    """Describe yes-no filters as booleans, and texts as not empty."""
    schema = parameter["schema"]
    if parameter["in"] != "query":
        return
    if schema.get("type") == "boolean":
        schema.pop("enum", None)
    is_text = schema.get("type") == "string" and not {"enum", "format"} & schema.keys()
    if is_text and parameter["name"] not in MAY_BE_EMPTY:
        schema["minLength"] = 1


def _kind_of_column(field: Any) -> str:
    """Return the kind of the model's column that a response's field shows; empty if it shows none."""
    model = getattr(getattr(field.parent, "Meta", None), "model", None)
    columns = {column.name: column for column in model._meta.get_fields()} if model is not None else {}
    column = columns.get(field.source)
    return column.get_internal_type() if isinstance(column, models.Field) else ""


def _header(name: str, description: str, schema: dict[str, Any] | None = None, required: bool = False) -> dict:
    described = {"name": name, "in": "header", "description": description, "schema": _TEXT | (schema or {})}
    return described | ({"required": True} if required else {})
