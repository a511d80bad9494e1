"""Tests of static/js/graph in a real Chromium under the product's content policy, without server or database."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils.html import json_script
from playwright.sync_api import Page, Route, expect

from elevata.web.graph import Edge, Graph, Node, Port
from elevata.web.middleware import CONTENT_SECURITY_POLICY

pytestmark = pytest.mark.browser

LAYERS_DRAWN = ("source", "raw", "stage", "rawcore", "history")
STATIC = Path(__file__).resolve().parents[2] / "static"
SITE = "http://graphs.test"
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A graph</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/vendor/tabler/tabler.min.css"><link rel="stylesheet" href="/css/app.css">
<script type="module" src="/js/graph/graph.js"
    data-elk="/vendor/elk/elk-api.js" data-elk-worker="/vendor/elk/elk-worker.min.js">
</script><body>"""


def part(graph: Graph) -> str:
    """Return the HTML of a live fragment."""
    return f'<div class="graph" data-graph="g" data-graph-label="A run"></div>{json_script(graph.as_json(), "g")}'


def run(state: str = "queued", *more: Node) -> Graph:
    """Return the graph raw → rawcore → history; rawcore is in this state and has a reference to airports."""
    nodes = (
        Node("r", "raw_route", "raw", "raw", "succeeded", "succeeded", url="/r/"),
        Node("c", "rc_route", "rawcore", "rawcore", state, state, url="/c/", here=True),
        Node("h", "rc_route_hist", "rawcore", "history", "queued", "queued", url="/h/"),
        Node("a", "rc_airport", "rawcore", "rawcore", "succeeded", "succeeded", url="/a/"),
        *more,
    )
    edges = (Edge("r", "c", marked=True), Edge("c", "h", "history"), Edge("c", "a", "reference", "origin_key"))
    return Graph(nodes, edges)


@pytest.fixture
def graph_page(page: Page) -> Iterator[Page]:
    """Yield a page with the graph of a run; fail if the browser reported an error."""
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda problem: errors.append(str(problem)))
    page.route(f"{SITE}/**", _serve)
    page.goto(f"{SITE}/")
    expect(page.locator("[data-graph] svg")).to_be_visible(timeout=60_000)
    yield page
    assert errors == []


def _serve(route: Route) -> None:
    path = route.request.url.removeprefix(SITE)
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
    if path == "/":
        body = f'{HEAD}<main id="live">{part(run())}</main></body></html>'
        route.fulfill(body=body, headers=headers | {"Content-Type": "text/html; charset=utf-8"})
        return
    file = STATIC / path.lstrip("/")
    if not file.is_file():
        route.fulfill(status=204, headers=headers)
        return
    route.fulfill(path=file, headers=headers | {"Content-Type": TYPES.get(file.suffix, "text/plain")})


def swap(page: Page, html: str) -> None:
    """Swap a fragment as htmx does."""
    page.evaluate(
        """html => {
            const live = document.getElementById("live");
            document.dispatchEvent(new CustomEvent("htmx:beforeSwap"));
            live.innerHTML = html;
            document.dispatchEvent(new CustomEvent("htmx:afterSwap"));
        }""",
        html,
    )


def left_of(page: Page, name: str) -> float:
    return page.locator(f'[data-node="{name}"] .box').bounding_box()["x"]


@pytest.mark.core
def test_datasets_are_links_in_columns_with_their_state_in_words(graph_page: Page):
    link = graph_page.get_by_role("link", name="rc_route, rawcore, queued")
    expect(link).to_have_attribute("href", "/c/")
    expect(link).to_have_attribute("aria-current", "true")
    assert left_of(graph_page, "r") < left_of(graph_page, "c") < left_of(graph_page, "h")
    assert left_of(graph_page, "c") == pytest.approx(left_of(graph_page, "a"), abs=1)  # strokes differ
    expect(graph_page.locator("path.edge")).to_have_count(3)
    expect(graph_page.locator("path.edge-input.marked")).to_have_count(1)
    expect(graph_page.locator("svg .head")).to_have_text(["Raw", "Rawcore", "History"])


def test_a_new_state_repaints_and_keeps_drawing_zoom_and_focus(graph_page: Page):
    graph_page.get_by_role("button", name="Larger").click()
    graph_page.evaluate("document.querySelector('[data-graph] svg').dataset.same = 'yes'")
    graph_page.get_by_role("link", name="rc_route, rawcore").focus()
    width = graph_page.locator("[data-graph] svg").get_attribute("width")
    swap(graph_page, part(run("running")))
    svg = graph_page.locator("[data-graph] svg")
    expect(svg).to_have_attribute("data-same", "yes")
    expect(svg).to_have_attribute("width", width)
    expect(graph_page.locator('[data-node="c"] g')).to_have_class("node layer-rawcore is-running here")
    expect(graph_page.get_by_role("link", name="rc_route, rawcore, running")).to_be_focused()


def test_new_dataset_redraws_the_graph(graph_page: Page):
    graph_page.evaluate("document.querySelector('[data-graph] svg').dataset.same = 'yes'")
    swap(graph_page, part(run("running", Node("b", "bc_traffic", "bizcore", "bizcore"))))
    expect(graph_page.locator('[data-node="b"]')).to_have_count(1)
    expect(graph_page.locator("[data-graph] svg")).not_to_have_attribute("data-same", "yes")


