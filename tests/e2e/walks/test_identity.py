"""Walk of an administrator (eve) and a new user (grace).

A user with a role for one schema, a token and its revocation, a tested webhook, and notices in the bell's menu.
"""

from collections.abc import Callable, Iterator
from threading import Thread

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import expect

from elevata.accounts.actors import acting_as
from elevata.accounts.models import PersonalToken, RoleGrant
from elevata.accounts.roles import Role
from elevata.accounts.services.users import grant_role
from elevata.notifications.models import Delivery, Notice, Webhook
from metadata.services.datasets.targets import create_schema
from tests.architecture.world import person as someone
from tests.e2e.walks.conftest import Walker, at_both_widths
from tests.elevata.notifications.deliveries import send_due
from tests.elevata.notifications.test_safe_http import Receiver
from tests.factories import NoticeFactory

pytestmark = [pytest.mark.browser, pytest.mark.services]

PASSWORD = "analytical engine"


@pytest.fixture
def administrator(site: str) -> User:
    return someone("eve", Role.ADMIN)


@pytest.fixture
def eve(administrator: User, width: str, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an administrator."""
    return walkers(administrator, width)


@pytest.fixture
def grace(administrator: User) -> User:
    """Return a user who is an editor of the schema sales only."""
    grace = someone("grace")
    grace.set_password(PASSWORD)
    grace.save()
    with acting_as(administrator):
        grant_role(user=grace, role=Role.EDITOR, schema=create_schema(name="sales", layer="bizcore").name)
    return grace


@pytest.fixture
def receiver(settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Yield a local server that accepts webhook deliveries."""

    def thank(request) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "6")
        request.end_headers()
        request.wfile.write(b"thanks")

    settings.WEBHOOK_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setenv("ELEVATA_WEBHOOK_SECRET_TEAM", "a secret that nobody may see")
    server = Receiver(thank)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def answer_to(token: str) -> int:
    """Return the status of an API response to a request with this token."""
    return Client().get("/api/v1/datasets/", headers={"Authorization": f"Token {token}"}).status_code


def test_user_is_created_with_a_role_for_one_schema(eve: Walker, site: str):
    create_schema(name="sales", layer="bizcore")
    eve.go("/me/")
    eve.use("link", "Users")
    expect(eve.page.get_by_role("heading", name="Users", exact=True)).to_be_visible()
    eve.use("link", "New user")
    expect(eve.page.get_by_role("heading", name="New user")).to_be_visible()
    eve.picture("identity-new-person")
    eve.use("button", "Create user")
    expect(eve.page.get_by_text("Enter a name.")).to_be_visible()
    expect(eve.page.get_by_label("Name", exact=True)).to_be_focused()
    eve.type("grace")
    eve.fill("Password", PASSWORD)
    eve.page.get_by_label("viewer", exact=True).focus()
    eve.press("Space")
    eve.use("button", "Create user")
    expect(eve.page.get_by_role("heading", name="grace", exact=True)).to_be_visible()
    expect(eve.page.get_by_label("viewer", exact=True)).to_be_checked()
    eve.page.get_by_label("Role", exact=True).select_option("editor")
    eve.page.get_by_label("Where", exact=True).select_option("schema:sales")
    eve.use("button", "Grant role")
    expect(eve.page.locator("tr", has_text="schema sales")).to_be_visible()
    eve.picture("identity-person")
    assert str(RoleGrant.objects.get(user__username="grace")) == "editor for schema sales"


def test_users_are_filtered_by_name(eve: Walker, grace: User):
    eve.go("/users/")
    eve.fill("Name", "gra")
    expect(eve.page.get_by_role("link", name="eve", exact=True).and_(eve.page.locator("#rows a"))).to_have_count(0)
    eve.picture("identity-people")
    grace_link = eve.page.get_by_role("link", name="grace")
    for _ in range(20):
        eve.press("Tab")
        if grace_link.evaluate("link => link === document.activeElement"):
            break
    expect(grace_link).to_be_focused()
    eve.page.wait_for_load_state("networkidle")
    expect(grace_link).to_be_focused()
    eve.press("Enter")
    expect(eve.page.get_by_role("heading", name="grace", exact=True)).to_be_visible()


