"""Change policy on its page: readable for all users, editable for few."""

import re

import pytest
from django.test import Client

from architecture.models import PolicyProposal
from architecture.services.change_policy import policy_of
from elevata.accounts.roles import Role
from tests.architecture.world import World
from tests.architecture.world import person as someone
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, section, signed_in, words

pytestmark = pytest.mark.django_db
OTHER = "00000000-0000-4000-8000-000000000000"


def form_data(page: str) -> dict[str, str]:
    """Return the data of the policy form as a browser sends it unchanged."""
    chosen = dict(re.findall(r'name="((?:count_|version)\w*)"[^>]*value="(\d+)"', page))
    chosen |= {"version": re.search(r'name="version" value="(\d+)"', page)[1]}
    for name, options in re.findall(r'<select[^>]*name="(\w+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        chosen[name] = re.search(r'value="(\w*)" selected', options)[1]
    for name in re.findall(r'type="checkbox" name="(\w+)" checked', page):
        chosen[name] = "on"
    for risk in ("safe", "review", "destructive"):
        chosen[f"count_{risk}"] = re.search(rf'name="count_{risk}"[^>]*value="(\d)"', page)[1]
    return chosen


def test_policy_change_is_saved_and_shown_in_the_change_log(operator: Client, world: World):
    data = form_data(read(operator, "/policies/dev/")) | {
        "severity_ADD_COLUMN": "needs_approval",
        "count_destructive": "2",
        "role_destructive": "admin",
    }
    del data["approver_may_execute"]
    page = words(html_of(operator.post("/policies/dev/", data, follow=True)))
    assert world.environment.policies == {
        "severities": {"ADD_COLUMN": "needs_approval"},
        "approvals": {"destructive": {"count": 2, "role": "admin"}},
        "approver_may_execute": False,
    }
    assert "eve policy policy of dev changed" in page
    assert "severities.ADD COLUMN allow → needs_approval" in page
    loose = form_data(read(operator, "/policies/dev/")) | {"defaults": "yes"}
    page = words(html_of(operator.post("/policies/dev/", loose, follow=True)))
    assert "needs a second user" in page
    assert world.environment.policies["approver_may_execute"] is False


@pytest.fixture
def proposed(operator: Client, world: World) -> str:
    """Create a proposal by Eve that requires no approvals, and return its id."""
    loose = form_data(read(operator, "/policies/dev/")) | {"count_review": "0", "reason": "only a test environment"}
    operator.post("/policies/dev/", loose)
    return str(PolicyProposal.objects.get().proposal_id)


def test_proposer_of_a_looser_policy_can_only_withdraw_it(operator: Client, world: World, proposed: str):
    page = read(operator, "/policies/dev/")
    assert "approvals.review 1 approval by any approver 0 approvals" in words(section(page, "proposal"))
    assert "No other user manages policies" in words(page)
    assert 'value="accept"' not in page
    answer = operator.post("/policies/dev/", {"do": "accept", "proposal": proposed})
    assert (answer.status_code, "OWN_PROPOSAL" in html_of(answer)) == (403, True)
    operator.post("/policies/dev/", {"do": "withdraw", "proposal": proposed})
    assert PolicyProposal.objects.get().status == "withdrawn"


@pytest.mark.parametrize(("do", "count"), [("accept", 0), ("reject", 1)])
def test_second_administrator_accepts_or_rejects_a_proposal(world: World, proposed: str, do: str, count: int):
    rita = signed_in(someone("rita", Role.ADMIN))
    assert "only a test environment" in words(section(read(rita, "/policies/dev/"), "proposal"))
    assert "Policy of dev proposed by eve" in words(read(rita, "/inbox/"))
    answer = rita.post("/policies/dev/", {"do": do, "proposal": proposed, "note": "seen"}, follow=True)
    assert 'id="proposal"' not in html_of(answer)
    world.environment.refresh_from_db()
    assert policy_of(world.environment).approvals["review"].count == count


@pytest.mark.parametrize(
    "sent", [{"do": "accept"}, {"do": "accept", "proposal": "x"}, {"do": "crown"}, {"do": "accept", "proposal": OTHER}]
)
def test_decision_on_an_unknown_proposal_returns_404(operator: Client, proposed: str, sent: dict):
    assert operator.post("/policies/dev/", sent).status_code == 404


def test_policy_changed_by_another_user_meanwhile_is_not_overwritten(operator: Client, world: World):
    data = form_data(read(operator, "/policies/dev/"))
    operator.post("/policies/dev/", data | {"severity_ADD_COLUMN": "block"})
    answer = operator.post("/policies/dev/", data)
    assert answer.status_code == 409
    assert "POLICY_CHANGED" in html_of(answer)
    assert world.environment.policies == {"severities": {"ADD_COLUMN": "block"}}


def test_invalid_policy_value_is_reported_at_its_field(operator: Client, world: World):
    data = form_data(read(operator, "/policies/dev/")) | {"count_safe": "10"}
    answer = operator.post("/policies/dev/", data)
    assert answer.status_code == 422
    assert "less than or equal to 9" in html_of(answer)


def test_policy_page_is_read_only_for_a_viewer(viewer: Client, world: World):
    page = read(viewer, "/policies/dev/")
    assert "<fieldset disabled>" in page
    assert viewer.post("/policies/dev/", form_data(page)).status_code == 403
    assert viewer.get("/policies/nowhere/").status_code == 404


def test_choice_of_fewer_readers_becomes_a_proposal(operator: Client, world: World):
    def chosen(readers: str) -> int:
        page = read(operator, f"/policies/{world.environment.name}/")
        return operator.post(f"/policies/{world.environment.name}/", form_data(page) | {"readers": readers}).status_code

    assert chosen("open") == 302
    assert policy_of(world.environment).readers == "open"
    assert chosen("spark") == 302
    assert policy_of(world.environment).readers == "open"
    assert [change["choice"] for change in PolicyProposal.objects.get().looser] == ["readers"]
    assert chosen("everybody") == 422


def test_a_role_of_maintenance_without_a_number_is_refused(operator):
    data = form_data(read(operator, "/policies/dev/")) | {"count_maintenance": "", "role_maintenance": "admin"}
    answer = operator.post("/policies/dev/", data)
    assert answer.status_code == 422
    assert "Enter a number from 0 to 9, or choose no role." in answer.content.decode()
    assert "if empty, those of safe reports" in answer.content.decode()
