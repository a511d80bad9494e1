"""Walk of a new user through an empty installation: every empty page names the first action."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from metadata.models import TargetDataset
from tests.e2e.walks.conftest import Walker, at_both_widths

pytestmark = [pytest.mark.browser, pytest.mark.services]

PASSWORD = "a long enough password"
EMPTY = {
    "Datasets": re.compile("No dataset|Nothing is described|no dataset", re.IGNORECASE),
    "Sources": re.compile("No source|No system|Nothing is described", re.IGNORECASE),
    "Load runs": "No load runs yet",
    "Changes": "No reports yet",
}


@pytest.fixture
def nina(site: str, width: str, walkers: Callable[..., Walker]) -> Walker:
    ensure_user(name="nina", roles=[Role.EDITOR, Role.OPERATOR], password=PASSWORD, temporary=False)
    return walkers(None, width, "nina")


@at_both_widths
def test_home_of_a_new_installation_leads_to_empty_pages_with_hints(nina: Walker):
    nina.go("/")
    expect(nina.page.get_by_label("User name")).to_be_focused()
    nina.type("nina")
    nina.press("Tab")
    nina.type("wrong")
    nina.press("Enter")
    expect(nina.page.get_by_role("alert")).to_be_visible()
    expect(nina.page.get_by_label("User name")).to_have_value("nina")
    expect(nina.page.get_by_label("Password")).to_be_focused()
    nina.type(PASSWORD)
    nina.press("Enter")
    expect(nina.page.get_by_role("heading", name="First steps")).to_be_visible()
    nina.picture("newcomer-home")
    nina.press("Tab")
    expect(nina.page.get_by_role("link", name="Skip to content")).to_be_focused()
    nina.press("Enter")
    expect(nina.page.locator("#main")).to_be_focused()
    for label, text in EMPTY.items():
        nina.open_menu()
        menu = nina.page.get_by_role("navigation", name="Main").get_by_role("link", name=label, exact=True)
        menu.focus()
        nina.press("Enter")
        expect(nina.page.locator("main").get_by_text(text).first).to_be_visible()
        nina.picture(f"newcomer-{label.lower().replace(' ', '-')}")


def test_first_dataset_is_created_by_keyboard(nina: Walker):
    nina.go("/sign-in/?next=/datasets/new/")
    expect(nina.page.locator("#id_username")).to_be_focused()
    nina.type("nina")
    nina.press("Tab")
    expect(nina.page.locator("#id_password")).to_be_focused()
    nina.type(PASSWORD)
    nina.press("Enter")
    nina.use("link", "Create one first.")
    nina.fill("Name", "rawcore")
    nina.page.get_by_label("Layer", exact=True).focus()
    nina.type("rawcore")
    nina.use("button", "Create schema")
    expect(nina.page.get_by_text("Schema rawcore is created.")).to_be_visible()
    nina.go("/datasets/new/")
    nina.page.get_by_label("Schema", exact=True).focus()
    nina.type("rawcore")
    nina.fill("Name", "rc_shop_customer")
    nina.picture("newcomer-new-dataset")
    nina.use("button", "Create dataset")
    expect(nina.page.get_by_role("heading", name="rc_shop_customer", exact=True)).to_be_visible()
    expect(nina.page.get_by_text("No columns yet")).to_be_visible()
    assert TargetDataset.objects.get().name == "rc_shop_customer"