@pytest.mark.core
def test_a_token_is_shown_once_serves_and_is_revoked(grace: User, width: str, walkers: Callable[..., Walker]):
    walker = walkers(None, width, "grace")
    walker.go("/me/")
    expect(walker.page.get_by_label("User name")).to_be_focused()
    walker.type("grace")
    walker.fill("Password", PASSWORD)
    walker.press("Enter")
    expect(walker.page.locator("tr", has_text="schema sales")).to_be_visible()

    walker.fill("Name", "laptop")
    walker.press("Enter")
    expect(walker.page.get_by_role("button", name="Copy")).to_be_focused()
    walker.picture("identity-token-made")
    token = walker.page.locator("#made-token").inner_text()
    assert answer_to(token) == 200
    walker.go("/me/")
    assert token not in walker.page.content()

    revoke = walker.page.locator("summary", has_text="Revoke… laptop")
    revoke.press("Enter")
    expect(walker.page.get_by_role("button", name="Revoke token laptop")).to_be_visible()
    walker.press("Escape")
    expect(walker.page.get_by_role("button", name="Revoke token laptop")).to_be_hidden()
    expect(revoke).to_be_focused()
    walker.press("Enter", "Tab")
    expect(walker.page.get_by_role("button", name="Revoke token laptop")).to_be_focused()
    walker.picture("identity-token-revoke")
    walker.press("Enter")
    expect(walker.page.get_by_text("Token revoked")).to_be_visible()
    assert not PersonalToken.objects.exists()
    assert answer_to(token) == 401


def test_webhook_is_created_tested_and_its_delivery_sent_again(eve: Walker, receiver: Receiver):
    eve.go("/notices/")
    eve.use("link", "Webhooks")
    expect(eve.page.get_by_role("heading", name="No webhook yet")).to_be_visible()
    eve.use("link", "New webhook")
    expect(eve.page.get_by_role("heading", name="New webhook")).to_be_visible()
    eve.fill("Name", "data platform")
    eve.fill("Address", f"http://127.0.0.1:{receiver.port}/hook")
    eve.page.get_by_label("A load failed").focus()
    eve.press("Space")
    eve.fill("Variable with the secret", "ELEVATA_WEBHOOK_SECRET_TEAM")
    eve.picture("identity-webhook-form")
    eve.use("button", "Create webhook")
    expect(eve.page.get_by_text("Webhook data platform created. Send a test event.")).to_be_visible()
    assert Webhook.objects.get().events == ["load.failed"]

    eve.use("button", "Send test")
    expect(eve.page.locator("#delivery .state").first).to_have_text("queued")
    assert send_due() == 1
    expect(eve.page.locator("#delivery .state").first).to_have_text("succeeded")
    expect(eve.page.locator("tr", has_text="delivered")).to_be_visible()
    eve.picture("identity-delivery")
    eve.use("button", "Send again")
    expect(eve.page.locator("#delivery .state").first).to_have_text("queued")
    assert send_due() == 1
    expect(eve.page.locator("#delivery .state").first).to_have_text("succeeded")
    assert [path for path, _, _ in receiver.requests] == ["/hook", "/hook"]
    assert Delivery.objects.get().attempt == 2

    eve.go("/webhooks/")
    eve.picture("identity-webhooks")
    eve.use("link", "data platform")
    expect(eve.page.get_by_role("heading", name="Last deliveries")).to_be_visible()
    eve.use("link", "Delete…")
    expect(eve.page.get_by_role("heading", name="Delete this webhook?")).to_be_visible()
    eve.use("button", "Delete")
    expect(eve.page.get_by_role("heading", name="No webhook yet")).to_be_visible()


@at_both_widths
def test_bell_counts_unread_notices_and_links_to_them(eve: Walker, administrator: User):
    NoticeFactory(user=administrator, event__title="Load run nightly failed", event__link="/load-runs/")
    NoticeFactory(user=administrator, event__title="Load run hourly failed")
    eve.go("/")
    eve.open_menu()
    bell = eve.page.locator("#notice-bell")
    expect(bell).to_contain_text("2 unread")
    bell.focus()
    eve.press("Enter")
    expect(eve.page.get_by_role("heading", name="Notices")).to_be_visible()
    eve.picture("identity-notices")
    eve.use("link", "Load run nightly failed")
    expect(eve.page).to_have_url(f"{eve.site}/load-runs/")
    eve.go("/notices/")
    eve.use("button", "Mark as read: Load run hourly failed")
    expect(eve.page.get_by_role("button", name="Mark all as read")).to_have_count(0)
    assert not Notice.objects.filter(read_at=None).exists()


def test_notification_settings_are_saved(eve: Walker, administrator: User):
    eve.go("/notices/settings/")
    box = eve.page.get_by_label("Drift was found: in the list")
    expect(box).to_be_checked()
    box.focus()
    eve.press("Space")
    eve.picture("identity-settings")
    eve.use("button", "Save")
    expect(eve.page.get_by_text("Notification settings saved.")).to_be_visible()
    expect(eve.page.get_by_label("Drift was found: in the list")).not_to_be_checked()
