"""Client of Kafka clusters: topics, offsets and first messages, for the pages and for the runner.

Each call connects and closes again. The bootstrap servers are checked against the permitted hosts before the first
connection, the brokers that the cluster names before any other. Errors never include the password.

Refusals:

=====================  =====================================================================
HOST_NOT_ALLOWED       a bootstrap server, or a broker that the cluster names, is not permitted
NOT_REACHED            no broker answers
SIGN_IN_REFUSED        the cluster does not let the user in
MISSING_TOPIC          the topic does not exist
NOT_ALLOWED            the user may not read it
SOURCE_FAILED          any other error of the cluster
=====================  =====================================================================
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec

from loader.contract.refusals import Refusal
from loader.domain.sources.feeds import Topic
from loader.domain.sources.kafka import CONNECT_SECONDS, check_brokers, missing_topic
from metadata.domain.sources.clusters import Broker, ClusterPlace

log = logging.getLogger(__name__)

_SIGN_IN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)
_NO_PERMISSION = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_NO_ANSWER = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._SSL,
)
# Topics of the cluster itself.
_INTERNAL = "__"
_GROUP = "elevata"
_NEXT_SECONDS = 0.5


@dataclass(frozen=True)
class Message:
    """Message of a topic. ``value`` is None for a tombstone."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class ClusterFacts:
    """Brokers of a cluster, and the number of partitions of each topic that the user may see."""

    brokers: tuple[Broker, ...]
    topics: dict[str, int]


