"""Tests of live pages: they show changes at once, survive a lost connection, and stop polling after the run's end."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Request, expect

from elevata.accounts.roles import Role
from loader.models import LoadRun, RunEvent
from metadata.models import TargetDataset
from tests.architecture.world import person
from tests.e2e.walks.conftest import Walker

pytestmark = [pytest.mark.browser, pytest.mark.services]


@pytest.fixture
def olga(site: str, warehouse: TargetDataset, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an operator on the page of a running load."""
    olga = walkers(person("olga", Role.OPERATOR))
    olga.go("/load-runs/busy/")
    return olga


@pytest.fixture
def live_requests(olga: Walker) -> list[str]:
    """Return the addresses of the live part's requests, a list that grows."""
    urls: list[str] = []

    def record(request: Request) -> None:
        if "/live/" in request.url:
            urls.append(request.url)

    olga.page.on("request", record)
    return urls


def say(message: str) -> None:
    RunEvent.objects.create(run=LoadRun.objects.get(run_id="busy"), attempt=1, message=message)


def finish() -> None:
    LoadRun.objects.filter(run_id="busy").update(status="succeeded")


def expect_no_more_requests(olga: Walker, live_requests: list[str]) -> None:
    before = len(live_requests)
    olga.page.wait_for_timeout(3_000)
    assert live_requests[before:] == []


@pytest.mark.core
def test_live_page_polls_every_two_seconds_and_shows_changes(olga: Walker):
    triggers = olga.page.locator("main [hx-trigger*='every']").evaluate_all(
        "all => all.map(one => one.getAttribute('hx-trigger'))"
    )
    assert triggers
    assert all(re.search(r"every [12]s", trigger) for trigger in triggers)
    for number in range(3):
        say(f"line {number}")
        expect(olga.page.get_by_text(f"line {number}")).to_be_visible()


def test_live_page_stops_polling_after_the_run_ends(olga: Walker, live_requests: list[str]):
    finish()
    expect(olga.page.locator("#run").get_by_role("status").first).to_have_text("succeeded")
    assert live_requests
    expect_no_more_requests(olga, live_requests)


def test_live_page_reports_a_lost_connection_until_it_returns(olga: Walker):
    lost = olga.page.get_by_text("The server does not respond. Retrying…")
    expect(lost).to_be_hidden()
    olga.context.set_offline(True)
    expect(lost).to_be_visible()
    olga.picture("connection-lost")
    say("meanwhile")
    olga.context.set_offline(False)
    expect(olga.page.get_by_text("meanwhile")).to_be_visible()
    expect(lost).to_be_hidden()
    olga.complaints.take()


def test_live_page_keeps_polling_while_the_server_restarts(olga: Walker):
    lost = olga.page.get_by_text("The server does not respond. Retrying…")
    olga.page.route("**/live/**", lambda route: route.fulfill(status=503, body="starting"))
    expect(lost).to_be_visible()
    olga.page.unroute("**/live/**")
    finish()
    expect(olga.page.locator("#run").get_by_role("status").first).to_have_text("succeeded")
    expect(lost).to_be_hidden()
    olga.complaints.take()


def test_live_page_stops_polling_if_the_run_no_longer_exists(olga: Walker, live_requests: list[str]):
    LoadRun.objects.filter(run_id="busy").update(run_id="moved")
    expect(olga.page.get_by_text("What this is about is gone.")).to_be_visible()
    expect_no_more_requests(olga, live_requests)
    olga.complaints.take()


def test_live_list_keeps_the_focus_while_it_is_refreshed(olga: Walker):
    olga.go("/load-runs/")
    link = olga.page.locator('#rows a[href="/load-runs/busy/"]').first
    link.focus()
    with olga.page.expect_response(lambda response: response.request.headers.get("hx-request") == "true"):
        pass
    olga.page.wait_for_timeout(300)
    expect(link).to_be_focused()
    finish()
    expect(olga.page.locator("#rows").get_by_text("running")).to_have_count(0)
