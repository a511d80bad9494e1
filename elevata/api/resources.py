"""Base view sets of the API and their permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from django.conf import settings
from django.db.models import Model
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import SAFE_METHODS, BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from elevata.accounts.permissions import NO_ROLE, may, may_somewhere
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission, needed_role
from elevata.api.idempotency import Idempotent
from elevata.api.preconditions import check_match, etag, is_known
from elevata.api.requests import PARAMETER as FIELDS
from elevata.api.requests import (
    ChangeSerializer,
    NoParametersSerializer,
    RenameSerializer,
    SparseFields,
    ViewMixin,
    check_parameters,
)
from elevata.audit.services.transactions import writing
from elevata.core.errors import as_sentence

# Every resource needs the permission ``read_metadata``; a resource declares what else its actions need. The API checks
# that the user has a permission anywhere; services check it for the place of the row.


class Reads(BasePermission):
    """Permission of users who may read metadata: those with any role, for any place."""

    message = NO_ROLE
    code = "no_role"

    def has_permission(self, request: Request, view: Any) -> bool:
        return may_somewhere(request.user, Permission.READ_METADATA)


class Permitted(BasePermission):
    """Permission of users with any of ``needs``; ``on`` is the place, if known in advance."""

    needs: ClassVar[frozenset[Permission]] = frozenset()
    on: ClassVar[Callable[[], Place] | None] = None

    def has_permission(self, request: Request, view: Any) -> bool:
        where = type(self).on
        if where is None:
            return any(may_somewhere(request.user, permission) for permission in self.needs)
        return any(may(request.user, permission, where) for permission in self.needs)


class AnyUser(BasePermission):
    """Permission of all users who read metadata, for their own rows."""

    needs: ClassVar[frozenset[Permission]] = frozenset()


class Nobody(BasePermission):
    """Permission of nobody, for resources that declare none."""

    needs = None

    def has_permission(self, request: Request, view: Any) -> bool:
        return False


def permitted_to(*permissions: Permission, on: Callable[[], Place] | None = None) -> type[Permitted]:
    """Return a permission class for users with any of these permissions."""
    message = as_sentence(needed_role(*permissions))
    declared = {"needs": frozenset(permissions), "on": on and staticmethod(on), "message": message}
    return type("Permitted", (Permitted,), declared)


class ByAction(ViewMixin):
    """Mixin of view sets: ``needs`` maps actions to permission classes; ``writes`` is for all other writes."""

    needs: ClassVar[Mapping[str, type[BasePermission]]] = {}
    writes: ClassVar[type[BasePermission]] = Nobody

    @classmethod
    def needed(cls, action: str | None, method: str) -> type[BasePermission] | None:
        """Return the permission that an action needs besides reading metadata; None for no other.

        ``action`` is None if the address does not support the method: the response is then 405.
        """
        if not action:
            return None
        return cls.needs.get(action) or (None if method in SAFE_METHODS else cls.writes)

    def get_permissions(self) -> list[Any]:
        request = getattr(self, "request", None)
        needed = self.needed(self.action, request.method if request is not None else "GET")
        first: list[BasePermission] = [IsAuthenticated(), Reads()]
        return [*first, needed()] if needed is not None else first


# Pattern of names in addresses, without NUL bytes, because PostgreSQL cannot store them.
NAME = r"[^/\x00]+"
REASON = OpenApiParameter("changelog_message", str, description="Reason, recorded in the change log.")
PAGES = frozenset({"page", "page_size", "cursor"})


class JsonOnly(BaseContentNegotiation):
    """Content negotiation that always selects JSON; ``?format=`` is a filter's parameter."""

    def select_parser(self, request: Request, parsers: Iterable[Any]) -> Any:
        return next(iter(parsers))

    def select_renderer(self, request: Request, renderers: Iterable[Any], format_suffix: str | None = None) -> Any:
        first = next(iter(renderers))
        return first, first.media_type