@dataclass(frozen=True)
class Cluster:
    """Access to a cluster, from brokers among the permitted ``hosts`` only."""

    place: ClusterPlace
    hosts: Collection[str]
    secret: str = ""
    password: str = field(default="", repr=False)
    seconds: float = CONNECT_SECONDS

    def facts(self) -> ClusterFacts:
        """Return brokers and topics, without the cluster's own topics."""
        with self._client(AdminClient) as (admin, errors):
            metadata: Any = self._metadata(admin, errors)  # Any: the types of confluent-kafka say that hosts are None
        brokers = tuple(Broker(broker.host.lower(), broker.port) for broker in metadata.brokers.values())
        topics = {name: len(topic.partitions) for name, topic in metadata.topics.items() if name[:2] != _INTERNAL}
        return ClusterFacts(brokers, topics)

    def describe(self, name: str) -> Topic:
        """Return the topic with the present offsets of its partitions.

        The end of a partition is before the first message of an open transaction.
        """
        with self._client(AdminClient) as (admin, errors):
            partitions = self._partitions(admin, errors, name)
            topic_id = self._topic_id(admin, name)
            earliest = self._offsets(admin, name, partitions, OffsetSpec.earliest())
            ends = self._offsets(admin, name, partitions, OffsetSpec.latest())
        return Topic(name, topic_id, {number: (earliest[number], ends[number]) for number in partitions})

    def first_messages(self, topic: Topic, count: int) -> list[Message]:
        """Return up to ``count`` messages of the topic, from the earliest of each partition on."""
        ends = {number: end for number, (start, end) in topic.partitions.items() if start < end}
        starts = [TopicPartition(topic.name, number, topic.partitions[number][0]) for number in ends]
        messages: list[Message] = []
        if not starts:
            return messages
        deadline = time.monotonic() + self.seconds
        with self._client(Consumer) as (consumer, errors):
            self._metadata(consumer, errors, topic.name)
            consumer.assign(starts)
            while ends and len(messages) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(messages), _NEXT_SECONDS):
                    error, place, offset = message.error(), message.partition(), message.offset()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    if error is None and offset < ends.get(place, 0):
                        timestamp, key, value = message.timestamp()[1], message.key(), message.value()
                        messages.append(Message(place, offset, timestamp, key, value))
                    if error is not None or offset + 1 >= ends.get(place, 0):
                        ends.pop(place, None)
        return messages

    @contextmanager
    def _client(self, kind: type) -> Iterator[tuple[Any, list[KafkaError]]]:
        """Yield a client, and the errors of its connections."""
        check_brokers(self.place.brokers, self.hosts)
        errors: list[KafkaError] = []
        client: Any = None
        try:
            client = kind(self._settings(kind is Consumer, errors.append), logger=log)
            yield client, errors
        except KafkaException as failure:
            if client is not None:
                client.poll(0)
            raise self._refusal(failure.args[0], errors) from None
        finally:
            if isinstance(client, Consumer):
                client.close()

    def _settings(self, consumes: bool, note: Callable[[KafkaError], None]) -> dict[str, Any]:
        settings = {
            "bootstrap.servers": str(self.place),
            "client.id": _GROUP,
            "security.protocol": self.place.security,
            "socket.connection.setup.timeout.ms": int(self.seconds * 1000),
            "socket.timeout.ms": int(self.seconds * 1000),
            "allow.auto.create.topics": False,
            "error_cb": note,
        }
        if self.place.user:
            settings |= {
                "sasl.mechanism": self.place.mechanism.upper(),
                "sasl.username": self.place.user,
                "sasl.password": self.password,
            }
        if consumes:
            settings |= {
                "group.id": _GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,  # the end may be a transaction's marker, which is no message
                "isolation.level": "read_committed",
            }
        else:
            settings.pop("allow.auto.create.topics")
        return settings

    def _metadata(self, client: Any, errors: list[KafkaError], topic: str | None = None) -> ClusterMetadata:
        """Return the cluster's metadata after a check of its brokers; end at once if the sign-in was refused."""
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                metadata = client.list_topics(topic, timeout=1.0) if topic else client.list_topics(timeout=1.0)
                break
            except KafkaException as failure:
                client.poll(0)
                refused = any(error.code() in _SIGN_IN for error in errors)
                if refused or failure.args[0].code() not in _NO_ANSWER or time.monotonic() > deadline:
                    raise
        check_brokers((Broker(broker.host.lower(), broker.port) for broker in metadata.brokers.values()), self.hosts)
        return metadata

    def _partitions(self, client: Any, errors: list[KafkaError], name: str) -> list[int]:
        topic = self._metadata(client, errors, name).topics.get(name)
        if topic is None:
            raise missing_topic(self.place, name)
        if topic.error is not None:
            if topic.error.code() in _NO_TOPIC:
                raise missing_topic(self.place, name)
            raise KafkaException(topic.error)
        return sorted(topic.partitions)

    def _topic_id(self, admin: AdminClient, name: str) -> str:
        """Return the topic's id; empty if the cluster is too old to have one."""
        try:
            described = admin.describe_topics(TopicCollection([name]), request_timeout=self.seconds)[name].result()
        except KafkaException as failure:
            if failure.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
                return ""
            raise
        return str(described.topic_id)

    def _offsets(self, admin: AdminClient, name: str, partitions: list[int], spec: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(name, number): spec for number in partitions}
        answers = admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self.seconds
        )
        return {place.partition: answer.result().offset for place, answer in answers.items()}

    def _refusal(self, error: KafkaError, errors: list[KafkaError]) -> Refusal:
        place = self.place
        causes = [error, *errors]
        reason = next((cause.str() for cause in reversed(causes) if cause.code() in _NO_ANSWER), error.str())
        if any(cause.code() in _SIGN_IN for cause in causes):
            credentials = f"the password in {self.secret}" if self.secret else "no password"
            return Refusal(
                "SIGN_IN_REFUSED",
                f"{place} is there, but does not let {place.user or 'the user'} in with {credentials}",
                hint="Correct user and mechanism in the system's location, or the password in the variable.",
            )
        if error.code() in _NO_PERMISSION:
            hint = "The user needs READ and DESCRIBE on the topic."
            return Refusal("NOT_ALLOWED", f"{place} refuses: {error.str()}", hint=hint)
        if error.code() in _NO_ANSWER:
            hint = f"Is it running, and may this machine reach it? It has {self.seconds:.0f} seconds to answer."
            return Refusal("NOT_REACHED", f"{place} does not answer: {reason}", hint=hint)
        return Refusal("SOURCE_FAILED", f"{place}: {error.str()}", hint="See what the brokers' logs say.")
