"""Comments on pages, and by REST."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from elevata.comments.models import Comment
from elevata.notifications.models import Notice
from metadata.models import TargetDataset
from tests.architecture.world import World
from tests.elevata.web.forms import typed, words
from tests.elevata.web.html import html_of, text_of
from tests.elevata.web.pages import signed_in
from tests.factories import CommentFactory, TargetDatasetFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def dataset(db) -> TargetDataset:
    return TargetDatasetFactory()


def send_comment(client: Client, dataset: TargetDataset, text: str):
    return client.post(f"/comments/dataset/{dataset.key}/", {"text": text}, follow=True)


def test_dataset_page_shows_the_comment_and_the_number_of_comments(reader: Client, dataset: TargetDataset):
    page = html_of(send_comment(reader, dataset, "Where is the\r\nsecond file? https://example.org/x?a=1&b=2"))
    assert "Where is the<br>second file?" in page
    assert '<a href="https://example.org/x?a=1&amp;b=2" rel="nofollow noopener noreferrer">' in page
    assert "Comments 1" in words(text_of(reader, f"/datasets/{dataset.key}/"))


def test_markup_in_a_comment_is_text(reader: Client, dataset: TargetDataset):
    page = html_of(
        send_comment(reader, dataset, '<script>alert(1)</script> http://x.org/"onclick=1 javascript:alert(1)')
    )
    assert "&lt;script&gt;" in page
    assert 'href="http://x.org/"' in page
    assert 'href="javascript' not in page


def test_comment_page_lists_mentioned_users_without_a_notice(reader: Client, dataset: TargetDataset):
    User.objects.create_user("nora")
    text = words(html_of(send_comment(reader, dataset, "@nora look")))
    assert "1 mentioned user got no notice, without permission to read this page: nora." in text
    assert not Notice.objects.exists()


def test_an_empty_comment_is_refused_beside_its_field(reader: Client, dataset: TargetDataset):
    answer = reader.post(f"/comments/dataset/{dataset.key}/", {"text": " "})
    assert answer.status_code == 422
    assert "field-error" in html_of(answer)


def test_an_own_comment_is_edited(reader: Client, person: User, dataset: TargetDataset):
    comment = CommentFactory(subject_key=dataset.key, author=person)
    address = f"/comments/{comment.key}/edit/"
    assert (
        reader.post(address, typed(text_of(reader, address), text="Better")).url == f"/datasets/{dataset.key}/comments/"
    )
    assert Comment.objects.get().text == "Better"
    assert ", edited" in text_of(reader, f"/datasets/{dataset.key}/comments/")


def test_a_form_without_a_change_changes_nothing(reader: Client, person: User, dataset: TargetDataset):
    comment = CommentFactory(subject_key=dataset.key, author=person)
    address = f"/comments/{comment.key}/edit/"
    assert reader.post(address, typed(text_of(reader, address))).status_code == 302
    assert Comment.objects.get().version == 1


def test_comments_of_others_are_neither_edited_nor_deleted(reader: Client, starter: User, dataset: TargetDataset):
    comment = CommentFactory(subject_key=dataset.key, author=starter)
    assert reader.get(f"/comments/{comment.key}/edit/").status_code == 404
    assert reader.get(f"/comments/{comment.key}/delete/").status_code == 404
    assert "/delete/" not in text_of(reader, f"/datasets/{dataset.key}/comments/")


def test_comment_is_deleted_by_its_confirmation_form(operator: Client, person: User, dataset: TargetDataset):
    comment = CommentFactory(subject_key=dataset.key, author=person)
    address = f"/comments/{comment.key}/delete/"
    operator.post(address, typed(text_of(operator, address)))
    assert not Comment.objects.exists()


def test_many_comments_are_paged(reader: Client, person: User, dataset: TargetDataset):
    CommentFactory.create_batch(21, subject_key=dataset.key, author=person)
    page = text_of(reader, f"/datasets/{dataset.key}/comments/")
    assert page.count('class="comment"') == 20
    assert "All comments" in page
    assert text_of(reader, f"/comments/dataset/{dataset.key}/").count('class="comment"') == 21


def test_a_report_shows_its_comments(world: World):
    report, client = world.report(), signed_in(world.author)
    answer = client.post(f"/comments/report/{report.report_id}/", {"text": "Please look"})
    assert answer.url == f"/reports/{report.report_id}/#comments"
    assert "Please look" in text_of(client, f"/reports/{report.report_id}/")


@pytest.mark.parametrize("address", ["/comments/odd/{}/", "/comments/report/{}/"])
def test_comments_of_an_unknown_subject_return_404(reader: Client, dataset: TargetDataset, address: str):
    assert reader.get(address.format(dataset.key)).status_code == 404


def test_suggestions_list_users_by_the_beginning_of_their_names(reader: Client, operator: Client):
    assert reader.get("/comments/users/?q=e").json() == {"users": ["eve"]}
    assert reader.get("/comments/users/?q=%00").json() == {"users": []}


# --- REST ------------------------------------------------------------------------------------------


def test_a_comment_is_created_changed_and_deleted_by_rest(reader: Client, dataset: TargetDataset):
    body = {"subject_kind": "dataset", "subject_key": str(dataset.key), "text": "Hello"}
    response = reader.post("/api/v1/comments/", body, content_type="application/json")
    assert response.status_code == 201, response.content
    address = f"/api/v1/comments/{response.json()['key']}/"
    changed = reader.patch(address, {"text": "Hi"}, content_type="application/json")
    assert (changed.json()["text"], changed.json()["version"]) == ("Hi", 2)
    page = reader.get(f"/api/v1/comments/?subject_kind=dataset&subject_key={dataset.key}&author=ada").json()
    assert [row["text"] for row in page["results"]] == ["Hi"]
    assert reader.delete(address).status_code == 204


def test_rest_refuses_to_delete_comments_of_others(reader: Client, starter: User, dataset: TargetDataset):
    comment = CommentFactory(subject_key=dataset.key, author=starter)
    answer = reader.delete(f"/api/v1/comments/{comment.key}/")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_edit_of_an_answered_comment_shows_why_it_is_refused(
    reader: Client, person: User, starter: User, dataset: TargetDataset
):
    comment = CommentFactory(subject_key=dataset.key, author=person)
    address = f"/comments/{comment.key}/edit/"
    fields = typed(text_of(reader, address), text="Never mind")
    CommentFactory(subject_key=dataset.key, author=starter)
    answer = reader.post(address, fields)
    assert answer.status_code == 422
    assert "another user commented after it" in words(html_of(answer)).lower()
