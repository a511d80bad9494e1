"""Bulk requests: many rows in one transaction, columns by dataset.

``POST …/bulk/`` takes three lists. Each row to change or delete is identified by its key (systems and schemas by
their name) and the version that the caller saw. All errors are returned at once, by list and position
(``update.3``), and then nothing is written. Rows are deleted first, so that created rows can take their names.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.db.models import Model, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.api.requests import ChangeSerializer, StrictSerializer
from elevata.api.resources import Editable
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError, Refusals

CREATE, UPDATE, DELETE = "create", "update", "delete"
KEY = "key"
MOST_ROWS = 500


@dataclass(frozen=True)
class RowProblem:
    """Error of a row, identified by list and position (``at``). ``field`` is empty for the row as a whole.

    A row of an undo, which has no list in the request, is identified by its name and its key.
    """

    at: str
    code: str
    field: str
    message: str
    status: int
    key: str = ""
    where: str = ""

    @classmethod
    def of(cls, at: str, refused: MetadataError, key: str = "") -> RowProblem:
        return cls(at, refused.code, refused.field, refused.message, refused.status, key)

    def place(self) -> tuple[str, int]:
        """Return the sort key: the list, then the position."""
        name, _, position = self.at.partition(".")
        return name, int(position)

    def as_json(self) -> dict[str, str]:
        row = {"at": self.at, "code": self.code, "field": self.field, "message": self.message}
        return row | {name: getattr(self, name) for name in ("key", "where") if getattr(self, name)}


class BadRows(APIException):
    """Refusal of a bulk request with the errors of its rows; nothing was written.

    The status is 412 if another user changed a row, else 409 for a conflict, else 403 for a missing permission, else
    422. The code is the rows' code if all have the same one.
    """

    default_detail = "Rows not taken"

    def __init__(self, problems: Sequence[RowProblem], total: int = 0) -> None:
        codes = {problem.code for problem in problems}
        total = max(total, len(problems))
        detail = f"{_count(total, 'row')} cannot be taken; nothing was changed."
        super().__init__(detail, code=codes.pop() if len(codes) == 1 else "bad_rows")
        statuses = {problem.status for problem in problems}
        self.status_code = next((code for code in (412, 409, 403) if code in statuses), 422)
        self.fields: dict[str, list[str]] = {}
        for problem in problems:
            self.fields.setdefault(f"{problem.at}.{problem.field or 'non_field_errors'}", []).append(problem.message)
        self.more = {"rows": [problem.as_json() for problem in problems], "total": total}

    @classmethod
    def of(cls, refused: Refusals) -> BadRows:
        """Return the refusal of an import: each fault that is listed, by its place in the files."""
        rows = [
            RowProblem(error.place, error.code, error.field, error.message, error.status, where=error.where)
            for error in refused.listed
        ]
        return cls(rows, refused.total)


class ChangedRowSerializer(serializers.Serializer):
    key = serializers.UUIDField()
    version = serializers.IntegerField(help_text="Version to send with the next change.")


class BulkAnswerSerializer(serializers.Serializer):
    """Result of a bulk request, each list in the order of the request."""

    created = ChangedRowSerializer(many=True)
    updated = ChangedRowSerializer(many=True)
    deleted = serializers.ListField(child=serializers.UUIDField())


class ChangedNamedRowSerializer(serializers.Serializer):
    key = serializers.CharField(help_text="Current name.")
    version = serializers.IntegerField(help_text="Version to send with the next change.")


class NamedBulkAnswerSerializer(serializers.Serializer):
    """Result of a bulk request over rows identified by name, each list in the order of the request."""

    created = ChangedNamedRowSerializer(many=True)
    updated = ChangedNamedRowSerializer(many=True)
    deleted = serializers.ListField(child=serializers.CharField())


class SeenRow(StrictSerializer):
    """Row by its key, with the version that the caller read."""

    key = serializers.UUIDField()
    version = serializers.IntegerField(min_value=1, max_value=2**31 - 1, help_text="The version that was seen.")


class SeenNamedRow(SeenRow):
    """Row by its name, with the version that the caller read."""

    key = serializers.CharField(  # type: ignore[assignment]  # it replaces the field of the base
        max_length=200, help_text="The name that was seen."
    )


class BulkRequest(ChangeSerializer):
    """Three lists of rows, each optional."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return super().to_internal_value(data)
        except serializers.ValidationError as invalid:
            raise serializers.ValidationError(dict(_flat(_by_field(invalid)))) from None

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        sent = [row for name in (CREATE, UPDATE, DELETE) for row in attrs.get(name, ())]
        if not sent:
            raise serializers.ValidationError(f"Say what to {CREATE}, {UPDATE} or {DELETE}.")
        if len(sent) > MOST_ROWS:
            raise serializers.ValidationError(f"At most {MOST_ROWS} rows are taken at once, not {len(sent)}.")
        counts = Counter(keys_named(attrs))
        duplicates = [key for key, count in counts.items() if count > 1]
        if duplicates:
            raise serializers.ValidationError(f"{duplicates[0]} is named twice.")
        return attrs


