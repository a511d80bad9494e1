"""Stored version of a table, with columns found by their description."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.states.tables import ColumnSpec, TableSpec
from loader.domain.historization.hash_columns import family
from loader.domain.runs.refusals import Refusal
from loader.spark.historization.hashing import digest
from loader.spark.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier
from metadata.domain.types import parse


@dataclass(frozen=True)
class StoredTable:
    """One version of a table, whose described columns are found by their stable keys.

    ``names`` are the columns' names in the table, ``families`` the hash families of their types, both by
    stable key. Raise Refusal ``NO_COLUMN`` when a described column is missing.
    """

    spec: TableSpec
    frame: DataFrame
    names: Mapping[str, str]
    families: Mapping[str, str]

    @classmethod
    def of(cls, table: DeltaTable, spec: TableSpec, version: int) -> "StoredTable":
        observed = table.observe()
        assert observed is not None
        by_key = {column.key: column.name for column in observed.columns if column.key}
        present = {column.name for column in observed.columns}
        named = {c.key: c.name for c in spec.columns if c.name in present} | by_key
        families = {column.name: family(parse(column.type).name) for column in observed.columns}
        return cls(spec, table.frame_as_of(version), named, {key: families[name] for key, name in named.items()})

    def has(self, purpose: str) -> bool:
        """Return True if the table has a described column of this purpose."""
        return any(column.key in self.names for column in self.spec.of_purpose(purpose))

    def column(self, purpose: str) -> Column:
        return self._described(self.spec.column(purpose))

    @property
    def business_key(self) -> list[Column]:
        return [self._described(column) for column in self.spec.of_purpose("business_key")]

    def _described(self, column: ColumnSpec) -> Column:
        if column.key not in self.names:
            raise Refusal(
                "NO_COLUMN",
                f"{self.spec.qualified_name} has no column {column.name}",
                hint="The table is not as the metadata describe it; a load run brings it up to date.",
            )
        return _named(self.names[column.key])

    def hashed(self, keys: Iterable[str]) -> Column:
        """Return the digest over those of the given columns (stable keys) that the table has."""
        return self.digest({key: self.names[key] for key in keys if key in self.names})

    def digest(self, names: Mapping[str, str]) -> Column:
        """Return the digest over columns of the table; ``names`` maps each component id to a column name."""
        types = {field.name: field.dataType for field in self.frame.schema.fields}
        return digest([(key, _named(name), types[name]) for key, name in names.items()])

    def key_of(self, purpose: str) -> dict[str, str]:
        """Return the name in the table of the column with this purpose, by its stable key."""
        described = self.spec.column(purpose)
        return {described.key: self.names[described.key]}


def _named(name: str) -> Column:
    return F.col(quote_identifier(name))
