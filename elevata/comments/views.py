"""Pages of comments: the comments on a subject, and the forms of one comment."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.views.decorators.http import require_safe

from elevata.comments.forms import CommentForm, NewCommentForm, SuggestionForm
from elevata.comments.models import Comment
from elevata.comments.selectors import comments_of, deletable_by, is_moderator, owned_by, suggested_users
from elevata.comments.services import create_comment, delete_comment, update_comment
from elevata.core.errors import MetadataError
from elevata.core.words import counted
from elevata.web.list_pages import ListPage
from elevata.web.subjects import Subject, subject_of
from elevata.web.views import REFUSED, DeletePage, EditPage, RowPage

LATEST = 20


def comments_panel(user: Any, kind: str, key: UUID) -> dict[str, Any]:
    """Return the context of ``comments/panel.html``: the newest comments on a subject, and the form of a new one."""
    latest = list(comments_of(kind, key)[: LATEST + 1])
    return {
        "comments": latest[:LATEST],
        "comments_more": len(latest) > LATEST,
        "comment_form": NewCommentForm(),
        "comments_page": reverse("comment_list", args=[kind, key]),
        "moderates": is_moderator(user),
    }


class CommentList(ListPage):
    """All comments on a subject, newest first; POST adds one and returns to the subject's page."""

    permissions, template_name = (), "comments/list.html"
    form: NewCommentForm | None = None

    @cached_property
    def subject(self) -> Subject:
        try:
            return subject_of(self.kwargs["kind"], self.kwargs["key"])
        except MetadataError:
            raise Http404 from None

    def listed(self) -> QuerySet[Comment]:
        return comments_of(self.subject.kind, self.subject.key)

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "subject": self.subject,
            "comments": self.rows_page.object_list,
            "comment_form": self.form or NewCommentForm(),
            "comments_page": self.request.path,
            "moderates": is_moderator(self.request.user),
        }

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        subject, form = self.subject, NewCommentForm(request.POST)
        self.form = form
        comment = form.attempt(
            lambda: create_comment(subject_kind=subject.kind, subject_key=subject.key, **form.given())
        )
        if comment is None:
            return self.render(status=REFUSED)
        report_unnotified(request, comment)
        return redirect(subject.comments)


class CommentPage(RowPage):
    """Base of the forms of one comment, which return to the subject's page."""

    name, permissions = "comment", ()

    @cached_property
    def commented(self) -> Subject:
        return subject_of(self.row.subject_kind, self.row.subject_key)

    def address(self, row: Comment) -> str:
        return self.commented.comments

    def line(self, row: Comment) -> str:
        return ""

    def context(self) -> dict[str, Any]:
        return super().context() | {"subject": self.commented}


class CommentEdit(CommentPage, EditPage):
    """Page to edit an own comment."""

    form_class, service = CommentForm, staticmethod(update_comment)
    template_name, message = "comments/form.html", "The comment is saved."

    def rows(self) -> QuerySet[Comment]:
        return owned_by(self.request.user)

    def after_save(self, form: CommentForm, row: Comment) -> HttpResponse:
        report_unnotified(self.request, row)
        return super().after_save(form, row)


class CommentDelete(CommentPage, DeletePage):
    """Page to delete a comment."""

    service, template_name = staticmethod(delete_comment), "comments/delete.html"
    message = "The comment is deleted."

    def rows(self) -> QuerySet[Comment]:
        return deletable_by(self.request.user)

    def after_save(self, form: Any, row: Comment) -> HttpResponse:
        messages.success(self.request, self.message)
        return redirect(self.commented.comments)


def report_unnotified(request: HttpRequest, comment: Comment) -> None:
    """Tell the author which mentioned users got no notice."""
    names = comment.unnotified
    if names:
        users = counted(len(names), "mentioned user")
        messages.warning(request, f"{users} got no notice, without permission to read this page: {', '.join(names)}.")


@require_safe
def comment_users(request: HttpRequest) -> HttpResponse:
    """Return user names that begin with the text, for completion."""
    form = SuggestionForm(request.GET)
    names = suggested_users(form.cleaned_data["q"], request.user) if form.is_valid() else []
    return JsonResponse({"users": names})
