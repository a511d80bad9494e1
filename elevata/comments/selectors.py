"""Comments of a subject, their numbers, and suggestions of users to mention."""

from typing import Any
from uuid import UUID

import django_filters as filters
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery

from elevata.accounts.permissions import may, readers
from elevata.accounts.roles import Permission
from elevata.comments.models import Comment
from elevata.web.list_filters import StableOrdering
from elevata.web.subjects import kinds

SUGGESTED = 8


def comments() -> QuerySet[Comment]:
    """Return all comments, newest first; ``answered`` if another user commented on the same subject later."""
    same = {"subject_kind": OuterRef("subject_kind"), "subject_key": OuterRef("subject_key")}
    later = Comment.objects.filter(**same, pk__gt=OuterRef("pk")).exclude(author=OuterRef("author"))
    return Comment.objects.select_related("author").annotate(answered=Exists(later)).order_by("-pk")


def comments_of(kind: str, key: UUID) -> QuerySet[Comment]:
    """Return the comments on a subject, newest first."""
    return comments().filter(subject_kind=kind, subject_key=key)


def with_comment_count(rows: QuerySet, kind: str, key: str = "key") -> QuerySet:
    """Annotate rows with the number of their comments; ``key`` is their field of the subject's key."""
    own = Comment.objects.filter(subject_kind=kind, subject_key=OuterRef(key)).order_by()
    count = own.values("subject_key").annotate(count=Count("pk")).values("count")
    return rows.annotate(comment_count=Subquery(count))


def is_moderator(user: Any) -> bool:
    """Return True for users who may delete comments of others."""
    return may(user, Permission.MANAGE_USERS)


def owned_by(user: Any) -> QuerySet[Comment]:
    """Return the user's own comments."""
    return comments().filter(author=user)


def deletable_by(user: Any) -> QuerySet[Comment]:
    """Return the user's own comments; for administrators, all."""
    return comments() if is_moderator(user) else owned_by(user)


def suggested_users(text: str, user: Any) -> list[str]:
    """Return the first names that begin with the text, of other users who read metadata."""
    names = readers().filter(username__istartswith=text).exclude(pk=user.pk).order_by("username")
    return list(names.values_list("username", flat=True)[:SUGGESTED])


class CommentFilter(filters.FilterSet):
    subject_kind = filters.ChoiceFilter(choices=lambda: [(kind, kind) for kind in kinds()], label="Kind of the subject")
    subject_key = filters.UUIDFilter(label="Key of the subject")
    author = filters.CharFilter(field_name="author__username", label="Author")
    q = filters.CharFilter(field_name="text", lookup_expr="icontains", label="Text")
    ordering = StableOrdering(fields=("created_at",))

    class Meta:
        model = Comment
        fields = ()
