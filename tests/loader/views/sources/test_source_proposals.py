"""Pages of a proposal: changes, preview, acceptance, dismissal; and the button that checks a source."""

from pathlib import Path

import pytest
from django.test import Client

from loader.domain.sources.schema_changes import ObservedColumn
from loader.models import SourceProposal
from loader.services.sources.observations import observe_schema
from metadata.domain.types import parse
from metadata.models import SourceColumn, SourceDataset, System
from tests.elevata.web.forms import typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, section
from tests.loader.views.sources.shop import generate, imported

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(editor: Client, shop: System) -> SourceDataset:
    source = imported(editor)
    generate(editor, source)
    return source


def column(name: str, type_: str = "") -> ObservedColumn:
    return ObservedColumn(name, parse(type_) if type_ else None, declared=bool(type_))


@pytest.fixture
def proposal(orders: SourceDataset) -> SourceProposal:
    """Create a proposal in which the customer was renamed, the amount is gone and vip is new."""
    columns = [column("Order No"), column("customer_no", "integer"), column("ordered at"), column("vip", "boolean")]
    made = observe_schema(source=orders, columns=columns)
    assert made is not None
    return made


def address(proposal: SourceProposal) -> str:
    return f"/source-proposals/{proposal.key}/"


def contract(source: SourceDataset) -> list[str]:
    return list(SourceColumn.objects.filter(dataset=source, active=True).values_list("name", flat=True))


def test_source_page_links_its_open_proposal(editor: Client, orders: SourceDataset, proposal: SourceProposal):
    page = read(editor, f"/sources/{orders.key}/")
    assert "The source differs from its contract" in page
    assert address(proposal) in page


def test_changes_that_lose_nothing_are_selected_and_previewed(editor: Client, proposal: SourceProposal):
    page = read(editor, address(proposal))
    text = words(section(page, "preview-head"))
    assert "customer is probably customer_no now" in words(page)
    assert "Accept 1 change" in text
    assert "new: vip boolean" in text


def test_a_rename_is_confirmed_by_a_user(editor: Client, orders: SourceDataset, proposal: SourceProposal):
    chosen = {"choose": "yes", "rename": "rename|renamed:customer>customer_no"}
    page = html_of(editor.get(address(proposal), chosen))
    assert "No generated column changes" in page
    answer = editor.post(address(proposal), typed(page, having="fingerprint", reason="the shop renamed it"))
    assert answer.url == address(proposal)
    assert contract(orders) == ["Order No", "customer_no", "amount", "ordered at"]
    proposal.refresh_from_db()
    assert (proposal.status, proposal.reason) == ("accepted", "the shop renamed it")


def test_split_rename_is_accepted_as_two_changes(editor: Client, orders: SourceDataset, proposal: SourceProposal):
    chosen = {"choose": "yes", "rename": "split|renamed:customer>customer_no"}
    page = html_of(editor.get(address(proposal), chosen))
    assert "Accept 2 changes" in words(page)
    assert editor.post(address(proposal), typed(page, having="fingerprint")).status_code == 302
    assert contract(orders) == ["Order No", "amount", "ordered at", "customer_no"]


def test_two_changes_are_joined_as_a_rename(editor: Client, orders: SourceDataset, proposal: SourceProposal):
    chosen = {"choose": "yes", "rename": "join|renamed:amount>vip"}
    page = html_of(editor.get(address(proposal), chosen))
    assert "rename amount to vip" in words(page)
    assert "Accept 1 change" in words(page)
    assert editor.post(address(proposal), typed(page, having="fingerprint")).status_code == 302
    assert contract(orders) == ["Order No", "customer", "vip", "ordered at"]


def test_accepted_proposal_links_the_change_report(editor: Client, proposal: SourceProposal):
    editor.post(address(proposal), typed(read(editor, address(proposal)), having="fingerprint"))
    page = read(editor, address(proposal))
    assert "/reports/?dataset=rawcore.rc_shop_orders#build" in page
    assert "accepted" in page


def test_acceptance_of_a_proposal_dismissed_meanwhile_is_refused(
    editor: Client, orders: SourceDataset, proposal: SourceProposal
):
    sent = typed(read(editor, address(proposal)), having="fingerprint")
    SourceProposal.objects.update(status="dismissed", decided_at=proposal.last_seen_at)
    answer = editor.post(address(proposal), sent)
    assert answer.status_code == 409
    assert "was dismissed already" in html_of(answer)
    assert "vip" not in contract(orders)


def test_acceptance_without_selected_changes_is_refused(editor: Client, proposal: SourceProposal):
    assert "Select changes to see what they do" in html_of(editor.get(address(proposal), {"choose": "yes"}))
    assert editor.post(address(proposal), {}).status_code == 422


def test_a_proposal_is_dismissed_with_a_reason(editor: Client, orders: SourceDataset, proposal: SourceProposal):
    answer = editor.post(f"{address(proposal)}dismiss/", {"reason": "a test delivery"})
    assert answer.url == f"/sources/{orders.key}/"
    proposal.refresh_from_db()
    assert (proposal.status, proposal.reason) == ("dismissed", "a test delivery")


def test_decided_proposals_are_in_the_schema_history(editor: Client, orders: SourceDataset, proposal: SourceProposal):
    editor.post(f"{address(proposal)}dismiss/", {"reason": "a test delivery"})
    history = section(read(editor, f"/sources/{orders.key}/"), "schema-head")
    assert address(proposal) in history
    assert "customer is probably customer_no now; amount is gone; vip is new (boolean)" in words(history)


def test_viewer_sees_the_changes_of_a_proposal_but_cannot_decide_it(viewer: Client, proposal: SourceProposal):
    page = read(viewer, address(proposal))
    assert "needs the editor role" in page
    assert "preview-head" not in page
    assert viewer.post(address(proposal), {"take": "new:vip"}).status_code == 403
    assert viewer.post(f"{address(proposal)}dismiss/").status_code == 403


def test_check_redirects_to_the_proposal_or_reports_agreement(editor: Client, orders: SourceDataset, landing: Path):
    check = f"/sources/{orders.key}/check/"
    answer = editor.post(check, follow=True)
    assert "agrees with its contract" in html_of(answer)
    (landing / "orders.csv").write_text("Order No,customer,amount,ordered at,vip\nA1,7,12.50,2024-01-01,true\n")
    answer = editor.post(check)
    assert answer.url == address(SourceProposal.objects.get(status="open"))


def test_check_of_an_unreadable_source_shows_its_error(editor: Client, orders: SourceDataset, landing: Path):
    (landing / "orders.csv").unlink()
    answer = editor.post(f"/sources/{orders.key}/check/", follow=True)
    assert "orders.csv is not there" in words(html_of(answer))
