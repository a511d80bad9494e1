"""Fixtures of walks: the product served to a real Chromium, on a database that the test fills.

Walks need no Spark: the simulated warehouse of the tests does the work of workers.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pytest_django import live_server_helper

from tests.services.axe import Complaints, sideways
from tests.services.browser import ARTIFACTS

# A response can be slow while Spark uses both cores.
expect.set_options(timeout=30_000)

WIDTHS = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 390, "height": 844}}


@pytest.fixture(autouse=True)
def plain_names_of_static_files(settings) -> None:
    """Serve the files of static/, because collected copies may be older."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture
def site(transactional_db: None, live_server: live_server_helper.LiveServer) -> str:
    """Return the address of the product, served on the test's database."""
    return live_server.url


def let_in(context: BrowserContext, site: str, user: User) -> None:
    """Sign the user in without the form."""
    client = Client()
    client.force_login(user)
    name = configured.SESSION_COOKIE_NAME
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": site}])


class Walker:
    """User with a separate browser context, who uses the keyboard and takes pictures."""

    def __init__(self, browser: Browser, site: str, width: str, name: str, user: User | None) -> None:
        self.context = browser.new_context(viewport=WIDTHS[width], reduced_motion="reduce")
        self.context.set_default_timeout(60_000)
        self.site, self.width, self.name = site, width, name
        self.complaints = Complaints().watch(self.context)
        if user is not None:
            let_in(self.context, site, user)
        self.page: Page = self.context.new_page()

    def go(self, path: str) -> Page:
        self.page.goto(path if path.startswith("http") else f"{self.site}{path}")
        return self.page

    def press(self, *keys: str) -> None:
        # Scripts that hear the key are there once the page is.
        self.page.wait_for_load_state()
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        # Scripts that hear the key are there once the page is.
        self.page.wait_for_load_state()
        self.page.keyboard.type(text)

    def focus(self, role: str, name: str | re.Pattern, *, exact: bool = True) -> None:
        """Focus an element, as Tab would, and check that it has the focus."""
        exactly = {"exact": exact} if isinstance(name, str) else {}
        # An address with a fragment moves the focus when the page is loaded.
        self.page.wait_for_load_state()
        element = self.page.get_by_role(role, name=name, **exactly).first
        element.focus()
        expect(element).to_be_focused()

    def use(self, role: str, name: str | re.Pattern, *, exact: bool = True, key: str = "Enter") -> None:
        """Press a button or follow a link by keyboard."""
        self.focus(role, name, exact=exact)
        self.press(key)

    def fill(self, label: str, text: str) -> None:
        """Type into a field, replacing its value."""
        field = self.page.get_by_label(label, exact=True).first
        field.focus()
        expect(field).to_be_focused()
        self.press("ControlOrMeta+a")
        self.type(text)

    def open_menu(self) -> None:
        """Open the menu, which narrow pages hide behind a button."""
        toggler = self.page.locator(".navbar-toggler")
        if toggler.is_visible() and toggler.get_attribute("aria-expanded") != "true":
            toggler.focus()
            self.press("Enter")
            expect(toggler).to_have_attribute("aria-expanded", "true")

    def picture(self, name: str) -> None:
        """Save a screenshot among the artifacts; fail if the page scrolls sideways."""
        assert sideways(self.page) == 0, f"{self.page.url} scrolls sideways"
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=Path(ARTIFACTS) / f"walk-{name}-{self.width}.png", full_page=True)


@pytest.fixture
def walkers(browser: Browser, site: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Walker]]:
    """Yield a function that creates walkers; fail at the end if a browser reported an error."""
    made: list[Walker] = []

    def make(user: User | None, width: str = "wide", name: str = "") -> Walker:
        made.append(Walker(browser, site, width, name or getattr(user, "username", "nobody"), user))
        return made[-1]

    yield make
    complaints = [complaint for walker in made for complaint in walker.complaints.take()]
    for walker in made:
        walker.context.close()
    assert complaints == []


@pytest.fixture(params=["wide", pytest.param("narrow", marks=pytest.mark.nightly)])
def width(request: pytest.FixtureRequest) -> str:
    """Return the width of the walk: wide; narrow by night only, since test_every_page.py tests that width."""
    return request.param


# Parameters of walks whose pages have another layout on a narrow screen.
at_both_widths = pytest.mark.parametrize("width", list(WIDTHS), indirect=True)
