"""Kafka clusters as sources: connection, listing, sampling, import."""

from typing import Any

import pytest
from django.test import Client

from elevata.accounts.roles import Role
from loader.contract.refusals import Refusal
from loader.sources import topics
from loader.sources.results import Sample
from loader.sources.systems import discover, reach, sample
from metadata.models import SourceDataset, System, TargetDataset
from tests.architecture.world import person as someone
from tests.elevata.web.forms import typed, words
from tests.elevata.web.pages import read
from tests.factories import SystemFactory
from tests.loader.views.sources.shop import choose_load_type
from tests.services.kafka import Broker, event

pytestmark = [pytest.mark.django_db, pytest.mark.servers]


@pytest.fixture
def system(broker: Broker, settings: Any) -> System:
    settings.SOURCE_HOSTS = ["127.0.0.1"]
    return SystemFactory(short_name="shop", name="Shop", kind="kafka", location=f"kafka://{broker.address}")


def events(broker: Broker) -> str:
    """Return a topic with events of Debezium."""
    topic = broker.create("items", 2)
    rows = [{"id": n, "v": f"v{n}", "price": "1.50"} for n in range(1, 5)]
    broker.send(topic, [({"id": row["id"]}, event("c", row, row["id"])) for row in rows])
    broker.send(topic, [({"id": 1}, event("d", rows[0], 9)), ({"id": 1}, None)], partition=1)
    return topic


def types(result: Sample) -> dict[str, str]:
    return {column.name: str(column.type) for column in result.columns}


def test_connection_facts_show_user_and_encryption(system: System):
    facts = dict(reach(system).facts)
    assert facts["Signed in as"] == "anonymous"
    assert facts["Connection"] == "not encrypted"


def test_topics_are_listed_with_their_partitions_and_found_by_name(system: System, broker: Broker):
    topic = broker.create("Orders", 3)
    listing = discover(system, search=topic.lower())
    assert [(item.location, item.format, item.note) for item in listing.items] == [(topic, "kafka", "3 partitions")]


def test_the_envelope_of_debezium_is_recognised(system: System, broker: Broker):
    result = sample(system, events(broker), "kafka", None)
    assert result.options == {"envelope": "debezium"}
    assert types(result) == {
        "id": "integer",
        "v": "string",
        "price": "string",  # text in JSON
        "_op": "string",
        "_sequence": "bigint",
        "_key": "string",
        "_partition": "integer",
        "_offset": "bigint",
        "_timestamp": "timestamp",
    }
    assert [column.name for column in result.columns if column.key_ordinal] == ["id"]
    operations = result.values[[column.name for column in result.columns].index("_op")]
    assert sorted(operations) == ["D", "I", "I", "I", "I"]


def test_the_sample_has_times_and_decimals_by_the_schema_of_the_messages(system: System, broker: Broker):
    topic = broker.create("times")
    fields = [
        {"field": "at", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {
            "field": "price",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
    ]
    row = {"at": 1_706_695_200_123, "price": "AJw="}
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    broker.send(topic, [(None, {"schema": schema, "payload": event("c", row, 1, schema=False)})])
    result = sample(system, topic, "kafka", None)
    assert list(types(result).items())[:2] == [("at", "timestamp"), ("price", "decimal(38,2)")]
    assert [column[0] for column in result.values[:2]] == ["2024-01-31T10:00:00.123000Z", "1.56"]


def test_sample_takes_the_sequence_declared_by_the_option(system: System, broker: Broker):
    result = sample(system, events(broker), "kafka", {"envelope": "debezium", "sequence": "offset"})
    sequences, offsets = (
        result.values[[column.name for column in result.columns].index(name)] for name in ("_sequence", "_offset")
    )
    assert sequences == offsets


def test_sample_with_tombstones_that_ends_before_the_topic_is_not_whole(
    system: System, broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    topic = broker.create("orders")
    broker.send(topic, [({"id": 1}, None), *((None, {"id": n}) for n in range(3))])
    assert sample(system, topic, "kafka", None).whole
    monkeypatch.setattr(topics, "ROWS", 3)
    result = sample(system, topic, "kafka", None)
    assert (result.rows, result.whole) == (2, False)


def test_messages_without_an_envelope_are_sampled_as_rows(system: System, broker: Broker):
    topic = broker.create("prices")
    broker.send(topic, [(None, {"id": 1, "op": "I"}), (None, {"id": 2, "at": {"x": 1}})])
    result = sample(system, topic, "kafka", None)
    assert result.options == {}
    assert list(types(result)) == ["id", "op", "at", "_key", "_partition", "_offset", "_timestamp"]


def test_a_message_that_is_no_object_is_named_by_partition_and_offset(system: System, broker: Broker):
    topic = broker.create("broken")
    broker.send(topic, [(None, "{}"), (None, "<html>")])
    with pytest.raises(Refusal) as refused:
        sample(system, topic, "kafka", None)
    assert (refused.value.code, refused.value.row) == ("BAD_JSON", 1)
    assert "partition 0, offset 1" in refused.value.message


def test_a_topic_is_imported_as_a_change_feed_and_its_targets_generated_in_the_browser(system: System, broker: Broker):
    client, topic = Client(), events(broker)
    client.force_login(someone("mia", Role.EDITOR))
    assert topic in words(read(client, "/systems/shop/discover/?show=now&q=items"))
    page = read(client, f"/systems/shop/import/?location={topic}&show=now")
    columns = client.post("/systems/shop/import/", typed(page, having="lines"))
    client.post(choose_load_type(client, columns.url).url)
    source = SourceDataset.objects.get()
    assert (source.format, source.location, source.options) == ("kafka", topic, {"envelope": "debezium"})
    assert source.history_policy == {"input": "cdc", "time": "_sequence", "op": "_op"}
    names = TargetDataset.objects.get(name__startswith="rc_shop_items", history_of=None).columns.values_list("name")
    assert {name for (name,) in names} == {"id", "v", "price", "_sequence"}
    assert "Nothing differs" in read(client, f"/sources/{source.key}/columns/?show=now")
