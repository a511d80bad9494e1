"""Canonical form of database rows, and their digests.

The form of a row has the fields whose value differs from the field's default. A later field with a default therefore
changes no digest of the rows that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from elevata.core.canonical_json import sha256_hex


@dataclass(frozen=True)
class Fields:
    """Names and defaults of the fields that a digest covers, in one order."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]


def row_digest(fields: Fields, values: Iterable[Any]) -> str:
    """Return the SHA-256 of a row's canonical form; ``values`` are in the order of the fields."""
    return sha256_hex(canonical_row(fields, values))


def canonical_row(fields: Fields, values: Iterable[Any]) -> dict[str, Any]:
    """Return the fields of a row that differ from their defaults, as values for canonical JSON."""
    triples = zip(fields.names, values, fields.defaults, strict=True)
    return {name: canonical_value(value) for name, value, default in triples if value != default}


def parts_digest(parts: Mapping[str, Iterable[Any]]) -> str:
    """Return the SHA-256 of a row's parts by kind: ids, or canonical forms with an ``id``, in any order.

    Empty kinds count as missing.
    """
    filled = {kind: sorted(items, key=id_of) for kind, items in parts.items() if items}
    return sha256_hex(filled) if filled else _NO_PARTS


_NO_PARTS = sha256_hex({})


def id_of(item: Any) -> int:
    """Return the id of a part: an id, or a canonical form with one."""
    return item["id"] if isinstance(item, dict) else item


def canonical_value(value: Any) -> Any:
    """Return a value of a field for canonical JSON: keys and floats as text, times in UTC."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, dict):
        return {str(key): canonical_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical_value(item) for item in value]
    # A value of TextChoices is a subclass of str, which canonical JSON refuses.
    return str(value) if isinstance(value, UUID | float | str) else value
