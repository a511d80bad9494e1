"""Comments: authors, mentions and notices, without effects on reports."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from architecture.models import ChangeReport
from architecture.selectors.outdated_reports import signal
from architecture.services.approvals import approve
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import create_service_account, ensure_user
from elevata.audit.models import ChangeLogEntry
from elevata.comments.models import Comment
from elevata.comments.selectors import suggested_users
from elevata.comments.services import create_comment, delete_comment, update_comment
from elevata.core.errors import MetadataError
from elevata.lists.models import Favourite
from elevata.lists.services import set_favourite
from elevata.notifications.models import Event, Notice
from metadata.models import TargetDataset
from metadata.services.deletion import delete_dataset
from metadata.services.lifecycle import retire_dataset
from tests.architecture.world import World
from tests.factories import TargetDatasetFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(db) -> User:
    return ensure_user(name="ada", roles=[Role.EDITOR])


@pytest.fixture
def bob(db) -> User:
    return ensure_user(name="bob", roles=[Role.VIEWER])


def comment_on(user: User, dataset: TargetDataset, text: str = "Looks odd") -> Comment:
    with acting_as(user):
        return create_comment(subject_kind="dataset", subject_key=dataset.key, text=text)


def unread(user: User) -> list[str]:
    notices = Notice.objects.filter(user=user, read_at=None, event__kind="comment.mentioned")
    return [notice.event.title for notice in notices]


def test_a_mentioned_user_gets_a_notice_without_the_text(ada: User, bob: User):
    dataset = TargetDatasetFactory()
    comment = comment_on(ada, dataset, "@bob, the value 4711 is wrong")
    assert unread(bob) == [f"ada mentioned bob in a comment on the dataset {dataset}"]
    assert "4711" not in str(Event.objects.get(kind="comment.mentioned").facts)
    assert comment.mentioned == ["bob"]


def test_comment_lists_mentioned_users_without_a_role_as_unnotified(ada: User):
    User.objects.create_user("nora")
    comment = comment_on(ada, TargetDatasetFactory(), "@nora and @unknown")
    assert (comment.mentioned, comment.unnotified) == ([], ["nora"])
    assert not Event.objects.filter(kind="comment.mentioned").exists()


def test_author_gets_no_notice_of_an_own_mention(ada: User):
    assert comment_on(ada, TargetDatasetFactory(), "I, @ada").mentioned == []


def test_comment_marks_the_mentions_of_its_author_on_the_subject_as_read(ada: User, bob: User):
    first, second = TargetDatasetFactory(), TargetDatasetFactory()
    comment_on(ada, first, "@bob?")
    comment_on(ada, second, "@bob?")
    comment_on(bob, first, "Done")
    assert unread(bob) == [f"ada mentioned bob in a comment on the dataset {second}"]


def test_edited_comment_notifies_only_newly_mentioned_users(ada: User, bob: User):
    carl = ensure_user(name="carl", roles=[Role.VIEWER])
    comment = comment_on(ada, TargetDatasetFactory(), "@bob")
    with acting_as(ada):
        update_comment(comment=comment, expected_version=1, text="@bob and @carl")
    assert (len(unread(bob)), len(unread(carl))) == (1, 1)


def test_a_comment_is_deleted_with_its_notices(ada: User, bob: User):
    comment = comment_on(ada, TargetDatasetFactory(), "@bob")
    with acting_as(ada):
        delete_comment(comment=comment, expected_version=1)
    assert unread(bob) == []
    assert not Comment.objects.exists()


def test_answered_comment_refuses_an_edit(ada: User, bob: User):
    dataset = TargetDatasetFactory()
    comment = comment_on(ada, dataset)
    comment_on(bob, dataset, "Why?")
    with acting_as(ada), pytest.raises(MetadataError) as refused:
        update_comment(comment=comment, expected_version=1, text="Never mind")
    assert (refused.value.code, refused.value.status) == ("comment_answered", 409)


def test_only_the_author_edits_a_comment(ada: User, bob: User):
    comment = comment_on(ada, TargetDatasetFactory())
    with acting_as(bob), pytest.raises(MetadataError) as refused:
        update_comment(comment=comment, expected_version=1, text="Mine now")
    assert refused.value.code == "not_permitted"


def test_an_administrator_deletes_any_comment_and_the_log_does_not_have_its_text(ada: User, bob: User):
    dataset = TargetDatasetFactory()
    comment = comment_on(ada, dataset, "the password is hunter2")
    comment_on(bob, dataset, "Oh")
    with acting_as(ensure_user(name="root", roles=[Role.ADMIN])):
        delete_comment(comment=comment, expected_version=1)
    entries = ChangeLogEntry.objects.filter(subject_kind="comment", subject_key=str(comment.key))
    assert list(entries.order_by("pk").values_list("action", "actor")) == [("created", "ada"), ("deleted", "root")]
    assert not entries.filter(changes__contains="hunter2").exists()


@pytest.mark.parametrize("text", ["", " \n", "x" * 5001, " ".join(f"@user{number}" for number in range(21))])
def test_comment_refuses_empty_text_long_text_and_too_many_mentions(ada: User, text: str):
    with pytest.raises(MetadataError) as refused:
        comment_on(ada, TargetDatasetFactory(), text)
    assert refused.value.field == "text"


def test_comments_that_mention_users_are_limited_per_user_and_hour(
    ada: User, bob: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("elevata.comments.services.MOST_NOTIFYING", 3)
    robot = create_service_account(name="robot", owner=ada, roles=[Role.EDITOR])
    dataset = TargetDatasetFactory()
    comment_on(ada, dataset, "Mentions nobody")
    comment_on(robot, dataset, "@bob")
    edited = comment_on(ada, dataset, "@bob")
    with acting_as(ada):
        update_comment(comment=edited, expected_version=1, text="Nobody")
        delete_comment(comment=edited, expected_version=2)
    with pytest.raises(MetadataError, match="you mentioned users in 3 comments within the last hour") as refused:
        comment_on(ada, dataset, "@bob")
    assert (refused.value.code, refused.value.status, len(unread(bob))) == ("too_many_notices", 429, 1)
    comment_on(ada, dataset, "Mentions nobody")
    comment_on(bob, dataset, "@ada")
    monkeypatch.setattr("elevata.comments.services.WITHIN", timedelta(0))
    comment_on(robot, dataset, "@bob")


@pytest.mark.parametrize("kind", ["dataset", "report", "odd"])
def test_comment_on_an_unknown_subject_is_refused(ada: User, kind: str):
    with acting_as(ada), pytest.raises(MetadataError) as refused:
        create_comment(subject_kind=kind, subject_key=uuid4(), text="Hello")
    assert refused.value.code == "unknown_subject"


def test_a_comment_needs_a_user(db):
    with pytest.raises(MetadataError, match="needs a user"):
        create_comment(subject_kind="dataset", subject_key=TargetDatasetFactory().key, text="Hello")


def test_deleting_a_dataset_deletes_its_comments_notices_and_favourites(ada: User, bob: User):
    dataset = TargetDatasetFactory()
    comment_on(ada, dataset, "@bob")
    set_favourite(user=bob, subject_kind="dataset", subject_key=dataset.key)
    with acting_as(ada):
        retire_dataset(dataset=dataset, expected_version=dataset.version)
        dataset.refresh_from_db()
        delete_dataset(dataset=dataset, expected_version=dataset.version)
    assert not Comment.objects.exists()
    assert not Favourite.objects.exists()
    assert unread(bob) == []


def test_comment_on_a_report_keeps_its_fingerprint_and_approval(world: World, renamed: ChangeReport):
    with acting_as(world.author):
        create_comment(subject_kind="report", subject_key=renamed.report_id, text="Please look")
    again = world.report()
    assert (again.pk, again.fingerprint, again.authors) == (renamed.pk, renamed.fingerprint, renamed.authors)
    approve(report=renamed, user=world.approver)
    before = signal(renamed.environment_id)
    with acting_as(world.author):
        create_comment(subject_kind="report", subject_key=renamed.report_id, text="Thank you")
    renamed.refresh_from_db()
    assert (renamed.status, signal(renamed.environment_id)) == ("approved", before)


def test_other_users_who_read_metadata_are_suggested(ada: User, bob: User):
    ensure_user(name="bert", roles=[Role.OPERATOR])
    User.objects.create_user("bella")
    assert suggested_users("b", ada) == ["bert", "bob"]
    assert suggested_users("b", bob) == ["bert"]
