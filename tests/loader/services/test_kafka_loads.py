"""Loads of a topic by a real worker, from metadata to rawcore and history, with a password."""

import json
import re
from collections.abc import Iterator

import pytest
from django.conf import settings

from tests.loader.installation import Installation, make_installation, working
from tests.services.kafka import PASSWORD, Broker, event, running_broker

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.takes(seconds=150)]

# The example of the documentation, with this broker's port.
PAGE = (settings.BASE_DIR / "docs/use/sources.md").read_text()
EXAMPLE = next(text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind: kafka" in text)
TOPIC = "shop.public.item"
ITEM = "rawcore.rc_shop_item"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with running_broker() as started:
        started.create_again(TOPIC, 2)
        yield started


@pytest.fixture
def shop(tmp_path, broker) -> Installation:
    conf = tmp_path / "spark.conf"
    (tmp_path / "events").mkdir()
    conf.write_text(f"spark.eventLog.enabled true\nspark.eventLog.dir file://{tmp_path}/events\n")
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    return make_installation(
        tmp_path / "data",
        EXAMPLE.replace("127.0.0.1:9092", f"127.0.0.1:{broker.sign_in_port}"),
        {
            "ELEVATA_SOURCE_HOSTS": "127.0.0.1,localhost",
            "ELEVATA_SOURCE_SHOP_FILE": str(password),
            "ELEVATA_SPARK_CONF": str(conf),
        },
    )


def row(id_: int, name: str, price: str) -> dict:
    return {"id": id_, "name": name, "price": price, "changed_on": 19_723}


def load(shop: Installation, run_id: str, status: str = "succeeded") -> dict:
    done = shop.run("load", "--run-id", run_id, "--json", by="aron")
    assert done.stdout, done.stderr
    run = json.loads(done.stdout)
    assert run["status"] == status, done.stdout
    return run


def test_a_topic_is_loaded_to_history_and_its_password_is_written_nowhere(shop, broker, tmp_path):
    with working(shop):
        changes = [
            ("c", row(1, "Anvil", "100.00"), 1),
            ("c", row(2, "Bell", "7.50"), 2),
            ("u", row(1, "Anvil", "90"), 3),
        ]
        broker.send(TOPIC, [(None, event(op, after, lsn)) for op, after, lsn in changes])
        load(shop, "r1")
        assert shop.rows(ITEM, "id", "price", "changed_on") == [
            ("1", "90.00", "2024-01-01"),
            ("2", "7.50", "2024-01-01"),
        ]

        broker.send(TOPIC, [(None, event("d", row(2, "Bell", "7.50"), 4)), ({"id": 2}, None)], partition=1)
        load(shop, "r2")
        assert shop.rows(ITEM, "id") == [("1",)]
        assert shop.rows(f"{ITEM}_hist", "id", "price") == [("1", "100.00"), ("1", "90.00"), ("2", "7.50")]
        assert shop.rows("raw.raw_shop_item", "_partition", "_offset")[-1] == ("1", "0")

        broker.send(TOPIC, [(None, "<html>")], partition=1)
        failed = json.dumps(load(shop, "r3", "failed"))
        assert f"{TOPIC}, partition 1, offset 2: not one JSON object" in failed

    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "password"]
    assert any("events" in path.parts for path in written)
    assert not any(PASSWORD.encode() in path.read_bytes() for path in written)
