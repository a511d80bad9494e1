"""Settings of Spark's reader of topics, and events of Debezium."""

import json

import pytest

from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.domain.sources.feeds import FeedRange
from loader.domain.sources.kafka import (
    OFFSETS_PER_MILLISECOND,
    TopicOptions,
    check_brokers,
    event_of,
    row_of,
    sequence_of,
    spark_options,
)
from metadata.domain.sources.clusters import Broker, parse_cluster

RANGES = (FeedRange("orders", "id", 0, 5, 9), FeedRange("orders", "id", 2, 0, 3))


def test_the_reader_gets_exactly_the_chosen_offsets_and_only_committed_messages():
    options = spark_options(parse_cluster("kafka://one:1,two:2"), "", "orders", RANGES)
    assert options["kafka.bootstrap.servers"] == "one:1,two:2"
    assert json.loads(options["assign"]) == {"orders": [0, 2]}
    assert json.loads(options["startingOffsets"]) == {"orders": {"0": 5, "2": 0}}
    assert json.loads(options["endingOffsets"]) == {"orders": {"0": 9, "2": 3}}
    assert (options["kafka.isolation.level"], options["failOnDataLoss"]) == ("read_committed", "true")
    assert not any("sasl" in name for name in options)


def test_a_password_cannot_add_a_setting():
    place = parse_cluster("kafka://reader@one?mechanism=plain")
    options = spark_options(place, 'x" serviceName="y\\', "orders", RANGES)
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.jaas.config"].endswith(r'password="x\" serviceName=\"y\\";')


def test_user_and_password_cannot_add_another_login_module():
    """Use separators and line ends: a line end would end the quoted text in the parser of Kafka's client."""
    other_module = "x%0Apassword='p';com.example.JndiLoginModule%20required%20user.provider.url='ldap:%2F%2Fh'%20a='b"
    for user in (other_module, "a%0Db", "a%00b", "a%E2%80%A8b"):
        with pytest.raises(MetadataError) as refused:
            parse_cluster(f"kafka://{user}@one?mechanism=plain".replace(":%2F", "%3A%2F"))
        assert refused.value.code == "bad_location"
    place = parse_cluster("kafka://reader@one?mechanism=plain")
    settings = spark_options(place, "two\nlines\r", "orders", RANGES)["kafka.sasl.jaas.config"]
    assert settings.endswith(r'username="reader" password="two\nlines\r";')


def test_every_broker_must_be_permitted():
    check_brokers([Broker("one", 1), Broker("two", 2)], ["one", "two:2"])
    with pytest.raises(Refusal) as refused:
        check_brokers([Broker("one", 1), Broker("two", 2)], ["one", "two:3"])
    assert refused.value.code == "HOST_NOT_ALLOWED"


def test_topic_options_have_defaults_and_refuse_invalid_values():
    options = TopicOptions.of("shop.orders", {"envelope": "debezium", "null_string": "-"})
    assert options.is_debezium
    assert not options.skips_lost
    assert options.reading.null_string == "-"
    assert not options.reading.empty_is_null
    for wrong, code in (({"envelope": "avro"}, "BAD_OPTION"), ({"delimiter": ","}, "UNKNOWN_OPTION")):
        with pytest.raises(Refusal) as refused:
            TopicOptions.of("shop.orders", wrong)
        assert refused.value.code == code


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: {"schema": {}, "payload": e}], ids=["plain", "with schema"])
def test_an_event_has_its_row_after_the_change_or_before_a_delete(wrap):
    changed = event_of(wrap({"op": "u", "before": {"id": 1}, "after": {"id": 1, "v": "a"}}))
    deleted = event_of(wrap({"op": "d", "before": {"id": 1}, "after": None}))
    assert (row_of(changed), row_of(deleted)) == ({"id": 1, "v": "a"}, {"id": 1})


def test_other_json_object_is_not_read_as_an_event():
    assert event_of({"id": 1, "op": "U"}) is None
    assert event_of({"schema": {}, "payload": {"id": 1}}) is None


@pytest.mark.parametrize(
    ("sequence", "source", "number"),
    [
        ("lsn", {"lsn": "7", "ts_ms": "3"}, "7"),
        ("lsn", {"ts_ms": "3"}, None),
        ("time", {"lsn": "7", "ts_ms": "3"}, 3 * OFFSETS_PER_MILLISECOND + 5),
        ("time", {"ts_ms": "soon"}, None),
        ("time", None, None),
        ("offset", {"lsn": "7"}, OFFSETS_PER_MILLISECOND + 5),
    ],
)
def test_events_are_ordered_by_the_number_that_the_option_names(sequence, source, number):
    assert sequence_of({"op": "c", "source": source}, OFFSETS_PER_MILLISECOND + 5, sequence) == number