def test_arrow_keys_go_from_dataset_to_dataset(graph_page: Page):
    graph_page.get_by_role("link", name="raw_route").focus()
    graph_page.keyboard.press("ArrowRight")
    expect(graph_page.get_by_role("link", name="rc_route, rawcore")).to_be_focused()
    expect(graph_page.locator("path.edge.near")).to_have_count(3)
    graph_page.keyboard.press("ArrowRight")
    expect(graph_page.get_by_role("link", name="rc_route_hist")).to_be_focused()
    graph_page.keyboard.press("ArrowLeft")
    expect(graph_page.get_by_role("link", name="rc_route, rawcore")).to_be_focused()


def test_narrow_graph_runs_downwards_without_horizontal_scrolling(graph_page: Page):
    graph_page.set_viewport_size({"width": 390, "height": 844})
    expect(graph_page.locator("svg .head")).to_have_count(0)
    above = graph_page.locator('[data-node="r"] .box').bounding_box()["y"]
    assert above < graph_page.locator('[data-node="c"] .box').bounding_box()["y"]
    assert graph_page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_150_datasets_are_drawn(graph_page: Page):
    nodes = tuple(Node(f"n{i}", f"rc_table_{i}", "rawcore", "rawcore", url="/") for i in range(150))
    edges = tuple(Edge(f"n{i // 3}", f"n{i}") for i in range(1, 150))
    swap(graph_page, part(Graph(nodes, edges)))
    expect(graph_page.locator("[data-node]")).to_have_count(150, timeout=60_000)
    assert json.loads(graph_page.locator("#g").text_content())["nodes"][149]["rank"] == 5


# --- columns ---------------------------------------------------------------------------------


def columns() -> Graph:
    """Return the graph of two columns of raw, one of which flows on into rawcore and an exposure."""
    nodes = (
        Node("r", "raw_route", "raw", "raw", url="/r/", ports=(Port("r.id", "id", url="?r.id"), Port("r.to", "to"))),
        Node("c", "rc_route", "rawcore", "rawcore", ports=(Port("c.to", "target", "string", "upper(to)", "?c.to"),)),
        Node("e", "Delays", "dashboard of Operations", "exposure"),
    )
    edges = (Edge("r", "c", start_port="r.to", end_port="c.to"), Edge("c", "e", start_port="c.to"))
    return Graph(nodes, edges)


def test_a_chosen_column_has_its_path_marked_and_is_announced(graph_page: Page):
    swap(graph_page, part(columns()))
    graph_page.evaluate("document.addEventListener('graph:choose', ({detail}) => { document.title = detail.url; })")
    graph_page.locator('[data-port="c.to"]').click()
    expect(graph_page.locator("[data-port].near")).to_have_count(2)
    expect(graph_page.locator("path.edge.near")).to_have_count(2)
    expect(graph_page).to_have_title("?c.to")
    graph_page.locator('[data-port="c.to"]').click()
    expect(graph_page.locator("[data-port].near")).to_have_count(0)


def test_columns_are_reached_and_chosen_by_the_keyboard(graph_page: Page):
    swap(graph_page, part(columns()))
    expect(graph_page.locator('[data-port="r.id"]')).to_be_visible()
    graph_page.get_by_role("link", name="raw_route").focus()
    graph_page.keyboard.press("ArrowDown")
    expect(graph_page.locator('[data-port="r.id"]')).to_be_focused()
    graph_page.keyboard.press("ArrowRight")
    expect(graph_page.locator('[data-port="c.to"]')).to_be_focused()
    graph_page.keyboard.press("Enter")
    expect(graph_page.locator('[data-port="c.to"]')).to_have_attribute("aria-current", "true")


def test_graph_search_marks_a_column_and_the_graph_is_downloaded_as_svg(graph_page: Page):
    swap(graph_page, part(columns()))
    graph_page.get_by_role("searchbox").fill("TARG")
    expect(graph_page.locator('[data-port="c.to"]')).to_have_class(re.compile("found"))
    with graph_page.expect_download() as download:
        graph_page.get_by_role("button", name="SVG").click()
    text = Path(download.value.path()).read_text()
    assert text.startswith("<svg")
    assert "target" in text
    assert "var(" not in text


@pytest.mark.nightly
def test_300_datasets_with_20_columns_are_drawn_in_3_seconds(graph_page: Page):
    nodes = tuple(
        Node(f"n{i}", f"table_{i}", "s", LAYERS_DRAWN[i % 5], ports=tuple(Port(f"{i}.{j}", f"c{j}") for j in range(20)))
        for i in range(300)
    )
    edges = tuple(
        Edge(f"n{i - 1}", f"n{i}", start_port=f"{i - 1}.{j}", end_port=f"{i}.{j}")
        for i in range(300)
        if i % 5
        for j in range(20)
    )
    swap(graph_page, part(Graph(nodes, edges)))
    expect(graph_page.locator("[data-port]")).to_have_count(6000, timeout=60_000)
    laid_out = graph_page.evaluate("performance.getEntriesByName('graph-layout').at(-1).duration")
    assert laid_out < 3000
