"""Versions of stored tables, with their columns matched by stable keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import ColumnSpec, TableSpec
from loader.contract.refusals import Refusal
from loader.domain.historization.compared_texts import BY_VALUE
from loader.domain.historization.hash_coverage import family
from loader.engine.compared_texts import compared
from loader.engine.hashing import digest
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier
from metadata.domain.types import parse


@dataclass(frozen=True)
class StoredTable:
    """Version of a stored table, with described columns matched by their stable keys.

    ``names`` are the columns' names in the table, ``families`` the hash families of their types, both by stable
    key. Raise Refusal ``NO_COLUMN`` if a described column is missing.
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
        names = {column.name for column in observed.columns}
        names_by_key = {c.key: c.name for c in spec.columns if c.name in names} | by_key
        described = {c.key: c.type for c in spec.columns if parse(c.type).name in BY_VALUE}
        families = {c.name: family(parse(described.get(c.key or "", c.type)).name) for c in observed.columns}
        return cls(
            spec, table.frame_as_of(version), names_by_key, {key: families[name] for key, name in names_by_key.items()}
        )

    def has(self, purpose: str) -> bool:
        """Return True if the table has a described column of this purpose."""
        return any(column.key in self.names for column in self.spec.of_purpose(purpose))

    def column(self, purpose: str) -> Column:
        return self._described_column(self.spec.column(purpose))

    @property
    def business_key(self) -> list[Column]:
        return [self._described_column(column) for column in self.spec.of_purpose("business_key")]

    def _described_column(self, column: ColumnSpec) -> Column:
        if column.key not in self.names:
            raise Refusal(
                "NO_COLUMN",
                f"{self.spec.qualified_name} has no column {column.name}",
                hint="The table is not as the metadata describe it; a load run brings it up to date.",
            )
        return _column(self.names[column.key])

    def hashed(self, keys: Iterable[str]) -> list[Column]:
        """Return the digests over the columns with these stable keys, as far as the table has them.

        There are two if a column is compared by value: one of v2, and one of v1 over its text.
        """
        names = {key: self.names[key] for key in keys if key in self.names}
        texts = self.digest(names)
        if all(self.families[key] not in BY_VALUE for key in names):
            return [texts]
        types = {field.name: field.dataType for field in self.frame.schema.fields}
        parts = [(key, compared(_column(name), self.families[key]), types[name]) for key, name in names.items()]
        return [digest(parts), texts]

    def digest(self, names: Mapping[str, str]) -> Column:
        """Return the digest over texts and other values; ``names`` maps each component id to a column name."""
        types = {field.name: field.dataType for field in self.frame.schema.fields}
        return digest([(key, _column(name), types[name]) for key, name in names.items()])

    def key_of(self, purpose: str) -> dict[str, str]:
        """Return the stable key of the column with this purpose, with its name in the table."""
        described = self.spec.column(purpose)
        return {described.key: self.names[described.key]}


def _column(name: str) -> Column:
    return F.col(quote_identifier(name))
