"""Tests of the number of clicks of usual tasks from the home page, with a mouse and a search by keyboard."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from architecture.models import ChangeReport, Execution
from loader.models import ReadRequest
from metadata.models import QualityCheck
from tests.architecture.refreshes import observed
from tests.architecture.world import World, contract_built
from tests.e2e.walks.conftest import Walker
from tests.elevata.web.pages import needing, rename
from tests.loader.factories import WorkerFactory, check_result, loaded
from tests.metadata.contracts import BOARD, the_mart

pytestmark = [pytest.mark.browser, pytest.mark.services]


class Mouse:
    """Counter of the clicks of all users of a task."""

    def __init__(self) -> None:
        self.clicks = 0

    def click(self, place: Locator) -> None:
        place.click()
        self.clicks += 1


@pytest.fixture
def users(site: str, world: World, walkers: Callable[..., Walker]) -> Callable[[Any], Walker]:
    """Return a walker of a user on the home page, beside a running worker."""
    WorkerFactory()
    needing(world, safe=1)

    def on_home(user: Any) -> Walker:
        walker = walkers(user, "wide")
        walker.go("/")
        return walker

    return on_home


def find(walker: Walker, text: str) -> None:
    """Open the first result of a search by keyboard."""
    walker.press("/")
    walker.type(text)
    expect(walker.page.locator("#search-dialog [role=option]").first).to_contain_text(text)
    walker.press("Enter")
    expect(walker.page.get_by_role("heading", name=re.compile(text)).first).to_be_visible()


def decide_and_execute(mouse: Mouse, users: Callable[[Any], Walker], world: World) -> Execution:
    """Approve the only pending report, and execute it, each from the home page."""
    bob = users(world.approver)
    mouse.click(bob.page.locator("#home-now").get_by_role("link", name="1 waiting for you"))
    mouse.click(bob.page.get_by_role("button", name="Approve", exact=True))
    expect(bob.page.get_by_text("The report has all required approvals.")).to_be_visible()
    olga = users(world.operator)
    mouse.click(olga.page.locator("#home-now").get_by_role("link", name="1 waiting for you"))
    mouse.click(olga.page.get_by_role("button", name=re.compile("^Execute")))
    olga.page.wait_for_url(re.compile("/executions/"))
    return world.work(Execution.objects.select_related("environment", "report__environment", "preview").latest("pk"))


def test_column_is_added_reported_approved_and_executed_in_six_clicks(users: Callable[[Any], Walker], world: World):
    mouse, ada = Mouse(), users(world.author)
    find(ada, "rc_crm_customer")
    mouse.click(ada.page.get_by_role("link", name="Add column"))
    ada.fill("Name", "size_class")
    ada.fill("Type", "string(10)")
    mouse.click(ada.page.get_by_role("button", name="Add and create report"))
    ada.page.wait_for_url(re.compile("/refreshes/"))
    observed(world)
    ada.page.wait_for_url(re.compile("/reports/"))
    assert decide_and_execute(mouse, users, world).status == "succeeded"
    assert mouse.clicks <= 6


def test_executed_rename_is_undone_in_three_clicks_from_its_execution(users: Callable[[Any], Walker], world: World):
    rename(world, "full_name", "display_name")
    execution = world.executed()
    needing(world, safe=0)
    mouse, eve = Mouse(), users(world.author)
    eve.go(f"/executions/{execution.pk}/")
    mouse.click(eve.page.locator("#undo").get_by_role("button", name=re.compile("report")).first)
    eve.page.wait_for_url(re.compile("/(refreshes|reports)/"))
    if "/refreshes/" in eve.page.url:
        observed(world)
        eve.page.wait_for_url(re.compile("/reports/"))
    report = ChangeReport.objects.latest("pk")
    assert report.undo_of is not None
    olga = users(world.operator)
    mouse.click(olga.page.locator("#home-now").get_by_role("link", name="1 waiting for you"))
    mouse.click(olga.page.get_by_role("button", name=re.compile("^Execute")))
    olga.page.wait_for_url(re.compile("/executions/"))
    assert mouse.clicks <= 3


def test_failing_rows_of_a_new_check_and_those_affected_are_shown_in_five_clicks(
    users: Callable[[Any], Walker], world: World
):
    contract_built(world)
    loaded(the_mart())
    mouse, ada = Mouse(), users(world.author)
    page = ada.page
    find(ada, "sales")
    mouse.click(page.locator("#dataset").get_by_role("link", name="Quality"))
    mouse.click(page.get_by_role("link", name="Add check"))
    mouse.click(page.get_by_role("link", name="Not null"))
    ada.fill("Name", "amounts given")
    page.get_by_label("Columns").select_option("amount")
    mouse.click(page.get_by_role("button", name="Create check"))
    expect(page.locator("#check-answer .read")).to_be_visible()
    check = QualityCheck.objects.get(name="amounts given")
    check_result(check, failed=2, total=9)
    result = {"key": str(check.key), "name": check.name, "kind": check.kind, "severity": check.severity}
    result |= {"outcome": "warned", "failed": 2, "total": 9}
    ReadRequest.objects.update(answer={"table_version": 0, "results": [result]}, status="succeeded")
    expect(page.locator("#check-answer")).to_contain_text("2 of 9 rows failed")
    expect(page.locator("#affected")).to_contain_text(BOARD["name"])
    mouse.click(page.locator("#check-answer").get_by_role("link", name="Show 2 rows"))
    expect(page.get_by_text("Rows that fail the check amounts given in the table as it is.")).to_be_visible()
    assert mouse.clicks <= 5
