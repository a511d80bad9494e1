"""A source that changes, on the real engine: refusal, proposal, acceptance, and new columns taken at once."""

import json
from pathlib import Path

import pytest

from tests.loader.installation import ITEM, Installation, make_installation, working

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = pytest.mark.spark

ACCEPT = """
import json
from django.contrib.auth import get_user_model
from elevata.accounts.actors import acting_as
from loader.models import SourceProposal
from loader.services.sources.proposals import accept_proposal
proposal = SourceProposal.objects.get(status="open")
ids = [change.id for change in proposal.schema_changes]
with acting_as(get_user_model().objects.get(username="edda")):
    accept_proposal(proposal=proposal, take=ids)
print(json.dumps({"ids": ids, "run": proposal.run.run_id}))
"""
TAKE = """
from metadata.models import SourceDataset
print(SourceDataset.objects.filter(name="item").update(new_columns="take"))
"""


@pytest.fixture
def shop(tmp_path: Path):
    installation = make_installation(tmp_path / "data")
    with working(installation):
        yield installation


def load(shop: Installation, run_id: str, status: str = "succeeded") -> dict:
    run = json.loads(shop.run("load", "--run-id", run_id, "--json", by="aron").stdout)
    assert run["status"] == status, run
    return run


# By day, tests/loader/services/sources/test_proposals.py and the tests of pages cover the parts.
@pytest.mark.nightly
def test_renamed_column_fails_loads_until_accepted_and_new_columns_are_taken_if_declared(
    shop: Installation,
):
    load(shop, "r1")
    shop.deliver(item=("id,name,price_eur,colour,vip", "1,Anvil,110,black,true", "2,Bell,7,,false"))
    assert "lacks the column price" in json.dumps(load(shop, "r2", "failed"))
    accepted = json.loads(shop.shell(ACCEPT))
    assert accepted == {"ids": ["renamed:price>price_eur", "new:vip"], "run": "r2"}
    load(shop, "r3")
    assert shop.rows(ITEM, "id", "price", "vip") == [("1", "110", "true"), ("2", "7", "false")]

    shop.allow(severities={"HISTORY_DIFFERS": "allow"})  # the rule for new columns is a rule of the load
    shop.shell(TAKE)
    shop.deliver(item=("id,name,price_eur,colour,vip,size", "1,Anvil,110,black,true,9"))
    load(shop, "r4")
    load(shop, "r5")
    assert shop.rows(ITEM, "id", "size") == [("1", "9")]
    assert shop.json("check_sources")["sources"][0]["status"] == "same"
