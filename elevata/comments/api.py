"""API of comments."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers

from elevata.api.requests import ChangeSerializer
from elevata.api.resources import AnyUser, Deletable
from elevata.comments.mentions import MAX_LENGTH
from elevata.comments.models import Comment
from elevata.comments.selectors import CommentFilter, comments, deletable_by, owned_by
from elevata.comments.services import create_comment, delete_comment, update_comment
from elevata.web.subjects import kinds

SUBJECT_KINDS = [(kind, kind) for kind in kinds()]


class CommentSerializer(serializers.ModelSerializer):
    author: Any = serializers.SlugRelatedField(slug_field="username", read_only=True)
    mentioned = serializers.ListField(
        child=serializers.CharField(), help_text="Mentioned users who may see the subject."
    )
    unnotified = serializers.ListField(
        child=serializers.CharField(), help_text="Mentioned users who may not see the subject and get no notice."
    )
    answered = serializers.BooleanField(help_text="True once another user commented later: it stays as it is.")

    class Meta:
        model = Comment
        fields = (
            "key",
            "subject_kind",
            "subject_key",
            "author",
            "text",
            "mentioned",
            "unnotified",
            "answered",
            "created_at",
            "version",
            "updated_at",
        )


class CommentChange(ChangeSerializer):
    text = serializers.CharField(max_length=MAX_LENGTH, help_text="Plain text; @name mentions a user.")


class NewComment(CommentChange):
    subject_kind = serializers.ChoiceField(choices=SUBJECT_KINDS)
    subject_key = serializers.UUIDField(help_text="The dataset's key or the report's id.")


@extend_schema_view(
    create=extend_schema(description="Comment on a report or a dataset; mentioned users get a notice."),
    partial_update=extend_schema(description="Change the text of an own comment that nobody answered."),
)
class CommentViewSet(Deletable):
    """Comments on reports and datasets, newest first."""

    queryset = Comment.objects.none()
    serializer_class = CommentSerializer
    create_serializer, change_serializer = NewComment, CommentChange
    subject = "comment"
    creating, updating = staticmethod(create_comment), staticmethod(update_comment)
    deleting = staticmethod(delete_comment)
    writes = AnyUser
    filterset_class = CommentFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[Comment]:
        if self.action == "destroy":
            return deletable_by(self.request.user)
        return owned_by(self.request.user) if self.action == "partial_update" else comments()
