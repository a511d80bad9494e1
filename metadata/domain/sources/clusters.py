"""Addresses of Kafka clusters: the location of a system of kind ``kafka``.

``kafka://reader@one.example.org:9092,two.example.org:9092?security=sasl_ssl&mechanism=scram-sha-512`` names the
bootstrap servers, the user and the way to sign in. The password is in the variable that the system names.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from elevata.core.errors import MetadataError
from metadata.domain import types
from metadata.domain.history.history_policy import CDC
from metadata.domain.sources.database_locations import refuse_password
from metadata.domain.sources.formats import OP, SEQUENCE
from metadata.domain.sources.option_kinds import DEBEZIUM

PORT = 9092
SECURITY = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512")
# Columns that a contract may name besides those in the messages, with their types.
KEY, PARTITION, OFFSET, TIMESTAMP = "_key", "_partition", "_offset", "_timestamp"
MESSAGE_COLUMNS = {
    KEY: types.STRING,
    PARTITION: types.INTEGER,
    OFFSET: types.BIGINT,
    TIMESTAMP: types.TIMESTAMP,
    OP: types.STRING,
    SEQUENCE: types.BIGINT,
}
_PREFIX = "kafka://"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_SHAPE = "like kafka://reader@one.example.org:9092,two.example.org:9092"


@dataclass(frozen=True)
class Broker:
    """Host and port of a broker."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ClusterPlace:
    """Address of a cluster. ``user`` and ``mechanism`` are empty without a sign-in."""

    brokers: tuple[Broker, ...]
    security: str = "plaintext"
    mechanism: str = ""
    user: str = ""

    def __str__(self) -> str:
        return ",".join(map(str, self.brokers))


def parse_cluster(location: str) -> ClusterPlace:
    """Return the cluster of a location.

    A location with a user signs in with ``sasl_ssl`` and ``scram-sha-512`` unless it says otherwise. Raise
    MetadataError ``password_in_location`` or ``bad_location``.
    """
    text = location.strip()
    refuse_password(text)
    if not text.startswith(_PREFIX):
        raise _bad(f"{location!r} is no address of a Kafka cluster; it is {_SHAPE}")
    address, _, query = text.removeprefix(_PREFIX).partition("?")
    user, _, hosts = address.removesuffix("/").rpartition("@")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(options) - {"security", "mechanism"}):
        raise _bad(f"has the parameter {unknown[0]!r}; possible are security and mechanism")
    security = options.get("security", "sasl_ssl" if user else "plaintext")
    mechanism = options.get("mechanism", "scram-sha-512" if user else "")
    if security not in SECURITY:
        raise _bad(f"has the security {security!r}; possible are {', '.join(SECURITY)}")
    if not user and (mechanism or security.startswith("sasl")):
        raise _bad(f"signs in with {mechanism or security}, and names no user; it is {_SHAPE}")
    if user and not security.startswith("sasl"):
        raise _bad(f"names a user, who cannot sign in with the security {security}; sasl_ssl and sasl_plaintext can")
    if user and mechanism not in MECHANISMS:
        raise _bad(f"has the mechanism {mechanism!r}; possible are {', '.join(MECHANISMS)}")
    name = unquote(user)
    if not name.isprintable():
        raise _bad("names a user with a control character, like a line end")
    return ClusterPlace(tuple(_broker(host) for host in hosts.split(",")), security, mechanism, name)


def _broker(text: str) -> Broker:
    match = _HOST.fullmatch(text.strip())
    if match is None or not 0 < int(match[2] or PORT) < 65536:
        raise _bad(f"{text!r} is no host and port; the location is {_SHAPE}")
    return Broker(match[1].strip("[]").lower(), int(match[2] or PORT))


def check_topic(location: str) -> None:
    """Raise MetadataError ``bad_location`` for a text that cannot be the name of a topic."""
    if not _TOPIC.fullmatch(location.strip()) or location.strip() in (".", ".."):
        raise _bad(f"{location!r} is no name of a topic: letters, digits, dots, _ and -")


def policy_of_messages(options: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """Return the history policy of Debezium's events; empty for other messages, or without the columns it needs."""
    if options.get("envelope") != DEBEZIUM or not {OP, SEQUENCE} <= set(columns):
        return {}
    return {"input": CDC, "time": SEQUENCE, "op": OP}


def _bad(message: str) -> MetadataError:
    return MetadataError("bad_location", message, "location")
