"""The command that compares sources with their contracts."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from loader.models import SourceProposal
from metadata.models import SourceDataset, System
from tests.factories import SourceColumnFactory, SourceDatasetFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(shop: System, landing: Path) -> SourceDataset:
    source = SourceDatasetFactory(system=shop, name="orders", short_name="orders", location="orders.csv")
    SourceColumnFactory(dataset=source, name="order_no", key_ordinal=1)
    (landing / "orders.csv").write_text("order_no\nA1\n")
    return source


def check(*names: str, **options: object) -> str:
    out = StringIO()
    call_command("check_sources", *names, stdout=out, **options)
    return out.getvalue()


def test_sources_that_agree_with_their_contracts_end_with_0(orders: SourceDataset):
    assert "1 sources checked, all agree" in check()
    assert "shop.orders: no difference" in check("shop.orders")


def test_difference_exits_with_1_and_creates_a_proposal(orders: SourceDataset, landing: Path):
    (landing / "orders.csv").write_text("order_no,vip\nA1,true\n")
    out = StringIO()
    with pytest.raises(CommandError) as ended:
        call_command("check_sources", "--json", stdout=out)
    assert (ended.value.returncode, str(ended.value)) == (1, "1 of 1 sources differ")
    (result,) = json.loads(out.getvalue())["sources"]
    assert (result["status"], result["changes"][0]["name"]) == ("differs", "vip")
    assert str(SourceProposal.objects.get().key) == result["proposal"]


def test_unreadable_source_does_not_stop_the_check_of_others(shop: System, orders: SourceDataset, landing: Path):
    lost = SourceDatasetFactory(system=shop, name="lost", short_name="lost", location="lost.csv")
    SourceColumnFactory(dataset=lost, name="id", key_ordinal=1)
    out = StringIO()
    with pytest.raises(CommandError) as ended:
        call_command("check_sources", stdout=out)
    assert str(ended.value) == "1 could not be read"
    assert "shop.orders: no difference" in out.getvalue()


def test_an_unknown_source_ends_with_4(orders: SourceDataset):
    with pytest.raises(CommandError) as ended:
        check("shop.nothing")
    assert ended.value.returncode == 4
