"""Chromium for tests of pages: one browser a session, a new context for each test."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from elevata.bootstrap.programs import chromium

ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"
OUTCOME = pytest.StashKey[dict[str, pytest.TestReport]]()

# Headless, and without background requests of the browser: the tests need no other site.
FLAGS = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield the system's Chromium."""
    program = chromium()
    if program is None:
        pytest.fail("Chromium is not installed - make test installs it, or set CHROMIUM_PATH")
    # Chromium's sandbox cannot be set up by root; these tests only show it our own pages.
    flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
    # Playwright's event loop runs in this thread, so Django would refuse database access as from
    # asynchronous code.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with sync_playwright() as playwright:
            launched = playwright.chromium.launch(executable_path=str(program), args=flags)
            yield launched
            launched.close()
    finally:
        if before is None:
            del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        else:
            os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Yield a page in a new context; save a screenshot in tests/artifacts if the test fails."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    yield tab
    if any(report.failed for report in request.node.stash.get(OUTCOME, {}).values()):
        ARTIFACTS.mkdir(exist_ok=True)
        name = re.sub(r"[^\w.-]+", "_", request.node.nodeid)
        tab.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)
    context.close()