def keys_named(given: Mapping[str, Any]) -> list[UUID | str]:
    """Return the keys of the rows that a request changes or deletes."""
    return [row["key"] for name in (UPDATE, DELETE) for row in given.get(name, ())]


def _by_field(invalid: serializers.ValidationError) -> Mapping[str, Any]:
    """Return the errors of an object by field; those of the object itself have no name."""
    return invalid.detail if isinstance(invalid.detail, dict) else {"": invalid.detail}


def _flat(detail: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield errors by their path: ``create.1.name``."""
    for name, errors in detail.items():
        if isinstance(errors, Mapping):
            yield from _flat(errors, f"{above}{name}.")
        else:
            yield f"{above}{name}", errors


def bulk_request(view: Any) -> type[BulkRequest]:
    """Return the serializer of a view set's bulk requests, built from the serializers of its rows."""
    name, seen = view.queryset.model.__name__, SeenRow if view.known_by == KEY else SeenNamedRow
    fields: dict[str, Any] = {
        CREATE: _rows(_row(f"{name}BulkNew", view.create_serializer)),
        UPDATE: _rows(_row(f"{name}BulkChange", view.change_serializer, seen)),
    }
    if hasattr(view, "erase"):
        fields[DELETE] = _rows(seen)
    return type(f"{name}Bulk", (BulkRequest,), fields)


def _row(name: str, serializer: type[ChangeSerializer], seen: type[StrictSerializer] | None = None) -> Any:
    """Return the serializer of one row: a single request's without the reason. Fields of a change are optional."""
    fields = {key: field for key, field in serializer._declared_fields.items() if key != "changelog_message"}
    if seen is not None:
        fields = {key: _optional(field) for key, field in fields.items()} | dict(seen._declared_fields)
    described = "New row." if seen is None else "Changed fields of a row, with the version that the client read."
    return type(name, (StrictSerializer,), {"__doc__": described, **fields})


def _optional(field: serializers.Field) -> serializers.Field:
    """Return an optional copy of a field."""
    optional: Any = copy.deepcopy(field)  # Any: the stubs lack its arguments
    optional.required = False
    optional._kwargs = {**optional._kwargs, "required": False}
    return optional


def _rows(serializer: type[StrictSerializer]) -> serializers.BaseSerializer:
    return serializer(many=True, required=False, max_length=MOST_ROWS)  # type: ignore[call-arg]  # of many


if TYPE_CHECKING:
    _Mixed = Editable
else:
    _Mixed = object


class Bulk(_Mixed):
    """Mixin for editable view sets: bulk requests. ``known_by`` is the field that identifies a row."""

    known_by: ClassVar[str] = KEY
    bulk_serializer: ClassVar[type[BulkRequest]]
    bulk: ClassVar[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "bulk"):
            cls.bulk_serializer = bulk_request(cls)
            cls.bulk = _action(
                cls.bulk_serializer, BulkAnswerSerializer if cls.known_by == KEY else NamedBulkAnswerSerializer
            )

    def lock(self, given: Mapping[str, Any]) -> None:
        """Lock the rows in the same order in all requests, to avoid deadlocks."""
        list(self.rows_named(given).select_for_update().order_by("pk"))

    def rows_named(self, given: Mapping[str, Any]) -> QuerySet:
        """Return the existing rows that a request changes or deletes."""
        model = self.get_queryset().model
        return model._default_manager.filter(**{f"{self.known_by}__in": keys_named(given)})

    def many(self, run: BulkRun, made: Sequence[Mapping[str, Any]], changed: Sequence[Mapping[str, Any]]) -> None:
        """Update and create rows one by one. A view set can override this with a service for many rows."""
        for position, given in enumerate(changed):
            run.change(position, given)
        for position, given in enumerate(made):
            run.create(position, given)


def _action(serializer: type[BulkRequest], answered: type[serializers.Serializer]) -> Callable[..., Response]:
    @extend_schema(request=serializer, responses=answered)
    @action(detail=False, methods=["post"], filter_backends=(), pagination_class=None)
    def bulk(self: Any, request: Request) -> Response:
        """Create, change and delete many rows, all or nothing. All errors are returned by row."""
        given, reason = self.given(serializer)
        with writing(reason):
            self.lock(given)
            run = BulkRun(self, given)
            for position, row in enumerate(given.get(DELETE, ())):
                run.delete(position, row)
            self.many(run, given.get(CREATE, ()), given.get(UPDATE, ()))
            if run.problems:
                raise BadRows(sorted(run.problems, key=RowProblem.place))
            return Response(answered(run.answer()).data)

    return bulk


class BulkRun:
    """Execution of a bulk request. After a refused row, the other rows are still tried, to return all errors."""

    def __init__(self, view: Any, given: Mapping[str, Any]) -> None:
        self.view = view
        self.problems: list[RowProblem] = []
        self.rows: dict[str, dict[int, Any]] = {CREATE: {}, UPDATE: {}, DELETE: {}}
        self._response_fields = ("pk", view.known_by, "version")
        self._known = {getattr(row, view.known_by): row for row in view.rows_named(given)}

    def create(self, position: int, given: Mapping[str, Any]) -> None:
        self._try(CREATE, position, lambda: self.view.make(**given))

    def change(self, position: int, given: Mapping[str, Any]) -> None:
        values = {name: value for name, value in given.items() if name not in ("key", "version")}
        row = self.seen(UPDATE, position, given)
        if row is not None:
            self._try(UPDATE, position, lambda: self.view.change(row, given["version"], **values))

    def delete(self, position: int, given: Mapping[str, Any]) -> None:
        row = self.seen(DELETE, position, given)

        def erase() -> Any:
            self.view.erase(row, given["version"])
            return given["key"]

        if row is not None:
            self._try(DELETE, position, erase)

    def seen(self, name: str, position: int, given: Mapping[str, Any]) -> Model | None:
        """Return the row with the key. If there is none, record a problem and return None."""
        row = self._known.get(given["key"])
        if row is None:
            self.note(name, position, MetadataError("gone", "is not there, or not any more", "key"))
        return row

    def note(self, name: str, position: int, refused: MetadataError) -> None:
        self.problems.append(RowProblem.of(f"{name}.{position}", refused))

    def _try(self, name: str, position: int, work: Callable[[], Any]) -> None:
        try:
            with writing():
                self.rows[name][position] = work()
        except MetadataError as refused:
            self.note(name, position, refused)
        except serializers.ValidationError as invalid:
            for field, messages in _by_field(invalid).items():
                self.note(name, position, MetadataError("invalid", " ".join(map(str, messages)), field))

    def answer(self) -> dict[str, Any]:
        """Return the response: key and version of created and updated rows, keys of deleted rows."""
        lists = {name: [rows[at] for at in sorted(rows)] for name, rows in self.rows.items()}
        written = [row.pk for name in (CREATE, UPDATE) for row in lists[name]]
        rows = self.view.queryset.model.objects.filter(pk__in=written)
        stored = {pk: {"key": key, "version": version} for pk, key, version in rows.values_list(*self._response_fields)}
        response = {
            past: [stored[row.pk] for row in lists[name]] for name, past in ((CREATE, "created"), (UPDATE, "updated"))
        }
        return response | {"deleted": lists[DELETE]}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
