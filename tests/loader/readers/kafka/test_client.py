"""Client of Kafka clusters against a real broker: topics, offsets, first messages, refusals."""

import pytest

from loader.contract.refusals import Refusal
from loader.readers.kafka.client import Cluster
from metadata.domain.sources.clusters import parse_cluster
from tests.services.kafka import CLOSED, PASSWORD, USER, Broker
from tests.services.process import free_port

pytestmark = pytest.mark.servers


@pytest.fixture
def cluster(broker) -> Cluster:
    return Cluster(parse_cluster(f"kafka://{broker.address}"), ["127.0.0.1"])


def cluster_with_password(
    broker: Broker, password: str = PASSWORD, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
) -> Cluster:
    location = f"kafka://{USER}@127.0.0.1:{broker.sign_in_port}?security=sasl_plaintext&mechanism=plain"
    return Cluster(parse_cluster(location), hosts, "ELEVATA_SOURCE_SHOP", password)


def refused(action) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        action()
    return refusal.value


def test_topic_list_omits_internal_topics_of_the_cluster(broker, cluster):
    topic = broker.create("orders", 3)
    with broker.transaction(topic, {}):
        facts = cluster.facts()
    assert facts.topics[topic] == 3
    assert not [name for name in facts.topics if name.startswith("__")]
    assert [broker.port for broker in facts.brokers] == [broker.port]


def test_describe_returns_the_topic_id_and_the_offsets_of_each_partition(broker, cluster):
    topic = broker.create("orders", 2)
    broker.send(topic, [(None, {"n": n}) for n in range(5)], partition=1)
    broker.expire(topic, 2, partition=1)
    first = cluster.describe(topic)
    assert first.partitions == {0: (0, 0), 1: (2, 5)}
    broker.delete(topic)
    broker.create_again(topic)
    again = cluster.describe(topic)
    assert again.id != first.id
    assert again.partitions == {0: (0, 0)}


def test_end_offset_of_a_partition_excludes_an_open_transaction(broker, cluster):
    topic = broker.create("orders")
    broker.send(topic, [(None, "{}")])
    with broker.transaction(topic, {"n": 1}, {"n": 2}):
        broker.send(topic, [(None, "{}")])
        assert cluster.describe(topic).partitions == {0: (0, 1)}
    assert cluster.describe(topic).partitions == {0: (0, 5)}  # with the transaction's marker


def test_first_messages_omit_aborted_transactions(broker, cluster):
    topic = broker.create("orders", 2)
    broker.send(topic, [("a", "1"), ("b", None)])
    with broker.transaction(topic, "2", commit=False):
        pass
    broker.send(topic, [("c", "3")], partition=1)
    messages = cluster.first_messages(cluster.describe(topic), 10)
    assert sorted((m.partition, m.offset, m.key, m.value) for m in messages) == [
        (0, 0, b"a", b"1"),
        (0, 1, b"b", None),
        (1, 0, b"c", b"3"),
    ]
    assert len(cluster.first_messages(cluster.describe(topic), 2)) == 2


def test_client_refuses_a_bootstrap_host_that_is_not_permitted(broker, cluster):
    place = parse_cluster(f"kafka://{broker.address},192.0.2.1:9092")
    refusal = refused(Cluster(place, ["127.0.0.1"]).facts)
    assert refusal.code == "HOST_NOT_ALLOWED"
    assert "192.0.2.1" in refusal.message


def test_client_refuses_an_advertised_broker_that_is_not_permitted(broker):
    assert cluster_with_password(broker).facts().brokers
    refusal = refused(cluster_with_password(broker, hosts=("127.0.0.1",)).facts)
    assert refusal.code == "HOST_NOT_ALLOWED"
    assert "localhost" in refusal.message


def test_refusal_of_a_wrong_password_does_not_contain_the_password(broker):
    refusal = refused(cluster_with_password(broker, "wrong-password").facts)
    assert refusal.code == "SIGN_IN_REFUSED"
    assert "wrong-password" not in refusal.one_line()
    assert "ELEVATA_SOURCE_SHOP" in refusal.message


def test_a_topic_that_the_user_may_not_read_is_refused(broker):
    topic = broker.create(CLOSED)
    assert refused(lambda: cluster_with_password(broker).describe(topic)).code in ("NOT_ALLOWED", "MISSING_TOPIC")


def test_a_missing_topic_is_named_and_not_created(broker, cluster):
    refusal = refused(lambda: cluster.describe("no-such-topic"))
    assert (refusal.code, refusal.file) == ("MISSING_TOPIC", "no-such-topic")
    assert "no-such-topic" not in cluster.facts().topics


def test_refusal_names_the_broker_that_cannot_be_reached():
    port = free_port()
    refusal = refused(Cluster(parse_cluster(f"kafka://127.0.0.1:{port}"), ["127.0.0.1"], seconds=2).facts)
    assert refusal.code == "NOT_REACHED"
    assert f"127.0.0.1:{port}" in refusal.message
