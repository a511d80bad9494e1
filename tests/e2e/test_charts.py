"""Tests of static/js/chart in a real Chromium under the product's content policy, without server or database."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.template.loader import render_to_string
from playwright.sync_api import Page, Route, expect

from elevata.bootstrap.places import TEST_VENDOR
from elevata.web.charts import Chart, Point, Series
from elevata.web.middleware import CONTENT_SECURITY_POLICY
from tests.e2e.test_graph import STATIC, TYPES

pytestmark = pytest.mark.browser

SITE = "http://charts.test"
HEAD = """<!doctype html><html lang="en" data-bs-theme="light"><meta charset="utf-8"><title>Charts</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/vendor/tabler/tabler.min.css"><link rel="stylesheet" href="/vendor/uplot/uplot.min.css">
<link rel="stylesheet" href="/css/app.css"><link rel="stylesheet" href="/css/data.css">
<script type="module" src="/js/chart/chart.js" data-uplot="/vendor/uplot/uplot.min.js"></script>
<body data-zone="Asia/Tokyo">"""
START = datetime(2026, 11, 1, tzinfo=UTC)


def charts() -> list[Chart]:
    """Return a chart with a band, a gap and an anomaly, and a chart of a single number."""
    days = range(20)
    points = tuple(Point(START + timedelta(days=day), f"run-{day}", f"/load-runs/run-{day}/") for day in days)
    values = tuple(None if day == 4 else 300 if day == 15 else 1000 + day for day in days)
    bands = tuple(None if day < 6 else (900.0, 1100.0) for day in days)
    rows = Chart("rows", "Rows", points, (Series("Rows", values),), bands=bands, anomalies=frozenset({15}))
    return [rows, Chart("disk", "Disk use", points[:1], (Series("Files", (2048,)),), unit="bytes")]


@pytest.fixture
def chart_page(page: Page) -> Iterator[Page]:
    """Yield a page with charts; fail if the browser reported an error, such as a violation of the content policy."""
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda problem: errors.append(str(problem)))
    page.route(f"{SITE}/**", _serve)
    page.goto(f"{SITE}/")
    expect(page.locator(".chart canvas")).to_have_count(2)
    yield page
    assert errors == []


def _serve(route: Route) -> None:
    path = route.request.url.removeprefix(SITE)
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
    if path == "/":
        body = f"{HEAD}<main><h1>Charts</h1>{render_to_string('parts/charts.html', {'charts': charts()})}</main></body>"
        route.fulfill(body=body, headers=headers | {"Content-Type": "text/html; charset=utf-8"})
        return
    file = STATIC / path.lstrip("/")
    if not file.is_file():
        route.fulfill(status=204, headers=headers)
        return
    route.fulfill(path=file, headers=headers | {"Content-Type": TYPES.get(file.suffix, "text/plain")})


def pixels(page: Page) -> list[int]:
    """Return the sum of each pixel's colours of a canvas, for comparison."""
    return page.evaluate(
        """() => {
            const canvas = document.querySelector(".chart canvas");
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return [...new Set(Array.from(data))];
        }"""
    )


@pytest.mark.core
def test_chart_is_drawn_with_a_table_and_an_accessible_name(chart_page: Page):
    chart = chart_page.get_by_role("img", name="Rows. 20 points").first
    expect(chart).to_be_visible()
    assert len(pixels(chart_page)) > 1
    chart_page.locator("summary").first.click()
    expect(chart_page.get_by_role("link", name="run-15")).to_be_visible()


def test_a_point_is_read_in_the_zone_of_the_user(chart_page: Page):
    chart_page.locator(".chart .u-over").first.hover()
    expect(chart_page.locator(".chart .u-legend").first).to_contain_text("09:00 Asia/Tokyo, run-")


def test_the_colours_follow_light_and_dark(chart_page: Page):
    light = pixels(chart_page)
    chart_page.evaluate("document.documentElement.setAttribute('data-bs-theme', 'dark')")
    expect(chart_page.locator(".chart canvas")).to_have_count(2)
    chart_page.wait_for_timeout(300)
    assert pixels(chart_page) != light


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_have_no_serious_axe_violations(chart_page: Page, theme: str, width: int):
    chart_page.set_viewport_size({"width": width, "height": 844})
    chart_page.evaluate(f"document.documentElement.setAttribute('data-bs-theme', '{theme}')")
    chart_page.wait_for_timeout(200)
    chart_page.evaluate((TEST_VENDOR / "axe" / "axe.min.js").read_text())
    violations = chart_page.evaluate("axe.run()")["violations"]
    assert [item["id"] for item in violations if item["impact"] in ("serious", "critical")] == []
    assert chart_page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
