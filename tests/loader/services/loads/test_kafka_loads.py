"""Loads of a topic by a real worker, from metadata to rawcore and history, with a password."""

import json
import re

import pytest
from django.conf import settings

from tests.loader.installation import PASSWORD_FILE, Installation, files_with, make_logged_installation, working
from tests.services.kafka import PASSWORD, event

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.takes(seconds=150)]

# The example of the documentation, with this broker's port.
PAGE = (settings.BASE_DIR / "docs/use/sources.md").read_text()
EXAMPLE = next(text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind: kafka" in text)
TOPIC = "shop.public.item"
ITEM = "rawcore.rc_shop_item"


@pytest.fixture
def shop(tmp_path, broker) -> Installation:
    broker.create_again(TOPIC, 2)
    described = EXAMPLE.replace("127.0.0.1:9092", f"127.0.0.1:{broker.sign_in_port}")
    hosts = "127.0.0.1,localhost"
    return make_logged_installation(tmp_path, described, secret="ELEVATA_SOURCE_SHOP", password=PASSWORD, hosts=hosts)


def row(id_: int, name: str, price: str) -> dict:
    return {"id": id_, "name": name, "price": price, "changed_on": 19_723}


def test_a_topic_is_loaded_to_history_and_its_password_is_written_nowhere(shop, broker, tmp_path):
    with working(shop):
        changes = [
            ("c", row(1, "Anvil", "100.00"), 1),
            ("c", row(2, "Bell", "7.50"), 2),
            ("u", row(1, "Anvil", "90"), 3),
        ]
        broker.send(TOPIC, [(None, event(op, after, lsn)) for op, after, lsn in changes])
        shop.load("r1")
        assert shop.rows(ITEM, "id", "price", "changed_on") == [
            ("1", "90.00", "2024-01-01"),
            ("2", "7.50", "2024-01-01"),
        ]

        broker.send(TOPIC, [(None, event("d", row(2, "Bell", "7.50"), 4)), ({"id": 2}, None)], partition=1)
        shop.load("r2")
        assert shop.rows(ITEM, "id") == [("1",)]
        assert shop.rows(f"{ITEM}_hist", "id", "price") == [("1", "100.00"), ("1", "90.00"), ("2", "7.50")]
        assert shop.rows("raw.raw_shop_item", "_partition", "_offset")[-1] == ("1", "0")

        broker.send(TOPIC, [(None, "<html>")], partition=1)
        failed = json.dumps(shop.load("r3", status="failed"))
        assert f"{TOPIC}, partition 1, offset 2: not one JSON object" in failed

    assert list((tmp_path / "events").iterdir())
    assert files_with(tmp_path, PASSWORD) == [PASSWORD_FILE]