class Resource(Idempotent, ByAction):
    """Base of all view sets: JSON bodies of limited size, strict parameters, and idempotency keys."""

    content_negotiation_class: type[BaseContentNegotiation] = JsonOnly
    # Actions that accept If-Match, that require it, and that require a value other than ``*``.
    may_match: ClassVar[frozenset[str]] = frozenset()
    must_match: ClassVar[frozenset[str]] = frozenset()
    must_see: ClassVar[frozenset[str]] = frozenset()

    # Further query parameters of an action; all unknown ones are refused.
    parameters: ClassVar[Mapping[str, frozenset[str]]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.action:
            check_parameters(request, self.known_parameters())

    def known_parameters(self) -> frozenset[str]:
        """Return the names of the action's query parameters."""
        return self.parameters.get(self.action, frozenset())

    @staticmethod
    def most_bytes() -> int:
        """Return the maximum length of a body, for ``elevata.web.middleware``."""
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE

    def given(self, serializer: type[ChangeSerializer], *, partial: bool = False) -> tuple[dict[str, Any], str]:
        """Return the validated values of the body, and the reason in it."""
        validated = serializer(data=self.request.data, partial=partial)
        validated.is_valid(raise_exception=True)
        values = dict(validated.validated_data)
        return values, values.pop("changelog_message", "")


class ReadOnly(Resource, SparseFields, ReadOnlyModelViewSet):
    """Resource that users read; ``list_serializer_class`` is the shorter serializer of the list.

    The ETag of a ``tagged`` resource begins with the row's ``version_of``.
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

    def version_of(self, row: Any) -> Any:
        return row.version if self.tagged else None

    def answer(self, row: Any, code: int = status.HTTP_200_OK) -> Response:
        """Return the response for one row, with its ETag."""
        content = self.get_serializer(row).data
        version = self.version_of(row)
        return Response(content, status=code) if version is None else self.tagged_answer(content, version, code)

    def tagged_answer(self, shown: Any, version: object, code: int = status.HTTP_200_OK) -> Response:
        """Return the response for one version, with its ETag; 304 if the client has it already."""
        tag = etag(version, shown)
        if self.request.method in SAFE_METHODS and is_known(self.request, tag):
            return Response(status=status.HTTP_304_NOT_MODIFIED, headers={"ETag": tag})
        return Response(shown, status=code, headers={"ETag": tag})


class Creatable(ReadOnly):
    """Resource whose rows a service creates.

    A view set declares the service: ``creating = staticmethod(create_system)``. ``create_serializer`` validates the
    request, and ``subject`` is the keyword argument of services for the row.
    """

    writes: ClassVar[type[BasePermission]] = permitted_to(Permission.CHANGE_METADATA)
    tagged = True
    create_serializer: ClassVar[type[ChangeSerializer]]
    subject: ClassVar[str]
    creating: ClassVar[Callable[..., Any]]

    def make(self, *args: Any, **given: Any) -> Model:
        """Create a row from the values of a request."""
        return self.creating(**given)

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        values, reason = self.given(self.create_serializer)
        with writing(reason):
            row = self.make(**values)
        return self.created(row)

    def created(self, row: Model) -> Response:
        """Return the response for a created row, with its address."""
        fresh = self.fresh(row)
        response = self.answer(fresh, status.HTTP_201_CREATED)
        response.headers["Location"] = self.address_of(fresh)
        return response

    def verb(
        self, service: Callable[..., Any], serializer: type[ChangeSerializer] = NoParametersSerializer
    ) -> Response:
        """Call a service with the row and the values of the request, after the check of If-Match."""
        row = self.get_object()
        check_match(self.request, self.version_of(row), required=self.action in self.must_match)
        values, reason = self.given(serializer)
        with writing(reason):
            service(**{self.subject: row}, expected_version=row.version, **values)
        return self.answer(self.fresh(row))

    def fresh(self, row: Model) -> Model:
        """Return the row as stored, with all related rows of the response."""
        return self.get_queryset().get(pk=row.pk)

    def reason_of_parameter(self) -> str:
        """Return the reason in the address of a request without a body."""
        validated = NoParametersSerializer(data={REASON.name: self.request.query_params.get(REASON.name, "")})
        validated.is_valid(raise_exception=True)
        return validated.validated_data[REASON.name]

    def address_of(self, row: Model) -> str:
        value = str(getattr(row, self.lookup_field))
        return self.reverse_action("detail", kwargs={self.lookup_url_kwarg or self.lookup_field: value})


class Editable(Creatable):
    """Resource whose rows services create and update; ``change_serializer`` validates an update."""

    may_match = frozenset({"partial_update"})
    change_serializer: ClassVar[type[ChangeSerializer]]
    updating: ClassVar[Callable[..., Any]]

    def change(self, row: Any, expected_version: int, **given: Any) -> Model:
        """Update a row with the values of a request."""
        return self.updating(**{self.subject: row}, expected_version=expected_version, **given)

    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        row = self.get_object()
        check_match(request, self.version_of(row), required=self.action in self.must_match)
        values, reason = self.given(self.change_serializer, partial=True)
        with writing(reason):
            self.change(row, self.version_of(row), **values)
        return self.answer(self.fresh(row))


class Deletable(Editable):
    """Editable resource whose rows can be deleted while nothing uses them."""

    may_match = Editable.may_match | {"destroy"}
    parameters = {"destroy": frozenset({REASON.name})}
    deleting: ClassVar[Callable[..., Any]]

    def erase(self, row: Any, expected_version: int) -> None:
        """Delete a row."""
        self.deleting(**{self.subject: row}, expected_version=expected_version)

    @extend_schema(request=None, responses={204: None}, parameters=[REASON])
    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete it if nothing uses it. A reason may be given as ``?changelog_message=``."""
        row = self.get_object()
        check_match(request, self.version_of(row))
        with writing(self.reason_of_parameter()):
            self.erase(row, self.version_of(row))
        return Response(status=status.HTTP_204_NO_CONTENT)


class Lasting(Deletable):
    """Deletable resource whose rows keep their former names, and are retired before they are deleted."""

    may_match = Deletable.may_match | {"retire", "restore"}
    must_match = frozenset({"rename"})
    renaming: ClassVar[Callable[..., Any]]
    retiring: ClassVar[Callable[..., Any]]
    restoring: ClassVar[Callable[..., Any]]

    @extend_schema(request=RenameSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def rename(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Rename it. The old name is kept as a former name, and everything that refers to it by name is updated."""
        return self.verb(self.renaming, RenameSerializer)

    @extend_schema(request=NoParametersSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def retire(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Retire it; tables keep their data."""
        return self.verb(self.retiring)

    @extend_schema(request=NoParametersSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def restore(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Restore it."""
        return self.verb(self.restoring)
