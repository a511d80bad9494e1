"""Users in separate browser contexts, at an installation with Spark."""

from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import PASSWORD, Installation

# Spark starts cold on a busy machine; durations are measured in bench/, not here.
DONE_WITHIN = 240_000


def sideways(page: Page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


class Person:
    """User with a separate browser context."""

    def __init__(self, browser: Browser, installation: Installation, name: str) -> None:
        self.page: Page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        self.address = installation.address
        self.go("/sign-in/")
        self.page.get_by_label("User name").fill(name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.press("Sign in")
        # The initial password must be replaced before any page opens.
        expect(self.page).to_have_url(f"{self.address}/me/password/")
        self.page.get_by_label("Current password").fill(PASSWORD)
        self.page.get_by_label("New password").fill(f"{PASSWORD} of {name}")
        self.press("Replace password")
        expect(self.page).to_have_url(f"{self.address}/")

    def go(self, path: str) -> Page:
        self.page.goto(path if path.startswith("http") else f"{self.address}{path}")
        return self.page

    def press(self, button: str) -> None:
        self.page.get_by_role("button", name=button, exact=True).click()

    def close(self) -> None:
        self.page.context.close()
