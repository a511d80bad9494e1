"""Base view sets of the API: reading, writing one row, writing many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.conf import settings
from django.db.models import Model
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from metadata.api.errors import refusals
from metadata.api.etags import check_match, etag, is_known
from metadata.api.idempotency import Idempotent
from metadata.api.inputs import RenameSerializer
from metadata.api.parameters import check_parameters
from metadata.api.permissions import ByAction, permitted_to
from metadata.api.sparse_fields import PARAMETER as FIELDS
from metadata.api.sparse_fields import SparseFields
from metadata.api.strict_fields import ChangeSerializer, NothingSerializer
from metadata.domain.roles import Permission
from metadata.services.common import writing

# In addresses: anything a name may be, without what a database could choke on.
NAME = r"[^/\x00]+"
REASON = OpenApiParameter("changelog_message", str, description="Why this is done; kept in the change log.")
PAGES = frozenset({"page", "page_size", "cursor"})


class JsonOnly(BaseContentNegotiation):
    """Answers are JSON, whatever is asked for; ``?format=`` is left to the filters."""

    def select_parser(self, request: Request, parsers: list) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: list, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


class Resource(Idempotent, ByAction):
    """Base of every view set: JSON of limited size, and at most one write for each idempotency key."""

    content_negotiation_class = JsonOnly
    # Actions that may say by If-Match what they are made over, that must, and that must name it.
    may_match: ClassVar[frozenset[str]] = frozenset()
    must_match: ClassVar[frozenset[str]] = frozenset()
    must_see: ClassVar[frozenset[str]] = frozenset()

    # Query parameters that an action takes beside what its kind takes; every other one is refused.
    parameters: ClassVar[Mapping[str, frozenset[str]]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.action:
            check_parameters(request, self.known_parameters())

    def known_parameters(self) -> frozenset[str]:
        """Return the names of the query parameters that the action takes."""
        return self.parameters.get(self.action, frozenset())

    @staticmethod
    def most_bytes() -> int:
        """Return how long a body may be; ``elevata.web.request_limits`` asks."""
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE

    def given(self, serializer: type[ChangeSerializer], *, partial: bool = False) -> tuple[dict[str, Any], str]:
        """The body, valid, and its reason apart."""
        read = serializer(data=self.request.data, partial=partial)
        read.is_valid(raise_exception=True)
        values = dict(read.validated_data)
        return values, values.pop("changelog_message", "")


class ReadOnly(Resource, SparseFields, ReadOnlyModelViewSet):
    """Signed-in people read; a list has its own, shorter serializer.

    ``version_of`` says what an answer's ETag begins with; None, where not ``tagged``: it has none.
    """

    tagged = False
    list_serializer_class: Any = None

    def get_serializer_class(self) -> Any:
        if self.action == "list" and self.list_serializer_class is not None:
            return self.list_serializer_class
        return super().get_serializer_class()

    def known_parameters(self) -> frozenset[str]:
        own = super().known_parameters()
        if self.action == "list":
            return own | PAGES | {FIELDS} | self.filter_names()
        return own | {FIELDS} if self.action == "retrieve" else own

    def filter_names(self) -> frozenset[str]:
        """Return the names of the filters of the list."""
        filters = getattr(self, "filterset_class", None)
        return frozenset(filters.base_filters if filters else ())

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.answer(self.get_object())

    def version_of(self, row: Any) -> object | None:
        return row.version if self.tagged else None

    def answer(self, row: Any, code: int = status.HTTP_200_OK) -> Response:
        """One thing as it is now, with its ETag."""
        shown = self.get_serializer(row).data
        version = self.version_of(row)
        return Response(shown, status=code) if version is None else self.tagged_answer(shown, version, code)

    def tagged_answer(self, shown: Any, version: object, code: int = status.HTTP_200_OK) -> Response:
        """Return a response for one version, with its ETag; 304 if the caller has it already."""
        tag = etag(version, shown)
        if self.request.method in SAFE_METHODS and is_known(self.request, tag):
            return Response(status=status.HTTP_304_NOT_MODIFIED, headers={"ETag": tag})
        return Response(shown, status=code, headers={"ETag": tag})


class Made(ReadOnly):
    """A resource whose rows are made by a service (``make``), and changed by verbs of their own if at all.

    ``create_serializer`` reads what is sent.
    """

    writes = permitted_to(Permission.CHANGE_METADATA)
    tagged = True
    create_serializer: ClassVar[type[ChangeSerializer]]

    def make(self, **given: Any) -> Model:
        raise NotImplementedError

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        given, reason = self.given(self.create_serializer)
        with refusals(), writing(reason):
            row = self.make(**given)
        made = self.fresh(row)
        answer = self.answer(made, status.HTTP_201_CREATED)
        answer.headers["Location"] = self.address_of(made)
        return answer

    def verb(self, deed: Any, serializer: type[ChangeSerializer] = NothingSerializer) -> Response:
        """``deed(row, reason, **given)`` over the version that the caller saw."""
        row = self.get_object()
        check_match(self.request, self.version_of(row), required=self.action in self.must_match)
        given, reason = self.given(serializer)
        with refusals(), writing(reason):
            deed(row, reason, **given)
        return self.answer(self.fresh(row))

    def fresh(self, row: Model) -> Model:
        """The row as it is read, with all that its answer shows."""
        return self.get_queryset().get(pk=row.pk)

    def address_of(self, row: Model) -> str:
        value = str(getattr(row, self.lookup_field))
        return self.reverse_action("detail", kwargs={self.lookup_url_kwarg or self.lookup_field: value})


class Editable(Made):
    """A resource whose rows are made and changed by services: ``change_serializer`` reads, ``change`` does it."""

    may_match = frozenset({"partial_update"})
    change_serializer: ClassVar[type[ChangeSerializer]]

    def change(self, row: Any, expected_version: int, **given: Any) -> Model:
        raise NotImplementedError

    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        row = self.get_object()
        check_match(request, self.version_of(row), required=self.action in self.must_match)
        given, reason = self.given(self.change_serializer, partial=True)
        with refusals(), writing(reason):
            self.change(row, self.version_of(row), **given)
        return self.answer(self.fresh(row))


class Deletable(Editable):
    """An editable resource whose rows can be deleted while nothing uses them."""

    may_match = Editable.may_match | {"destroy"}
    parameters = {"destroy": frozenset({REASON.name})}

    def erase(self, row: Any, expected_version: int, reason: str) -> None:
        raise NotImplementedError

    @extend_schema(request=None, responses={204: None}, parameters=[REASON])
    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete it, if nothing uses it. A reason may be given as ``?changelog_message=``."""
        row = self.get_object()
        check_match(request, self.version_of(row))
        reason = self._reason_of_parameter()
        with refusals(), writing(reason):
            self.erase(row, self.version_of(row), reason)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _reason_of_parameter(self) -> str:
        read = NothingSerializer(data={REASON.name: self.request.query_params.get(REASON.name, "")})
        read.is_valid(raise_exception=True)
        return read.validated_data[REASON.name]


