"""Writes of comments, with notices to the users that they mention.

A comment is no part of its subject: it changes neither a report's fingerprint nor its approvals.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from elevata.accounts.actors import current_actor
from elevata.accounts.permissions import readers
from elevata.audit.models import ChangeLogEntry
from elevata.audit.quotas import logged_within
from elevata.audit.services.change_log import record_change
from elevata.audit.services.transactions import claim, writing
from elevata.comments.mentions import MAX_LENGTH, MAX_MENTIONS, candidates, mentioned
from elevata.comments.models import Comment
from elevata.comments.selectors import comments, is_moderator
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from elevata.core.words import counted
from elevata.notifications.kinds import Kind
from elevata.notifications.services import mark_settled, tell
from elevata.web.subjects import Subject, subject_of

# Comments by which one user may notify others within this time, service accounts included.
MOST_NOTIFYING, WITHIN = 20, timedelta(hours=1)
_WRITES = (ChangeLogEntry.Action.CREATED, ChangeLogEntry.Action.CHANGED)


def create_comment(*, subject_kind: str, subject_key: UUID, text: str) -> Comment:
    """Comment on a subject as the current user, and notify the users that the text mentions.

    The user's notices of mentions on this subject are marked as read: a comment answers them. Raises MetadataError
    ``unknown_subject``, ``no_person``, ``invalid``, ``too_many_mentions`` or ``too_many_notices``.
    """
    author = current_actor().user
    if author is None:
        raise MetadataError("no_person", "a comment needs a user as its author")
    subject = subject_of(subject_kind, subject_key)
    with writing():
        comment = Comment(subject_kind=subject.kind, subject_key=subject.key, author=author)
        _write(comment, text)
        _log("created", comment, subject, after=logged_values(comment))
        mark_settled(
            subject_kind=subject.kind, subject_key=str(subject.key), kinds=(Kind.COMMENT_MENTIONED,), user=author
        )
        _notify(comment, subject, comment.mentioned)
        return comment


def update_comment(*, comment: Comment, expected_version: int, text: str | None = None) -> Comment:
    """Change the text of an own comment that nobody answered; users who are mentioned anew get a notice.

    Raises MetadataError ``not_permitted``, those of ``create_comment``, or ``comment_answered`` once another user
    commented on the subject.
    """
    with writing():
        row = claim(comment, expected_version)
        _must_be_own(row)
        _must_be_unanswered(row)
        if text is None:
            return row
        before, known = logged_values(row), set(row.mentioned)
        row.version += 1
        _write(row, text)
        subject = subject_of(row.subject_kind, row.subject_key)
        _log("changed", row, subject, before=before, after=logged_values(row))
        _notify(row, subject, [name for name in row.mentioned if name not in known])
        return row


def delete_comment(*, comment: Comment, expected_version: int) -> None:
    """Delete a comment, and mark its notices as read: an own one that nobody answered; an administrator, any.

    Raises MetadataError ``not_permitted`` or ``comment_answered``.
    """
    with writing():
        row = claim(comment, expected_version)
        if not is_moderator(current_actor().user):
            _must_be_own(row)
            _must_be_unanswered(row)
        _log("deleted", row, subject_of(row.subject_kind, row.subject_key), before=logged_values(row))
        mark_settled(
            subject_kind=row.subject_kind,
            subject_key=str(row.subject_key),
            kinds=(Kind.COMMENT_MENTIONED,),
            facts={"comment": str(row.key)},
        )
        row.delete()


def delete_comments_on(*, kind: str, keys: Collection[UUID]) -> None:
    """Delete the comments on subjects that are deleted, in the same transaction."""
    Comment.objects.filter(subject_kind=kind, subject_key__in=keys).delete()


def logged_values(comment: Comment) -> dict[str, Any]:
    """Return a comment's values for the change log. It has no text: a deleted comment must not stay readable there."""
    text = f"{counted(len(comment.text), 'character')} (sha256 {sha256_hex(comment.text)[:12]})"
    return {"text": text} | ({"mentioned": comment.mentioned} if comment.mentioned else {})


def _write(comment: Comment, text: str) -> None:
    comment.text = text.replace("\r\n", "\n").strip()
    if not comment.text or len(comment.text) > MAX_LENGTH:
        raise MetadataError("invalid", f"a comment has 1 to {MAX_LENGTH:,} characters", "text")
    readings = candidates(comment.text)
    if len(readings) > MAX_MENTIONS:
        raise MetadataError("too_many_mentions", f"mentions at most {MAX_MENTIONS} users", "text")
    names = {name for reading in readings for name in reading} - {comment.author.get_username()}
    users = set(get_user_model().objects.filter(username__in=names).values_list("username", flat=True))
    may_see = set(readers().filter(username__in=users).values_list("username", flat=True))
    known = mentioned(comment.text, users)
    comment.mentioned = [name for name in known if name in may_see]
    comment.unnotified = [name for name in known if name not in may_see]
    comment.save()


def _notify(comment: Comment, subject: Subject, names: Collection[str]) -> None:
    """Notify users who are mentioned; the notice does not have the comment's text."""
    if not names:
        return
    _refuse_too_many(comment.author)
    tell(
        event=Kind.COMMENT_MENTIONED,
        subject_kind=subject.kind,
        subject_key=str(subject.key),
        subject_name=subject.name,
        title=f"{comment.author} mentioned {', '.join(names)} in a comment on {subject.name}",
        link=subject.comments,
        users=get_user_model().objects.filter(username__in=names),
        facts={"comment": str(comment.key), "author": comment.author.get_username(), "mentioned": list(names)},
    )


def _refuse_too_many(author: Any) -> None:
    """Raise MetadataError ``too_many_notices`` for an author whose comments notified users too often.

    Comments are counted by the change log, so that one that was deleted or edited counts. Call in a transaction.
    """
    notifying = {"subject_kind": Comment.LOG_KIND, "action__in": _WRITES, "changes__contains": '"mentioned"'}
    count = logged_within(author, WITHIN, **notifying)
    if count >= MOST_NOTIFYING:
        message = (
            f"you mentioned users in {counted(count, 'comment')} within the last hour, the most that is permitted: "
            "write it without @, or later"
        )
        raise MetadataError("too_many_notices", message, "text")


def _must_be_own(comment: Comment) -> None:
    if comment.author_id != current_actor().user_id:
        raise MetadataError("not_permitted", "only its author changes a comment, and administrators delete it")


def _must_be_unanswered(comment: Comment) -> None:
    stored: QuerySet[Any] = comments()  # Any: comments() adds ``answered``
    if stored.filter(pk=comment.pk, answered=True).exists():
        message = "another user commented after it, so it stays as it is; add a comment instead"
        raise MetadataError("comment_answered", message)


def _log(action: str, comment: Comment, subject: Subject, **sides: Any) -> None:
    name = f"comment on {subject.name}"
    record_change(action=action, subject_kind="comment", subject_key=str(comment.key), subject_name=name, **sides)
