"""Stable keys: the identity of datasets and columns, fixed at first generation.

A key follows from names as they are *when a thing is first described*, so that two installations
that describe the same source agree (``docs/understand/identity_and_hashing.md``). Afterwards the key stays and
names move. Kinds have name spaces of their own: a source column and the raw, stage and rawcore
columns made from it are four things with four keys.
"""

import json
from uuid import UUID, uuid5

_ROOT = UUID("6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4")


def _key(kind: str, *parts: str) -> UUID:
    """JSON keeps the parts apart: ("a", "b_c") and ("a_b", "c") are different things."""
    return uuid5(uuid5(_ROOT, kind), json.dumps(parts, ensure_ascii=False, separators=(",", ":")))


def _part(attempt: int) -> tuple[str, ...]:
    return (f"#{attempt}",) if attempt else ()


def source_dataset_key(system: str, dataset: str, attempt: int = 0) -> UUID:
    """``attempt`` grows where the key is taken: by a dataset that once had this name."""
    return _key("source_dataset", system, dataset, *_part(attempt))


def source_column_key(dataset_key: UUID, column: str, attempt: int = 0) -> UUID:
    return _key("source_column", str(dataset_key), column, *_part(attempt))


def generated_dataset_key(layer: str, source_dataset: UUID) -> UUID:
    """Key of the dataset of ``layer`` that generation makes from a source dataset."""
    return _key(f"{layer}_dataset", str(source_dataset))


def generated_column_key(layer: str, source_column: UUID) -> UUID:
    """Key of the column of ``layer`` that generation makes from a source column."""
    return _key(f"{layer}_column", str(source_column))


def target_dataset_key(schema: str, name: str, attempt: int = 0) -> UUID:
    """Key of a dataset that a person describes."""
    return _key("target_dataset", schema, name, *_part(attempt))


def target_column_key(dataset_key: UUID, name: str, attempt: int = 0) -> UUID:
    """Key of a column that a person adds."""
    return _key("target_column", str(dataset_key), name, *_part(attempt))


def history_dataset_key(base: UUID) -> UUID:
    return _key("history_dataset", str(base))


def reference_key(child: UUID, parent: UUID, role_name: str, attempt: int = 0) -> UUID:
    return _key("reference", str(child), str(parent), role_name, *_part(attempt))
