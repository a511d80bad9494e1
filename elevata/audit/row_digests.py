"""Canonical form of database rows, and their digests.

The form of a row has the fields whose value differs from the field's default. A later field with a default therefore
changes no digest of the rows that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from elevata.core.canonical_json import sha256_hex


def row_digest(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a row's canonical form; fields without an entry in ``defaults`` are not part of it."""
    return sha256_hex(canonical_row(values, defaults))


def canonical_row(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row that differ from their defaults, as values for canonical JSON.

    ``defaults`` are canonical values.
    """
    plain = {name: canonical_value(values[name]) for name in defaults}
    return {
        name: value
        for name, value in plain.items()
        if value != defaults[name] or type(value) is not type(defaults[name])
    }


def parts_digest(parts: Mapping[str, Iterable[Any]]) -> str:
    """Return the SHA-256 of a row's parts by kind: ids, or canonical forms with an ``id``, in any order.

    Empty kinds count as missing.
    """
    ordered = {kind: sorted(items, key=_id_of) for kind, items in parts.items()}
    return sha256_hex({kind: items for kind, items in ordered.items() if items})


def _id_of(item: Any) -> int:
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
