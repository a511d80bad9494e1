"""Walk of an approver: inbox, report page, approval, rejection, and a report that becomes outdated meanwhile."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from architecture.models import Approval, ChangeReport
from tests.architecture.world import World
from tests.e2e.walks.conftest import Walker
from tests.elevata.web.pages import change, needing, rename

pytestmark = [pytest.mark.browser, pytest.mark.services]


@pytest.fixture
def bob(site: str, world: World, width: str, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an approver, for whom a report of a rename is pending."""
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    world.report()
    return walkers(world.approver, width)


def to_the_report(bob: Walker) -> None:
    """Go from the home page to the newest pending report by keyboard."""
    bob.go("/")
    bob.open_menu()
    bob.use("link", re.compile("^Inbox"))
    expect(bob.page.get_by_role("heading", name="To decide")).to_be_visible()
    bob.picture("reviewer-inbox")
    # Rows that are loaded after the page replace those that may have the focus.
    bob.page.wait_for_load_state("networkidle")
    link = bob.page.locator("#inbox a[href^='/reports/']").first
    link.focus()
    bob.press("Enter")
    expect(bob.page.get_by_text("Up to date")).to_be_visible()


@pytest.mark.core
def test_a_report_is_read_and_approved_with_a_note(bob: Walker, world: World):
    to_the_report(bob)
    expect(bob.page.locator("#differences")).to_contain_text("display_name")
    expect(bob.page.locator("#downstream [data-graph] svg, #downstream table, #downstream li").first).to_be_visible()
    bob.picture("reviewer-report")
    bob.focus("textbox", re.compile("^Note"))
    bob.type("Agreed with the sales team.")
    bob.use("button", "Approve")
    expect(bob.page.get_by_text("The report has all required approvals.")).to_be_visible()
    approval = Approval.objects.get(report__status="approved", person=world.approver)
    assert (approval.decision, approval.note) == ("approve", "Agreed with the sales team.")
    bob.picture("reviewer-approved")


def test_a_report_is_rejected_with_a_note(bob: Walker):
    to_the_report(bob)
    bob.focus("textbox", re.compile("^Note"))
    bob.type("The name stays.")
    bob.use("button", "Reject")
    expect(bob.page.get_by_text("The report was rejected")).to_be_visible()
    assert ChangeReport.objects.latest("pk").status == "rejected"


def test_outdated_report_disables_approval_and_keeps_the_typed_note(bob: Walker, world: World):
    to_the_report(bob)
    bob.focus("textbox", re.compile("^Note"))
    bob.type("Half a thou")
    change(world, "balance", description="What is owed")
    change(world, "balance", type="decimal(14,2)")
    expect(bob.page.locator("#report-status")).to_contain_text("Outdated.", timeout=30_000)
    bob.type("ght")
    expect(bob.page.get_by_role("textbox", name=re.compile("^Note"))).to_have_value("Half a thought")
    expect(bob.page.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
    bob.picture("reviewer-stale")
    newer = world.report()
    bob.go("/inbox/")
    expect(bob.page.locator(f"#inbox a[href^='/reports/{newer.report_id}/']").first).to_be_visible()
