"""Stable keys: the identity of datasets and columns, fixed when they are created in the metadata.

A key is derived from the names at that time, so that two installations with the same source get the same keys
(``docs/understand/identity_and_hashing.md``). Later renames do not change it. Each kind has a namespace of its own: a
source column and the raw, stage and rawcore columns generated from it have four different keys.
"""

import json
from functools import lru_cache
from uuid import UUID, uuid5

_ROOT = UUID("6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4")


@lru_cache(maxsize=10_000)
def _key(kind: str, *parts: str) -> UUID:
    """Return the UUID of a kind and its parts, encoded as JSON: ("a", "b_c") and ("a_b", "c") must differ."""
    return uuid5(uuid5(_ROOT, kind), json.dumps(parts, ensure_ascii=False, separators=(",", ":")))


def _attempt_part(attempt: int) -> tuple[str, ...]:
    return (f"#{attempt}",) if attempt else ()


def source_dataset_key(system: str, dataset: str, attempt: int = 0) -> UUID:
    """Return the key of a source dataset.

    ``attempt`` is increased while the key belongs to another dataset, which had this name earlier.
    """
    return _key("source_dataset", system, dataset, *_attempt_part(attempt))


def source_column_key(dataset_key: UUID, column: str, attempt: int = 0) -> UUID:
    return _key("source_column", str(dataset_key), column, *_attempt_part(attempt))


def generated_dataset_key(layer: str, source_dataset: UUID) -> UUID:
    """Return the key of the dataset in ``layer`` that is generated from a source dataset."""
    return _key(f"{layer}_dataset", str(source_dataset))


def generated_column_key(layer: str, source_column: UUID) -> UUID:
    """Return the key of the column in ``layer`` that is generated from a source column."""
    return _key(f"{layer}_column", str(source_column))


def target_dataset_key(schema: str, name: str, attempt: int = 0) -> UUID:
    """Return the key of a dataset that a user creates."""
    return _key("target_dataset", schema, name, *_attempt_part(attempt))


def target_column_key(dataset_key: UUID, name: str, attempt: int = 0) -> UUID:
    """Return the key of a column that a user adds."""
    return _key("target_column", str(dataset_key), name, *_attempt_part(attempt))


def history_dataset_key(base: UUID) -> UUID:
    return _key("history_dataset", str(base))


def quality_check_key(dataset: UUID, name: str, attempt: int = 0) -> UUID:
    """Return the key of a quality check."""
    return _key("quality_check", str(dataset), name, *_attempt_part(attempt))


def exposure_key(dataset: UUID, name: str, attempt: int = 0) -> UUID:
    """Return the key of an exposure."""
    return _key("exposure", str(dataset), name, *_attempt_part(attempt))


def copy_key(dataset: UUID, name: str, attempt: int = 0) -> UUID:
    """Return the key of a copy; ``name`` is that of its system and table."""
    return _key("copy", str(dataset), name, *_attempt_part(attempt))


def reference_key(child: UUID, parent: UUID, role_name: str, attempt: int = 0) -> UUID:
    return _key("reference", str(child), str(parent), role_name, *_attempt_part(attempt))
