"""What every resource of the API is made from: reading, writing one, writing many."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.exceptions import ValidationError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import SAFE_METHODS, BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from metadata.api.etags import check_match, etag, is_known
from metadata.api.idempotency import Idempotent
from metadata.api.refusing import refusals
from metadata.api.sparse import PARAMETER as FIELDS
from metadata.api.sparse import SparseFields
from metadata.api.strict import ChangeSerializer, NothingSerializer
from metadata.domain.roles import Permission
from metadata.permissions import may
from metadata.services.common import writing

# In addresses: anything a name may be, without what a database could choke on.
NAME = r"[^/\x00]+"
_LIST_PARAMETERS = frozenset({"page", "page_size", "cursor", FIELDS})


class JsonOnly(BaseContentNegotiation):
    """Answers are JSON, whatever is asked for; ``?format=`` is left to the filters."""

    def select_parser(self, request: Request, parsers: list) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: list, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


class ReadOnly(Idempotent, SparseFields, ReadOnlyModelViewSet):
    """Signed-in people read; a list has its own, shorter serializer.

    ``version_of`` says what an answer's ETag begins with; None: it has none.
    """

    permission_classes = (IsAuthenticated,)
    content_negotiation_class = JsonOnly
    list_serializer_class: Any = None

    def get_serializer_class(self) -> Any:
        if self.action == "list" and self.list_serializer_class is not None:
            return self.list_serializer_class
        return super().get_serializer_class()

    def filter_queryset(self, queryset: QuerySet) -> QuerySet:
        if self.action == "list":
            self._refuse_unknown_parameters()
        return super().filter_queryset(queryset)

    def _refuse_unknown_parameters(self) -> None:
        """A misspelt filter would be answered with everything."""
        filters = getattr(self, "filterset_class", None)
        known = _LIST_PARAMETERS | set(filters.base_filters if filters else ())
        unknown = [name for name in self.request.query_params if name not in known]
        if unknown:
            said = f"There is no such parameter; known are {', '.join(sorted(known))}."
            raise ValidationError({name: [said] for name in unknown}, code="unknown_parameter")

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.answer(self.get_object())

    def version_of(self, row: Any) -> object | None:
        return getattr(row, "version", None)

    def answer(self, row: Any, code: int = status.HTTP_200_OK) -> Response:
        """One thing as it is now, with its ETag."""
        shown = self.get_serializer(row).data
        version = self.version_of(row)
        if version is None:
            return Response(shown, status=code)
        tag = etag(version, shown)
        if self.request.method in SAFE_METHODS and is_known(self.request, tag):
            return Response(status=status.HTTP_304_NOT_MODIFIED, headers={"ETag": tag})
        return Response(shown, status=code, headers={"ETag": tag})


class MayChange(BasePermission):
    """People who may change metadata; everybody reads."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.method in SAFE_METHODS or may(request.user, Permission.CHANGE_METADATA)


class Editable(ReadOnly):
    """A resource whose rows are made and changed by services.

    ``create_serializer`` and ``change_serializer`` read what is sent; ``make`` and ``change`` are the
    services.
    """

    permission_classes = (IsAuthenticated, MayChange)
    create_serializer: ClassVar[type[ChangeSerializer]]
    change_serializer: ClassVar[type[ChangeSerializer]]

    def make(self, **given: Any) -> Model:
        raise NotImplementedError

    def change(self, row: Any, expected_version: int, **given: Any) -> Model:
        raise NotImplementedError

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        given, reason = self.given(self.create_serializer)
        with refusals(), writing(reason):
            row = self.make(**given)
        made = self.fresh(row)
        answer = self.answer(made, status.HTTP_201_CREATED)
        answer.headers["Location"] = self.address_of(made)
        return answer

    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        row = self.get_object()
        check_match(request, row.version)
        given, reason = self.given(self.change_serializer, partial=True)
        with refusals(), writing(reason):
            self.change(row, row.version, **given)
        return self.answer(self.fresh(row))

    def verb(self, deed: Any, serializer: type[ChangeSerializer] = NothingSerializer, *, required: bool = False) -> Any:
        """``deed(row, reason, **given)`` over the version that the caller saw."""
        row = self.get_object()
        check_match(self.request, row.version, required=required)
        given, reason = self.given(serializer)
        with refusals(), writing(reason):
            deed(row, reason, **given)
        return self.answer(self.fresh(row))

    def given(self, serializer: type[ChangeSerializer], *, partial: bool = False) -> tuple[dict[str, Any], str]:
        """The body, valid, and its reason apart."""
        read = serializer(data=self.request.data, partial=partial)
        read.is_valid(raise_exception=True)
        values = dict(read.validated_data)
        return values, values.pop("changelog_message", "")

    def fresh(self, row: Model) -> Model:
        """The row as it is read, with all that its answer shows."""
        return self.get_queryset().get(pk=row.pk)

    def address_of(self, row: Model) -> str:
        value = str(getattr(row, self.lookup_field))
        return self.reverse_action("detail", kwargs={self.lookup_url_kwarg or self.lookup_field: value})


class Deletable(Editable):
    """An editable resource whose rows can be deleted while nothing uses them."""

    def erase(self, row: Any, expected_version: int, reason: str) -> None:
        raise NotImplementedError

    @extend_schema(request=None, responses={204: None})
    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete it, if nothing uses it. A reason may be given as ``?changelog_message=``."""
        row = self.get_object()
        check_match(request, row.version)
        reason = request.query_params.get("changelog_message", "")
        with refusals(), writing(reason):
            self.erase(row, row.version, reason)
        return Response(status=status.HTTP_204_NO_CONTENT)
