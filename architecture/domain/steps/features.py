"""Delta table features on which the readers of a table depend.

A reader refuses a table with a feature that it does not support. Therefore a table gets a feature only with the first
step that needs it (``docs/understand/readers.md``).
"""

from collections.abc import Iterable, Mapping

from metadata.domain.types import STRING, parse, stored_type

# Readers that an environment supports: only Spark, or also DuckDB, delta-rs and Polars.
SPARK, OPEN = "spark", "open"
READERS = (SPARK, OPEN)

COLUMN_MAPPING, TYPE_WIDENING, DELETION_VECTORS = "columnMapping", "typeWidening", "deletionVectors"

# The table property that enables a feature.
_SWITCHES = {
    COLUMN_MAPPING: ("delta.columnMapping.mode", "name"),
    TYPE_WIDENING: ("delta.enableTypeWidening", "true"),
    DELETION_VECTORS: ("delta.enableDeletionVectors", "true"),
}
# Property by which an observed table shows a feature of its protocol, as Delta's SHOW TBLPROPERTIES does. A table
# keeps the feature, and stays closed to readers, after the property that enabled it is removed.
_SUPPORTED = "delta.feature."
# Readers that do not support a feature (tested by tests/readers).
_LOST = {
    COLUMN_MAPPING: "Polars could not read the table, and DuckDB reads partition columns of some such tables as NULL",
    TYPE_WIDENING: "delta-rs and Polars could not read the table",
}
# Characters that Delta allows in column names only with column mapping.
_MAPPED_CHARACTERS = frozenset(" ,;{}()\n\t=")


def created_with(readers: str) -> tuple[str, ...]:
    """Return the features that new tables have independent of their columns."""
    return () if readers == OPEN else (DELETION_VECTORS,)


def features_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the features that a table's properties enable."""
    return tuple(name for name, (switch, value) in _SWITCHES.items() if properties.get(switch) == value)


def protocol_properties(features: Iterable[str]) -> dict[str, str]:
    """Return the properties of an observed table whose protocol has these features."""
    return {f"{_SUPPORTED}{name}": "supported" for name in features}


def closing_features(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the features of a table, enabled or not, that some open readers do not support."""
    enabled = features_of(properties)
    return tuple(name for name in _LOST if name in enabled or f"{_SUPPORTED}{name}" in properties)


def droppable_features(closing: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the features that a table with these column names can do without."""
    mapped = any(map(needs_mapping, names))
    return tuple(name for name in closing if not (mapped and name == COLUMN_MAPPING))


def switches(features: Iterable[str]) -> dict[str, str]:
    """Return the table properties that enable these features."""
    return dict(_SWITCHES[name] for name in features)


def are_texts(*types: str) -> bool:
    """Return True if all types are stored as text, so that widening needs no feature."""
    return all(stored_type(parse(type_)).name == STRING for type_ in types)


def lost_readers(feature: str) -> str:
    """Return the readers that a table loses with a feature, as the end of a sentence."""
    return _LOST[feature]


def needs_mapping(name: str) -> bool:
    """Return True for a column name that Delta accepts only with column mapping."""
    return not _MAPPED_CHARACTERS.isdisjoint(name)