class Lasting(Deletable):
    """A deletable resource whose rows keep their former names, and go out of use before they go.

    The services take the row as ``subject``, the version that was seen and the reason.
    """

    may_match = Deletable.may_match | {"retire", "restore"}
    must_match = frozenset({"rename"})
    subject: ClassVar[str]
    renaming: ClassVar[Any]
    retiring: ClassVar[Any]
    restoring: ClassVar[Any]
    erasing: ClassVar[Any]

    def erase(self, row: Any, expected_version: int, reason: str) -> None:
        self.erasing(**{self.subject: row}, expected_version=expected_version, reason=reason)

    @extend_schema(request=RenameSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def rename(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Give it another name. The old one is kept as a former name, and what reads it by name follows."""
        return self._lasting(self.renaming, RenameSerializer)

    @extend_schema(request=NothingSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def retire(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Take it out of use; what tables hold stays."""
        return self._lasting(self.retiring)

    @extend_schema(request=NothingSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def restore(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Bring it back into use."""
        return self._lasting(self.restoring)

    def _lasting(self, service: Any, serializer: type[ChangeSerializer] = NothingSerializer) -> Response:
        def deed(row: Any, reason: str, **given: Any) -> None:
            service(**{self.subject: row}, expected_version=row.version, reason=reason, **given)

        return self.verb(deed, serializer)
