"""Metadata of a table in its Delta log: properties, schema, protocol."""

import json
from dataclasses import dataclass
from typing import Any

from architecture.domain.steps.features import COLUMN_MAPPING
from architecture.domain.tables import ObservedColumn
from metadata.domain.types import from_spark

_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
# Version of a reader protocol without a list of features that has column mapping.
_MAPPING_PROTOCOL = 2


def observed_column(field: dict, keys: dict[str, str]) -> ObservedColumn:
    described = field["metadata"].get(_VARCHAR) or field["type"]
    return ObservedColumn(
        name=field["name"],
        type=str(from_spark(described if isinstance(described, str) else described["type"])),
        nullable=field["nullable"],
        key=keys.get(field["metadata"].get(PHYSICAL_NAME, field["name"])),
    )


@dataclass(frozen=True)
class Metadata:
    """Metadata of a table in its log: properties, fields of the schema as JSON, names of partition columns."""

    properties: dict[str, str]
    fields: list[dict[str, Any]]
    partition_by: tuple[str, ...]


def metadata_of(snapshot: Any) -> Metadata:
    """Return a snapshot's metadata, read by one call into the JVM."""
    metadata = json.loads(snapshot.metadata().json())["metaData"]
    fields = json.loads(metadata["schemaString"])["fields"]
    return Metadata(metadata["configuration"], fields, tuple(metadata["partitionColumns"]))


def reader_features(snapshot: Any) -> list[str]:
    """Return the features of a table's protocol that a reader must support."""
    protocol = json.loads(snapshot.protocol().json())["protocol"]
    by_version = [COLUMN_MAPPING] if protocol["minReaderVersion"] == _MAPPING_PROTOCOL else []
    return protocol.get("readerFeatures", by_version)


def properties_of(scala_map) -> dict[str, str]:
    """Return a Scala map of texts as a dict."""
    pairs = scala_map.iterator()
    properties = {}
    while pairs.hasNext():
        pair = pairs.next()
        properties[pair._1()] = pair._2()
    return properties
