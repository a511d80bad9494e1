"""API of saved filters and favourites."""

from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.api.requests import ChangeSerializer
from elevata.api.resources import REASON, AnyUser, Creatable
from elevata.audit.services.transactions import writing
from elevata.lists.models import Favourite, SavedFilter
from elevata.lists.selectors import FavouriteFilter, SavedFilterFilter, favourites_of, visible_filters
from elevata.lists.services import delete_filter, save_filter, set_favourite, unset_favourite
from elevata.web.requests import user_of
from elevata.web.subjects import favourite_kinds

SUBJECT_KINDS = [(kind, kind) for kind in favourite_kinds()]


class OwnSetting(Creatable):
    """Base of settings that users create and delete for themselves."""

    tagged = False
    writes = AnyUser
    parameters: ClassVar = {"destroy": frozenset({REASON.name})}

    def remove(self, row: Any) -> None:
        """Delete a row by its service."""
        raise NotImplementedError

    @extend_schema(request=None, responses={204: None}, parameters=[REASON])
    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete it."""
        with writing(self.reason_of_parameter()):
            self.remove(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)


class SavedFilterSerializer(serializers.ModelSerializer):
    owner: Any = serializers.SlugRelatedField(slug_field="username", read_only=True)

    class Meta:
        model = SavedFilter
        fields = ("key", "route", "name", "query", "shared", "owner", "updated_at")


class NewSavedFilter(ChangeSerializer):
    route = serializers.CharField(max_length=60, help_text="The list, like dataset_list or run_list.")
    name = serializers.CharField(max_length=60, help_text="Your filter of this name is replaced.")
    query = serializers.CharField(max_length=2000, help_text="Query string of the list's address, like layer=raw.")
    shared = serializers.BooleanField(required=False, help_text="Offered to all users of the list.")


@extend_schema_view(
    create=extend_schema(description="Save the filters of a list; your filter of this name is replaced.")
)
class SavedFilterViewSet(OwnSetting):
    """Your saved filters of lists, and those that others share."""

    queryset = SavedFilter.objects.none()
    serializer_class = SavedFilterSerializer
    create_serializer = NewSavedFilter
    filterset_class = SavedFilterFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[SavedFilter]:
        visible = visible_filters(self.request.user)
        return visible.filter(owner=user_of(self.request)) if self.action == "destroy" else visible

    def make(self, **given: Any) -> Model:
        return save_filter(owner=self.request.user, **given)

    def remove(self, row: SavedFilter) -> None:
        delete_filter(saved=row)


class FavouriteSerializer(serializers.ModelSerializer):
    class Meta:
        model = Favourite
        fields = ("id", "subject_kind", "subject_key", "created_at")


class NewFavourite(ChangeSerializer):
    subject_kind = serializers.ChoiceField(choices=SUBJECT_KINDS)
    subject_key = serializers.UUIDField(
        help_text="The key of the dataset, source, schedule or saved query, or the report's id."
    )


@extend_schema_view(
    create=extend_schema(description="Mark a dataset, report, source, schedule or saved query as a favourite.")
)
class FavouriteViewSet(OwnSetting):
    """Your favourites, the latest first."""

    queryset = Favourite.objects.none()
    serializer_class = FavouriteSerializer
    create_serializer = NewFavourite
    filterset_class = FavouriteFilter
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[Favourite]:
        return favourites_of(self.request.user)

    def make(self, **given: Any) -> Model:
        return set_favourite(user=self.request.user, **given)

    def remove(self, row: Favourite) -> None:
        unset_favourite(user=row.user, subject_kind=row.subject_kind, subject_key=row.subject_key)
