"""Time until Chromium paints a page, with an empty cache."""

import os
from statistics import median
from typing import Any

from bench.problem import BenchProblem
from bench.web.pages import Page
from bench.web.served import Web
from bench.web.times import percentile
from elevata.bootstrap.programs import chromium
from tests.services.browser import FLAGS

# The most used pages; other pages are made of the same parts.
PRINCIPAL = (
    *("home", "inbox", "dataset_list", "dataset_page", "dataset_lineage", "dataset_changes", "source_list"),
    *("run_list", "run_page", "report_list", "report_page", "execution_page", "drift_page", "change_list"),
)
_ASKED = "performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)[0]"
_ASKED_AT_MOST = 200
# Fragments that htmx loads afterwards are awaited, so that the next visit does not pay for them.
_UNDER_WAY = "document.querySelectorAll('.htmx-request').length"
_FOLLOWS_WITHIN = 1200


def of_pages(web: Web, pages: list[Page], repeats: int) -> list[dict[str, Any]]:
    """Measure the first contentful paint of the main pages, each in a new browser context."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        raise BenchProblem("Chromium is not installed: make test installs it, or leave it out with --no-paint")
    flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=flags)
        _paint(browser, web, pages[0])  # the browser's own beginnings
        times = [
            _told(page, [_paint(browser, web, page) for _ in range(repeats)])
            for page in pages
            if page.route in PRINCIPAL
        ]
        browser.close()
    return times


def _paint(browser: Any, web: Web, page: Page) -> float:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_cookies([{"name": "sessionid", "value": web.session, "url": web.address}])
    opened = context.new_page()
    opened.goto(f"{web.address}{page.address}")
    # Polled from here, because the pages' content policy permits no waiting inside them.
    for _ in range(_ASKED_AT_MOST):
        painted = opened.evaluate(_ASKED)
        if painted is not None:
            break
        opened.wait_for_timeout(50)
    else:
        raise BenchProblem(f"{page.name} paints nothing")
    opened.wait_for_load_state()
    for _ in range(_FOLLOWS_WITHIN):
        if not opened.evaluate(_UNDER_WAY):
            break
        opened.wait_for_timeout(50)
    context.close()
    return painted


def _told(page: Page, painted: list[float]) -> dict[str, Any]:
    return {
        "page": page.name,
        "median_ms": round(median(painted)),
        "p95_ms": round(percentile(sorted(painted), 0.95)),
    }
