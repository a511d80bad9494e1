"""Change policies by REST: a looser policy needs a second administrator, a stricter one does not."""

import pytest
from django.test import Client

from architecture.models import PolicyProposal
from elevata.accounts.roles import Role
from tests.architecture.world import person
from tests.elevata.web.pages import signed_in

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/environments/dev/"
LOOSE = {"approvals": {"review": {"count": 0, "role": ""}}}


@pytest.fixture
def root(db: None) -> Client:
    return signed_in(person("root", Role.ADMIN))


@pytest.fixture
def rita(db: None) -> Client:
    return signed_in(person("rita", Role.ADMIN))


def patch(client: Client, policies: dict, status: int) -> dict:
    tag = client.get(ADDRESS).headers["ETag"]
    answer = client.patch(ADDRESS, {"policies": policies}, content_type="application/json", headers={"If-Match": tag})
    assert answer.status_code == status, answer.content
    return answer.json()


def decide(client: Client, action: str, proposal: str, status: int, **fields: str) -> dict:
    answer = client.post(f"{ADDRESS}{action}/", {"proposal": proposal, **fields}, content_type="application/json")
    assert answer.status_code == status, answer.content
    return answer.json()


def test_a_stricter_policy_is_in_force_at_once(root: Client):
    answer = patch(root, {"severities": {"ADD_COLUMN": "block"}}, 200)
    assert (answer["policy"]["severities"]["ADD_COLUMN"], answer["proposal"]) == ("block", None)


def test_looser_policy_becomes_a_proposal_that_a_second_administrator_accepts(root: Client, rita: Client):
    answer = patch(root, LOOSE, 202)
    assert answer["policy"]["approvals"]["review"]["count"] == 1
    assert answer["proposal"]["proposed_by"] == "root"
    assert [change["choice"] for change in answer["proposal"]["looser"]] == ["approvals.review"]
    proposal = answer["proposal"]["proposal_id"]
    assert decide(root, "accept", proposal, 403)["code"] == "OWN_PROPOSAL"
    answer = decide(rita, "accept", proposal, 200, note="seen")
    assert (answer["policy"]["approvals"]["review"]["count"], answer["proposal"]) == (0, None)
    assert decide(rita, "accept", proposal, 409)["code"] == "ALREADY_DECIDED"


@pytest.mark.parametrize(("deed", "by_rita"), [("reject", True), ("withdraw", False)])
def test_rejected_or_withdrawn_proposal_changes_no_policy(root: Client, rita: Client, deed: str, by_rita: bool):
    proposal = patch(root, LOOSE, 202)["proposal"]["proposal_id"]
    answer = decide(rita if by_rita else root, deed, proposal, 200)
    assert (answer["policy"]["approvals"]["review"]["count"], answer["proposal"]) == (1, None)
    assert PolicyProposal.objects.get().status.startswith(deed[:6])


def test_accepting_an_unknown_proposal_returns_404(root: Client):
    assert decide(root, "accept", "00000000-0000-4000-8000-000000000000", 404)["code"] == "UNKNOWN_PROPOSAL"
