"""Proposals and source checks by the API."""

from pathlib import Path

import pytest
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from loader.models import SourceProposal
from metadata.models import SourceColumn, SourceDataset, System
from metadata.services.datasets.generation import generate_targets
from tests.elevata.api.requests import get, send
from tests.factories import SourceColumnFactory, SourceDatasetFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(shop: System, landing: Path) -> SourceDataset:
    source = SourceDatasetFactory(system=shop, name="orders", short_name="orders", location="orders.csv")
    SourceColumnFactory(dataset=source, name="order_no", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="cust_nm")
    generate_targets(source_dataset=source)
    (landing / "orders.csv").write_text("order_no,customer_name,vip\nA1,Ada,true\n")
    return source


@pytest.fixture
def proposal(editor: Client, orders: SourceDataset) -> str:
    """Return the address of the proposal that a check created."""
    answer = send(editor, "post", "source-checks/", {"source": str(orders.key)})
    assert answer.status_code == 200, answer.content
    assert answer.json()["status"] == "differs"
    return f"source-proposals/{answer.json()['proposal']}/"


RENAME = "renamed:cust_nm>customer_name"


def test_proposal_lists_the_changes_of_a_check_with_their_ids(editor: Client, proposal: str):
    row = get(editor, proposal)
    assert (row["status"], row["source_name"]) == ("open", "shop.orders")
    assert [change["id"] for change in row["changes"]] == [RENAME, "new:vip"]
    assert get(editor, "source-proposals/?status=open")["results"] == [row]
    assert get(editor, f"source-proposals/?source={row['source']}")["count"] == 1


def test_preview_writes_nothing_and_acceptance_applies_the_previewed_changes(
    editor: Client, orders: SourceDataset, proposal: str
):
    preview = send(editor, "post", f"{proposal}preview/", {"take": [RENAME, "new:vip"]}).json()
    assert {row["dataset"]: row["added"] for row in preview["targets"]}["rawcore.rc_shop_orders"] == ["vip boolean"]
    assert SourceProposal.objects.get().status == "open"
    body = {"take": [RENAME, "new:vip"], "previewed": preview["fingerprint"], "changelog_message": "as agreed"}
    answer = send(editor, "post", f"{proposal}accept/", body)
    assert (answer.status_code, answer.json()["status"]) == (200, "accepted")
    names = SourceColumn.objects.filter(dataset=orders, active=True).values_list("name", flat=True)
    assert list(names) == ["order_no", "customer_name", "vip"]
    assert ChangeLogEntry.objects.get(subject_kind="source proposal").reason == "as agreed"
    assert send(editor, "post", f"{proposal}accept/", {"take": ["new:vip"]}).status_code == 409


def test_a_proposal_is_dismissed(editor: Client, proposal: str):
    answer = send(editor, "post", f"{proposal}dismiss/", {"changelog_message": "a test"})
    assert (answer.json()["status"], answer.json()["reason"]) == ("dismissed", "a test")


@pytest.mark.parametrize(("body", "status"), [({}, 400), ({"take": []}, 422), ({"take": ["new:x"]}, 422)])
def test_acceptance_without_a_known_change_is_refused(editor: Client, proposal: str, body: dict, status: int):
    assert send(editor, "post", f"{proposal}accept/", body).status_code == status
    assert SourceProposal.objects.get().status == "open"


def test_viewer_sees_proposals_but_cannot_decide_them(viewer: Client, proposal: str):
    assert get(viewer, proposal)["status"] == "open"
    for action in ("preview/", "accept/", "dismiss/"):
        assert send(viewer, "post", f"{proposal}{action}", {"take": ["new:vip"]}).status_code == 403


def test_source_check_returns_the_error_of_an_unreadable_source(editor: Client, orders: SourceDataset, landing: Path):
    (landing / "orders.csv").unlink()
    answer = send(editor, "post", "source-checks/", {"source": str(orders.key)}).json()
    assert (answer["status"], answer["error"]["code"]) == ("refused", "MISSING_FILE")
