"""Values of ELEVATA_CATALOG and ELEVATA_CATALOG_PREFIX."""

import re

# The runner's own catalog, and a metastore that Hive's settings name.
EMBEDDED, HIVE = "embedded", "hive"
_THRIFT, _SPARK = "thrift://", "spark:"


def is_catalog(address: str) -> bool:
    """Return True for a value that ELEVATA_CATALOG can have."""
    if address.startswith(_SPARK):
        return re.fullmatch(r"[A-Za-z_]\w*", spark_catalog(address), re.ASCII) is not None
    return address in (EMBEDDED, HIVE) or address.startswith(_THRIFT)


def is_prefix(prefix: str) -> bool:
    """Return True for a value that ELEVATA_CATALOG_PREFIX can have. Hive writes schemas in lower case."""
    return re.fullmatch(r"([a-z][a-z0-9_]{0,29})?", prefix) is not None


def metastore_addresses(address: str) -> str:
    """Return the addresses of the metastore; empty if Hive's own settings name it, or there is none."""
    return address if address.startswith(_THRIFT) else ""


def spark_catalog(address: str) -> str:
    """Return the name of the catalog of Spark's settings; empty for another kind of catalog."""
    return address.removeprefix(_SPARK) if address.startswith(_SPARK) else ""
