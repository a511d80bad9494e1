"""Copies of datasets in other databases and folders: modes, sensitive columns, names of tables."""

import re

from elevata.core.errors import MetadataError
from metadata.domain.sources.database_locations import parse_database

REPLACE, CHANGES = "replace", "changes"
MODES = {REPLACE: "Replace the table", CHANGES: "Changed keys only"}
LEAVE_OUT, HASH, INCLUDE = "leave_out", "hash", "include"
SENSITIVE = {LEAVE_OUT: "Leave out", HASH: "Hash", INCLUDE: "Include"}
# Kinds of systems that take copies.
JDBC, DUCKDB, DELTA = "jdbc", "duckdb", "delta"
KINDS = (JDBC, DUCKDB, DELTA)
# Table of a target with a row for each copy.
REGISTER = "elevata_copies"
# Names of tables that are being written begin with it.
BESIDE = "elevata_copy_"
# Limits of names in bytes.
LONGEST_NAMES = {JDBC: 63, DUCKDB: 1000, DELTA: 120}

_DELTA_NAME = re.compile(r"[A-Za-z0-9_]+")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


def check_target(kind: str, location: str) -> None:
    """Raise MetadataError unless a system of this kind takes copies."""
    if kind not in KINDS:
        raise MetadataError("invalid", f"takes no copies; possible are systems of kind {', '.join(KINDS)}", "to")
    if not location.strip():
        raise MetadataError("invalid", "has no location", "to")
    if kind == JDBC and parse_database(location).kind != "postgresql":
        raise MetadataError("invalid", "is no PostgreSQL; copies go to no other database yet", "to")


def check_table(kind: str, table: str) -> None:
    """Raise MetadataError unless a system of this kind can have a table ``schema.name`` of this name."""
    parts = table.split(".")
    if len(parts) != 2:
        raise MetadataError("invalid", f"{table!r} is no name of a table like mart.daily_delay", "table")
    for part in parts:
        check_name(kind, part)
    if parts[1].lower() == REGISTER or parts[1].lower().startswith(BESIDE):
        raise MetadataError("reserved", f"{parts[1]!r} is a name of the product's own tables", "table")


def check_name(kind: str, name: str) -> None:
    """Raise MetadataError for a name of a schema, table or column that a system of this kind cuts or refuses."""
    longest, length = LONGEST_NAMES[kind], len(name.encode())
    if not name.strip() or _CONTROL.search(name) or (kind == DELTA and not _DELTA_NAME.fullmatch(name)):
        raise MetadataError("invalid", f"the target does not take the name {name!r}", "table")
    if length > longest:
        raise MetadataError("too_long", f"{name!r} has {length} bytes; the target takes {longest} in a name", "table")


def rule_of(*, system: str, location: str, table: str, sensitive: str) -> dict[str, str]:
    """Return a copy with sensitive columns as a part of a dataset's state: what is copied, and where to."""
    return {"to": system, "at": location, "table": table, "sensitive": sensitive}
