"""Delta table features that decide who reads a table.

A reader refuses a table whose features it does not know, so a table gets a feature with the first step that uses
it (``docs/understand/readers.md``).
"""

from collections.abc import Iterable, Mapping

from metadata.domain.types import STRING, parse, stored_type

# What an environment asks of its readers: Spark alone, or DuckDB, delta-rs and Polars, too.
SPARK, OPEN = "spark", "open"
READERS = (SPARK, OPEN)

COLUMN_MAPPING, TYPE_WIDENING, DELETION_VECTORS = "columnMapping", "typeWidening", "deletionVectors"

# The table property that switches a feature on.
_SWITCHES = {
    COLUMN_MAPPING: ("delta.columnMapping.mode", "name"),
    TYPE_WIDENING: ("delta.enableTypeWidening", "true"),
    DELETION_VECTORS: ("delta.enableDeletionVectors", "true"),
}
# Readers that do not know a feature (tests/readers holds it).
_LOST = {
    COLUMN_MAPPING: "Polars could not read the table, and DuckDB reads partition columns of some such tables as NULL",
    TYPE_WIDENING: "delta-rs and Polars could not read the table",
}
# Characters that Parquet files written by Delta allow in column names under column mapping only.
_MAPPED_CHARACTERS = frozenset(" ,;{}()\n\t=")


def created_with(readers: str) -> tuple[str, ...]:
    """Return the features that new tables have whatever their columns are."""
    return () if readers == OPEN else (DELETION_VECTORS,)


def features_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the features that a table's properties switch on."""
    return tuple(name for name, (switch, value) in _SWITCHES.items() if properties.get(switch) == value)


def switches(features: Iterable[str]) -> dict[str, str]:
    """Return the table properties that switch these features on."""
    return dict(_SWITCHES[name] for name in features)


def are_texts(*types: str) -> bool:
    """Return True if all types are stored as text: a longer text needs no feature."""
    return all(stored_type(parse(type_)).name == STRING for type_ in types)


def lost_readers(feature: str) -> str:
    """Return which readers a table loses with a feature, as the end of a sentence."""
    return _LOST[feature]


def needs_mapping(name: str) -> bool:
    """Return True for a column name that Delta takes under column mapping only."""
    return not _MAPPED_CHARACTERS.isdisjoint(name)
