"""A private Kafka broker with two listeners, one of them with sign-in, and messages as Debezium writes them."""

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyspark
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from elevata.bootstrap.java import java_home
from elevata.bootstrap.places import KAFKA_BROKER as JARS
from tests.loader.processes import wait_until
from tests.services.process import Server, ServerProblem, free_port

USER, PASSWORD = "reader", "correct-horse-battery"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SECONDS = 20
# Spark's resolver leaves Scala's library out, since Spark has it.
_CLASSPATH = f"{JARS}/*:{next((Path(pyspark.__file__).parent / 'jars').glob('scala-library-2.13.*.jar'))}"
# Prefix of the topics that the user may not read.
CLOSED = "closed"


class Broker:
    """Running broker at ``port``; ``sign_in_port`` requires sign-in, and its advertised host is ``localhost``."""

    def __init__(self, folder: Path) -> None:
        if not JARS.is_dir():
            raise ServerProblem("there is no Kafka broker: run make test-services, or setup --with-object-store")
        self._folder, self.sign_in_port, self._controller = folder, free_port(), free_port()
        self._server = Server("Kafka", self._command, _answers, log=folder / "kafka.log", stop_signal=signal.SIGTERM)
        self._admin = AdminClient({"bootstrap.servers": self.address})
        self._producer = self._new_producer()
        self._close_topics()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def create(self, topic: str, partitions: int = 1) -> str:
        """Create a topic with a unique name; return the name."""
        name = f"{topic}-{uuid4().hex[:8]}"
        return self.create_again(name, partitions)

    def create_again(self, name: str, partitions: int = 1) -> str:
        wait_for(self._admin.create_topics([NewTopic(name, partitions, 1)])[name])
        self._wait_until_known(name, partitions)
        return name

    def delete(self, topic: str) -> None:
        wait_for(self._admin.delete_topics([topic])[topic])
        self._wait_until_known(topic, 0)

    def grow(self, topic: str, partitions: int) -> None:
        wait_for(self._admin.create_partitions([NewPartitions(topic, partitions)])[topic])
        self._wait_until_known(topic, partitions)
        self._producer = self._new_producer()  # the existing producer has cached the old number

    def expire(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the messages before an offset, as retention does."""
        place = TopicPartition(topic, partition, before)
        wait_for(self._admin.delete_records([place])[place])

    def send(self, topic: str, messages: Iterable[tuple[object, object]], partition: int = 0) -> None:
        """Send (key, value) pairs: dicts as JSON, text and bytes as they are, None as nothing."""
        for key, value in messages:
            while True:
                try:
                    self._producer.produce(topic, _bytes(value), _bytes(key), partition=partition)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        assert self._producer.flush(_SECONDS) == 0

    @contextmanager
    def transaction(self, topic: str, *values: object, commit: bool = True) -> Iterator[None]:
        """Send messages in a transaction that is open inside the context, then committed or aborted."""
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": uuid4().hex})
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, _bytes(value), partition=0)
        producer.flush(_SECONDS)
        yield
        producer.commit_transaction(_SECONDS) if commit else producer.abort_transaction(_SECONDS)

    def stop(self) -> None:
        del self._admin, self._producer  # otherwise they try to connect, and log that, until the process ends
        self._server.stop()

    def _wait_until_known(self, topic: str, partitions: int) -> None:
        """Wait until the broker's metadata lists the topic with so many partitions, each with a leader."""

        def is_known() -> bool:
            described = self._admin.list_topics(timeout=_SECONDS).topics.get(topic)
            leaders = [part.leader for part in described.partitions.values()] if described else []
            return len(leaders) == partitions and -1 not in leaders

        wait_until(is_known, _SECONDS)

    def _new_producer(self) -> Producer:
        # Without idempotence, retries (for example while a topic is being created) may reorder messages.
        return Producer({"bootstrap.servers": self.address, "linger.ms": 5, "enable.idempotence": True})

    def _close_topics(self) -> None:
        rule = (ResourceType.TOPIC, CLOSED, ResourcePatternType.PREFIXED, f"User:{USER}", "*")
        binding = AclBinding(*rule, AclOperation.ALL, AclPermissionType.DENY)
        wait_for(self._admin.create_acls([binding])[binding])

    def _command(self, port: int) -> list[str]:
        data, properties = self._folder / f"data-{port}", self._folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"OPEN://127.0.0.1:{port},SIGN_IN://127.0.0.1:{self.sign_in_port},"
            f"CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"OPEN://127.0.0.1:{port},SIGN_IN://localhost:{self.sign_in_port}",
            "listener.security.protocol.map": "OPEN:PLAINTEXT,SIGN_IN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sign_in.plain.sasl.jaas.config": f'{_LOGIN} required user_{USER}="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "log.dirs": str(data),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            **dict.fromkeys(("offsets.topic.replication.factor", "offsets.topic.num.partitions"), "1"),
            **dict.fromkeys(("transaction.state.log.replication.factor", "transaction.state.log.min.isr"), "1"),
            "transaction.state.log.num.partitions": "1",
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if not data.exists():
            self._format(properties)
        return [*self._java("512m"), "kafka.Kafka", str(properties)]

    def _format(self, properties: Path) -> None:
        done = subprocess.run(
            [
                *self._java("128m"),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "elevata-elevata-elevat",
                "-c",
                str(properties),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0:
            raise ServerProblem(f"Kafka's StorageTool: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def _java(self, memory: str) -> list[str]:
        java = str(Path(java_home() or "/usr", "bin", "java"))
        return [java, f"-Xmx{memory}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", _CLASSPATH]


@contextmanager
def running_broker() -> Iterator[Broker]:
    """Yield a running broker; stop it and remove its data at the end."""
    folder = Path(tempfile.mkdtemp(prefix="elevata-test-"))
    try:
        broker = Broker(folder)
        try:
            yield broker
        finally:
            broker.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(answer) -> None:
    answer.result(_SECONDS)


def _answers(port: int) -> bool:
    try:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        return bool(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return False


def _bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


# Messages in the shape of Debezium's PostgreSQL connector.


def event(op: str, row: dict | None, lsn: int, *, before: dict | None = None, at: int = 0, schema: bool = True) -> dict:
    """Return a change event; ``row`` is the row after the change, or before a delete."""
    is_delete = op == "d"
    payload = {
        "before": row if is_delete else before,
        "after": None if is_delete else row,
        "source": {
            "version": "3.0.0.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": at or 1_700_000_000_000 + lsn,
            "snapshot": "true" if op == "r" else "false",
            "db": "shop",
            "sequence": json.dumps([None, str(lsn)]),
            "schema": "public",
            "table": "item",
            "txId": 700 + lsn,
            "lsn": lsn,
            "xmin": None,
        },
        "transaction": None,
        "op": op,
        "ts_ms": 1_700_000_001_000 + lsn,
    }
    return {"schema": _SCHEMA, "payload": payload} if schema else payload


def _record(name: str, fields: list[dict], field: str | None = None) -> dict:
    described = {"type": "struct", "fields": fields, "optional": True, "name": name}
    return described | ({"field": field} if field else {})


_ROW = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "v"},
]
_SCHEMA = _record(
    "shop.public.item.Envelope",
    [
        _record("shop.public.item.Value", _ROW, "before"),
        _record("shop.public.item.Value", _ROW, "after"),
        _record(
            "io.debezium.connector.postgresql.Source", [{"type": "int64", "optional": True, "field": "lsn"}], "source"
        ),
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ],
)
