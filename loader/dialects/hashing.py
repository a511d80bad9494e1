"""Hashes as expressions: the encoding of ``loader.domain.historization.hashing`` in the functions of a dialect."""

from collections.abc import Sequence

from loader.dialects.dialect import Dialect
from loader.domain.historization.hashing import escape, in_order
from metadata.domain.types import DataType

Component = tuple[str, str, DataType]


def digest(dialect: Dialect, components: Sequence[Component]) -> str:
    """Return the SHA-256 of components: (stable key, expression, type)."""
    parts = [
        dialect.concat(dialect.text(f"{escape(key)}~"), dialect.escaped(dialect.canonical(value, type_), type_))
        for key, value, type_ in in_order(components)
    ]
    return dialect.sha256(dialect.joined(parts))
