"""Tests of addresses of Kafka clusters and names of topics."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.clusters import Broker, check_topic, parse_cluster, policy_of_messages


def test_cluster_location_names_brokers_with_optional_ports():
    place = parse_cluster("kafka://one.example.org:9093,TWO.example.org")
    assert place.brokers == (Broker("one.example.org", 9093), Broker("two.example.org", 9092))
    assert (place.security, place.mechanism, place.user) == ("plaintext", "", "")


def test_cluster_user_signs_in_with_encryption_by_default():
    place = parse_cluster("kafka://reader@one:9093")
    assert (place.security, place.mechanism, place.user) == ("sasl_ssl", "scram-sha-512", "reader")
    place = parse_cluster("kafka://reader@one?security=sasl_plaintext&mechanism=plain")
    assert (place.security, place.mechanism) == ("sasl_plaintext", "plain")


def test_an_address_of_version_six_is_in_brackets():
    place = parse_cluster("kafka://[::1]:9094")
    assert (place.brokers, str(place)) == ((Broker("::1", 9094),), "[::1]:9094")


@pytest.mark.parametrize(
    "location",
    [
        "broker:9092",
        "http://broker:9092",
        "kafka://",
        "kafka://one,,two",
        "kafka://one:99999",
        "kafka://one/orders",
        "kafka://one?ssl.ca.location=/etc/passwd",
        "kafka://one?security=tls",
        "kafka://one?security=sasl_ssl",
        "kafka://reader@one?security=ssl",
        "kafka://reader@one?mechanism=gssapi",
    ],
)
def test_invalid_cluster_location_is_refused(location):
    with pytest.raises(MetadataError) as refused:
        parse_cluster(location)
    assert refused.value.code == "bad_location"


def test_a_password_in_a_location_is_refused_and_not_repeated():
    with pytest.raises(MetadataError) as refused:
        parse_cluster("kafka://reader:hunter2@one:9092")
    assert refused.value.code == "password_in_location"
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "orders,invoices", "a*", "x" * 250])
def test_invalid_topic_name_is_refused(name):
    with pytest.raises(MetadataError):
        check_topic(name)


def test_debezium_messages_suggest_a_cdc_policy_if_their_columns_are_included():
    debezium = {"envelope": "debezium"}
    assert policy_of_messages(debezium, {"id", "_op", "_sequence"}) == {
        "input": "cdc",
        "time": "_sequence",
        "op": "_op",
    }
    assert policy_of_messages(debezium, {"id", "_op"}) == policy_of_messages({}, {"_op", "_sequence"}) == {}
