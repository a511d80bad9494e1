"""Access to other users' notices and notification settings."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from elevata.accounts.models import RoleGrant
from elevata.notifications.kinds import ALWAYS_LISTED
from elevata.notifications.models import Delivery, Notice, Webhook
from elevata.notifications.services import choices_of, choose_events
from tests.attacks.requests import send
from tests.factories import DeliveryFactory, NoticeFactory, WebhookFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def foreign_notice(starter: User) -> Notice:
    """Return a notice of another user, eve, with a text that only she may see."""
    return NoticeFactory(user=starter, event__title="canary for eve")


@pytest.mark.parametrize("path", ["/notices/", "/notices/?q=canary", "/api/v1/notices/", "/api/v1/notices/?q=canary"])
def test_notice_lists_omit_notices_of_other_users(reader: Client, foreign_notice: Notice, path: str):
    assert "canary" not in reader.get(path).content.decode().replace("q=canary", "").replace('value="canary"', "")


def test_notice_of_another_user_returns_404(reader: Client, foreign_notice: Notice):
    for path in (f"/notices/{foreign_notice.pk}/", f"/api/v1/notices/{foreign_notice.pk}/"):
        assert reader.get(path).status_code == 404
    assert send(reader, "post", f"notices/{foreign_notice.pk}/read/").status_code == 404
    assert reader.post("/notices/read/", {"notice": foreign_notice.pk}).status_code == 404
    foreign_notice.refresh_from_db()
    assert foreign_notice.read_at is None


def test_reading_all_notices_leaves_those_of_other_users(reader: Client, foreign_notice: Notice):
    assert send(reader, "post", "notices/read/").json() == {"read": 0}
    reader.post("/notices/read/")
    foreign_notice.refresh_from_db()
    assert foreign_notice.read_at is None


def test_notification_settings_of_another_user_cannot_be_changed(reader: Client, starter: User):
    choose_events(user=starter, listed=["load.failed"], emailed=[])
    reader.post("/notices/settings/", {"person": starter.pk, "listed": [], "emailed": []})
    assert set(choices_of(starter).listed) == {"load.failed", *ALWAYS_LISTED}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "webhooks/"),
        ("get", "webhooks/{key}/"),
        ("post", "webhooks/"),
        ("patch", "webhooks/{key}/"),
        ("delete", "webhooks/{key}/"),
        ("post", "webhooks/{key}/test/"),
        ("get", "deliveries/"),
        ("get", "deliveries/{pk}/"),
        ("post", "deliveries/{pk}/replay/"),
    ],
)
def test_webhooks_and_deliveries_require_an_administrator(reader: Client, editor: Client, method: str, path: str):
    delivery = DeliveryFactory(webhook=WebhookFactory(url="https://hooks.example.org/canary"), status="failed")
    path = path.replace("{key}", str(delivery.webhook.key)).replace("{pk}", str(delivery.pk))
    for client in (reader, editor):
        answer = send(client, method, path)
        assert answer.status_code == 403
        assert b"canary" not in answer.content
    assert (Webhook.objects.count(), Delivery.objects.filter(status="failed").count()) == (1, 1)


@pytest.fixture
def environment_admin(db: None) -> Client:
    """Return a client signed in as an admin of one environment, who manages its policies."""
    user = User.objects.create(username="dora")
    RoleGrant.objects.create(user=user, role="admin", environment="dev")
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def policy_manager(db: None) -> Client:
    """Return a client signed in as a user with only the permission to manage policies."""
    user = User.objects.create(username="paul")
    user.user_permissions.add(Permission.objects.get(codename="manage_policies"))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("fixture", ["environment_admin", "policy_manager"])
@pytest.mark.parametrize(
    "path", ["/webhooks/", "/deliveries/", "/users/", "/api/v1/webhooks/", "/api/v1/deliveries/", "/api/v1/users/"]
)
def test_policy_manager_cannot_read_webhooks_or_users(request: pytest.FixtureRequest, fixture: str, path: str):
    WebhookFactory(url="https://hooks.example.org/canary")
    answer = request.getfixturevalue(fixture).get(path)
    assert (answer.status_code, b"canary" in answer.content) == (403, False)


@pytest.mark.parametrize("field", ["version", "key", "id", "created_at", "waiting", "deliveries"])
def test_webhook_refuses_read_only_fields(operator: Client, field: str):
    row = WebhookFactory()
    answer = send(operator, "patch", f"webhooks/{row.key}/", {field: "1"})
    assert answer.status_code == 400
    assert Webhook.objects.get().version == 1


def test_notice_link_to_another_site_is_not_followed(reader: Client, person: User):
    for link in ("https://evil.example.org/", "//evil.example.org/", "javascript:alert(1)", "/\\evil.example.org"):
        notice = NoticeFactory(user=person, event__link=link)
        assert reader.get(f"/notices/{notice.pk}/").url == "/notices/"


def test_notice_titles_and_webhook_answers_are_escaped(reader: Client, operator: Client, person: User):
    title = "<script>alert(1)</script>"
    NoticeFactory(user=person, event__title=title)
    delivery = DeliveryFactory(event__title=title)
    delivery.attempts.create(number=1, answer=title, error=title)
    for client, path in ((reader, "/notices/"), (operator, "/deliveries/"), (operator, f"/deliveries/{delivery.pk}/")):
        page = client.get(path).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
